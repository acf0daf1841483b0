/* Rounding to 16 bits, to nearest, ties to even. The result is still a float: the nearest number that bfloat16 or IEEE
 * half precision can represent.
 *
 *              sign  exponent  fraction     largest      smallest normal
 *     f32        1       8        23        3.4e38       1.2e-38
 *     bf16       1       8         7        3.4e38       1.2e-38              relative error at most 2^-8
 *     f16        1       5        10        65504        6.1e-5               relative error at most 2^-11
 *
 * Numbers that are too large become infinite, and a NaN stays a NaN. Below the smallest normal number, bf16 rounds to
 * 0, as the processors' instructions do; f16 keeps multiples of 2^-24, as IEEE 754 requires.
 *
 * The code has no branches, so that compilers vectorise it. */
#pragma once

#include "core/bits.h"
#include "cpu/cpu.h"

static inline float gs_round_bf16(float x) {
    const uint32_t bits = gs_bits_of_float(x), size = bits & 0x7fffffffu, sign = bits ^ size;
    const uint32_t rounded = (size + 0x7fffu + (size >> 16 & 1)) & 0xffff0000u;
    const uint32_t number = size < 0x00800000u ? 0 : rounded;
    return gs_float_of(sign | (size > 0x7f800000u ? (size | 0x400000u) & 0xffff0000u : number));
}

static inline float gs_round_f16(float x) {
    const uint32_t bits = gs_bits_of_float(x), size = bits & 0x7fffffffu, sign = bits ^ size;
    const uint32_t rounded = (size + 0xfffu + (size >> 13 & 1)) & 0xffffe000u;
    const uint32_t infinity = 0x7f800000u, too_large = 0x47800000u; /* 2^16 */
    const uint32_t smallest = 0x38800000u;                          /* 2^-14 */
    const uint32_t multiple =
        gs_bits_of_float((gs_float_of(size) + 0.5f) - 0.5f); /* of 2^-24, the spacing of floats at 0.5 */
    const uint32_t number = size < smallest ? multiple : rounded >= too_large ? infinity : rounded;
    return gs_float_of(sign | (size > infinity ? (size | 0x400000u) & 0xffffe000u : number));
}

/* to[i] = from[i] rounded, i < count; `to` may equal `from`. With GS_PRECISION_F32 nothing is rounded. */
static inline void gs_round16(gs_precision precision, float *to, const float *from, size_t count) {
    if (precision == GS_PRECISION_BF16)
        for (size_t i = 0; i < count; i++) to[i] = gs_round_bf16(from[i]);
    else if (precision == GS_PRECISION_F16)
        for (size_t i = 0; i < count; i++) to[i] = gs_round_f16(from[i]);
    else if (to != from)
        for (size_t i = 0; i < count; i++) to[i] = from[i];
}

/* Copies of an operator's inputs, rounded to the device's precision, on which the operator then computes as usual. */
typedef struct gs_operand {
    gs_mem *place; /* replaced by the copy */
    size_t count;
} gs_operand;

/* Does nothing in f32. The copies stay valid until the device's next call of this function. */
gs_status GS_ISA(gs_cpu_rounded)(gs_device *, int count, const gs_operand *);
