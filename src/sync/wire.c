/* The conversions work on the bits, without a branch for each value, so the compiler can vectorise them. With SSE2
 * alone, a core of a Xeon (AVX-512) rounds 10 GB/s of f32 to bf16. To f16 it rounds only 2 GB/s, but processors have an
 * instruction of their own for that: 18 GB/s. */
#include "sync/wire.h"

#include "core/bits.h"
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static const char *const names[] = {"f32", "f16", "bf16"};

const char *gs_wire_name(gs_wire wire) {
    return (unsigned)wire < 3 ? names[wire] : "an unknown type"; /* it may be another rank's word */
}

/* Drop the last `dropped` bits, rounding to nearest even: add half of the last kept place, less the smallest bit unless
 * the kept part is odd. A carry runs into the exponent, which is right: 1.11..1 becomes 10.0. */
static inline uint32_t round_off(uint32_t bits, int dropped) {
    uint32_t half = 1u << (dropped - 1), odd = bits >> dropped & 1;
    return (bits + half - 1 + odd) >> dropped;
}

enum {
    F32_INFINITY = 0x7f800000,
    F16_INFINITY = 0x7c00,
    F16_QUIET = 0x0200, /* the bit that every NaN made here has: it has a fraction then */
    BF16_QUIET = 0x0040,
};

/* ---- bf16: the upper half of an f32 ---- */

static inline uint16_t to_bf16(float f) {
    uint32_t bits = gs_bits_of_float(f);
    uint32_t nan = bits >> 16 | BF16_QUIET, number = round_off(bits, 16);
    return (uint16_t)gs_choose((bits & 0x7fffffff) > F32_INFINITY, nan, number);
}

static inline float from_bf16(uint16_t h) {
    return gs_float_of((uint32_t)h << 16);
}

/* ---- f16: 5 bits of exponent, whose bias is 15 where that of f32 is 127 ---- */

enum { REBIAS = (127 - 15) << 10, FIRST_NORMAL = (127 - 14) << 23, TOO_LARGE = (127 + 16) << 23 };

static inline uint16_t to_f16(float f) {
    uint32_t bits = gs_bits_of_float(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    uint32_t normal = round_off(size, 13) - REBIAS;
    /* 65520 and more round up to 65536, whose bits would be those of infinity; larger ones are capped */
    normal = gs_choose(size >= TOO_LARGE, F16_INFINITY, normal);
    /* below 2^-14 the last place is 2^-24 whatever the size, as that of an f32 between 1/2 and 1 */
    uint32_t small = gs_bits_of_float(gs_float_of(size) + 0.5f) - gs_bits_of_float(0.5f);
    uint32_t nan = F16_INFINITY | F16_QUIET | (size >> 13 & 0x03ff);
    uint32_t number = gs_choose(size < FIRST_NORMAL, small, normal);
    return (uint16_t)(sign | gs_choose(size > F32_INFINITY, nan, number));
}

static inline float from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = h & 0x7fff;
    uint32_t normal = (size + REBIAS) << 13;
    uint32_t special = size << 13 | F32_INFINITY; /* infinity, NaN */
    uint32_t small = gs_bits_of_float((float)(int32_t)size * 0x1p-24f);
    uint32_t number = gs_choose(size < 0x0400, small, normal);
    return gs_float_of(sign | gs_choose(size >= F16_INFINITY, special, number));
}

/* ---- f16 by the processor: all x86-64 processors since 2013 can do it, and all of arm64 ---- */

/* Each converts as many values as make whole vectors, and returns how many; the rest is for the code above, which
 * gives the same bits. 0 where the processor has no such instructions. */
#if defined(__x86_64__)
#define F16C __attribute__((target("avx,f16c")))
enum { LANES = 8 };

/* F16C is older than AVX2 and part of the same level, x86-64-v3; not every compiler lets one ask for it. */
static size_t vectors(size_t count) {
    return __builtin_cpu_supports("avx2") ? count / LANES * LANES : 0;
}

F16C static size_t narrow_vectors(uint16_t *to, float *data, size_t count) {
    for (size_t i = 0; i < vectors(count); i += LANES) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(data + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(to + i), h);
        _mm256_storeu_ps(data + i, _mm256_cvtph_ps(h));
    }
    return vectors(count);
}

F16C static __m256 load_f16(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

F16C static size_t widen_vectors(float *to, const uint16_t *from, size_t count) {
    for (size_t i = 0; i < vectors(count); i += LANES) _mm256_storeu_ps(to + i, load_f16(from + i));
    return vectors(count);
}

F16C static size_t widen_add_vectors(float *sum, const uint16_t *from, size_t count) {
    for (size_t i = 0; i < vectors(count); i += LANES)
        _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), load_f16(from + i)));
    return vectors(count);
}
#elif defined(__aarch64__)
enum { LANES = 4 };

static size_t narrow_vectors(uint16_t *to, float *data, size_t count) {
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        const float16x4_t h = vcvt_f16_f32(vld1q_f32(data + i));
        vst1_u16(to + i, vreinterpret_u16_f16(h));
        vst1q_f32(data + i, vcvt_f32_f16(h));
    }
    return whole;
}

static float32x4_t load_f16(const uint16_t *from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}

static size_t widen_vectors(float *to, const uint16_t *from, size_t count) {
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES) vst1q_f32(to + i, load_f16(from + i));
    return whole;
}

static size_t widen_add_vectors(float *sum, const uint16_t *from, size_t count) {
    const size_t whole = count / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        vst1q_f32(sum + i, vaddq_f32(vld1q_f32(sum + i), load_f16(from + i)));
    return whole;
}
#else
static size_t narrow_vectors(uint16_t *to, float *data, size_t count) {
    return (void)to, (void)data, (void)count, 0;
}
static size_t widen_vectors(float *to, const uint16_t *from, size_t count) {
    return (void)to, (void)from, (void)count, 0;
}
static size_t widen_add_vectors(float *sum, const uint16_t *from, size_t count) {
    return (void)sum, (void)from, (void)count, 0;
}
#endif

/* ---- arrays ---- */

void gs_wire_narrow(gs_wire wire, uint16_t *restrict to, float *restrict data, size_t count) {
    if (wire == GS_WIRE_BF16) {
        for (size_t i = 0; i < count; i++) data[i] = from_bf16(to[i] = to_bf16(data[i]));
    } else {
        for (size_t i = narrow_vectors(to, data, count); i < count; i++)
            data[i] = from_f16(to[i] = to_f16(data[i]));
    }
}

void gs_wire_widen(gs_wire wire, float *restrict to, const uint16_t *restrict from, size_t count) {
    if (wire == GS_WIRE_BF16) {
        for (size_t i = 0; i < count; i++) to[i] = from_bf16(from[i]);
    } else {
        for (size_t i = widen_vectors(to, from, count); i < count; i++) to[i] = from_f16(from[i]);
    }
}

void gs_wire_widen_add(gs_wire wire, float *restrict sum, const uint16_t *restrict from, size_t count) {
    if (wire == GS_WIRE_BF16) {
        for (size_t i = 0; i < count; i++) sum[i] += from_bf16(from[i]);
    } else {
        for (size_t i = widen_add_vectors(sum, from, count); i < count; i++) sum[i] += from_f16(from[i]);
    }
}
