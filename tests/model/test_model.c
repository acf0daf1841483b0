/* Whole models: shapes, names and initial values. */
#include <math.h>
#include "core/normal.h"
#include "core/philox.h"
#include "layer/make.h"
#include "model/model_text.h"
#include "tests/support/on_devices.h"

static const gs_shape mnist = {1, 28, 28, 0};

/* ---- plan ---- */

TEST(named_models) {
    const gs_shape small = {3, 32, 32, 0}, large = {3, 224, 224, 0}, context = {1, 1, 1, 64},
                   long_context = {1, 1, 1, 1024};
    const struct {
        const char *name;
        gs_shape in;
        int classes;
        size_t params; /* as in PyTorch's version of the network */
        double flops;  /* of forward and backward, in millions */
        double about;  /* the relative tolerance */
    } want[] = {
        {"softmax", mnist, 10, 7850, 0.03, 0.05},
        {"mlp", mnist, 10, 535818, 2.4, 0.05},
        {"lenet", mnist, 10, 61706, 2.3, 0.05},
        {"cnn", mnist, 10, 1625866, 97, 0.05},
        /* The papers count only the multiply-adds of the forward pass; `about` covers the rest, such as normalising. */
        {"resnet20", small, 10, 272474, 6 * 41.0, 0.03},
        {"resnet56", small, 10, 855770, 6 * 126.0, 0.03},
        {"resnet18", large, 1000, 11689512, 6 * 1814.0, 0.03},
        {"resnet50", large, 1000, 25557032, 6 * 4089.0, 0.03},
        {"vgg11", large, 1000, 132863336, 6 * 7609.0, 0.03},
        /* per token: 12 layers width^2 and the whole table; and, in each layer, attention to half of the tokens on
         * average, whose backward costs as much as forward, not twice as much */
        {"gpt", context, 65, 809856, 64 * (6 * 0.795 + 4 * 0.033), 0.02},
        {"gpt2", long_context, 50257, 124439808, 1024 * (6 * 123.53 + 4 * 9.45), 0.02},
    };
    size_t names = 0;
    while (gs_models[names].name) names++;
    assert_int_equal(names, sizeof want / sizeof *want);
    for (size_t i = 0; i < names; i++) {
        gs_model *m = gs_test_plan(want[i].name, want[i].in);
        assert_string_equal(gs_models[i].name, want[i].name);
        assert_int_equal(m->params, want[i].params);
        assert_near((m->flops_forward + m->flops_backward) / 1e6, want[i].flops, 0, want[i].about);
        assert_int_equal(m->out.c, want[i].classes);
        assert_null(m->device);
    }
}

/* The shapes inside resnet50, as in table 1 of the paper: after each stage, and in a shortcut. */
static gs_status stage(gs_layer *l, void *context) {
    char *list = context;
    size_t used = strlen(list);
    if (strcmp(l->ops->name, "residual") == 0)
        snprintf(list + used, 256 - used, "%d:%d ", l->out.c, l->out.h);
    return GS_OK;
}

TEST(stages_of_resnet50) {
    char list[256] = "";
    gs_model *m = gs_test_plan("resnet50", (gs_shape){3, 224, 224, 0});
    gs_layer_walk(m->net, stage, list);
    assert_string_equal(list, "256:56 256:56 256:56 512:28 512:28 512:28 512:28 1024:14 1024:14 1024:14 "
                              "1024:14 1024:14 1024:14 2048:7 2048:7 2048:7 ");
}

/* A number after a model's name is the number of classes; the saved text includes it. */
TEST(classes_of_a_name) {
    gs_model *m = gs_test_plan(" lenet  26", mnist);
    assert_int_equal(m->out.c, 26);
    assert_string_equal(m->text, "conv 6 5x5 pad 2, relu, max_pool 2, conv 16 5x5, relu, max_pool 2, "
                                 "flatten, linear 120, relu, linear 84, relu, linear 26");
}

/* For a language model, the number after the name is the vocabulary size, and the text starts with it. */
TEST(language_models) {
    const struct {
        const char *name;
        int context; /* 0: not a language model */
    } models[] = {{"gpt", 64},     {"gpt2", 1024}, {" gpt  96", 64},
                  {"resnet20", 0}, {"mlp 10", 0},  {"embedding 5 4, tied", 0},
                  {"gpt3", 0},     {"", 0}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const bool is = gs_model_is_language(models[i].name);
        assert_int_equal(is ? gs_model_named(models[i].name)->in.t : 0, models[i].context);
    }
    gs_model *m = gs_test_plan("gpt 9", (gs_shape){1, 1, 1, 5});
    assert_int_equal(m->out.c, 9);
    assert_int_equal(m->out.t, 5);
    assert_int_equal(m->param[0]->dims[0], 9);
}

static gs_status list_layer(gs_layer *l, void *context) {
    char *list = context;
    size_t used = strlen(list);
    snprintf(list + used, 2048 - used, "%d '%s' %s (%d,%d,%d)\n", l->number, l->name, l->ops->name, l->out.c,
             l->out.h, l->out.w);
    return GS_OK;
}

TEST(names_and_shapes) {
    gs_model *m =
        gs_test_plan("conv 8 3x3 stride 2, residual (conv 4 1x1, conv 8 3x3 pad 1 no_bias | conv 8 1x1), "
                     "max_pool 2x3 stride 2 pad 1, avg_pool 2, global_avg_pool, flatten, linear 5",
                     mnist);
    char list[2048] = "";
    gs_layer_walk(m->net, list_layer, list);
    assert_string_equal(list, "0 '' sequential (5,1,1)\n"
                              "1 '0' conv2d (8,13,13)\n"
                              "2 '1' residual (8,13,13)\n"
                              "3 '1.body' sequential (8,13,13)\n"
                              "4 '1.body.0' conv2d (4,13,13)\n"
                              "5 '1.body.1' conv2d (8,13,13)\n"
                              "6 '1.shortcut' sequential (8,13,13)\n"
                              "7 '1.shortcut.0' conv2d (8,13,13)\n"
                              "8 '2' max_pool2d (8,7,7)\n"
                              "9 '3' avg_pool2d (8,3,3)\n"
                              "10 '4' global_avg_pool (8,1,1)\n"
                              "11 '5' flatten (8,1,1)\n"
                              "12 '6' linear (5,1,1)\n");
    const char *const names[] = {"0.weight",          "0.bias",          "1.body.0.weight",
                                 "1.body.0.bias",     "1.body.1.weight", "1.shortcut.0.weight",
                                 "1.shortcut.0.bias", "6.weight",        "6.bias"};
    const size_t counts[] = {72, 8, 32, 4, 288, 64, 8, 40, 5};
    const int fan_in[] = {9, 9, 8, 8, 36, 8, 8, 8, 8};
    assert_int_equal(m->param_count, 9);
    size_t at = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_string_equal(m->param[i]->name, names[i]);
        assert_int_equal(m->param[i]->count, counts[i]);
        assert_int_equal(m->param[i]->at, at);
        assert_int_equal(m->param[i]->fan_in, fan_in[i]);
        at += counts[i];
    }
    assert_int_equal(m->params, at);
    assert_int_equal(m->param[4]->ndim, 4);
    assert_int_equal(m->param[4]->dims[0], 8);
    assert_int_equal(m->param[4]->dims[1], 4);
    assert_int_equal(m->param[4]->dims[2], 3);
}

TEST(shapes_that_do_not_fit) {
    const struct {
        const char *text, *message;
    } wrong[] = {
        {"conv 64 3x3, relu, linear 10",
         "layer 2 (linear 10): the input is (64,26,26), linear needs a flat vector: put flatten before it"},
        {"conv 4 29", "layer 0 (conv 4 29x29): the input is (1,28,28): its height with padding is 28, "
                      "smaller than the window's 29"},
        {"relu, conv 4 28x31 pad 1x1", "its width with padding is 30, smaller than the window's 31"},
        {"max_pool 3x2 pad 1x2", "layer 0 (max_pool 3x2 pad 1x2): the padding of the width is 2; at most "
                                 "half of the window's 2 is allowed"},
        {"avg_pool 29", "layer 0 (avg_pool 29): the input is (1,28,28): its height"},
        {"flatten, max_pool 2", "layer 1 (max_pool 2): the input is (784,1,1): its height"},
        {"residual (conv 4 3x3 | flatten)", "layer 0 (residual): the body gives (4,26,26), but the shortcut "
                                            "gives (784,1,1): they cannot be added"},
        {"relu, residual (conv 4 3x3)",
         "layer 1 (residual): the body gives (4,26,26), but the input is (1,28,28): they "
         "cannot be added; a shortcut can bring the input to the body's shape"},
        {"layer_norm",
         "layer 0 (layer_norm): the input is (1,28,28), layer_norm needs vectors: put flatten before it"},
        {"residual (relu, linear 3)", "layer 0.body.1 (linear 3): the input is (1,28,28)"},
        {"conv 1000000 1 pad 1000000", "its output would be (1000000,2000028,2000028) for each sample; at "
                                       "most 2147483647 numbers are allowed"},
        {"flatten, linear 1000000, linear 1000000", "layer 2 (linear 1000000): its weight would have "
                                                    "1000000000000 elements; at most 2147483647 are allowed"},
        {"residual(residual(residual(residual(residual(residual(residual(relu)))))))",
         "a layer in it would have a name of 48 characters"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_no_model(GS_E_SHAPE, wrong[i].message, NULL, .text = wrong[i].text, .in = mnist);
    }
    assert_no_model(GS_E_SHAPE, "the input is (1,0,28)", NULL, .text = "relu", .in = {1, 0, 28, 0});
    assert_no_model(GS_E_SHAPE, "at most 2147483647", NULL, .text = "relu",
                    .in = {1 << 20, 1 << 20, 1 << 20, 0});
}

/* Values that a constructor can receive but no text can express. */
TEST(numbers_out_of_range) {
    const struct {
        gs_layer *layer;
        const char *message;
    } wrong[] = {
        {gs_linear(0, true), "linear 0: the number of outputs is 0"},
        {gs_conv2d(-1, 3, 3, 1, 1, 0, 0, true), "the number of output channels is -1"},
        {gs_conv2d(1, 0, 3, 1, 1, 0, 0, true), "the window's height is 0"},
        {gs_conv2d(1, 3, 3, 1, -2, 0, 0, true), "the stride of the width is -2"},
        {gs_conv2d(1, 3, 3, 1, 1, -1, 0, true), "the padding of the height is -1"},
        {gs_conv2d(1, 3, 3, 1, 1, 0, INT32_MAX, true), "the input's width with its padding is 4294967322"},
        {gs_conv2d_grouped(4, 3, 3, 1, 1, 0, 0, 0, 1, 1, true), "the number of groups is 0"},
        {gs_conv2d_grouped(4, 3, 3, 1, 1, 0, 0, 4, 1, 1, true),
         "conv 4 3x3 groups 4: 1 input channels and 4 output channels cannot both be cut into 4 equal "
         "groups"},
        {gs_conv2d_grouped(4, 3, 3, 1, 1, 0, 0, 1, 0, 1, true), "the dilation of the height is 0"},
        {gs_conv2d_grouped(4, 3, 3, 1, 1, 0, 0, 1, 1, INT32_MAX, true),
         "its width with padding is 28, smaller than the window's 4294967295"},
        {gs_conv2d_grouped(4, 3, 3, 1, 1, 2, 0, 1, 16, 1, true),
         "its height with padding is 32, smaller than the window's 33"},
        {gs_max_pool2d(2, 2, 0, 2, 0, 0), "max_pool 2 stride 0x2: the stride of the height is 0"},
        {gs_avg_pool2d(2, -2, 1, 1, 0, 0), "the window's width is -2"},
        {gs_dropout(1), "dropout 1: the probability is 1"},
        {gs_dropout(-0.1f), "the probability is -0.1"},
        {gs_dropout(NAN), "the probability is nan"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t params;
        assert_non_null(wrong[i].layer);
        gs_shape in = i == 0 ? (gs_shape){784, 1, 1, 0} : mnist;
        assert_fails(GS_E_SHAPE, wrong[i].message, gs_layer_plan(wrong[i].layer, in, &params));
        gs_layer_free(wrong[i].layer);
    }
    assert_null(
        gs_sequential(2, (gs_layer *[]){gs_relu(), NULL})); /* NULL as if memory had run out; relu is freed */
    assert_null(gs_residual(NULL, gs_relu()));
}

/* ---- create ---- */

TEST(create_fails) {
    gs_device *cpu = gs_test_device("cpu", 1);
    assert_no_model(GS_E_SHAPE, "the model ends with (4,26,26) for each sample; a loss needs a flat vector",
                    cpu, .text = "conv 4 3x3", .in = mnist, .max_batch = 2);
    assert_no_model(GS_E_MODEL, "did you mean mlp?", cpu, .text = "mpl", .in = mnist, .max_batch = 2);
    /* fails in the first layer that allocates memory; relu and the pooling allocate none */
    assert_no_model(GS_E_MEMORY, "layer 0 (conv2d)", cpu, .text = "lenet", .in = mnist,
                    .max_batch = SIZE_MAX / 64);
}

/* "std S" gives normal weights, and a bias of 0. Layers without it keep their usual initial values. */
TEST(normal_initial_values) {
    gs_model *m = gs_test_plan("flatten, linear 40 std 0.02, linear 30, linear 10 no_bias std 1.5", mnist);
    const double std[] = {0.02, 0, 0, 0, 1.5};
    float *w = gs_test_malloc(m->params * sizeof *w);
    gs_model_initial_values(m, 42, w);
    for (int p = 0; p < 5; p++) {
        const gs_param *param = m->param[p];
        double squares = 0, n = (double)param->count;
        uint32_t word[4];
        gs_philox(42, gs_stream_hi(GS_STREAM_WEIGHTS, (uint64_t)p), 0, word);
        for (size_t i = 0; i < param->count; i++) squares += pow((double)w[param->at + i], 2) / n;
        if (std[p] > 0) assert_near(squares, std[p] * std[p], 5 * std[p] * std[p] * sqrt(2 / n), 0);
        if (std[p] > 0) assert_true(w[param->at + 1] == (float)std[p] * gs_normal(word[1]));
        if (p == 1) assert_true(squares == 0);
        if (p == 2) assert_near(squares, 1 / 120.0, 0, 0.2); /* without std: uniform, from 40 inputs */
    }
}

TEST(initial_values) {
    const char *name = gs_test_small() ? "flatten, linear 3, linear 10" : "lenet";
    gs_model *plan = gs_test_plan(name, mnist);
    float *want = gs_test_malloc(plan->params * sizeof *want),
          *got = gs_test_malloc(plan->params * sizeof *got);
    gs_model_initial_values(plan, 42, want);
    for (int p = 0; p < plan->param_count; p++) {
        const gs_param *param = plan->param[p];
        double k = 1 / sqrt(param->fan_in), sum = 0, squares = 0, n = (double)param->count;
        for (size_t i = 0; i < param->count; i++) {
            double v = (double)want[param->at + i];
            assert_true(fabs(v) <= k * (1 + 1e-7));
            sum += v;
            squares += v * v;
        }
        /* the uniform distribution on (-k, k) has mean 0 and variance k^2 / 3: within five standard errors */
        assert_near(sum / n, 0, 5 * k / sqrt(3 * n), 0);
        assert_near(squares / n, k * k / 3, 5 * k * k * sqrt(4 / (45 * n)), 0);
        uint32_t word[4];
        size_t last = param->count - 1;
        gs_philox(42, gs_stream_hi(GS_STREAM_WEIGHTS, (uint64_t)p), last / 4, word);
        assert_near(want[param->at + last], k * (2 * (double)gs_uniform(word[last % 4]) - 1), 0, 1e-6);
    }
    FOR_EACH_DEVICE (d) {
        gs_model *m = gs_test_model(d, .text = name, .in = mnist, .max_batch = 1, .seed = 42);
        assert_ok(gs_model_read_weights(m, got));
        assert_memory_equal(got, want, m->params * sizeof *got);
    }
    gs_model_initial_values(plan, 43, got);
    assert_memory_not_equal(got, want, plan->params * sizeof *got);
}
