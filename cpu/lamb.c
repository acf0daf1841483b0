/* The Makefile compiles this file with -fno-math-errno, as adam.c. */
#include "cpu/optimizer.h"

typedef struct gs_lamb_work {
    float *dw, *m, *v;
    const float *w;
    size_t count;
    int parts;
    gs_adam_step step;
} gs_lamb_work;

static void direction_part(void *context, int part) {
    const gs_lamb_work t = *(const gs_lamb_work *)context;
    const gs_adam_step s = t.step;
    gs_range r = gs_cpu_range(t.count, part, t.parts);
    float *restrict dw = t.dw, *restrict m = t.m, *restrict v = t.v;
    const float *restrict w = t.w;
    for (size_t i = r.begin; i < r.end; i++) {
        float g = s.scale * dw[i];
        m[i] = or_zero(s.beta1 * m[i] + s.rest1 * g);
        v[i] = or_zero(s.beta2 * v[i] + s.rest2 * g * g);
        dw[i] = s.rate * (m[i] / (s.root * sqrtf(v[i]) + s.epsilon)) + s.l2 * w[i];
    }
}

gs_status GS_ISA(lamb_direction)(gs_device *d, gs_mem dw, gs_mem m, gs_mem v, gs_mem w, size_t count,
                                 gs_adam_step step) {
    gs_lamb_work t = {gs_cpu_floats(dw),
                      gs_cpu_floats(m),
                      gs_cpu_floats(v),
                      gs_cpu_floats(w),
                      count,
                      gs_cpu_fine_parts(d, count, 1 << 15, 1 << 16),
                      step};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, direction_part, &t);
    return GS_OK;
}
