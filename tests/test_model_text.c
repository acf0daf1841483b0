#include "tests/operators.h"
#include "tests/test.h"

static gs_status describe(gs_layer *l, void *context) {
    char *all = context;
    size_t used = strlen(all);
    char one[128];
    gs_layer_describe(l, one, sizeof one);
    snprintf(all + used, 1024 - used, "%s%s", used ? "; " : "", one);
    return GS_OK;
}

/* Each text, and the layers that come of it, described in the canonical way. */
static void good_texts(void **state) {
    (void)state;
    const struct {
        const char *text, *layers;
    } good[] = {
        {"softmax", "sequential; flatten; linear 10"},
        {"linear 10", "sequential; linear 10"},
        {"  linear\t10\n,\r\nrelu ", "sequential; linear 10; relu"},
        {"flatten,linear 007 no_bias,tanh,sigmoid,relu",
         "sequential; flatten; linear 7 no_bias; tanh; sigmoid; relu"},
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
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        gs_layer *net;
        char layers[1024] = "";
        assert_ok(gs_model_parse(good[i].text, &net));
        gs_layer_walk(net, describe, layers);
        assert_string_equal(layers, good[i].layers);
        gs_layer_free(net);
    }
}

/* What describe says is itself a text that gives the same layer. */
static void descriptions_can_be_parsed(void **state) {
    (void)state;
    gs_layer *layers[] = {gs_linear(3, false),
                          gs_conv2d(4, 3, 2, 1, 5, 0, 6, true),
                          gs_conv2d(4, 3, 3, 2, 2, 1, 1, false),
                          gs_max_pool2d(3, 3, 1, 1, 1, 1),
                          gs_avg_pool2d(3, 2, 3, 1, 0, 1),
                          gs_global_avg_pool(),
                          gs_dropout(0.1f),
                          gs_flatten(),
                          gs_relu(),
                          gs_tanh(),
                          gs_sigmoid()};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[128], again[128];
        gs_layer *net;
        gs_layer_describe(layers[i], text, sizeof text);
        assert_ok(gs_model_parse(text, &net));
        gs_layer_describe(net->child[0], again, sizeof again);
        assert_string_equal(again, text);
        assert_ptr_equal(net->child[0]->ops, layers[i]->ops);
        gs_layer_free(net);
        gs_layer_free(layers[i]);
    }
}

#define LAYERS "linear, conv, max_pool, " /* and so on */

static void bad_texts(void **state) {
    (void)state;
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
                 "(softmax, mlp, "
                 "lenet, cnn) or layers, each one of " LAYERS},
        {"mpl", "word 1 ('mpl', column 1): unknown model or layer; did you mean mlp?"},
        {"Mlp", "word 1 ('Mlp', column 1): unknown model or layer; did you mean mlp?"},
        {"5", "word 1 ('5', column 1): unknown model or layer; expected a model"},
        {"linear",
         "the end (column 7): expected the number of outputs of linear, a whole number from 1 to 1000000"},
        {"linear ten",
         "word 2 ('ten', column 8): expected the number of outputs of linear, a whole number from 1 to "
         "1000000"},
        {"linear 0", "word 2 ('0', column 8): expected the number of outputs"},
        {"linear -3", "word 2 ('-3', column 8): expected the number of outputs"},
        {"linear 1000001", "word 2 ('1000001', column 8): expected the number of outputs"},
        {"linear 99999999999999999999999",
         "word 2 ('99999999999999999999999', column 8): expected the number"},
        {"linear 3.5", "word 2 ('3.5', column 8): expected the number"},
        {"linear, relu", "',' after word 1 (column 7): expected the number"},
        {"linear 10 relu",
         "word 3 ('relu', column 11): expected ',' or the end; this layer is written: linear OUT "
         "[no_bias]"},
        {"linear 10 nobias", "word 3 ('nobias', column 11): did you mean no_bias? expected ',' or the end"},
        {"linear 10,", "the end (column 11): expected one of " LAYERS},
        {",linear 10", "',' after word 0 (column 1): expected a layer, one of " LAYERS},
        {"relu,,relu", "',' after word 1 (column 6): expected a layer"},
        {"relu 3", "word 2 ('3', column 6): expected ',' or the end; this layer is written: relu"},
        {"conv 3",
         "the end (column 7): expected the size of conv's kernel, K or HxW with whole numbers from 1 to "
         "1000000"},
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
         "OUT SIZE [stride SIZE] [pad SIZE] [no_bias]"},
        {"conv 8 3 strde 2", "word 4 ('strde', column 10): did you mean stride?"},
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
        {"r\xc3\xa9lu, relu", "word 1 ('r\\xc3\\xa9lu', column 1): unknown layer"},
        {"relu\x01", "word 1 ('relu\\x01', column 1): unknown model or layer; did you mean relu?"},
        {"linear \xff\xfe", "word 2 ('\\xff\\xfe', column 8): expected the number of outputs"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaa",
         "word 1 ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...', column 1)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[512];
        gs_layer *net;
        snprintf(message, sizeof message, "model text: %s", bad[i].message);
        assert_fails(GS_E_MODEL, message, gs_model_parse(bad[i].text, &net));
        assert_null(net);
    }
}

static void nesting(void **state) {
    (void)state;
    for (int depth = 32; depth <= 33; depth++) {
        char text[1024] = "";
        gs_layer *net;
        for (int i = 0; i < depth; i++) strcat(text, "residual(");
        strcat(text, "relu");
        for (int i = 0; i < depth; i++) strcat(text, ")");
        if (depth == 32)
            assert_ok(gs_model_parse(text, &net));
        else
            assert_fails(GS_E_MODEL,
                         "'(' after word 33 (column 297): parentheses are nested more than 32 deep",
                         gs_model_parse(text, &net));
        gs_layer_free(net);
    }
    char *open = malloc(900001); /* an attack on the stack */
    assert_non_null(open);
    for (int i = 0; i < 100000; i++) memcpy(open + 9 * i, "residual(", 9);
    open[900000] = '\0';
    gs_layer *net;
    assert_fails(GS_E_MODEL, "nested more than 32 deep", gs_model_parse(open, &net));
    free(open);
}

/* The next of a sequence of numbers below `limit` that look random. */
static size_t draw(size_t limit) {
    static uint32_t drawn;
    return test_hash(drawn++, 77) % limit;
}

/* Texts put together at random, some with a byte changed: never anything but success or GS_E_MODEL. */
static void random_texts(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "linear", "conv ",    "3 ",       "3x3",          "(",          ")",
        "|",      ",",        ", ",       "relu ",        "max_pool 2", "residual (",
        "0.5 ",   "dropout",  "no_bias ", " pad 1",       "0",          "x",
        "-1",     "stride 2", "flatten,", "avg_pool 1x2", "linear 5",   "conv 2 1",
        ". ",     "99999999", "\t",       "\xc3\xa9",     "mlp",        "tanh,"};
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
    assert_in_range(good, 100, 10000); /* both kinds came up */
}

GS_TESTS(model_text, cmocka_unit_test(good_texts), cmocka_unit_test(descriptions_can_be_parsed),
         cmocka_unit_test(bad_texts), cmocka_unit_test(nesting), cmocka_unit_test(random_texts))
