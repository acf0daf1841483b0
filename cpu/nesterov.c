#include "cpu/optimizer.h"

/* Like sgd.c, with a different step. */
static void update_part(void *context, int part) {
    const gs_update_work t = *(const gs_update_work *)context;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict w = t.w, *restrict v = t.v, *restrict dw = t.dw;
    for (size_t i = r.begin; i < r.end; i++) {
        float g = t.scale * dw[i] + t.weight_decay * w[i];
        v[i] = or_zero(t.momentum * v[i] + g);
        w[i] -= t.lr * (g + t.momentum * v[i]);
    }
}

gs_status GS_ISA(gs_cpu_nesterov_update)(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count,
                                         float scale, float lr, float momentum, float weight_decay) {
    const gs_update_work t = {.scale = scale, .lr = lr, .momentum = momentum, .weight_decay = weight_decay};
    return gs_cpu_update(d, w, GS_NONE, v, dw, count, t, update_part);
}
