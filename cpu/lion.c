#include "cpu/optimizer.h"

static void update_part(void *context, int part) {
    const gs_update_work t = *(const gs_update_work *)context;
    const gs_adam_step s = t.step;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict w = t.w, *restrict m = t.m, *restrict dw = t.dw;
    for (size_t i = r.begin; i < r.end; i++) {
        float g = s.scale * dw[i], c = s.beta1 * m[i] + s.rest1 * g;
        m[i] = or_zero(s.beta2 * m[i] + s.rest2 * g);
        w[i] = s.keep * w[i] - (c > 0.0f ? s.rate : c < 0.0f ? -s.rate : c); /* a NaN stays a NaN */
    }
}

gs_status GS_ISA(gs_cpu_lion_update)(gs_device *d, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count,
                                     gs_adam_step step) {
    return gs_cpu_update(d, w, m, v, dw, count, (gs_update_work){.step = step}, update_part);
}
