#include "cpu/optimizer.h"

static void update_part(void *context, int part) {
    const gs_update_work t = *(const gs_update_work *)context;
    const gs_adam_step s = t.step;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict w = t.w, *restrict m = t.m, *restrict v = t.v, *restrict dw = t.dw;
    for (size_t i = r.begin; i < r.end; i++) {
        float g = s.scale * dw[i] + s.l2 * w[i];
        m[i] = or_zero(s.beta1 * m[i] + s.rest1 * g);
        v[i] = or_zero(s.beta2 * v[i] + s.rest2 * g * g);
        w[i] = s.keep * w[i] - s.rate * (m[i] / (s.root * sqrtf(v[i]) + s.epsilon));
    }
}

gs_status GS_ISA(gs_cpu_adam_update)(gs_device *d, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count,
                                     gs_adam_step step) {
    return gs_cpu_update(d, w, m, v, dw, count, (gs_update_work){.step = step}, update_part);
}
