#include "comm/call.h"

#include <stdint.h>

#include "core/error.h"

/* `to` may be `a` itself, but never a shifted one, so that a loop can work on many elements at once. */
#if defined(__clang__)
#define NEVER_SHIFTED _Pragma("clang loop vectorize(assume_safety)")
#else
#define NEVER_SHIFTED _Pragma("GCC ivdep")
#endif

/* One loop for a type and a reduction. */
#define LOOP(name, type, value)                                                                              \
    static void name(void *to, const void *first, const void *second, size_t count) {                        \
        type *t = to;                                                                                        \
        const type *x = first, *y = second;                                                                  \
        NEVER_SHIFTED for (size_t i = 0; i < count; i++) {                                                   \
            const type a = x[i], b = y[i];                                                                   \
            t[i] = (type)(value);                                                                            \
        }                                                                                                    \
    }

/* `wide` is where the arithmetic is done: an unsigned type, which wraps around, for integers. (a != a) is
 * true for a NaN alone; if b is the NaN then both comparisons are false and b is what remains. */
#define LOOPS(name, type, wide)                                                                              \
    LOOP(name##_sum, type, (wide)a + (wide)b)                                                                \
    LOOP(name##_product, type, (wide)a *(wide)b)                                                             \
    LOOP(name##_min, type, a < b || a != a ? a : b)                                                          \
    LOOP(name##_max, type, a > b || a != a ? a : b)

LOOPS(f32, float, float)
LOOPS(f64, double, double)
LOOPS(i32, int32_t, uint32_t)
LOOPS(i64, int64_t, uint64_t)
LOOPS(u8, uint8_t, unsigned)

#define ROW(name)                                                                                            \
    { name##_sum, name##_product, name##_min, name##_max }
static const struct {
    const char *name;
    size_t size;
    gs_combine combine[GS_REDUCTIONS];
} types[GS_TYPES] = {
    [GS_F32] = {"f32", 4, ROW(f32)}, [GS_F64] = {"f64", 8, ROW(f64)}, [GS_I32] = {"i32", 4, ROW(i32)},
    [GS_I64] = {"i64", 8, ROW(i64)}, [GS_U8] = {"u8", 1, ROW(u8)},
};

static void check_type(gs_type type) {
    if ((unsigned)type >= GS_TYPES) gs_bug("there is no type %d", (int)type);
}

size_t gs_type_size(gs_type type) {
    check_type(type);
    return types[type].size;
}

const char *gs_type_name(gs_type type) {
    check_type(type);
    return types[type].name;
}

const char *gs_reduction_name(gs_reduction reduction) {
    static const char *const names[GS_REDUCTIONS] = {"sum", "product", "min", "max"};
    if ((unsigned)reduction >= GS_REDUCTIONS) gs_bug("there is no reduction %d", (int)reduction);
    return names[reduction];
}

gs_combine gs_combine_of(gs_type type, gs_reduction reduction) {
    check_type(type);
    if ((unsigned)reduction >= GS_REDUCTIONS) gs_bug("there is no reduction %d", (int)reduction);
    return types[type].combine[reduction];
}
