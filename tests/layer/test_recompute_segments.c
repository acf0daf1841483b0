/* --recompute: what forms a segment, and which parts of it run again. test_recompute.c compares the bits. */
#include <math.h>
#include "layer/make.h"
#include "layer/memory/recompute.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* ---- what a segment is ---- */

typedef struct shape_case {
    const char *model;
    gs_shape in;
    int recompute, segments;
} shape_case;

TEST(segments_are_what_is_said) {
    static const gs_shape image = {3, 32, 32, 0}, gray = {1, 28, 28, 0}, sequence = {1, 1, 1, 64};
    const shape_case cases[] = {
        {"resnet20", image, GS_RECOMPUTE_NONE, 0},
        {"resnet20", image, GS_RECOMPUTE_BLOCKS,
         10},                                     /* the first convolution with its batch_norm; 9 blocks */
        {"resnet20", image, GS_RECOMPUTE_ALL, 9}, /* residuals */
        {"resnet20", image, 1000, 0},             /* a single segment, the last one, is not recomputed */
        {"gpt 65", sequence, GS_RECOMPUTE_BLOCKS, 4},      /* each attention and each mlp */
        {"gpt 65", sequence, GS_RECOMPUTE_ALL, 8},         /* each layer in their bodies */
        {"gpt 65", sequence, 4, 2},                        /* 0 to 3 and 4 to 7; 8 to 11 end the model */
        {"lenet", gray, GS_RECOMPUTE_ALL, 0},              /* no layer contains another */
        {"vgg11", {3, 32, 32, 0}, GS_RECOMPUTE_BLOCKS, 0}, /* conv and relu share their y */
        {"linear 9, tanh, residual (linear 9, linear 9), linear 2", {5, 1, 1, 0}, GS_RECOMPUTE_BLOCKS, 1},
        /* the segment: layers 0 to 2, and the tanh that overwrites 2's y. 4 and 5 share one y; 6 and 7 end the model */
        {"linear 9, tanh, linear 9, tanh, linear 8, tanh, linear 9, linear 2", {5, 1, 1, 0}, 3, 1},
    };
    gs_device *cpu = gs_test_device("cpu", 1);
    gs_device_set_dry(cpu);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shape_case *c = &cases[i];
        gs_model *m = gs_test_model(cpu, .text = c->model, .in = c->in, .max_batch = 2, .seed = 1,
                                    .recompute = c->recompute);
        if (gs_recompute_segments(m->net) != c->segments)
            fail_msg("%s --recompute %d: %d segments, wanted %d", c->model, c->recompute,
                     gs_recompute_segments(m->net), c->segments);
    }
}

/* Backward of a linear layer reads only its x, so at a segment's end it is not repeated, nor is a residual's sum. */
TEST(what_nobody_reads_is_not_repeated) {
    static const struct {
        const char *model;
        double flops; /* per sample: 2 x 8 x 8 for each linear no_bias, few for others */
    } cases[] = {
        {"linear 8 no_bias, residual (linear 8 no_bias, gelu, linear 8 no_bias), linear 8 no_bias", 128 + 8},
        {"linear 8 no_bias, residual (linear 8 no_bias, tanh), linear 8 no_bias", 128 + 8},
        {"linear 8 no_bias, residual (linear 8 no_bias, linear 8 no_bias | linear 8 no_bias), linear 8 "
         "no_bias",
         128},
        {"linear 8 no_bias, residual (linear 8 no_bias, residual (linear 8 no_bias, linear 8 no_bias)), "
         "linear 8 no_bias",
         128 + 128},
    };
    gs_device *cpu = gs_test_device("cpu", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_model *m = gs_test_model(cpu, .text = cases[i].model, .in = {8, 1, 1, 0}, .max_batch = 2,
                                    .seed = 1, .recompute = GS_RECOMPUTE_ALL);
        const double flops = gs_recompute_flops(m->net);
        if (fabs(flops - cases[i].flops) > 0)
            fail_msg("%s: %g operations are repeated, wanted %g", cases[i].model, flops, cases[i].flops);
    }
}

/* ---- statistics are summed over the workers only once ---- */

static const char with_statistics[] =
    "block down C = residual (conv C 3x3 stride 2 pad 1, batch_norm, relu, conv C 3x3 pad 1, batch_norm | "
    "conv C 1x1 stride 2, batch_norm), relu; "
    "conv 4 3x3 pad 1, batch_norm, relu, 2 x residual (conv 4 3x3 pad 1, batch_norm), down 6, "
    "global_avg_pool, flatten, linear 10";

static gs_status count_sum(void *context, double *numbers, size_t count) {
    (void)numbers;
    *(size_t *)context += count;
    return GS_OK;
}

static size_t sums_of(gs_device *d, int recompute) {
    enum { N = 4 };
    const gs_shape in = {3, 8, 8, 0};
    static int32_t labels[N];
    size_t sums = 0;
    gs_mem logits;
    gs_model *m = gs_test_model(d, .text = with_statistics, .in = in, .max_batch = N, .seed = 1,
                                .recompute = recompute);
    float *host = gs_test_calloc(N * gs_shape_size(in), sizeof *host);
    for (size_t i = 0; i < N * gs_shape_size(in); i++) host[i] = test_value(i, 1);
    gs_mem x = gs_test_new_mem(d, host, N * gs_shape_size(in)), targets = gs_test_new_mem(d, NULL, N);
    assert_ok(d->ops->write(d, targets, labels, sizeof labels));
    gs_pass pass = {
        .n = N, .training = true, .fresh = true, .sum_over_workers = count_sum, .sum_context = &sums};
    assert_ok(gs_model_forward(m, &pass, x, &logits));
    assert_ok(gs_model_loss(m, &pass, logits, targets));
    assert_ok(gs_model_backward(m, &pass, logits, targets));
    return sums;
}

static void statistics_are_summed_once_on(gs_device *d) {
    const size_t plain = sums_of(d, GS_RECOMPUTE_NONE);
    assert_true(plain > 0);
    static const int which[] = {GS_RECOMPUTE_ALL, GS_RECOMPUTE_BLOCKS, 2, 3, 100};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) assert_int_equal(sums_of(d, which[i]), plain);
}
ON_EVERY_DEVICE(statistics_are_summed_once)

/* ---- a container unknown to the library ---- */

/* y = second(x) + first(x). The second layer runs first, and its backward reads its own output. */
static gs_status both_plan(gs_layer *l, gs_shape in) {
    for (int i = 0; i < 2; i++) GS_TRY(gs_layer_plan_child(l, i, i ? "second" : "first", in, l->needs_dx));
    l->out = l->child[0]->out;
    return GS_OK;
}

static gs_status both_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    gs_mem first, second;
    GS_TRY(gs_layer_forward(l->child[1], pass, x, &second));
    GS_TRY(gs_layer_forward(l->child[0], pass, x, &first));
    *y = l->y;
    return l->device->ops->add(l->device, l->y, second, first, gs_layer_numbers(pass, l->out));
}

static gs_status both_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    gs_mem first, second;
    GS_TRY(gs_layer_backward(l->child[0], pass, dy, &first));
    GS_TRY(gs_layer_backward(l->child[1], pass, dy, &second));
    *dx = l->dx;
    return l->device->ops->add(l->device, l->dx, first, second, gs_layer_numbers(pass, l->in));
}

static const gs_layer_ops both_ops = {
    .name = "both", .buffers = GS_OWN, .plan = both_plan, .forward = both_forward, .backward = both_backward};

static gs_layer *both(gs_layer *first, gs_layer *second) {
    gs_layer *l = gs_layer_new(&both_ops, sizeof(gs_layer), 2);
    assert_non_null(l);
    l->child[0] = first;
    l->child[1] = second;
    return l;
}

static gs_layer *branch(int out) {
    return gs_sequential(4, (gs_layer *[]){gs_linear(16, true), gs_tanh(), gs_linear(out, true), gs_tanh()});
}

static void gradients_of_own_net(gs_device *d, int recompute, float *gradients, size_t *params) {
    enum { N = 6 };
    float x[N * 5], targets[N * 2];
    for (int i = 0; i < N * 5; i++) x[i] = test_value((size_t)i, 1);
    for (int i = 0; i < N * 2; i++) targets[i] = test_value((size_t)i, 2);
    gs_layer *net =
        gs_sequential(4, (gs_layer *[]){gs_linear(7, true), both(branch(7), branch(7)),
                                        gs_residual(both(branch(7), branch(7)), NULL), gs_linear(2, true)});
    gs_mem logits;
    gs_model *m = gs_test_model(d, .net = net, .in = {5, 1, 1, 0}, .max_batch = N, .loss = GS_REGRESSION,
                                .seed = 3, .recompute = recompute);
    assert_int_equal(gs_recompute_segments(m->net), recompute == GS_RECOMPUTE_ALL    ? 2
                                                    : recompute == GS_RECOMPUTE_NONE ? 0
                                                                                     : 1);
    gs_mem at = gs_test_new_mem(d, x, N * 5), wanted = gs_test_new_mem(d, targets, N * 2);
    const gs_pass pass = {.n = N, .training = true, .fresh = true};
    assert_ok(gs_model_forward(m, &pass, at, &logits));
    assert_ok(gs_model_loss(m, &pass, logits, wanted));
    assert_ok(gs_model_backward(m, &pass, logits, wanted));
    assert_ok(d->ops->read(d, gradients, m->gradients, m->params * sizeof *gradients));
    *params = m->params;
}

static void unknown_containers_are_repeated_whole_on(gs_device *d) {
    static float plain[4000], again[4000];
    static const int which[] = {GS_RECOMPUTE_ALL, GS_RECOMPUTE_BLOCKS, 2};
    size_t params;
    gradients_of_own_net(d, GS_RECOMPUTE_NONE, plain, &params);
    assert_true(params < 4000);
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        gradients_of_own_net(d, which[i], again, &params);
        assert_memory_equal(again, plain, params * sizeof *plain);
    }
}
ON_EVERY_DEVICE(unknown_containers_are_repeated_whole)
