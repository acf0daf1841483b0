#include "layer/make.h"
#include "model/model_text.h"
#include "tests/support/operators.h"
#include "tests/support/test.h"

static gs_status describe(gs_layer *l, void *context) {
    char *all = context;
    size_t used = strlen(all);
    char one[128];
    gs_layer_describe(l, one, sizeof one);
    snprintf(all + used, 1024 - used, "%s%s", used ? "; " : "", one);
    return GS_OK;
}

/* Each text, with the canonical description of the layers that it creates. */
TEST(good_texts) {
    const struct {
        const char *text, *layers;
    } good[] = {
        {"softmax", "sequential; flatten; linear 10"},
        {"linear 10", "sequential; linear 10"},
        {"softmax 3", "sequential; flatten; linear 3"},
        {"  linear\t10\n,\r\nrelu ", "sequential; linear 10; relu"},
        {"flatten,linear 007 no_bias,tanh,sigmoid,relu",
         "sequential; flatten; linear 7 no_bias; tanh; sigmoid; relu"},
        {"gelu, gelu tanh, silu", "sequential; gelu; gelu tanh; silu"},
        {"embedding 10 4, positions, layer_norm", "sequential; embedding 10 4; positions; layer_norm"},
        {"attention 4, attention 1 causal", "sequential; attention 4; attention 1 causal"},
        {"conv 32 3", "sequential; conv 32 3x3"},
        {"conv 32 3x5 stride 2 pad 1x0 no_bias", "sequential; conv 32 3x5 stride 2 pad 1x0 no_bias"},
        {"conv 8 1 stride 2x3, conv 8 2 pad 1", "sequential; conv 8 1x1 stride 2x3; conv 8 2x2 pad 1"},
        {"conv 1000000 1000000 pad 0", "sequential; conv 1000000 1000000x1000000"},
        {"max_pool 2, max_pool 3x2 stride 2 pad 1", "sequential; max_pool 2; max_pool 3x2 stride 2 pad 1"},
        {"avg_pool 2x3, avg_pool 2 stride 2, global_avg_pool",
         "sequential; avg_pool 2x3; avg_pool 2; global_avg_pool"},
        {"dropout 0, dropout .5, dropout 0.25, dropout 0.",
         "sequential; dropout 0; dropout 0.5; dropout 0.25; dropout 0"},
        {"residual(relu)", "sequential; residual; sequential; relu"},
        {"residual ( relu , tanh | sigmoid ) , linear 3",
         "sequential; residual; sequential; relu; tanh; sequential; sigmoid; linear 3"},
        {"residual (residual (relu | tanh))",
         "sequential; residual; sequential; residual; sequential; relu; sequential; tanh"},
        {"3 x relu, tanh", "sequential; relu; relu; relu; tanh"},
        {"2 x (linear 3, relu), linear 1", "sequential; linear 3; relu; linear 3; relu; linear 1"},
        {"2 x 2 x relu", "sequential; relu; relu; relu; relu"},
        {"residual (2 x relu | 2 x (tanh))",
         "sequential; residual; sequential; relu; relu; sequential; tanh; tanh"},
        {"block pair A B = linear A, linear B;\nblock all = 2 x pair 1 2; all, pair 3 4",
         "sequential; linear 1; linear 2; linear 1; linear 2; linear 3; linear 4"},
        {"block inner N = linear N; block outer N M = inner M, inner N; outer 5 6",
         "sequential; linear 6; linear 5"},
        {"block many N K S = N x conv 4 K stride S; many 2 3x1 2", /* a parameter can be any word */
         "sequential; conv 4 3x1 stride 2; conv 4 3x1 stride 2"},
        {"block act A = A; act relu, act tanh", "sequential; relu; tanh"},
        {"block same C = residual (conv C 3x3 pad 1 | conv C 1x1), relu; 2 x same 16",
         "sequential; residual; sequential; conv 16 3x3 pad 1; sequential; conv 16 1x1; relu; residual; "
         "sequential; conv 16 3x3 pad 1; sequential; conv 16 1x1; relu"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char layers[1024] = "";
        gs_layer *net = gs_test_net(good[i].text);
        gs_layer_walk(net, describe, layers);
        assert_string_equal(layers, good[i].layers);
    }
}

/* A layer's description is itself a text that creates the same layer. */
TEST(descriptions_can_be_parsed) {
    gs_layer *layers[] = {gs_linear(3, false),
                          gs_conv2d(4, 3, 2, 1, 5, 0, 6, true),
                          gs_conv2d(4, 3, 3, 2, 2, 1, 1, false),
                          gs_conv2d_grouped(8, 3, 3, 1, 1, 1, 1, 4, 1, 1, true),
                          gs_conv2d_grouped(6, 3, 5, 2, 1, 0, 4, 3, 2, 3, false),
                          gs_max_pool2d(3, 3, 1, 1, 1, 1),
                          gs_avg_pool2d(3, 2, 3, 1, 0, 1),
                          gs_global_avg_pool(),
                          gs_dropout(0.1f),
                          gs_flatten(),
                          gs_relu(),
                          gs_tanh(),
                          gs_sigmoid(),
                          gs_silu(),
                          gs_layer_norm(),
                          gs_positions(),
                          gs_attention(4, false),
                          gs_attention(2, true),
                          gs_embedding(7, 3),
                          gs_tied(),
                          gs_layer_with_std(gs_embedding(7, 3), 1),
                          gs_layer_with_std(gs_positions(), 0.02f),
                          gs_layer_with_std(gs_linear(3, false), 0.00707107f),
                          gs_layer_with_std(gs_linear(3, true), 100),
                          gs_layer_with_std(gs_linear(3, true), 0.0001f),
                          gs_layer_with_std(gs_linear(3, true), 0.123456789f),
                          gs_layer_with_std(gs_conv2d(4, 3, 3, 2, 2, 1, 1, false), 0.5f),
                          gs_gelu(),
                          gs_gelu_tanh()};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[128], again[128];
        gs_layer_describe(layers[i], text, sizeof text);
        gs_layer *net = gs_test_net(text);
        gs_layer_describe(net->child[0], again, sizeof again);
        assert_string_equal(again, text);
        assert_ptr_equal(net->child[0]->ops, layers[i]->ops);
        assert_true(net->child[0]->std == layers[i]->std);
        gs_layer_free(layers[i]);
    }
}

#define LAYERS "linear, conv, max_pool, " /* and so on */

TEST(bad_texts) {
    const struct {
        const char *text, *message; /* after "model text: " */
    } bad[] = {
        {"", "the end (column 1): expected one of " LAYERS},
        {" \n", "the end (column 3): expected one of " LAYERS},
        {"conv 32 3x3 pad 1, rellu",
         "word 6 ('rellu', column 20): unknown layer; did you mean relu? expected one of " LAYERS},
        {"ReLU, relu", "word 1 ('ReLU', column 1): unknown layer; did you mean relu?"},
        {"max-pool 2", "word 1 ('max-pool', column 1): unknown layer; did you mean max_pool?"},
        {"transformer, relu", "word 1 ('transformer', column 1): unknown layer; expected one of " LAYERS},
        {"lent", "word 1 ('lent', column 1): unknown model or layer; did you mean lenet? expected a model "
                 "(softmax, mlp, lenet, cnn, "},
        {"mlp relu", "word 2 ('relu', column 5): expected the end, or the number of classes, a whole number"},
        {"mlp 0", "word 2 ('0', column 5): expected the end, or the number of classes, a whole number"},
        {"mlp 10 10", "word 3 ('10', column 8): expected the end after the number of classes"},
        {"mlp, relu", "',' after word 1 (column 4): expected the end, or the number of classes"},
        {"resnet21", "word 1 ('resnet21', column 1): unknown model or layer; did you mean resnet20?"},
        {"mpl", "word 1 ('mpl', column 1): unknown model or layer; did you mean mlp?"},
        {"Mlp", "word 1 ('Mlp', column 1): unknown model or layer; did you mean mlp?"},
        {"5", "word 1 ('5', column 1): unknown model or layer; expected a model"},
        {"linear",
         "the end (column 7): expected the number of outputs of linear, a whole number from 1 to 1000000"},
        {"linear ten", "word 2 ('ten', column 8): expected the number of outputs of linear, a whole number "
                       "from 1 to 1000000"},
        {"linear 0", "word 2 ('0', column 8): expected the number of outputs"},
        {"linear -3", "word 2 ('-3', column 8): expected the number of outputs"},
        {"linear 1000001", "word 2 ('1000001', column 8): expected the number of outputs"},
        {"linear 99999999999999999999999",
         "word 2 ('99999999999999999999999', column 8): expected the number"},
        {"linear 3.5", "word 2 ('3.5', column 8): expected the number"},
        {"linear, relu", "',' after word 1 (column 7): expected the number"},
        {"linear 10 relu",
         "word 3 ('relu', column 11): expected ',' or the end; this layer is written: linear OUT [no_bias]"},
        {"linear 10 nobias", "word 3 ('nobias', column 11): did you mean no_bias? expected ',' or the end"},
        {"linear 10,", "the end (column 11): expected one of " LAYERS},
        {",linear 10", "',' after word 0 (column 1): expected a layer, one of " LAYERS},
        {"relu,,relu", "',' after word 1 (column 6): expected a layer"},
        {"relu 3", "word 2 ('3', column 6): expected ',' or the end; this layer is written: relu"},
        {"conv 3", "the end (column 7): expected the size of conv's kernel, K or HxW with whole numbers from "
                   "1 to 1000000"},
        {"conv 3 0", "word 3 ('0', column 8): expected the size of conv's kernel"},
        {"conv 3 3x", "word 3 ('3x', column 8): expected the size of conv's kernel"},
        {"conv 3 x3", "word 3 ('x3', column 8): expected the size of conv's kernel"},
        {"conv 3 3x3x3", "word 3 ('3x3x3', column 8): expected the size of conv's kernel"},
        {"conv 3 3 stride 0", "word 5 ('0', column 17): expected conv's stride"},
        {"conv 3 3 stride", "the end (column 16): expected conv's stride"},
        {"conv 3 3 pad -1",
         "word 5 ('-1', column 14): expected conv's padding, K or HxW with whole numbers from 0 to"},
        {"conv 8 3 pad 1 stride 2",
         "word 6 ('stride', column 16): expected ',' or the end; this layer is written: conv "
         "OUT SIZE [stride SIZE] [pad SIZE] [groups G] [dilation SIZE] [no_bias]"},
        {"conv 8 3 strde 2", "word 4 ('strde', column 10): did you mean stride?"},
        {"attention 2 casual", "word 3 ('casual', column 13): did you mean causal? expected ',' or the end; "
                               "this layer is written: attention HEADS [causal]"},
        {"embedding 7",
         "the end (column 12): expected the width of embedding's vectors, a whole number from 1 to 1000000"},
        {"linear 3 std", "the end (column 13): expected the standard deviation of the initial weights: a "
                         "decimal from 0.0001 to 100, such as 0.02"},
        {"linear 3 std 0", "word 4 ('0', column 14): expected the standard deviation"},
        {"linear 3 std 101", "word 4 ('101', column 14): expected the standard deviation"},
        {"linear 3 std -1", "word 4 ('-1', column 14): expected the standard deviation"},
        {"positions std 2x", "word 3 ('2x', column 15): expected the standard deviation"},
        {"linear 3 std 0.02 no_bias", "word 5 ('no_bias', column 19): expected ',' or the end; this layer is "
                                      "written: linear OUT [no_bias] [std S]"},
        {"relu std 1", "word 2 ('std', column 6): expected ',' or the end; this layer is written: relu"},
        {"embedding 7 3 sdt 1", "word 4 ('sdt', column 15): did you mean std?"},
        {"block std = relu; std",
         "word 2 ('std', column 7): expected the name of a block, but this word has a meaning"},
        {"gpt 0", "word 2 ('0', column 5): expected the end, or the size of the vocabulary, a whole number"},
        {"gpt2 96 1", "word 3 ('1', column 9): expected the end after the size of the vocabulary"},
        {"gelu tan", "word 2 ('tan', column 6): did you mean tanh? expected ',' or the end; this layer is "
                     "written: gelu [tanh]"},
        {"max_pool", "the end (column 9): expected the size of the pooling's window"},
        {"avg_pool 2 pad x", "word 4 ('x', column 16): expected the pooling's padding"},
        {"dropout", "the end (column 8): expected the probability that dropout clears a number: a decimal "
                    "from 0 to below 1"},
        {"dropout 1", "word 2 ('1', column 9): expected the probability"},
        {"dropout 0.9999999999", "word 2 ('0.9999999999', column 9): expected the probability"},
        {"dropout 50%", "word 2 ('50%', column 9): expected the probability"},
        {"dropout .", "word 2 ('.', column 9): expected the probability"},
        {"dropout nan", "word 2 ('nan', column 9): expected the probability"},
        {"residual", "the end (column 9): expected '(' and the layers of the residual block"},
        {"residual relu", "word 2 ('relu', column 10): expected '('"},
        {"residual ()", "')' after word 1 (column 11): expected a layer"},
        {"residual (relu", "the end (column 15): expected ')' to end the residual block"},
        {"residual (relu |", "the end (column 17): expected one of"},
        {"residual (relu | tanh | relu)",
         "'|' after word 3 (column 23): expected ')' to end the residual block"},
        {"residual (relu tanh)", "word 3 ('tanh', column 16): expected ',' or '|' or ')'"},
        {"residual (relu) tanh",
         "word 3 ('tanh', column 17): expected ',' or the end; this layer is written: residual"},
        {"relu)", "')' after word 1 (column 5): expected ',' or the end; no '(' is open"},
        {"relu | tanh", "'|' after word 1 (column 6): expected ',' or the end"},
        {"r\xc3\xa9lu, relu", "word 1 ('r\xc3\xa9lu', column 1): unknown layer"},
        {"relu\x01", "word 1 ('relu\\x01', column 1): unknown model or layer; did you mean relu?"},
        {"linear \xff\xfe", "word 2 ('\\xff\\xfe', column 8): expected the number of outputs"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaa",
         "word 1 ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', "
         "column 1)"},
        {"3 x", "the end (column 4): expected one of " LAYERS},
        {"0 x relu", "word 1 ('0', column 1): expected how many times, a whole number from 1 up"},
        {"3 x (relu", "the end (column 10): expected ',' or ')'"},
        {"2 x (relu) tanh", "word 4 ('tanh', column 12): expected ',' or the end"},
        {"3x relu", "word 1 ('3x', column 1): unknown layer"},
        {"10001 x relu", "the end (column 13): the model has more than 10000 layers"},
        {"block a = 100 x (relu, tanh); 100 x a",
         "',' after word 5 (column 22): the model has more than 10000 layers"},
        {"block", "the end (column 6): expected the name of a block, a word that begins with a letter"},
        {"block 3 = relu; 3", "word 2 ('3', column 7): expected the name of a block, a word that begins"},
        {"block relu = tanh; relu",
         "word 2 ('relu', column 7): expected the name of a block, but this word has a meaning already"},
        {"block a = relu; block a = tanh; a", "word 5 ('a', column 23): expected the name of a block, but"},
        {"block a b b = relu; a 1 2", "word 4 ('b', column 11): expected a parameter of the block, but"},
        {"block a pad = relu; a 1", "word 3 ('pad', column 9): expected a parameter of the block, but"},
        {"block a b c d e f g h i j = relu; a", "word 11 ('j', column 25): a block has at most 8 parameters"},
        {"block a, relu", "',' after word 2 (column 8): expected '=' and the layers of the block"},
        {"block a = relu, tanh", "the end (column 21): expected ';' to end block a"},
        {"block a = ; a", "';' after word 2 (column 11): expected a layer"},
        {"block a = relu = tanh; a", "'=' after word 3 (column 16): expected ',' or ';'"},
        {"block a = relu; tanh", "block a is not used"},
        {"block a = a; a",
         "word 3 ('a', column 11): a block cannot use itself"}, /* a block can use neither itself ... */
        {"block a = b; block b = relu; a, b", "word 3 ('b', column 11): unknown layer"}, /* nor a later one */
        {"relu; block a = relu; a", "';' after word 1 (column 5): expected ',' or the end"},
        {"relu, block a = relu; a", "word 2 ('block', column 7): blocks are defined before the model"},
        {"block a N = linear N; a", "the end (column 24): expected N of block a"},
        {"block a N = linear N; a 3 4",
         "word 8 ('4', column 27): expected ',' or the end: block a has 1 parameter"},
        {"block a N = linear N; a x3", "word 7 ('x3', column 25): expected the number of outputs of linear"},
        {"block twin = relu; twim, twin", "word 4 ('twim', column 20): unknown layer; did you mean twin?"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gs_layer *net;
        const char *message = gs_test_format("model text: %s", bad[i].message);
        assert_fails(GS_E_MODEL, message, gs_model_parse(bad[i].text, &net));
        assert_null(net);
    }
}

TEST(nesting) {
    for (int depth = 32; depth <= 33; depth++) {
        char text[1024] = "";
        gs_layer *net;
        for (int i = 0; i < depth; i++) strcat(text, "residual(");
        strcat(text, "relu");
        for (int i = 0; i < depth; i++) strcat(text, ")");
        if (depth == 32)
            assert_ok(gs_model_parse(text, &net));
        else
            assert_fails(
                GS_E_MODEL,
                "'(' after word 33 (column 297): parentheses and blocks are nested more than 32 deep",
                gs_model_parse(text, &net));
        gs_layer_free(net);
    }
    char *open = gs_test_malloc(900001); /* an attack on the stack */
    for (int i = 0; i < 100000; i++) memcpy(open + 9 * i, "residual(", 9);
    open[900000] = '\0';
    gs_layer *net;
    assert_fails(GS_E_MODEL, "nested more than 32 deep", gs_model_parse(open, &net));

    /* Nested blocks, each twice as large as the one before. */
    char text[2048] = "block b0 = relu;";
    for (int i = 1; i <= 40; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "block b%d = b%d, b%d;", i, i - 1, i - 1);
    }
    strcat(text, "b40");
    assert_fails(GS_E_MODEL, "nested more than 32 deep", gs_model_parse(text, &net));
    strcpy(strstr(text, "block b31"), "b30");
    assert_fails(GS_E_MODEL, "more than 10000 layers", gs_model_parse(text, &net));
}

/* The next pseudo-random number below `limit`. */
static size_t draw(size_t limit) {
    static uint32_t drawn;
    return test_hash(drawn++, 77) % limit;
}

/* Random texts, some with one byte changed: the result must be GS_OK or GS_E_MODEL. */
TEST(random_texts) {
    static const char *const pieces[] = {"linear",     "conv ",
                                         "3 ",         "3x3",
                                         "(",          ")",
                                         "|",          ",",
                                         ", ",         "relu ",
                                         "max_pool 2", "residual (",
                                         "0.5 ",       "dropout",
                                         "no_bias ",   " pad 1",
                                         "0",          "x",
                                         "-1",         "stride 2",
                                         "flatten,",   "avg_pool 1x2",
                                         "linear 5",   "conv 2 1",
                                         ". ",         "99999999",
                                         "\t",         "\xc3\xa9",
                                         "mlp",        "tanh,",
                                         " x ",        "block a N = ",
                                         ";",          "a 2",
                                         "N ",         "block b = "};
    int good = 0;
    for (int round = 0; round < 20000; round++) {
        char text[512] = "";
        int count = (int)draw(9);
        for (int i = 0; i < count; i++) strcat(text, pieces[draw(sizeof pieces / sizeof *pieces)]);
        if (text[0] && draw(4) == 0) {
            size_t at = draw(strlen(text));
            text[at] = (char)(1 + draw(255));
        }
        gs_layer *net;
        gs_status st = gs_model_parse(text, &net);
        assert_true(st == GS_OK || st == GS_E_MODEL);
        assert_true((st == GS_OK) == (net != NULL));
        if (st != GS_OK) assert_true(strncmp(gs_message(), "model text: ", 12) == 0);
        good += st == GS_OK;
        gs_layer_free(net);
    }
    assert_in_range(good, 100, 10000); /* enough of both results occurred */
}
