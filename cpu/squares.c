/* Largest element and sum of squares, in integers: src/optim/norm.h. The sum is the same in any order, so each thread
 * adds its part when it is done. */
#include "core/bits.h"
#include "cpu/cpu.h"

typedef struct squares_work {
    const float *x;
    size_t count;
    int parts;
    gs_squares *out;
} squares_work;

static inline uint32_t size_of(float x) {
    return gs_bits_of_float(x) & 0x7fffffff;
}

static void largest_part(void *context, int part) {
    const squares_work *t = context;
    const gs_range r = gs_cpu_range(t->count, part, t->parts);
    const float *restrict x = t->x;
    uint32_t mine = 0;
    for (size_t i = r.begin; i < r.end; i++) mine = size_of(x[i]) > mine ? size_of(x[i]) : mine;
    uint32_t seen = __atomic_load_n(&t->out->largest, __ATOMIC_RELAXED);
    while (seen < mine && !__atomic_compare_exchange_n(&t->out->largest, &seen, mine, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
}

/* No branches, so that the compiler vectorises it. */
static void sum_part(void *context, int part) {
    const squares_work *t = context;
    const gs_range r = gs_cpu_range(t->count, part, t->parts);
    const float *restrict x = t->x;
    const uint32_t top = t->out->top;
    uint64_t high = 0, low = 0;
    for (size_t i = r.begin; i < r.end; i++) {
        const uint32_t bits = size_of(x[i]), e = bits >> 23;
        const uint64_t m = (bits & 0x7fffff) | (e > 0 ? 0x800000 : 0);
        const uint32_t far = 2 * (top - (e > 0 ? e : 1)), shift = far < 63 ? far : 63; /* m^2 2^14 < 2^62 */
        const uint64_t square = (m * m << 14) >> shift;
        high += square >> 32;
        low += square & 0xffffffff;
    }
    __atomic_fetch_add(&t->out->high, high, __ATOMIC_RELAXED);
    __atomic_fetch_add(&t->out->low, low, __ATOMIC_RELAXED);
}

gs_status GS_ISA(gs_cpu_squares)(gs_device *d, gs_mem x, size_t count, uint32_t top, gs_squares *out) {
    squares_work t = {gs_cpu_floats(x), count, gs_cpu_fine_parts(d, count, 1 << 15, 1 << 16), out};
    *out = (gs_squares){.top = top > 1 ? top : 1};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, largest_part, &t);
    if (out->largest >> 23 > out->top) out->top = out->largest >> 23;
    return gs_cpu_run(d, t.parts, sum_part, &t);
}
