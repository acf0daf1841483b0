/* Shapes of up to four dimensions: printing, parsing, comparing and planning them. */
#include <limits.h>
#include "tests/support/on_devices.h"

TEST(a_shape_may_end_early) {
    gs_shape image = {1, 28, 28, 0}, one = {1, 28, 28, 1}, tokens = {4, 1, 1, 7};
    assert_int_equal(gs_shape_tokens(image), 1);
    assert_int_equal(gs_shape_tokens(tokens), 7);
    assert_int_equal(gs_shape_size(image), 784);
    assert_int_equal(gs_shape_size(tokens), 28);
    assert_true(gs_shape_same(image, one));
    assert_false(gs_shape_same(tokens, (gs_shape){4, 1, 1, 0}));
    assert_true(gs_shape_fits((gs_shape){INT_MAX, 1, 1, 0}));
    assert_false(gs_shape_fits((gs_shape){1 << 10, 1 << 10, 1 << 10, 2}));
    assert_false(gs_shape_is_positive((gs_shape){1, 1, 1, -1}));
}

TEST(shapes_as_texts) {
    assert_string_equal(gs_shape_tuple((gs_shape){1, 28, 28, 0}).text, "(1,28,28)");
    assert_string_equal(gs_shape_tuple((gs_shape){1, 28, 28, 1}).text, "(1,28,28)");
    assert_string_equal(gs_shape_tuple((gs_shape){1, 28, 28, 7}).text, "(7,1,28,28)");
    assert_string_equal(gs_shape_product((gs_shape){INT_MIN, INT_MIN, INT_MIN, INT_MAX}).text,
                        "2147483647x-2147483648x-2147483648x-2147483648");
    static const char *const same[] = {"1x28x28", "2147483647x1x1", "7x4x1x1"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        gs_shape s;
        assert_true(gs_shape_parse(same[i], &s));
        assert_string_equal(gs_shape_product(s).text, same[i]);
    }
    static const char *const wrong[] = {"",          "28",       "28x28",   "1x0x28",    "1x-2x28",
                                        "1x28x28x",  "x1x28x28", " 1x2x28", "0x1x28x28", "2147483648x1x1",
                                        "1x2x3x4x5", "1x2y3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_shape s = {8, 9, 10, 11};
        if (gs_shape_parse(wrong[i], &s)) fail_msg("'%s' was accepted as a shape", wrong[i]);
        assert_true(gs_shape_same(s, (gs_shape){8, 9, 10, 11}));
    }
}

static gs_shape out_of(const char *text, gs_shape in) {
    gs_model *m = gs_test_plan(text, in);
    gs_shape out = m->out;
    return out;
}

TEST(layers_keep_the_tokens) {
    gs_shape vectors = {4, 1, 1, 7}, images = {2, 6, 6, 3};
    assert_true(gs_shape_same(out_of("linear 5, tanh, dropout 0.5", vectors), (gs_shape){5, 1, 1, 7}));
    assert_true(gs_shape_same(out_of("conv 3 3x3, relu, max_pool 2", images), (gs_shape){3, 2, 2, 3}));
    assert_true(gs_shape_same(out_of("avg_pool 2, global_avg_pool", images), (gs_shape){2, 1, 1, 3}));
    assert_true(gs_shape_same(out_of("flatten", images), (gs_shape){216, 1, 1, 0}));
    gs_model *m = gs_test_plan("linear 5", vectors);
    assert_int_equal(m->params, 25);
    assert_near(m->flops_forward, 7 * (2 * 4 * 5 + 5), 0, 0);
    assert_no_model(GS_E_SHAPE, "the input is (3,2,6,6), linear needs", NULL, .text = "linear 5",
                    .in = images);
    assert_no_model(GS_E_SHAPE, "the input is (7,0,1,1); each", NULL, .text = "relu", .in = {0, 1, 1, 7});
}

/* A sample of several tokens gives the same y as if each of its tokens were a sample. */
TEST(tokens_are_computed_as_samples) {
    static const char TEXT[] = "conv 3 3x3, relu, max_pool 2, conv 4 2x2, tanh, global_avg_pool, linear 5";
    enum { N = 2, T = 3, IN = 2 * 6 * 6, OUT = 5 };
    float x[N * T * IN], y[2][N * T * OUT];
    for (int i = 0; i < N * T * IN; i++) x[i] = (float)(i * i % 17) / 17 - 0.4f;
    FOR_EACH_DEVICE (d) {
        gs_mem place = gs_test_put(d, x, sizeof x), logits;
        for (int with = 0; with < 2; with++) {
            gs_pass pass = {.n = with ? N : N * T};
            gs_model *m =
                gs_test_model(d, .text = TEXT, .in = {2, 6, 6, with ? T : 0}, .max_batch = pass.n, .seed = 1);
            assert_ok(gs_model_forward(m, &pass, place, &logits));
            assert_ok(d->ops->read(d, y[with], logits, sizeof y[with]));
        }
        assert_memory_equal(y[0], y[1], sizeof y[0]);
    }
}
