/* 16-bit activations (half_storage.h) when several workers share a model: in a tensor group, and between pipeline
 * stages. */
#include <math.h>

#include "layer/memory/buffer_plan.h"
#include "tests/support/devices.h"
#include "tests/support/training.h"
#include "predict/layout_plan.h"

#define BLOCKS                                                                                               \
    "embedding 40 8, positions, 2 x residual (residual (layer_norm, linear 24, attention 2 causal, linear "  \
    "8), residual (layer_norm, linear 32, gelu, linear 8)), layer_norm, "
#define IMAGES                                                                                               \
    "conv 4 3x3 stride 2 pad 1, batch_norm, relu, residual (conv 4 3x3 pad 1, batch_norm, tanh, conv 4 3x3 " \
    "pad 1), relu, max_pool 2, conv 6 3x3 pad 1, sigmoid, flatten, linear 24, relu, dropout 0.2, linear 10"

/* A pair whose dx is larger than its y. */
#define NARROWS                                                                                              \
    "conv 8 3x3 stride 2 pad 1, dropout 0.1, conv 4 3x3 pad 1, tanh, conv 2 3x3 stride 2 pad 1, flatten, "   \
    "linear 10"

static const char tied[] = BLOCKS "tied", words[] = BLOCKS "linear 40";
static const gs_shape tokens = {1, 1, 1, 8}, image = {1, 28, 28, 0};

/* ---- which layers ---- */

/* As in test_half_storage.c, but omits layers of other stages. */
static gs_status describe(gs_layer *l, void *text) {
    if (l->fused || l->other_stage || l->children > 0) return GS_OK;
    assert_true(l->memory.y_buffer < 0 || l->y.half == l->memory.y_half);
    assert_true(l->memory.dx_buffer < 0 || l->dx.half == l->memory.x_half);
    *strchr(text, '\0') = l->memory.x_half ? (l->memory.y_half ? 'b' : 'x') : l->memory.y_half ? 'y' : '-';
    return GS_OK;
}

/* The layers of `tied`: all are 16-bit except at the model's ends. Each of the four blocks has four layers. */
#define ALL_HALVES "ybbbbbbbbbbbbbbbbbbx"

/* Includes a divided vocabulary and divided convolutions, divided sequences, and a fixed order of sums. */
static void in_a_group_on(gs_device *d, gs_precision p) {
    static const struct {
        const char *model, *wanted;
        const gs_shape *in;
        gs_tensor_group group;
        bool sums; /* whether a separate buffer holds some of the sums */
    } cases[] = {
        {tied, ALL_HALVES, &tokens, {.size = 2, .outputs = true}, true},
        {tied, "---ybx-ybx-ybx-ybx--", &tokens, {.size = 2, .outputs = true, .sequence = true}, false},
        {tied, "--------------------", &tokens, {.size = 2, .outputs = true, .leaves = 8}, false},
        {tied, ALL_HALVES, &tokens, {.size = 1}, false},
        {"conv 4 3x3, batch_norm, tanh, conv 2 1x1, flatten, linear 10", "ybbbbx", &image, {.size = 2}, true},
    };
    (void)p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "";
        gs_model *m = gs_test_model(d, .text = cases[i].model, .in = *cases[i].in, .max_batch = 2, .seed = 1,
                                    .tensor = cases[i].group);
        assert_ok(gs_layer_walk(m->net, describe, text));
        if (strcmp(text, cases[i].wanted) != 0)
            fail_msg("case %zu, %s: %s, wanted %s", i, cases[i].model, text, cases[i].wanted);
        assert_int_equal(m->net->arena->sums.base != NULL, cases[i].sums);
    }
}

TEST_AROUND(in_a_group, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(in_a_group_on);
}

/* For every cut, layers are stored as in the whole model, except where a neighbouring stage accepts only f32. Fusion is
 * off, because a cut may separate two layers that would be fused. */
static void in_stages_on(gs_device *d, gs_precision p) {
    char whole[64] = "";
    (void)p;
    d->no_fusion = true;
    gs_model *m = gs_test_model(d, .text = IMAGES, .in = image, .max_batch = 2, .seed = 1);
    assert_ok(gs_layer_walk(m->net, describe, whole));
    for (int cut = 1; cut < m->net->children; cut++)
        for (int half = 0; half < 2; half++) {
            char text[64] = "";
            gs_model *stage[2];
            m->net->half_ends = half;
            stage[0] = gs_test_model(d, .of = m, .max_batch = 2, .last = cut);
            stage[1] = gs_test_model(d, .of = m, .max_batch = 2, .first = cut, .last = m->net->children);
            const gs_layer *before = stage[0]->net, *after = stage[1]->net;
            for (int i = 0; i < 2; i++) assert_ok(gs_layer_walk(stage[i]->net, describe, text));
            if (half && strcmp(text, whole) != 0)
                fail_msg("cut before layer %d: %s, wanted %s", cut, text, whole);
            assert_int_equal(before->memory.y_half, half && m->net->child[cut]->memory.x_half);
            assert_int_equal(after->memory.x_half, before->memory.y_half);
            assert_false(before->memory.x_half || after->memory.y_half);
        }
    d->no_fusion = false;
}

TEST_AROUND(in_stages, gs_test_to_f32, gs_test_to_f32) {
    gs_test_on_each_with_16_bits(in_stages_on);
}

/* ---- runs ---- */

static gs_settings settings_of(const char *model, gs_precision p) {
    gs_settings s =
        gs_test_with(gs_test_settings("cl"), "--model '%s' --batch 26 --steps 3 --batch-norm ghost:2", model);
    s.precision = p;
    if (!strstr(model, "embedding")) return s;
    s.data = gs_test_format("text:%s", gs_test_text_file());
    s.context = 8;
    s.batch_norm = gs_settings_default().batch_norm;
    return s;
}

/* Stages exchange the same values as layers within one worker, so the bits are the same. */
TEST(stages_change_no_bit) {
    static const char *const models[] = {IMAGES, words};
    gs_test_need_opencl();
    gs_test_need_whole();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int p = 0; p < 2; p++) {
            gs_settings s = gs_test_with(settings_of(models[i], gs_test_16_bits[p]), "--accumulate 3");
            gs_result one = gs_test_train(&s);
            s = gs_test_with(s, "--devices cl,cl --pipeline 2 --micro-batches 3");
            s.accumulate = 0;
            s.pipeline_cut = i == 0 ? "3" : "2";
            gs_result r = gs_test_train_as_planned(&s, s.devices);
            assert_same_bits(&one, &r, models[i]);
            assert_true(r.test_loss == one.test_loss);
        }
}

/* A cpu device accepts only f32, so all messages of this pipeline are f32. */
TEST(beside_a_cpu) {
    gs_test_need_opencl();
    gs_test_need_whole();
    gs_settings s = settings_of(IMAGES, GS_PRECISION_F16);
    gs_result one = gs_test_train(&s);
    s = gs_test_with(s, "--devices cpu,cl --pipeline 2 --pipeline-cut 3");
    gs_result r = gs_test_train_as_planned(&s, s.devices);
    const double off = gs_test_difference(&one, &r);
    if (!(off < 2e-3)) fail_msg("the weights are off by %g", off);
}

static double activations_of(const gs_result *r) {
    return r->worker[0].memory[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS];
}

/* A group's results are as close to f32 as one worker's, and it needs less memory. */
TEST(groups_are_near_f32) {
    static const char *const models[] = {IMAGES, tied, NARROWS};
    gs_test_need_opencl();
    gs_test_need_whole();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        gs_settings s = gs_test_with(settings_of(models[i], GS_PRECISION_F32),
                                     "--devices cl,cl --tensor 2 --verify 1 --lr 0.01");
        gs_result f32 = gs_test_train(&s);
        for (int p = 0; p < 2; p++) {
            s.precision = gs_test_16_bits[p];
            gs_result r = gs_test_train_as_planned(&s, s.devices);
            gs_settings alone = gs_test_with(s, "--devices cl");
            alone.tensor = alone.verify = 0;
            gs_result one = gs_test_train(&alone);
            const double off = gs_test_difference(&f32, &r), usual = gs_test_difference(&f32, &one);
            print_message("%.20s: off by %.2g, one worker by %.2g; activations %.0f, in f32 %.0f\n",
                          models[i], off, usual, activations_of(&r), activations_of(&f32));
            assert_true(off > 0 && off < 2 * usual);
            assert_true(activations_of(&r) < (i == 2 ? 1 : 0.7) * activations_of(&f32));
        }
    }
}

/* ---- bytes between stages ---- */

static gs_status no_call(gs_layout_measured *p, const gs_layout_call *c, double *seconds) {
    (void)p, (void)c;
    *seconds = 0;
    return GS_OK;
}

static gs_status no_time(gs_layout_measured *p, const gs_settings *s, size_t samples,
                         const gs_layer_times **out) {
    static double zeros[64];
    static gs_layer_times times = {.forward = zeros, .backward = zeros, .both = zeros, .slowest = zeros};
    (void)p, (void)s;
    times.layers = 64;
    times.samples = samples;
    *out = &times;
    return GS_OK;
}

static double foreseen(const gs_settings *run, size_t batch) {
    static const gs_layout_source source = {no_time, no_call};
    gs_layout_measured measured = {
        .source = &source, .settings = run, .workers = 2, .threads = 1, .cores = 2};
    gs_settings s = *run;
    gs_layout_cost cost;
    gs_model *plan = gs_test_plan(s.model, image);
    assert_ok(gs_layout_predict(&measured, &s, plan, batch, &cost));
    return cost.sent;
}

/* The counted bytes, the layout's plan, and the formula agree: 4 or 2 bytes for each number sent to the next stage. For
 * IMAGES, cut before layer 3, those are 4 x 14 x 14 numbers. */
TEST(bytes_are_halved) {
    enum { NUMBERS = 4 * 14 * 14 };
    static const struct {
        const char *devices;
        gs_precision precision;
        double bytes;
    } cases[] = {{"cl,cl", GS_PRECISION_F32, 4},
                 {"cl,cl", GS_PRECISION_BF16, 2},
                 {"cl,cl", GS_PRECISION_F16, 2},
                 {"cpu,cl", GS_PRECISION_BF16, 4},
                 {"cpu,cpu", GS_PRECISION_BF16, 4}};
    gs_test_need_opencl();
    gs_test_need_whole();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_settings s = gs_test_with(settings_of(IMAGES, cases[i].precision),
                                     "--pipeline 2 --pipeline-cut 3 --micro-batches 2");
        s.devices = cases[i].devices;
        const double sent = NUMBERS * cases[i].bytes * (double)s.batch;
        gs_result r = gs_test_train(&s);
        assert_near(r.sent_most, sent, 0, 0);
        assert_near(foreseen(&s, s.batch), sent, 0, 0);
    }
}

static double simulated(const char *options) {
    return gs_test_number_after(
        gs_test_output(0,
                       "simulate --workers 2 --link 5us,1GB/s --model lenet --layout pp2 "
                       "--flops 1GFLOP/s --batch 64 --json %s",
                       options),
        "\"sent_most\":");
}

/* A simulation sends the same bytes, except for a step's counts. */
TEST(a_simulation_sends_as_many) {
    enum { OTHERS = 100 };
    gs_test_need_opencl();
    gs_test_need_whole();
    const double f32 = simulated("--device cl");
    assert_true(simulated("--precision bf16") == f32);
    assert_near(simulated("--device cl --precision bf16"), f32 / 2, OTHERS, 0);
}
