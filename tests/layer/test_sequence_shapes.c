/* Shapes of sequences: how layers transform them, and which shapes they reject. */
#include "layer/make.h"
#include "tests/support/test.h"

static void check_out(const char *text, gs_shape in, gs_shape want, size_t params) {
    gs_model *m = gs_test_plan(text, in);
    if (!gs_shape_same(m->out, want)) fail_msg("%s: the output is %s", text, gs_shape_tuple(m->out).text);
    assert_int_equal(m->params, params);
}

/* Token numbers may form a row, or a sequence of tokens with one number each. */
TEST(shapes_of_sequences) {
    const gs_shape row = {9, 1, 1, 0}, tokens = {1, 1, 1, 9}, out = {4, 1, 1, 9};
    check_out("embedding 7 4", row, out, 28);
    check_out("embedding 7 4", tokens, out, 28);
    check_out("embedding 7 4, positions", row, out, 28 + 36);
    check_out("embedding 7 4, layer_norm", row, out, 28 + 8);
    check_out("embedding 7 3, linear 4", row, out, 21 + 16);
    check_out("embedding 7 4, flatten, linear 2", row, (gs_shape){2, 1, 1, 0}, 28 + 74);
    check_out("attention 2", (gs_shape){12, 1, 1, 9}, out, 0);
    check_out("positions", (gs_shape){4, 1, 1, 0}, (gs_shape){4, 1, 1, 0}, 4);
}

TEST(shapes_that_are_no_sequences) {
    const gs_shape row = {9, 1, 1, 0};
    const struct {
        const char *text;
        gs_shape in;
        const char *message;
    } wrong[] = {
        {"embedding 7 4", {1, 28, 28, 0}, "layer 0 (embedding 7 4): the input is (1,28,28), embedding needs"},
        {"embedding 7 4", {2, 1, 1, 9}, "the input is (9,2,1,1), embedding needs a row of token numbers"},
        {"relu, embedding 7 4", row, "layer 1 (embedding 7 4): another layer comes before it"},
        {"embedding 7 4, flatten, embedding 7 4", row, "layer 2 (embedding 7 4): another layer comes before"},
        {"attention 2",
         {1, 28, 28, 0},
         "layer 0 (attention 2): the input is (1,28,28), attention needs a seq"},
        {"attention 2 causal",
         {9, 1, 1, 5},
         "layer 0 (attention 2 causal): its tokens have 9 numbers; they are q, k and v, each divided among 2 "
         "heads: wanted a multiple of 6"},
        {"positions", {1, 28, 28, 0}, "layer 0 (positions): the input is (1,28,28), positions needs"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_no_model(GS_E_SHAPE, wrong[i].message, NULL, .text = wrong[i].text, .in = wrong[i].in);
    gs_layer *l = gs_embedding((1 << 24) + 1, 1);
    size_t params;
    assert_fails(GS_E_SHAPE, "the number of vectors is 16777217; wanted 1 to 16777216",
                 gs_layer_plan(l, row, &params));
    gs_layer_free(l);
}
