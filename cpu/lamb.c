#include "cpu/optimizer.h"

static void direction_part(void *context, int part) {
    const gs_update_work t = *(const gs_update_work *)context;
    const gs_adam_step s = t.step;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict dw = t.dw, *restrict m = t.m, *restrict v = t.v, *restrict w = t.w;
    for (size_t i = r.begin; i < r.end; i++) {
        float g = s.scale * dw[i];
        m[i] = or_zero(s.beta1 * m[i] + s.rest1 * g);
        v[i] = or_zero(s.beta2 * v[i] + s.rest2 * g * g);
        dw[i] = s.rate * (m[i] / (s.root * sqrtf(v[i]) + s.epsilon)) + s.l2 * w[i];
    }
}

gs_status GS_ISA(gs_cpu_lamb_direction)(gs_device *d, gs_mem dw, gs_mem m, gs_mem v, gs_mem w, size_t count,
                                        gs_adam_step step) {
    return gs_cpu_update(d, w, m, v, dw, count, (gs_update_work){.step = step}, direction_part);
}
