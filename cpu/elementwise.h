/* Element-wise operators: loops over blocks of elements, run on all threads. */
#pragma once

#include "core/functions.h"
#include "cpu/round16.h"

/* to[i] = f(a[i], b[i]) for n elements; b may be NULL where the operator has one input. */
typedef void gs_element_loop(float *to, const float *a, const float *b, size_t n);
/* gs_element_loop with an extra number. */
typedef void gs_element_loop_with(float *to, const float *a, const float *b, size_t n, float number);

typedef struct gs_element_work {
    gs_element_loop *loop;
    gs_element_loop_with *with; /* unless NULL, called instead of `loop`, with `number` */
    float number;
    float *to;
    const float *a, *b;
    size_t count;
    int parts;
    gs_precision rounded; /* the precision to which b is rounded before the loop */
} gs_element_work;

enum { GS_ROUNDED_BLOCK = 1024 };

/* Compute n elements from `at` on; b has been advanced to the first of them. */
static inline void gs_element_some(const gs_element_work *t, size_t at, const float *b, size_t n) {
    if (t->with)
        t->with(t->to + at, t->a + at, b, n, t->number);
    else
        t->loop(t->to + at, t->a + at, b, n);
}

static void gs_element_part(void *context, int part) {
    const gs_element_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    float block[GS_ROUNDED_BLOCK];
    if (t->rounded == GS_PRECISION_F32)
        gs_element_some(t, r.begin, t->b ? t->b + r.begin : NULL, r.end - r.begin);
    else
        for (size_t i = r.begin; i < r.end; i += GS_ROUNDED_BLOCK) {
            const size_t n = r.end - i < GS_ROUNDED_BLOCK ? r.end - i : GS_ROUNDED_BLOCK;
            gs_round16(t->rounded, block, t->b + i, n);
            gs_element_some(t, i, block, n);
        }
}

/* t provides the loop; this sets the arrays, count and parts. */
static inline gs_status gs_cpu_elementwise(gs_device *d, gs_mem to, gs_mem a, gs_mem b, size_t count,
                                           gs_element_work t) {
    t.to = gs_cpu_floats(to);
    t.a = gs_cpu_floats(a);
    t.b = gs_cpu_floats(b);
    t.count = count;
    t.parts = gs_cpu_parts(d, count, 1 << 14);
    return gs_cpu_run(d, t.parts, gs_element_part, &t);
}

/* Define operator `name` by a loop over one input, or over two, of which the second is first rounded to the precision
 * ROUNDED. */
#define GS_LOOP_OF_ONE(name, f)                                                                              \
    gs_status GS_ISA(gs_cpu_##name)(gs_device * d, gs_mem to, gs_mem a, size_t count) {                      \
        return gs_cpu_elementwise(d, to, a, GS_NONE, count, (gs_element_work){.loop = f});                   \
    }
#define GS_LOOP_OF_TWO(name, f, ROUNDED)                                                                     \
    gs_status GS_ISA(gs_cpu_##name)(gs_device * d, gs_mem to, gs_mem a, gs_mem b, size_t count) {            \
        return gs_cpu_elementwise(d, to, a, b, count, (gs_element_work){.loop = f, .rounded = ROUNDED});     \
    }
