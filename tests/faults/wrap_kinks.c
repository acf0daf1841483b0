/* Mistakes in backward of relu and max_pool2d. At their kinks rounding decides, so without --exact even correct runs
 * may differ this much. */
#include <stdlib.h>

#include "tests/faults/wraps.h"

static const gs_backend *real;

/* ---- relu ---- */

/* RELU_MASK: one of this many elements is wrong. */
enum { OF = 100 };

static gs_status relu(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    float *kept = NULL; /* dx may overwrite dy */
    const bool needs_dy = is_on(RELU_MASK) || is_on(RELU_AT_ZERO) || is_on_rank_1(RELU_STALE);
    if (needs_dy) {
        kept = malloc(count * sizeof *kept);
        if (!kept) return gs_fail(GS_E_MEMORY, "no memory for dy");
        memcpy(kept, fault_floats(dy), count * sizeof *kept);
    }
    gs_status status = real->relu_backward(d, dx, dy, y, count);
    float *to = fault_floats(dx), *of = fault_floats(y);
    for (size_t i = 0; i < count && status == GS_OK; i++) {
        if (is_on(RELU_MASK) && i % OF == 0) to[i] = kept[i] > 0 ? kept[i] : 0;
        if (is_on(RELU_AT_ZERO) && of[i] >= 0) to[i] = kept[i];
        if (is_on_rank_1(RELU_STALE)) to[i] = of[(i + count / 2) % count] > 0 ? kept[i] : 0;
        if (is_on(RELU_SCALED)) to[i] *= 1.001F;
    }
    free(kept);
    return status;
}

/* ---- max_pool2d ---- */

static _Thread_local const float *pooled; /* the x of the net's only pooling */

static gs_status pool_forward(gs_device *d, gs_mem y, gs_mem index, gs_mem x, size_t n,
                              const gs_pool2d_sizes *s) {
    pooled = fault_floats(x);
    return real->max_pool2d_forward(d, y, index, x, n, s);
}

/* For adjacent windows of 2x2. */
static void give_to_equals(float *dx, const float *x, float dy, int32_t taken, const gs_pool2d_sizes *s,
                           int row, int column) {
    for (int u = 0; u < 2; u++)
        for (int v = 0; v < 2; v++) {
            const int32_t at = (2 * row + u) * s->in_w + 2 * column + v;
            if (at != taken && !(x[at] < x[taken])) dx[at] += dy;
        }
}

static gs_status pool_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                               const gs_pool2d_sizes *s) {
    GS_TRY(real->max_pool2d_backward(d, dx, dy, index, n, s));
    const size_t in = (size_t)s->in_h * (size_t)s->in_w, out = (size_t)s->out_h * (size_t)s->out_w;
    const float *of = fault_floats(dy);
    const int32_t *taken = (const int32_t *)(const void *)fault_floats(index);
    for (size_t i = 0; i < n * (size_t)s->c * out && is_on(POOL_EQUALS); i++)
        give_to_equals(fault_floats(dx) + i / out * in, pooled + i / out * in, of[i], taken[i], s,
                       (int)(i % out) / s->out_w, (int)(i % out) % s->out_w);
    return GS_OK;
}

void fault_kinks(gs_backend *ops, const gs_backend *of) {
    real = of;
    ops->relu_backward = relu;
    ops->max_pool2d_forward = pool_forward;
    ops->max_pool2d_backward = pool_backward;
}
