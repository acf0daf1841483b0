/* Adds the same numbers to each sample; cpu/plain/positions.c shows the formulas. */
#include "cpu/cpu.h"

typedef struct positions_work {
    float *y, *dw;
    const float *x, *w, *dy;
    size_t n, count;
    bool add;
    int parts;
} positions_work;

static void forward_part(void *context, int part) {
    const positions_work *t = context;
    const gs_range r = gs_cpu_range(t->count, part, t->parts);
    for (size_t i = 0; i < t->n; i++) {
        const float *x = t->x + i * t->count, *w = t->w;
        float *y = t->y + i * t->count; /* may be x's memory */
        for (size_t k = r.begin; k < r.end; k++) y[k] = x[k] + w[k];
    }
}

/* y = x + w */
gs_status GS_ISA(gs_cpu_positions_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n,
                                           size_t count) {
    positions_work t = {.n = n, .count = count, .parts = gs_cpu_parts(d, n * count, 1 << 14)};
    t.y = gs_cpu_floats(y), t.x = gs_cpu_floats(x), t.w = gs_cpu_floats(w);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* Sums in the order of the samples, for any number of threads. */
static void backward_part(void *context, int part) {
    const positions_work *t = context;
    const gs_range r = gs_cpu_range(t->count, part, t->parts);
    float *restrict dw = t->dw;
    for (size_t k = r.begin; k < r.end && !t->add; k++) dw[k] = 0;
    for (size_t i = 0; i < t->n; i++) {
        const float *dy = t->dy + i * t->count;
        for (size_t k = r.begin; k < r.end; k++) dw[k] += dy[k];
    }
}

/* forward: y = x + w, so dw[k] = sum_i dy[i][k] */
gs_status GS_ISA(gs_cpu_positions_backward)(gs_device *d, gs_mem dw, gs_mem dy, size_t n, size_t count,
                                            bool add) {
    positions_work t = {.n = n, .count = count, .add = add, .parts = gs_cpu_parts(d, n * count, 1 << 14)};
    t.dw = gs_cpu_floats(dw), t.dy = gs_cpu_floats(dy);
    return gs_cpu_run(d, t.parts, backward_part, &t);
}
