/* bfloat16 products with the processor's instruction, vdpbf16ps of AVX512-BF16: it adds two products to each of the 16
 * sums in a register.
 *
 *     sum[i] += a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]          one instruction: 64 FLOPs; an f32 multiply-add: 32
 *
 * Therefore both matrices are copied into pairs of neighbours along k. vcvtne2ps2bf16 rounds 32 floats to nearest, ties
 * to even. Both instructions treat inputs below 2^-126 as 0, and return no such numbers.
 *
 * Compiled once, for that instruction set; called only if gs_cpu_of(d)->bf16, that is, if the processor has it. */
#include "cpu/product16.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

enum { ROWS = GS_BF16_ROWS, VECTORS = GS_BF16_VECTORS };

static inline __mmask16 first_lanes(int count) {
    return (__mmask16)(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* Sixteen pairs of neighbours: first low's, then high's. */
BF16 static inline __m512i neighbours(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Sixteen pairs (a[i], b[i]). */
BF16 static inline __m512i pairs_of(__m512 a, __m512 b) {
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(turns, neighbours(a, b));
}

/* Pack lines that run across k: a pair is an element of this line and the element at the same index in the next. */
BF16 static void pack_across(float *to, const gs_lines *m, int width, size_t block, int count, int depth) {
    for (int k = 0; k < depth; k += 2, to += width) {
        const float *a = gs_line(m, (size_t)k), *b = k + 1 < depth ? gs_line(m, (size_t)k + 1) : NULL;
        for (int i = 0; i < count; i += 16) {
            const __mmask16 there = first_lanes(count - i);
            const __m512i pairs = pairs_of(_mm512_maskz_loadu_ps(there, a + i),
                                           b ? _mm512_maskz_loadu_ps(there, b + i) : _mm512_setzero_ps());
            if (width >= 16) {
                _mm512_storeu_si512(to + (size_t)(i / width) * block + i % width, pairs);
            } else { /* two blocks of 8 */
                float *half = to + (size_t)(i / width) * block;
                _mm256_storeu_si256((__m256i *)(void *)half, _mm512_castsi512_si256(pairs));
                if (i + width < count)
                    _mm256_storeu_si256((__m256i *)(void *)(half + block),
                                        _mm512_extracti64x4_epi64(pairs, 1));
            }
        }
    }
}

/* Rows become columns: each of four rounds interleaves the lower half of the rows with the upper half, like shuffled
 * cards (gs_transpose in product.h). */
BF16 static inline void transpose(__m512i v[16]) {
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0),
                  high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
    __m512i dealt[16];
    for (int moved = 1; moved < 16; moved *= 2) {
        for (int i = 0; i < 8; i++) {
            dealt[2 * i] = _mm512_permutex2var_epi32(v[i], low, v[i + 8]);
            dealt[2 * i + 1] = _mm512_permutex2var_epi32(v[i], high, v[i + 8]);
        }
        for (int i = 0; i < 16; i++) v[i] = dealt[i];
    }
}

/* Lines that run along k: sixteen of them, 32 elements at a time, are transposed. */
BF16 static void pack_along(float *to, const gs_lines *m, int width, size_t block, int count, int depth) {
    for (int i = 0; i < count; i += 16)
        for (int k = 0; k < depth; k += 32) {
            const __mmask16 low = first_lanes(depth - k), high = first_lanes(depth - k - 16);
            __m512i v[16];
            for (int r = 0; r < 16; r++) {
                const float *line = i + r < count ? gs_line(m, (size_t)i + (size_t)r) + k : NULL;
                v[r] = line ? neighbours(_mm512_maskz_loadu_ps(low, line),
                                         _mm512_maskz_loadu_ps(high, line + 16))
                            : _mm512_setzero_si512();
            }
            transpose(v);
            const int pairs = depth - k < 32 ? (depth - k + 1) / 2 : 16;
            float *place = to + (size_t)(i / width) * block + i % width + (size_t)(k / 2) * (size_t)width;
            for (int p = 0; p < pairs; p++, place += width) {
                if (width >= 16) {
                    _mm512_storeu_si512(place, v[p]);
                } else {
                    _mm256_storeu_si256((__m256i *)(void *)place, _mm512_castsi512_si256(v[p]));
                    if (i + width < count)
                        _mm256_storeu_si256((__m256i *)(void *)(place + block),
                                            _mm512_extracti64x4_epi64(v[p], 1));
                }
            }
        }
}

void gs_cpu_bf16_pack(float *to, const gs_lines *m, int width, size_t block, int count, int depth) {
    (m->deep ? pack_along : pack_across)(to, m, width, block, count, depth);
}

#define UNROLL_ALL _Pragma("GCC unroll 8")

/* One tile; `vectors` is a constant at each call. */
BF16 static inline __attribute__((always_inline)) void tile_of(float *c, size_t c_row, const float *a,
                                                               const float *b, const int vectors, int rows,
                                                               int columns, int pairs, bool add) {
    const __mmask16 last = first_lanes(columns - 16 * (vectors - 1));
    __m512 sum[ROWS][VECTORS];
    UNROLL_ALL for (int i = 0; i < ROWS; i++) {
        UNROLL_ALL for (int j = 0; j < vectors; j++) {
            sum[i][j] = _mm512_setzero_ps();
            if (i < rows) __builtin_prefetch(c + (size_t)i * c_row + 16 * j, 1);
        }
    }
    for (int p = 0; p < pairs; p++, a += ROWS, b += 16 * vectors) {
        __m512bh x[VECTORS];
        UNROLL_ALL for (int j = 0; j < vectors; j++) x[j] = (__m512bh)_mm512_loadu_si512(b + 16 * j);
        UNROLL_ALL for (int i = 0; i < ROWS; i++) {
            int pair;
            __builtin_memcpy(&pair, a + i, sizeof pair);
            const __m512bh spread = (__m512bh)_mm512_set1_epi32(pair);
            UNROLL_ALL for (int j = 0; j < vectors; j++) sum[i][j] =
                _mm512_dpbf16_ps(sum[i][j], spread, x[j]);
        }
    }
    UNROLL_ALL for (int i = 0; i < ROWS; i++) {
        if (i >= rows) return;
        UNROLL_ALL for (int j = 0; j < vectors; j++) {
            const __mmask16 there = j == vectors - 1 ? last : 0xffff;
            float *to = c + (size_t)i * c_row + 16 * j;
            if (add) sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_maskz_loadu_ps(there, to));
            _mm512_mask_storeu_ps(to, there, sum[i][j]);
        }
    }
}

BF16 void gs_cpu_bf16_tile(float *c, size_t c_row, const float *a, const float *b, int rows, int columns,
                           int pairs, bool add) {
    if (columns > 32)
        tile_of(c, c_row, a, b, 3, rows, columns, pairs, add);
    else if (columns > 16)
        tile_of(c, c_row, a, b, 2, rows, columns, pairs, add);
    else
        tile_of(c, c_row, a, b, 1, rows, columns, pairs, add);
}

#else

void gs_cpu_bf16_pack(float *to, const gs_lines *m, int width, size_t block, int count, int depth) {
    (void)to, (void)m, (void)width, (void)block, (void)count, (void)depth;
    gs_bug("bf16: this processor has no such instruction");
}

void gs_cpu_bf16_tile(float *c, size_t c_row, const float *a, const float *b, int rows, int columns,
                      int pairs, bool add) {
    (void)c, (void)c_row, (void)a, (void)b, (void)rows, (void)columns, (void)pairs, (void)add;
    gs_bug("bf16: this processor has no such instruction");
}

#endif
