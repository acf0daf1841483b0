#include "cpu/cpu.h"

/* fma_loop and triad: measure the limits of the cores and their memory.
 *
 * In fma_loop each block of BLOCK vectors stays in registers for all rounds. A fused multiply-add takes about 4 cycles,
 * and a core starts 2 per cycle: at least 8 independent ones must be in flight, with their vectors in registers. */
#if defined(__AVX512F__)
enum { BLOCK = 12 }; /* vectors of 16 floats: 12 of 32 registers */
#elif defined(__AVX2__)
enum { BLOCK = 5 }; /* 10 of 16 registers of 8 floats */
#elif defined(__aarch64__)
enum { BLOCK = 4 }; /* 16 of 32 registers of 4 floats */
#else
enum { BLOCK = 2 }; /* 8 of 16 registers of 4 floats */
#endif

/* Elsewhere the compiler must not contract a product and a sum into an FMA: here it must. */
#if defined(__GNUC__) && !defined(__clang__)
#define GS_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define GS_FUSED
#endif

typedef struct peak_work {
    float *y;
    const float *a, *b;
    float scale, shift;
    size_t count, rounds;
    int parts;
} peak_work;

GS_FUSED static void fma_block(gs_float16 *y, float scale, float shift, size_t rounds) {
    gs_float16 v[BLOCK], a = (gs_float16){0} + scale, b = (gs_float16){0} + shift;
    for (int k = 0; k < BLOCK; k++) v[k] = y[k];
    for (size_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int k = 0; k < BLOCK; k++) v[k] = v[k] * a + b;
    }
    for (int k = 0; k < BLOCK; k++) y[k] = v[k];
}

static void fma_part(void *context, int part) {
    const peak_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    size_t i = r.begin;
    for (; i + 16 * BLOCK <= r.end; i += 16 * BLOCK)
        fma_block((gs_float16 *)(t->y + i), t->scale, t->shift, t->rounds);
    for (; i < r.end; i++)
        for (size_t k = 0; k < t->rounds; k++) t->y[i] = t->y[i] * t->scale + t->shift;
}

gs_status GS_ISA(gs_cpu_fma_loop)(gs_device *d, gs_mem y, float scale, float shift, size_t count,
                                  size_t rounds) {
    peak_work t = {.y = gs_cpu_floats(y), .scale = scale, .shift = shift, .count = count, .rounds = rounds};
    t.parts = gs_cpu_parts(d, count, 16 * BLOCK);
    return gs_cpu_run(d, t.parts, fma_part, &t);
}

static void triad_part(void *context, int part) {
    const peak_work *t = context;
    gs_range r = gs_cpu_range(t->count, part, t->parts);
    float *restrict y = t->y;
    const float *restrict a = t->a, *restrict b = t->b;
    for (size_t i = r.begin; i < r.end; i++) y[i] = a[i] + t->scale * b[i];
}

gs_status GS_ISA(gs_cpu_triad)(gs_device *d, gs_mem y, gs_mem a, gs_mem b, float scale, size_t count) {
    peak_work t = {
        .y = gs_cpu_floats(y), .a = gs_cpu_floats(a), .b = gs_cpu_floats(b), .scale = scale, .count = count};
    t.parts = gs_cpu_parts(d, count, 1024);
    return gs_cpu_run(d, t.parts, triad_part, &t);
}
