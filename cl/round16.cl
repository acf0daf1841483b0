#include "elementwise.clh"
#include "half.clh"

/* y[i] = x[i], rounded */
GS_UNARY_OF(round_to_bf16, round_bf16)
GS_UNARY_OF(round_to_f16, round_f16)

/* Where x is the y of a relu, and 0: -0, whose products are the same. So a positive number that is rounded to 0 is told
 * from 0. */
static hvec marked(hvec narrow, vec x, int relu) {
#if GS_VECTOR == 1
    return relu && x == 0 ? (ushort)0x8000 : narrow;
#else
    const ivec zero = relu ? (x == 0) & 0x8000 : (ivec)0;
    return narrow | convert_hvec(zero);
#endif
}

/* to[i] = the 16 bits of x[i], rounded */
#define NARROW(name, narrow)                                                                                 \
    __kernel GS_OF_VECTORS void name(__global ushort *to, ulong to_at, __global const float *x, ulong x_at,  \
                                     ulong count, int relu) {                                                \
        to += to_at;                                                                                         \
        x += x_at;                                                                                           \
        const size_t i = GS_FIRST;                                                                           \
        if (i + GS_VECTOR <= count)                                                                          \
            store_halves(marked(narrow(load(x + i)), load(x + i), relu), to + i);                            \
        else if (i < count) {                                                                                \
            const vec rest = load_first(x + i, count - i);                                                   \
            store_first_halves(marked(narrow(rest), rest, relu), to + i, count - i);                         \
        }                                                                                                    \
    }
NARROW(narrow_to_bf16, narrow_bf16)
NARROW(narrow_to_f16, narrow_f16)

/* y[i] = f(16 bits) */
#define WIDEN(name, f)                                                                                       \
    __kernel GS_OF_VECTORS void name(__global float *y, ulong y_at, __global const ushort *from,             \
                                     ulong from_at, ulong count) {                                           \
        y += y_at;                                                                                           \
        from += from_at;                                                                                     \
        const size_t i = GS_FIRST;                                                                           \
        if (i + GS_VECTOR <= count)                                                                          \
            store(f(load_halves(from + i)), y + i);                                                          \
        else if (i < count)                                                                                  \
            store_first(f(load_first_halves(from + i, count - i)), y + i, (int)(count - i));                 \
    }
WIDEN(widen_bf16, widened_bf16)
WIDEN(widen_f16, widened_f16)

/* 1 where y > 0 passes dy, and was not -0 */
static vec passes(hvec y, ushort infinity) {
#if GS_VECTOR == 1
    return y <= infinity ? 1.0f : 0.0f;
#else
    return convert_ivec(y) <= (int)infinity ? (vec)1 : (vec)0;
#endif
}
static vec passes_of_bf16(hvec y) {
    return passes(y, 0x7f80);
}
static vec passes_of_f16(hvec y) {
    return passes(y, 0x7c00);
}
WIDEN(passes_bf16, passes_of_bf16)
WIDEN(passes_f16, passes_of_f16)

/* dx[i] = dy[i] where y passes it, else 0 */
#define PASS(name, passes)                                                                                   \
    __kernel GS_OF_VECTORS void name(__global float *dx, ulong dx_at, __global const float *dy, ulong dy_at, \
                                     __global const ushort *y, ulong y_at, ulong count) {                    \
        dx += dx_at;                                                                                         \
        dy += dy_at;                                                                                         \
        y += y_at;                                                                                           \
        const size_t i = GS_FIRST;                                                                           \
        if (i + GS_VECTOR <= count)                                                                          \
            store(passes(load_halves(y + i)) > 0 ? load(dy + i) : (vec)0, dx + i);                           \
        else if (i < count) {                                                                                \
            const vec rest = load_first(dy + i, count - i);                                                  \
            store_first(passes(load_first_halves(y + i, count - i)) > 0 ? rest : (vec)0, dx + i,             \
                        (int)(count - i));                                                                   \
        }                                                                                                    \
    }
PASS(pass_by_bf16, passes_of_bf16)
PASS(pass_by_f16, passes_of_f16)
