/* Convolution, relu and max pooling fused into one operator give the same bits as the three operators on that device,
 * which test_operators.c compares with PyTorch. Also, layers use the fused operator exactly where that is allowed. */
#include <math.h>
#include "cl/cl.h"
#include "layer/make.h"
#include "model/model_text.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

/* ---- the operator ---- */

typedef struct sizes {
    bool small;
    int n, in_c, in_h, in_w, out_c, kernel, stride, pad, bias;
} sizes;

static const sizes all_sizes[] = {
    {true, 0, 1, 4, 4, 2, 3, 1, 1, 1},       {true, 1, 1, 2, 2, 1, 1, 1, 0, 1},
    {true, 3, 2, 4, 10, 3, 3, 1, 1, 1}, /* rows of 5 */
    {true, 2, 1, 6, 14, 5, 3, 1, 1, 0},      {true, 2, 3, 7, 11, 3, 3, 2, 1, 1},
    {true, 2, 1, 4, 18, 3, 3, 1, 1, 1}, /* rows of 9 */
    {true, 3, 2, 4, 32, 1, 3, 1, 1, 1},      {false, 40, 1, 28, 28, 6, 5, 1, 2, 1},
    {false, 40, 6, 14, 14, 16, 5, 1, 0, 1},  {false, 7, 3, 12, 74, 33, 3, 1, 1, 1},
    {false, 70, 16, 4, 32, 17, 3, 1, 1, 1},  /* cpu/winograd.h, with more images than are pooled at a time */
    {false, 67, 16, 32, 32, 16, 3, 1, 1, 1}, /* cl/winograd.c, with more images than are pooled at a time */
};

typedef enum values { PLAIN, TIES, NEGATIVE, NOT_NUMBERS, VALUES } values;

/* An array on the device, between guard elements. */
enum { GUARD = 24 };
typedef struct array {
    size_t count;
    gs_mem base, at;
} array;

static float value_of(size_t i, uint32_t salt, values kind) {
    if (kind == TIES) return (float)(int)(test_hash(i, salt) % 3) - 1;
    if (kind == NEGATIVE && salt == SALT_B) return -1000;
    if (kind == NOT_NUMBERS && salt == SALT_X && i % 41 == 7) return i % 2 ? NAN : INFINITY;
    return test_value(i, salt);
}

static array new_array(gs_device *d, size_t count, uint32_t salt, values kind) {
    array a = {.count = count};
    const size_t all = count + (size_t)(2 * GUARD);
    float *host = gs_test_malloc(all * sizeof *host);
    for (size_t i = 0; i < all; i++) host[i] = value_of(i, salt, kind);
    a.base = gs_test_put(d, host, all * sizeof *host);
    a.at = gs_at(a.base, GUARD);
    return a;
}

static float *read_array(gs_device *d, const array *a) {
    const size_t bytes = (a->count + (size_t)(2 * GUARD)) * sizeof(float);
    float *host = gs_test_malloc(bytes);
    assert_ok(d->ops->read(d, host, a->base, bytes));
    return host;
}

enum { POOLED_Y, POOLED_INDEX, POOLED_DX, POOLED_DW, POOLED_DB, RESULTS };
static const char *const result_names[RESULTS] = {"y", "index", "dx", "dw", "db"};

/* Inputs and outputs of one forward and backward pass. */
typedef struct run {
    gs_device *device;
    gs_conv2d_sizes conv;
    gs_pool2d_sizes pool;
    size_t n;
    bool add;
    array x, w, b, dy, result[RESULTS];
} run;

static run run_open(gs_device *d, const sizes *c, values kind, bool add, bool has_dx) {
    const int out_h = (c->in_h + 2 * c->pad - c->kernel) / c->stride + 1,
              out_w = (c->in_w + 2 * c->pad - c->kernel) / c->stride + 1;
    run r = {.device = d, .n = (size_t)c->n, .add = add};
    r.conv = (gs_conv2d_sizes){c->in_c,   c->in_h,   c->in_w, c->out_c, out_h, out_w, c->kernel, c->kernel,
                               c->stride, c->stride, c->pad,  c->pad,   1,     1,     1};
    r.pool = (gs_pool2d_sizes){c->out_c, out_h, out_w, out_h / 2, out_w / 2, 2, 2, 2, 2, 0, 0};
    const size_t in = r.n * (size_t)(c->in_c * c->in_h * c->in_w),
                 out = r.n * (size_t)(c->out_c * (out_h / 2) * (out_w / 2)),
                 weights = (size_t)(c->out_c * c->in_c * c->kernel * c->kernel);
    const size_t counts[RESULTS] = {out, out, in, weights, (size_t)c->out_c};
    r.x = new_array(d, in, SALT_X, kind);
    r.w = new_array(d, weights, SALT_W, kind);
    r.b = new_array(d, (size_t)c->out_c, SALT_B, kind);
    r.dy = new_array(d, out, SALT_DY, kind);
    for (int k = 0; k < RESULTS; k++) r.result[k] = new_array(d, counts[k], SALT_CHECK, PLAIN);
    if (!c->bias) r.b.at = r.result[POOLED_DB].at = GS_NONE;
    if (!has_dx) r.result[POOLED_DX].at = GS_NONE;
    return r;
}

static void as_one(const run *r) {
    const gs_backend *ops = r->device->ops;
    const array *to = r->result;
    const gs_epilogue then = {
        .relu = true, .pool = &r->pool, .index = to[POOLED_INDEX].at, .y = to[POOLED_Y].at};
    assert_ok(
        ops->conv2d_forward(r->device, to[POOLED_Y].at, r->x.at, r->w.at, r->b.at, r->n, &r->conv, &then));
    assert_ok(ops->conv2d_backward(r->device, to[POOLED_DX].at, to[POOLED_DW].at, to[POOLED_DB].at, r->dy.at,
                                   r->x.at, r->w.at, r->n, &r->conv, r->add, &then));
}

static void as_three(const run *r) {
    gs_device *d = r->device;
    const gs_backend *ops = d->ops;
    const array *to = r->result;
    const size_t full = 4 * r->dy.count;
    array y = new_array(d, full, SALT_CHECK, PLAIN), dy = new_array(d, full, SALT_CHECK, PLAIN);
    assert_ok(ops->conv2d_forward(d, y.at, r->x.at, r->w.at, r->b.at, r->n, &r->conv, NULL));
    assert_ok(ops->relu_forward(d, y.at, y.at, full));
    assert_ok(ops->max_pool2d_forward(d, to[POOLED_Y].at, to[POOLED_INDEX].at, y.at, r->n, &r->pool));
    assert_ok(ops->max_pool2d_backward(d, dy.at, r->dy.at, to[POOLED_INDEX].at, r->n, &r->pool));
    assert_ok(ops->relu_backward(d, dy.at, dy.at, y.at, full));
    assert_ok(ops->conv2d_backward(d, to[POOLED_DX].at, to[POOLED_DW].at, to[POOLED_DB].at, dy.at, r->x.at,
                                   r->w.at, r->n, &r->conv, r->add, NULL));
}

static void compare(gs_device *d, const sizes *c, values kind, bool add, bool has_dx) {
    run one = run_open(d, c, kind, add, has_dx), three = run_open(d, c, kind, add, has_dx);
    as_one(&one);
    as_three(&three);
    for (int k = 0; k < RESULTS; k++) {
        float *got = read_array(d, &one.result[k]), *want = read_array(d, &three.result[k]);
        const size_t count = one.result[k].count, all = count + (size_t)(2 * GUARD);
        for (size_t i = 0; i < all; i++)
            if (memcmp(&got[i], &want[i], sizeof *got) != 0)
                fail_msg("%s: n %d, (%d,%d,%d) to %d, values %d, add %d: %s[%td of %zu] is %.9g, wanted %.9g",
                         d->name, c->n, c->in_c, c->in_h, c->in_w, c->out_c, (int)kind, (int)add,
                         result_names[k], (ptrdiff_t)i - GUARD, count, (double)got[i], (double)want[i]);
        if (k == POOLED_Y && kind == NEGATIVE && c->bias) /* in every window, all values were zeros */
            for (size_t i = 0; i < count; i++) assert_true(got[GUARD + i] == 0);
    }
}

static bool can_fuse(gs_device *d) {
    return strcmp(d->ops->name, "cpu") == 0 || !gs_cl_of(d)->tiles.gpu;
}

TEST(one_operator_is_three) {
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof all_sizes / sizeof *all_sizes; i++) {
            const sizes *c = &all_sizes[i];
            if (!can_fuse(d) || (gs_test_small() && !c->small)) continue;
            for (int kind = 0; kind < VALUES; kind++) {
                compare(d, c, kind, false, true);
                if (kind == PLAIN) compare(d, c, kind, true, false);
            }
        }
}

/* ---- the layers ---- */

enum { SAMPLES = 3 };

/* A planned and bound network with weights; each micro-batch adds to its gradients. */
typedef struct network {
    gs_device *device;
    gs_layer *net;
    size_t params;
    array x, dy, weights, gradients;
} network;

static network network_open(gs_device *d, const char *text, gs_shape in) {
    network t = {.device = d};
    t.net = gs_test_net(text);
    assert_ok(gs_layer_plan(t.net, in, &t.params));
    t.x = new_array(d, SAMPLES * gs_shape_size(in), SALT_X, PLAIN);
    t.dy = new_array(d, SAMPLES * gs_shape_size(t.net->out), SALT_DY, PLAIN);
    t.weights = new_array(d, t.params, SALT_W, PLAIN);
    t.gradients = new_array(d, t.params, SALT_CHECK, PLAIN);
    assert_ok(gs_layer_bind(t.net, d, t.weights.at, t.gradients.at, SAMPLES, false));
    return t;
}

/* Whether the convolution includes the pooling after its relu. */
static bool is_pooled(const gs_layer *conv) {
    return conv->epilogue.pool;
}

/* Imitates a backend that does not fuse pooling. */
static bool fuses_relu(gs_device *d, const gs_epilogue *then) {
    (void)d;
    return !then->pool;
}

/* The gradients after two micro-batches; free them. */
static float *gradients_of(gs_device *d, const char *text, gs_shape in, bool fused) {
    network t = network_open(d, text, in);
    assert_true(is_pooled(t.net->child[0]) == fused);
    for (int batch = 0; batch < 2; batch++) {
        gs_pass pass = {.n = (size_t)(SAMPLES - batch), .training = true, .fresh = batch == 0, .seed = 5};
        gs_mem y, dx;
        assert_ok(gs_layer_forward(t.net, &pass, t.x.at, &y));
        assert_ok(gs_layer_backward(t.net, &pass, t.dy.at, &dx));
    }
    float *gradients = read_array(d, &t.gradients);
    return gradients;
}

/* The layer after a pooling may overwrite the pooling's y, or reuse the buffer of its dy. */
TEST(networks_learn_the_same) {
    static const char *const texts[] = {
        ("conv 3 3x3 pad 1, relu, max_pool 2, sigmoid, conv 4 3x3 pad 1, relu, max_pool 3x2, "
         "flatten, linear 5"),
        "conv 3 3x3 pad 1, relu, max_pool 2, dropout 0.5, conv 4 3x3 pad 1, relu, max_pool 2 stride 2, tanh",
        "conv 3 3x3 pad 1, relu, max_pool 2, residual (conv 3 3x3 pad 1, relu), relu, flatten, linear 5",
        ("conv 3 3x3 pad 1, relu, max_pool 2, conv 3 3x3 pad 1, residual (conv 3 3x3 pad 1, relu, max_pool "
         "2 | avg_pool 2), flatten, linear 5"),
    };
    const gs_shape in = {2, 12, 20, 0};
    FOR_EACH_DEVICE (d) {
        const gs_backend *ops = d->ops;
        if (!can_fuse(d)) continue;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            gs_backend apart = *ops;
            apart.fuses = fuses_relu;
            float *got = gradients_of(d, texts[i], in, true);
            d->ops = &apart;
            float *want = gradients_of(d, texts[i], in, false);
            d->ops = ops;
            size_t params, different = 0;
            gs_layer *net = gs_test_net(texts[i]);
            assert_ok(gs_layer_plan(net, in, &params));
            for (size_t p = 0; p < params; p++) different += got[GUARD + p] != want[GUARD + p];
            if (different > 0) fail_msg("\"%s\": %zu of %zu gradients differ", texts[i], different, params);
        }
    }
}

TEST(lenet_is_fused) {
    FOR_EACH_DEVICE (d) {
        network t = network_open(d, gs_model_named("lenet")->text, (gs_shape){1, 28, 28, 0});
        for (int i = 0; i < 6; i += 3) {
            gs_layer *const *l = t.net->child + i;
            if (!can_fuse(d)) {
                assert_false(is_pooled(l[0]) || l[2]->fused);
                continue;
            }
            assert_true(is_pooled(l[0]) && l[1]->fused && l[2]->fused);
            assert_int_equal(gs_shape_size(gs_layer_y_shape(l[0])), gs_shape_size(l[2]->out));
            assert_true(l[1]->bytes == 0 && l[2]->bytes == 0); /* no layer needs these buffers */
        }
    }
}

TEST(other_poolings_are_not) {
    static const char *const texts[] = {
        "conv 2 3x3 pad 1, relu, max_pool 3",          "conv 2 3x3 pad 1, relu, max_pool 2 stride 1",
        "conv 2 3x3 pad 1, relu, max_pool 2 pad 1",    "conv 2 2x3, relu, max_pool 2",
        "conv 2 3x2 pad 1x0, relu, max_pool 2",        "conv 2 3x3 pad 1, relu, max_pool 2x1",
        "conv 2 3x3 pad 1, tanh, max_pool 2",          "conv 2 3x3 pad 1, max_pool 2, relu",
        "conv 2 3x3 pad 1, relu, relu, max_pool 2",    "conv 2 3x3 pad 1, relu, avg_pool 2",
        "conv 2 3x3 pad 1, relu, max_pool 2 stride 4", "conv 2 3x3 pad 1, relu",
    };
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            network t = network_open(d, texts[i], (gs_shape){1, 12, 12, 0});
            if (is_pooled(t.net->child[0])) fail_msg("\"%s\" was fused", texts[i]);
        }
}
