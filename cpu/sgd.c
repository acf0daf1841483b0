#include "cpu/optimizer.h"

static void update_part(void *context, int part) { /* run by gs_cpu_update, part by part */
    const gs_update_work t = *(const gs_update_work *)context;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict w = t.w, *restrict v = t.v, *restrict dw = t.dw;
    if (t.momentum != 0.0f)
        for (size_t i = r.begin; i < r.end; i++) {
            v[i] = or_zero(t.momentum * v[i] + (t.scale * dw[i] + t.weight_decay * w[i]));
            w[i] -= t.lr * v[i];
        }
    else
        for (size_t i = r.begin; i < r.end; i++) w[i] -= t.lr * (t.scale * dw[i] + t.weight_decay * w[i]);
}

gs_status GS_ISA(gs_cpu_sgd_update)(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale,
                                    float lr, float momentum, float weight_decay) {
    const gs_update_work t = {.scale = scale, .lr = lr, .momentum = momentum, .weight_decay = weight_decay};
    return gs_cpu_update(d, w, GS_NONE, v, dw, count, t, update_part);
}
