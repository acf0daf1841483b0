#include "cpu/optimizer.h"

/* One pass over the three arrays: the update is bound by memory, so nothing is read or written twice. */
typedef struct gs_sgd_work {
    float *w, *v;
    const float *dw;
    size_t count;
    int parts;
    float scale, lr, momentum, weight_decay;
} gs_sgd_work;

static void update_part(void *context, int part) {
    const gs_sgd_work t = *(const gs_sgd_work *)context;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict w = t.w, *restrict v = t.v;
    const float *restrict dw = t.dw;
    if (t.momentum != 0.0f)
        for (size_t i = r.begin; i < r.end; i++) {
            v[i] = or_zero(t.momentum * v[i] + (t.scale * dw[i] + t.weight_decay * w[i]));
            w[i] -= t.lr * v[i];
        }
    else
        for (size_t i = r.begin; i < r.end; i++) w[i] -= t.lr * (t.scale * dw[i] + t.weight_decay * w[i]);
}

gs_status GS_ISA(sgd_update)(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                             float momentum, float weight_decay) {
    gs_sgd_work t = {gs_cpu_floats(w),
                     gs_cpu_floats(v),
                     gs_cpu_floats(dw),
                     count,
                     gs_cpu_fine_parts(d, count, 1 << 15, 1 << 16),
                     scale,
                     lr,
                     momentum,
                     weight_decay};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, update_part, &t);
    return GS_OK;
}
