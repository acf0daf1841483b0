/* The table of operators with cases: their tensors, forward and backward. */
#include "tests/support/operators.h"

#include "tests/support/test.h"

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

/* The same operator as conv2d, with other sizes and its own golden files. */
static gs_conv2d_sizes conv2d_groups_sizes(const int *a) {
    gs_conv2d_sizes s = conv2d_sizes(a);
    s.groups = a[11], s.dilation_h = a[12], s.dilation_w = a[13];
    s.out_h = out_size(a[2], a[12] * (a[5] - 1) + 1, a[7], a[9]);
    s.out_w = out_size(a[3], a[13] * (a[6] - 1) + 1, a[8], a[10]);
    return s;
}

static void conv2d_groups_counts(const int *a, size_t *count) {
    gs_conv2d_sizes s = conv2d_groups_sizes(a);
    image_counts(count, (size_t)(a[0] * s.in_c * s.in_h * s.in_w),
                 (size_t)(a[0] * s.out_c * s.out_h * s.out_w));
    count[W] = count[DW] = (size_t)(s.out_c * (s.in_c / s.groups) * s.kernel_h * s.kernel_w);
    count[B] = count[DB] = a[14] ? (size_t)s.out_c : 0;
}

static int conv2d_groups_summands(const int *a, tensor output) {
    gs_conv2d_sizes s = conv2d_groups_sizes(a);
    if (output == Y) return s.in_c / s.groups * s.kernel_h * s.kernel_w + 1;
    return output == DX ? s.out_c / s.groups * s.kernel_h * s.kernel_w : a[0] * s.out_h * s.out_w;
}

static gs_status conv2d_groups_forward(const instance *t) {
    gs_conv2d_sizes s = conv2d_groups_sizes(t->c->arg);
    const gs_mem *p = t->place;
    return t->device->ops->conv2d_forward(t->device, p[Y], p[X], p[W], p[B], (size_t)t->c->arg[0], &s, NULL);
}

static gs_status conv2d_groups_backward(const instance *t) {
    gs_conv2d_sizes s = conv2d_groups_sizes(t->c->arg);
    const gs_mem *p = t->place;
    return t->device->ops->conv2d_backward(t->device, p[DX], p[DW], p[DB], p[DY], p[X], p[W],
                                           (size_t)t->c->arg[0], &s, t->add, NULL);
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
    return a[4] * a[5]; /* a window; an upper bound for max_pool2d's backward */
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

/* Statistics (those of x, or for evaluation some that do not depend on x), and backward's sums. */
typedef struct norm_test {
    gs_batch_norm_sizes sizes;
    gs_mem all, mean, var, sums;
} norm_test;

static gs_status batch_norm_open(const instance *t, norm_test *k) {
    const int *a = t->c->arg;
    const gs_backend *ops = t->device->ops;
    const size_t c = (size_t)a[1], n = (size_t)a[0];
    k->sizes = (gs_batch_norm_sizes){.c = a[1], .plane = a[2], .eps = 1e-5f, .momentum = 0.1f};
    assert_ok(ops->alloc(t->device, 4 * c * sizeof(float), &k->all));
    k->mean = gs_at(k->all, 0), k->var = gs_at(k->all, c), k->sums = gs_at(k->all, 2 * c);
    if (a[3]) return ops->batch_norm_statistics(t->device, k->mean, k->var, t->place[X], n, &k->sizes);
    float *given = gs_test_malloc(2 * c * sizeof *given);
    for (size_t i = 0; i < c; i++) given[i] = test_value(i, SALT_MEAN);
    for (size_t i = 0; i < c; i++) given[c + i] = 1.25f + test_value(i, SALT_VAR);
    gs_status status = ops->write(t->device, k->all, given, 2 * c * sizeof *given);
    return status;
}

static void batch_norm_counts(const int *a, size_t *count) {
    image_counts(count, (size_t)(a[0] * a[1] * a[2]), (size_t)(a[0] * a[1] * a[2]));
    count[W] = count[DW] = count[B] = count[DB] = (size_t)a[1];
}

static int batch_norm_summands(const int *a, tensor output) {
    (void)output;
    return a[0] * a[2] + 1; /* statistics, dw and db; backward uses their means */
}

static gs_status batch_norm_forward(const instance *t) {
    const gs_mem *p = t->place;
    norm_test k;
    gs_status status = batch_norm_open(t, &k);
    if (status == GS_OK)
        status = t->device->ops->batch_norm_forward(t->device, p[Y], p[X], p[W], p[B], k.mean, k.var,
                                                    (size_t)t->c->arg[0], &k.sizes);
    t->device->ops->free(t->device, k.all);
    return status;
}

static gs_status batch_norm_backward(const instance *t) {
    const gs_mem *p = t->place, x = instance_kept(t, X);
    const gs_backend *ops = t->device->ops;
    const size_t n = (size_t)t->c->arg[0];
    const float m = (float)(t->c->arg[0] * t->c->arg[2]);
    norm_test k;
    gs_status status = batch_norm_open(t, &k);
    if (status == GS_OK)
        status = ops->batch_norm_sums(t->device, k.sums, p[DW], p[DB], p[DY], x, k.mean, k.var, n, &k.sizes,
                                      t->add);
    if (status == GS_OK && p[DX].base)
        status = ops->batch_norm_backward(t->device, p[DX], p[DY], x, p[W], k.mean, k.var,
                                          t->c->arg[3] ? k.sums : GS_NONE, m, n, &k.sizes);
    ops->free(t->device, k.all);
    return status;
}

static void element_counts(const int *a, size_t *count) {
    image_counts(count, (size_t)a[0], (size_t)a[0]);
}

static int one_summand(const int *a, tensor output) {
    (void)a, (void)output;
    return 1;
}

/* Arguments of backward: what it reads besides dy, and the operator's parameter if there is one. */
#define TENSOR_x X
#define TENSOR_y Y
#define RUN_BOTH(forward, backward, reads, ...)                                                              \
    static gs_status forward(const instance *t) {                                                            \
        return t->device->ops->forward(t->device, t->place[Y], t->place[X], t->count[X] __VA_ARGS__);        \
    }                                                                                                        \
    static gs_status backward(const instance *t) {                                                           \
        return t->device->ops->backward(t->device, t->place[DX], t->place[DY],                               \
                                        instance_kept(t, TENSOR_##reads), t->count[X] __VA_ARGS__);          \
    }
#define RUN(of, name, forward, backward, reads, ...) RUN_BOTH(forward, backward, reads, )
#define RUN_WITH(of, name, forward, backward, reads, number, ...)                                            \
    RUN_BOTH(forward, backward, reads, , (float)t->c->arg[1])
GS_ELEMENT_WISE(RUN, RUN_WITH, )

static void softmax_cross_entropy_counts(const int *a, size_t *count) {
    count[X] = count[DX] = count[Y] = (size_t)(a[0] * a[1]);
    count[LABELS] = (size_t)a[0];
    count[STATS] = LOSS_STATS;
}

static int loss_summands(const int *a, tensor output) {
    return output == STATS ? a[0] + a[1] : a[1]; /* a sample's loss is a sum over its classes */
}

static float smoothing_of(const instance *t) {
    return (float)t->c->arg[2] / 100;
}

static gs_status softmax_cross_entropy_forward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->softmax_cross_entropy_forward(t->device, p[Y], p[STATS], p[X], p[LABELS],
                                                         (size_t)t->c->arg[0], t->c->arg[1], smoothing_of(t));
}

static gs_status softmax_cross_entropy_backward(const instance *t) {
    const gs_mem *p = t->place;
    return t->device->ops->softmax_cross_entropy_backward(
        t->device, p[DX], p[Y], p[LABELS], (size_t)t->c->arg[0], t->c->arg[1], smoothing_of(t));
}

/* The target is called w here; no test asks for its gradient. */
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

/* Linear operators are differentiated with a step of 1, which is exact up to rounding; see test_operators.c. */
#define ROW_OF(args, name, forward, backward, reads)                                                         \
    {name,      args, element_counts, forward,     backward,           AWAY_FROM_0,                          \
     1 / 32.0f, true, false,          one_summand, TENSOR_##reads == X},
#define ROW(of, name, forward, backward, reads, ...) ROW_OF(1, #name, forward, backward, reads)
#define ROW_WITH(of, name, forward, backward, reads, number, ...) ROW_OF(2, #name, forward, backward, reads)
static const operator_test operators[] = {
    {"linear", 4, linear_counts, linear_forward, linear_backward, ANYWHERE, 1, false, false, linear_summands,
     false},
    {"conv2d", 12, conv2d_counts, conv2d_forward, conv2d_backward, ANYWHERE, 1, false, false, conv2d_summands,
     false},
    {"conv2d_groups", 15, conv2d_groups_counts, conv2d_groups_forward, conv2d_groups_backward, ANYWHERE, 1,
     false, false, conv2d_groups_summands, false},
    {"max_pool2d", 10, max_pool2d_counts, max_pool2d_forward, max_pool2d_backward, DISTINCT, 1 / 512.0f,
     false, false, pool2d_summands, false},
    {"avg_pool2d", 10, avg_pool2d_counts, avg_pool2d_forward, avg_pool2d_backward, ANYWHERE, 1, false, false,
     pool2d_summands, false},
    {"batch_norm", 4, batch_norm_counts, batch_norm_forward, batch_norm_backward, WIDE, 1 / 4.0f, false,
     false, batch_norm_summands, false},
    /* clang-format off */
    GS_ELEMENT_WISE(ROW, ROW_WITH, )
    /* clang-format on */
    {"softmax_cross_entropy", 3, softmax_cross_entropy_counts, softmax_cross_entropy_forward,
     softmax_cross_entropy_backward, WIDE, 1 / 16.0f, false, true, loss_summands, false},
    {"mean_squared_error", 2, mean_squared_error_counts, mean_squared_error_forward,
     mean_squared_error_backward, ANYWHERE, 4, false, true, loss_summands, false},
    {"sgd_update", 5, NULL, NULL, NULL, ANYWHERE, 0, false, false, NULL, false}, /* has a separate test */
};

const operator_test *operator_of_name(const char *name) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(operators[i].name, name) == 0) return &operators[i];
    for (const operator_test *op = sequence_operators; op->name; op++)
        if (strcmp(op->name, name) == 0) return op;
    gs_bug("operator_cases.h names '%s'", name);
}
