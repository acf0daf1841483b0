/* The CPU backend: OpenBLAS for the products of linear layers, C for the rest.
 *
 * Every file in cpu/ except offload.c, open.c, memory.c, openblas_memory.c, pool.c and product_bf16.c is compiled once
 * for each instruction set in the Makefile (on x86-64: plain, AVX2 and AVX-512; elsewhere there is only a plain build).
 * Opening the device selects the best table that this machine can run: one binary runs anywhere, as fast as the machine
 * allows. GS_ISA(gs_cpu_x) is each build's own name for x: gs_cpu_x_base, gs_cpu_x_v3, gs_cpu_x_v4; and gs_cpu_x_soft,
 * which replaces _base where exact bits are wanted (gs_device_set_exact). */
#pragma once

#include "cpu/pool.h"
#include "operators.h"

#ifndef GS_ISA_SUFFIX
#define GS_ISA_SUFFIX _base
#endif
#define GS_ISA_PASTE2(name, suffix) name##suffix
#define GS_ISA_PASTE(name, suffix) GS_ISA_PASTE2(name, suffix)
#define GS_ISA(name) GS_ISA_PASTE(name, GS_ISA_SUFFIX)

/* What device->state points to. */
typedef struct gs_cpu {
    gs_pool *pool;
    float *scratch; /* grows to the largest request, e.g. conv2d's rows, one part per thread */
    size_t scratch_count;
    float *rounded; /* copies of inputs (round16.h) */
    size_t rounded_count;
    struct gs_cpu_offloader *offloader; /* memory in files (offload.c); NULL: nothing fetched yet */
    bool bf16; /* the processor has a bf16 multiply instruction (product_bf16.c), and may use it */
} gs_cpu;

static inline gs_cpu *gs_cpu_of(gs_device *d) {
    return (gs_cpu *)d->state;
}

static inline float *gs_cpu_floats(gs_mem m) {
    return m.base ? (float *)m.base + m.at : NULL;
}

static inline int32_t *gs_cpu_ints(gs_mem m) {
    return m.base ? (int32_t *)m.base + m.at : NULL;
}

/* `count` floats of scratch memory, uninitialised, valid until the device's next call of this function. */
gs_status gs_cpu_scratch(gs_device *, size_t count, float **out);
/* Separate scratch memory, for rounded.c. */
gs_status gs_cpu_scratch_rounded(gs_device *, size_t count, float **out);

/* A token number is a float with an integer value. Returns the table row that x names, or -1 if x is a NaN or not an
 * integer from 0 to rows - 1. */
static inline int gs_token_row(float x, int rows) {
    if (!(x >= 0 && x < (float)rows)) return -1;
    const int row = (int)x;
    return (float)row == x ? row : -1;
}

/* Cut 0 .. count - 1 into `parts` ranges, at multiples of 16 (no two threads share a cache line); return `part`. */
typedef struct gs_range {
    size_t begin, end;
} gs_range;

static inline gs_range gs_cpu_range(size_t count, int part, int parts) {
    size_t blocks = (count + 15) / 16;
    gs_range r = {blocks * (size_t)part / (size_t)parts * 16,
                  blocks * (size_t)(part + 1) / (size_t)parts * 16};
    if (r.begin > count) r.begin = count;
    if (r.end > count) r.end = count;
    return r;
}

/* Cut `count` tasks, each with its own output, into `parts` ranges; return range `part`. */
static inline gs_range gs_cpu_tasks(size_t count, int part, int parts) {
    return (gs_range){count * (size_t)part / (size_t)parts, count * (size_t)(part + 1) / (size_t)parts};
}

/* Add a loss to the stats (backend.h). */
static inline void gs_cpu_add_stats(gs_mem stats, float loss, float correct, size_t n) {
    float *stat = gs_cpu_floats(stats);
    stat[GS_STAT_LOSS] += loss;
    stat[GS_STAT_CORRECT] += correct;
    stat[GS_STAT_SAMPLES] += (float)n;
}

/* The number of parts into which to cut `count` elements, if each part should have at least `least` of them. */
static inline int gs_cpu_parts(gs_device *d, size_t count, size_t least) {
    size_t threads = (size_t)gs_pool_threads(gs_cpu_of(d)->pool), most = count / least;
    return most < 2 ? 1 : (int)(most < threads ? most : threads);
}

/* Limit the number of parts to the number of tasks. */
static inline int gs_cpu_at_most(size_t tasks, int parts) {
    return tasks > (size_t)parts ? parts : tasks > 0 ? (int)tasks : 1;
}

/* Like gs_cpu_parts, but up to four parts per thread if each has `enough` elements. When something else briefly
 * occupies a core, the other threads take over the parts it has not started (pool.c). On two cores that were disturbed,
 * the median step of mlp took 1974 us with one part per thread, and 1712 us with four. */
static inline int gs_cpu_fine_parts(gs_device *d, size_t count, size_t least, size_t enough) {
    int threads = gs_pool_threads(gs_cpu_of(d)->pool), parts = gs_cpu_parts(d, count, least);
    size_t fine = count / enough;
    if (threads == 1 || fine <= (size_t)parts) return parts;
    return fine < 4 * (size_t)threads ? (int)fine : 4 * threads;
}

/* Run an operator's last or only work on the device's threads, and return GS_OK. */
static inline gs_status gs_cpu_run(gs_device *d, int parts, void (*work)(void *, int), void *context) {
    gs_pool_run(gs_cpu_of(d)->pool, parts, work, context);
    return GS_OK;
}

/* Sixteen floats, at any address: one AVX-512 register, two of AVX2, four of SSE or NEON. */
typedef float gs_float16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float gs_float8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float gs_float4 __attribute__((vector_size(16), aligned(4), may_alias));

/* This build's table of functions, which backend.h specifies. */
extern const gs_backend GS_ISA(gs_cpu_backend);

#define GS_DECLARE(name) GS_OPERATOR(name) GS_ISA(gs_cpu_##name);
GS_OPERATORS(GS_DECLARE)
#undef GS_DECLARE

/* Convolutions with groups or dilation (gs_conv2d_is_grouped), without an epilogue; conv2d.c handles all others. */
gs_status GS_ISA(gs_cpu_conv2d_groups_forward)(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                                               const gs_conv2d_sizes *);
gs_status GS_ISA(gs_cpu_conv2d_groups_backward)(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                                gs_mem x, gs_mem w, size_t n, const gs_conv2d_sizes *,
                                                bool add);

/* Max pooling of one plane: for max_pool2d.c, and for conv2d.c with fused pooling. y, index, dx and dy are as in
 * backend.h. */
void GS_ISA(gs_cpu_max_pool2d_plane)(const gs_pool2d_sizes *, float *y, int32_t *index, const float *x);
/* If x came from a relu, relu_y is the pooling's y, and dy passes only where relu_y is positive; else it is NULL. */
void GS_ISA(gs_cpu_max_unpool2d_plane)(const gs_pool2d_sizes *, float *dx, const float *dy,
                                       const float *relu_y, const int32_t *index);

/* memory.c, compiled once: vector instructions would not speed it up */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_cpu_##name;
GS_MEMORY_FUNCTIONS(GS_DECLARE)
#undef GS_DECLARE
gs_mem gs_cpu_host_memory(const void *host);
void gs_cpu_offload_close(gs_cpu *); /* frees offload.c's resources */

/* Call the first before opening, and the second after closing, a device with that many threads (openblas_memory.c).
 * GS_E_MEMORY: too little address space. */
gs_status gs_cpu_take_openblas_memory(int threads);
void gs_cpu_give_openblas_memory(int threads);
