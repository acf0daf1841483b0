#include "tests/operators.h"

#include <math.h>
#include "tests/devices.h"
#include "tests/test.h"

static const operator_case all_cases[] = {
#define SMALL(op, ...) {#op, true, {__VA_ARGS__}},
#define CASE(op, ...) {#op, false, {__VA_ARGS__}},
#include "tests/operator_cases.h"
#undef SMALL
#undef CASE
};

const char *const tensor_names[TENSORS] = {"x",     "w",     "b",  "labels", "dy", "y",
                                           "index", "stats", "dx", "dw",     "db"};

/* ---- the operators ---- */

static void image_counts(size_t *count, size_t in, size_t out) {
    count[X] = count[DX] = in;
    count[Y] = count[DY] = out;
}

static void linear_counts(const int *a, size_t *count) {
    size_t n = (size_t)a[0], in = (size_t)a[1], out = (size_t)a[2];
    image_counts(count, n * in, n * out);
    count[W] = count[DW] = out * in;
    count[B] = count[DB] = a[3] ? out : 0;
}

static int linear_summands(const int *a, tensor output) {
    return output == Y ? a[1] + 1 : output == DX ? a[2] : a[0];
}

static gs_status linear_forward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    const gs_epilogue relu = {.relu = true};
    return t->device->ops->linear_forward(t->device, p[Y], p[X], p[W], p[B], (size_t)a[0], a[1], a[2],
                                          t->relu ? &relu : NULL);
}

static gs_status linear_backward(const instance *t) {
    const int *a = t->c->arg;
    const gs_mem *p = t->place;
    const gs_epilogue relu = {.relu = true, .y = p[Y]};
    return t->device->ops->linear_backward(t->device, p[DX], p[DW], p[DB], p[DY], p[X], p[W], (size_t)a[0],
                                           a[1], a[2], t->add, t->relu ? &relu : NULL);
}

static int out_size(int in, int kernel, int stride, int pad) {
    return (in + 2 * pad - kernel) / stride + 1;
}

static gs_conv2d_sizes conv2d_sizes(const int *a) {
    return (gs_conv2d_sizes){
        .in_c = a[1],
        .in_h = a[2],
        .in_w = a[3],
        .out_c = a[4],
        .out_h = out_size(a[2], a[5], a[7], a[9]),
        .out_w = out_size(a[3], a[6], a[8], a[10]),
        .kernel_h = a[5],
        .kernel_w = a[6],
        .stride_h = a[7],
        .stride_w = a[8],
        .pad_h = a[9],
        .pad_w = a[10],
    };
}

static void conv2d_counts(const int *a, size_t *count) {
    gs_conv2d_sizes s = conv2d_sizes(a);
    image_counts(count, (size_t)(a[0] * s.in_c * s.in_h * s.in_w),
                 (size_t)(a[0] * s.out_c * s.out_h * s.out_w));
    count[W] = count[DW] = (size_t)(s.out_c * s.in_c * s.kernel_h * s.kernel_w);
    count[B] = count[DB] = a[11] ? (size_t)s.out_c : 0;
}

static int conv2d_summands(const int *a, tensor output) {
    gs_conv2d_sizes s = conv2d_sizes(a);
    if (output == Y) return s.in_c * s.kernel_h * s.kernel_w + 1;
    return output == DX ? s.out_c * s.kernel_h * s.kernel_w : a[0] * s.out_h * s.out_w;
}

static gs_status conv2d_forward(const instance *t) {
    gs_conv2d_sizes s = conv2d_sizes(t->c->arg);
    const gs_mem *p = t->place;
    const gs_epilogue relu = {.relu = true};
    return t->device->ops->conv2d_forward(t->device, p[Y], p[X], p[W], p[B], (size_t)t->c->arg[0], &s,
                                          t->relu ? &relu : NULL);
}

static gs_status conv2d_backward(const instance *t) {
    gs_conv2d_sizes s = conv2d_sizes(t->c->arg);
    const gs_mem *p = t->place;
    const gs_epilogue relu = {.relu = true, .y = p[Y]};
    return t->device->ops->conv2d_backward(t->device, p[DX], p[DW], p[DB], p[DY], p[X], p[W],
                                           (size_t)t->c->arg[0], &s, t->add, t->relu ? &relu : NULL);
}

static gs_pool2d_sizes pool2d_sizes(const int *a) {
    return (gs_pool2d_sizes){
        .c = a[1],
        .in_h = a[2],
        .in_w = a[3],
        .out_h = out_size(a[2], a[4], a[6], a[8]),
        .out_w = out_size(a[3], a[5], a[7], a[9]),
        .kernel_h = a[4],
        .kernel_w = a[5],
        .stride_h = a[6],
        .stride_w = a[7],
        .pad_h = a[8],
        .pad_w = a[9],
    };
}

static void avg_pool2d_counts(const int *a, size_t *count) {
    gs_pool2d_sizes s = pool2d_sizes(a);
    image_counts(count, (size_t)(a[0] * s.c * s.in_h * s.in_w), (size_t)(a[0] * s.c * s.out_h * s.out_w));
}

static void max_pool2d_counts(const int *a, size_t *count) {
    avg_pool2d_counts(a, count);
    count[INDEX] = count[Y];
}

static int pool2d_summands(const int *a, tensor output) {
    (void)output;
    return a[4] * a[5]; /* a window; in backward of max_pool2d at most */
}

static gs_status max_pool2d_forward(const instance *t) {
    gs_pool2d_sizes s = pool2d_sizes(t->c->arg);
    const gs_mem *p = t->place;
    return t->device->ops->max_pool2d_forward(t->device, p[Y], p[INDEX], p[X], (size_t)t->c->arg[0], &s);
}

static gs_status max_pool2d_backward(const instance *t) {
    gs_pool2d_sizes s = pool2d_sizes(t->c->arg);
    const gs_mem *p = t->place;
    return t->device->ops->max_pool2d_backward(t->device, p[DX], p[DY], p[INDEX], (size_t)t->c->arg[0], &s);
}

static gs_status avg_pool2d_forward(const instance *t) {
    gs_pool2d_sizes s = pool2d_sizes(t->c->arg);
    return t->device->ops->avg_pool2d_forward(t->device, t->place[Y], t->place[X], (size_t)t->c->arg[0], &s);
}

static gs_status avg_pool2d_backward(const instance *t) {
    gs_pool2d_sizes s = pool2d_sizes(t->c->arg);
    return t->device->ops->avg_pool2d_backward(t->device, t->place[DX], t->place[DY], (size_t)t->c->arg[0],
                                               &s);
}

static void element_counts(const int *a, size_t *count) {
    image_counts(count, (size_t)a[0], (size_t)a[0]);
}

static int one_summand(const int *a, tensor output) {
    (void)a, (void)output;
    return 1;
}

#define ACTIVATION(name)                                                                                     \
    static gs_status name##_forward(const instance *t) {                                                     \
        return t->device->ops->name##_forward(t->device, t->place[Y], t->place[X], t->count[X]);             \
    }                                                                                                        \
    static gs_status name##_backward(const instance *t) {                                                    \
        return t->device->ops->name##_backward(t->device, t->place[DX], t->place[DY], t->place[Y],           \
                                               t->count[X]);                                                 \
    }
ACTIVATION(relu)
ACTIVATION(tanh)
ACTIVATION(sigmoid)

static void softmax_cross_entropy_counts(const int *a, size_t *count) {
    count[X] = count[DX] = count[Y] = (size_t)(a[0] * a[1]);
    count[LABELS] = (size_t)a[0];
    count[STATS] = LOSS_STATS;
}

static int loss_summands(const int *a, tensor output) {
    return output == STATS ? a[0] + a[1] : a[1]; /* the loss of a sample is a sum over its classes */
}

static gs_status softmax_cross_entropy_forward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->softmax_cross_entropy_forward(t->device, p[Y], p[STATS], p[X], p[LABELS],
                                                         (size_t)t->c->arg[0], t->c->arg[1]);
}

static gs_status softmax_cross_entropy_backward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->softmax_cross_entropy_backward(t->device, p[DX], p[Y], p[LABELS],
                                                          (size_t)t->c->arg[0], t->c->arg[1]);
}

/* The target is called w here; nothing asks for its gradient. */
static void mean_squared_error_counts(const int *a, size_t *count) {
    count[X] = count[DX] = count[W] = (size_t)(a[0] * a[1]);
    count[STATS] = LOSS_STATS;
}

static gs_status mean_squared_error_forward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->mean_squared_error_forward(t->device, p[STATS], p[X], p[W], (size_t)t->c->arg[0],
                                                      t->c->arg[1]);
}

static gs_status mean_squared_error_backward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->mean_squared_error_backward(t->device, p[DX], p[X], p[W], (size_t)t->c->arg[0],
                                                       t->c->arg[1]);
}

/* Linear operators are differentiated with a step of 1, which is exact but for rounding; see
 * test_operators.c. */
static const operator_test operators[] = {
    {"linear", 4, linear_counts, linear_forward, linear_backward, ANYWHERE, 1, false, false, linear_summands},
    {"conv2d", 12, conv2d_counts, conv2d_forward, conv2d_backward, ANYWHERE, 1, false, false,
     conv2d_summands},
    {"max_pool2d", 10, max_pool2d_counts, max_pool2d_forward, max_pool2d_backward, DISTINCT, 1 / 512.0f,
     false, false, pool2d_summands},
    {"avg_pool2d", 10, avg_pool2d_counts, avg_pool2d_forward, avg_pool2d_backward, ANYWHERE, 1, false, false,
     pool2d_summands},
    {"relu", 1, element_counts, relu_forward, relu_backward, AWAY_FROM_0, 1 / 16.0f, true, false,
     one_summand},
    {"tanh", 1, element_counts, tanh_forward, tanh_backward, WIDE, 1 / 32.0f, true, false, one_summand},
    {"sigmoid", 1, element_counts, sigmoid_forward, sigmoid_backward, WIDE, 1 / 16.0f, true, false,
     one_summand},
    {"softmax_cross_entropy", 2, softmax_cross_entropy_counts, softmax_cross_entropy_forward,
     softmax_cross_entropy_backward, WIDE, 1 / 16.0f, false, true, loss_summands},
    {"mean_squared_error", 2, mean_squared_error_counts, mean_squared_error_forward,
     mean_squared_error_backward, ANYWHERE, 4, false, true, loss_summands},
    {"sgd_update", 5, NULL, NULL, NULL, ANYWHERE, 0, false, false, NULL}, /* has a test of its own */
};

/* ---- cases ---- */

static const operator_test *find_operator(const char *name) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(operators[i].name, name) == 0) return &operators[i];
    gs_bug("operator_cases.h names '%s'", name);
}

const char *operator_of_case(size_t i) {
    return i < sizeof all_cases / sizeof *all_cases ? all_cases[i].op : NULL;
}

const operator_case *next_case(const char *op, const operator_case *c) {
    const operator_case *end = all_cases + sizeof all_cases / sizeof *all_cases;
    for (c = c ? c + 1 : all_cases; c < end; c++)
        if (strcmp(c->op, op) == 0 && (c->small || !gs_test_small())) return c;
    return NULL;
}

const char *operator_case_name(const operator_case *c) {
    static char name[128];
    int used = snprintf(name, sizeof name, "%s", c->op);
    for (int i = 0; i < find_operator(c->op)->args; i++)
        used += snprintf(name + used, sizeof name - (size_t)used, " %d", c->arg[i]);
    return name;
}

/* ---- inputs ---- */

uint32_t test_hash(size_t i, uint32_t salt) {
    uint32_t h = (uint32_t)i * 2654435761u + salt * 0x9E3779B9u;
    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return h ^ (h >> 16);
}

float test_value(size_t i, uint32_t salt) {
    return ((float)(test_hash(i, salt) >> 16) - 32768.0f) / 32768.0f;
}

static float x_value(const instance *t, size_t i) {
    float v = test_value(i, SALT_X);
    int64_t count = (int64_t)t->count[X];
    switch (t->op->x) {
    case WIDE:
        return 4 * v;
    case AWAY_FROM_0:
        return v < 0 ? v - 0.25f : v + 0.25f;
    case DISTINCT: /* no two closer than 1/64: a permutation, since 7919 is prime */
        return (float)(((int64_t)i * 7919 + 13) % count - count / 2) / 64.0f;
    default:
        return v;
    }
}

static void set_inputs(instance *t) {
    uint32_t w_salt = strcmp(t->op->name, "mean_squared_error") == 0 ? SALT_TARGET : SALT_W;
    for (size_t i = 0; i < t->count[X]; i++) t->host[X][i] = x_value(t, i);
    for (size_t i = 0; i < t->count[W]; i++) t->host[W][i] = test_value(i, w_salt);
    for (size_t i = 0; i < t->count[B]; i++) t->host[B][i] = test_value(i, SALT_B);
    for (size_t i = 0; i < t->count[DY]; i++) t->host[DY][i] = test_value(i, SALT_DY);
    for (size_t i = 0; i < t->count[LABELS]; i++)
        ((int32_t *)t->host[LABELS])[i] = (int32_t)(test_hash(i, SALT_LABELS) % (uint32_t)t->c->arg[1]);
}

/* ---- instances ---- */

static const float guard = 12345.0f;

/* The tensor's values with guards before and after them, in one piece: after a write into the middle of a buffer
 * Oclgrind 21.10 takes another part of it for initialised. */
static void write_guarded(instance *t, tensor which) {
    size_t total = t->count[which] + 2 * t->offset;
    float *all = malloc(total * sizeof(float) + 1);
    assert_non_null(all);
    for (size_t i = 0; i < total; i++) all[i] = guard;
    memcpy(all + t->offset, t->host[which], t->count[which] * sizeof(float));
    assert_ok(t->device->ops->write(t->device, t->base[which], all, total * sizeof(float)));
    free(all);
}

void instance_open(instance *t, gs_device *device, const operator_case *c, size_t offset) {
    *t = (instance){.op = find_operator(c->op), .c = c, .device = device, .offset = offset};
    t->op->counts(c->arg, t->count);
    for (int i = 0; i < TENSORS; i++) {
        t->host[i] = calloc(t->count[i] + 1, sizeof(float));
        assert_non_null(t->host[i]);
    }
    set_inputs(t);
    for (int i = 0; i < TENSORS; i++) {
        size_t total = t->count[i] + 2 * offset;
        assert_ok(device->ops->alloc(device, total * sizeof(float), &t->base[i]));
        t->place[i] = gs_at(t->base[i], offset);
        bool garbage = i != STATS; /* to be written, not read or added to: NaN would show */
        if (i < INPUTS) {
            write_guarded(t, (tensor)i);
        } else {
            assert_ok(device->ops->fill(device, t->base[i], guard, total));
            assert_ok(device->ops->fill(device, t->place[i], garbage ? NAN : 0, t->count[i]));
        }
    }
    if (t->count[B] == 0) t->place[B] = t->place[DB] = GS_NONE;
}

void instance_close(instance *t) {
    for (int i = 0; i < TENSORS; i++) {
        t->device->ops->free(t->device, t->base[i]);
        free(t->host[i]);
    }
}

void instance_forward(const instance *t) {
    if (t->op->forward(t) != GS_OK)
        fail_msg("%s on %s: %s", operator_case_name(t->c), t->device->name, gs_message());
}

void instance_backward(const instance *t) {
    if (t->op->backward(t) != GS_OK)
        fail_msg("%s on %s: backward: %s", operator_case_name(t->c), t->device->name, gs_message());
}

void instance_read(instance *t, tensor which) {
    const gs_backend *ops = t->device->ops;
    size_t total = t->count[which] + 2 * t->offset;
    float *all = malloc((total + 1) * sizeof *all);
    assert_non_null(all);
    assert_ok(ops->read(t->device, all, t->base[which], total * sizeof(float)));
    for (size_t i = 0; i < t->offset; i++)
        if (all[i] != guard || all[total - 1 - i] != guard)
            fail_msg("%s on %s: something was written %zu elements %s %s", operator_case_name(t->c),
                     t->device->name, t->offset - i, all[i] != guard ? "before" : "after",
                     tensor_names[which]);
    memcpy(t->host[which], all + t->offset, t->count[which] * sizeof(float));
    free(all);
}

void instance_poke(instance *t, tensor which, size_t i, float value) {
    t->host[which][i] = value;
    assert_ok(t->device->ops->write(t->device, gs_at(t->place[which], i), &t->host[which][i], sizeof(float)));
}
