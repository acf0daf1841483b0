#include "cpu/product.h"

#include <math.h>

typedef struct arithmetic_work {
    float *y;
    const float *a, *b, *c;
    size_t count;
    int parts;
} arithmetic_work;

static void arithmetic_part(void *context, int part) {
    const arithmetic_work *t = context;
    const size_t n = t->count;
    const gs_range blocks = gs_cpu_range(n / 16, part, t->parts), r = {16 * blocks.begin, 16 * blocks.end};
    const float *a = t->a, *b = t->b, *c = t->c;
    float *restrict y = t->y;
    for (size_t i = r.begin; i < r.end; i++) {
        y[i] = a[i] + b[i];
        y[i + n] = a[i] * b[i];
        y[i + 2 * n] = a[i] / b[i];
        y[i + 3 * n] = sqrtf(fabsf(a[i]));
        y[i + 5 * n] = a[i] * b[i] + c[i];
    }
    for (size_t i = r.begin; i < r.end; i += sizeof(gs_vector) / sizeof *y)
        gs_store(y + i + 4 * n, gs_fma(gs_load(a + i), gs_load(b + i), gs_load(c + i)));
}

/* Each thread computes a part, because a thread has its own rounding mode. */
gs_status GS_ISA(gs_cpu_arithmetic)(gs_device *d, gs_mem y, gs_mem a, gs_mem b, gs_mem c, size_t count) {
    arithmetic_work t = {.y = gs_cpu_floats(y),
                         .a = gs_cpu_floats(a),
                         .b = gs_cpu_floats(b),
                         .c = gs_cpu_floats(c),
                         .count = count,
                         .parts = gs_pool_threads(gs_cpu_of(d)->pool)};
    return gs_cpu_run(d, t.parts, arithmetic_part, &t);
}
