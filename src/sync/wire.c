/* The conversions operate on bits, without a branch per value, so that the compiler can vectorise them. With only SSE2,
 * a core of a Xeon (AVX-512) rounds 10 GB/s of f32 to bf16. It rounds only 2 GB/s to f16, or 18 GB/s with the
 * processor's own instruction. */
#include "sync/wire.h"

#include "core/bits.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static const char *const names[] = {"f32", "f16", "bf16"};

const char *gs_wire_name(gs_wire wire) {
    return (unsigned)wire < 3 ? names[wire] : "an unknown type"; /* a number from another rank may be wrong */
}

/* Drop the last `dropped` bits, rounding to nearest even: add half a unit in the last kept place, minus the smallest
 * bit if the kept part is even. A carry into the exponent is correct: 1.11..1 becomes 10.0. */
static inline uint32_t round_off(uint32_t bits, int dropped) {
    uint32_t half = 1u << (dropped - 1), odd = bits >> dropped & 1;
    return (bits + half - 1 + odd) >> dropped;
}

enum {
    F32_INFINITY = 0x7f800000,
    F16_INFINITY = 0x7c00,
    F16_QUIET = 0x0200, /* the bit set in every NaN made here, so that its fraction is not 0 */
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

/* ---- f16: 5 exponent bits with bias 15, where f32 has bias 127 ---- */

enum { REBIAS = (127 - 15) << 10, FIRST_NORMAL = (127 - 14) << 23, TOO_LARGE = (127 + 16) << 23 };

static inline uint16_t to_f16(float f) {
    uint32_t bits = gs_bits_of_float(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    uint32_t normal = round_off(size, 13) - REBIAS;
    /* 65520 and more round up to 65536, whose bits would be infinity's; larger values are capped */
    normal = gs_choose(size >= TOO_LARGE, F16_INFINITY, normal);
    /* below 2^-14 the last place is always 2^-24, as in an f32 between 1/2 and 1 */
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

/* ---- f16 by the processor: all x86-64 processors since 2013 and all arm64 processors can do it ----
 *
 * The processor converts several values at once, and gives the same bits as the code above. */

#if defined(__x86_64__)
/* F16C is older than AVX2 and belongs to the same level, x86-64-v3; not every compiler can test for it. */
#define HAS_F16C __builtin_cpu_supports("avx2")
#define F16C __attribute__((target("avx,f16c")))
#define NARROW(x) _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
#define WIDEN(h) _mm256_cvtph_ps(h)
typedef __m256 floats;
typedef __m128i halves;
#elif defined(__aarch64__)
#define HAS_F16C 1
#define F16C
#define NARROW(x) vcvt_f16_f32(x)
#define WIDEN(h) vcvt_f32_f16(h)
typedef float32x4_t floats;
typedef float16x4_t halves;
#else
#define HAS_F16C 0
#define F16C
#define NARROW(x) to_f16(x)
#define WIDEN(h) from_f16(h)
typedef float floats;
typedef uint16_t halves;
#endif
enum { LANES = sizeof(floats) / sizeof(float) };

/* The number of values in whole vectors; the code above converts the remaining ones. */
static inline size_t whole(size_t count) {
    return HAS_F16C ? count / LANES * LANES : 0;
}

F16C static size_t narrow_vectors(uint16_t *to, float *data, size_t count) {
    for (size_t i = 0; i < whole(count); i += LANES) {
        floats x;
        memcpy(&x, data + i, sizeof x);
        const halves h = NARROW(x);
        memcpy(to + i, &h, sizeof h);
        x = WIDEN(h);
        memcpy(data + i, &x, sizeof x);
    }
    return whole(count);
}

/* add: add to `to` instead of overwriting it. */
F16C static inline size_t widen_vectors(float *to, const uint16_t *from, size_t count, bool add) {
    for (size_t i = 0; i < whole(count); i += LANES) {
        halves h;
        memcpy(&h, from + i, sizeof h);
        floats x = WIDEN(h), sum;
        if (add) memcpy(&sum, to + i, sizeof sum);
        if (add) x = sum + x;
        memcpy(to + i, &x, sizeof x);
    }
    return whole(count);
}

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
        for (size_t i = widen_vectors(to, from, count, false); i < count; i++) to[i] = from_f16(from[i]);
    }
}

void gs_wire_widen_add(gs_wire wire, float *restrict sum, const uint16_t *restrict from, size_t count) {
    if (wire == GS_WIRE_BF16) {
        for (size_t i = 0; i < count; i++) sum[i] += from_bf16(from[i]);
    } else {
        for (size_t i = widen_vectors(sum, from, count, true); i < count; i++) sum[i] += from_f16(from[i]);
    }
}
