/* The two small products for convolution, with a tile's sums in registers.
 *
 * Both read a matrix X whose rows may be anywhere in memory: row k starts at x + at[k]. Rows may overlap, so the
 * patches of a convolution (conv2d.c) need not be written out. A tile of the result stays in registers while the inner
 * loop runs over the depth; tiles are as large as each instruction set's registers allow. On how to choose tiles from
 * the sizes of registers and caches, see Goto, van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM
 * Transactions on Mathematical Software 34, 2008).
 *
 * Their multiply-adds are gs_fma below. */
#pragma once

#include "conv2d_order.h"
#include "cpu/cpu.h"

#if defined(GS_SOFT_FMA)
#include <immintrin.h>
#endif

/* Floats per vector register, and the tiles: GS_TILE_ROWS x GS_TILE_VECTORS sums for `product`, and GS_DOT_ROWS x
 * GS_DOT_COLUMNS for `dot_products`. */
#if defined(__AVX512F__)
enum { GS_VECTOR = 16, GS_TILE_ROWS = 8, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 4, GS_DOT_COLUMNS = 6 };
#elif defined(__AVX__)
enum { GS_VECTOR = 8, GS_TILE_ROWS = 4, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 2, GS_DOT_COLUMNS = 3 };
#elif defined(__aarch64__)
enum { GS_VECTOR = 4, GS_TILE_ROWS = 8, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 2, GS_DOT_COLUMNS = 3 };
#else
enum { GS_VECTOR = 4, GS_TILE_ROWS = 4, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 1, GS_DOT_COLUMNS = 3 };
#endif

enum { GS_LANE_VECTORS = GS_CONV2D_LANES / GS_VECTOR };

/* A register of floats, which can be loaded from and stored to any address, and a register of as many int32. */
typedef float gs_vector __attribute__((vector_size(4 * GS_VECTOR), aligned(4), may_alias));
typedef int32_t gs_vector_int __attribute__((vector_size(4 * GS_VECTOR), aligned(4), may_alias));

static inline gs_vector gs_load(const float *x) {
    return *(const gs_vector *)x;
}

static inline void gs_store(float *x, gs_vector v) {
    *(gs_vector *)x = v;
}

/* x in each lane; 0 + x would lose the sign of -0 */
static inline gs_vector gs_each(float x) {
    return x - (gs_vector){0};
}

/* a where the mask is -1, and 0 where it is 0 */
static inline gs_vector gs_where(gs_vector_int mask, gs_vector a) {
    return (gs_vector)((gs_vector_int)a & mask);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* For gs_fma: a b + c in the first two lanes. The product of two floats is exact in double. An inexact sum is rounded
 * to odd: to the neighbour whose last bit is 1. Rounding that to float gives what rounding the exact sum gives (Boldo,
 * Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008). */
#if defined(GS_SOFT_FMA)
typedef int64_t gs_long2 __attribute__((vector_size(16)));
ALWAYS_INLINE __m128 gs_fma_of_two(__m128 a, __m128 b, __m128 c) {
    const __m128d p = _mm_cvtps_pd(a) * _mm_cvtps_pd(b), d = _mm_cvtps_pd(c), sum = p + d, of_d = sum - p,
                  error = (p - (sum - of_d)) + (d - of_d); /* exact; NaN if the sum is not finite */
    const gs_long2 bits = (gs_long2)sum, inexact = (error < 0) | (error > 0), even = (bits & 1) - 1,
                   away = (error < 0) ^ (sum < 0); /* -1: the exact sum is nearer to 0 */
    return _mm_cvtpd_ps((__m128d)(bits + ((away | 1) & even & inexact)));
}
#endif

/* a b + c in each lane, rounded once: one instruction, in asm because gcc 12 copies and spills the sums of a product's
 * loop where the compiler's own instruction is used. The plain x86-64 build has none and rounds twice, except where
 * exact bits are wanted (cpu.h: _soft). */
ALWAYS_INLINE gs_vector gs_fma(gs_vector a, gs_vector b, gs_vector c) {
#if defined(__FMA__)
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#elif defined(__aarch64__)
    __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
#elif defined(GS_SOFT_FMA)
    const __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
    return (gs_vector)_mm_movelh_ps(
        gs_fma_of_two(x, y, z), gs_fma_of_two(_mm_movehl_ps(x, x), _mm_movehl_ps(y, y), _mm_movehl_ps(z, z)));
#else
    return a * b + c;
#endif
}

/* x b + c */
ALWAYS_INLINE gs_vector gs_fma_each(float x, gs_vector b, gs_vector c) {
#if defined(__aarch64__)
    __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(b), "w"(x));
    return c;
#else
    return gs_fma(gs_each(x), b, c);
#endif
}

/* Else it replaces k by a pointer for each array that k indexes, and runs out of registers. */
#define KEEP_INDEX(k) __asm__("" : "+r"(k))

/* GS_LOW and GS_HIGH select the first and the second half of two interleaved vectors, a0 b0 a1 b1 ...; GS_EVEN and
 * GS_ODD are the inverse: they select the even and the odd elements of two adjacent vectors. */
#if defined(__AVX512F__)
#define GS_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define GS_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define GS_EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define GS_ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define GS_HALVES 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#elif defined(__AVX__)
#define GS_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define GS_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define GS_EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define GS_ODD 1, 3, 5, 7, 9, 11, 13, 15
#define GS_HALVES 0, 1, 2, 3, 8, 9, 10, 11
#else
#define GS_LOW 0, 4, 1, 5
#define GS_HIGH 2, 6, 3, 7
#define GS_EVEN 0, 2, 4, 6
#define GS_ODD 1, 3, 5, 7
#define GS_HALVES 0, 1, 4, 5
#endif

static inline gs_vector gs_low(gs_vector a, gs_vector b) {
    return __builtin_shufflevector(a, b, GS_LOW);
}

static inline gs_vector gs_high(gs_vector a, gs_vector b) {
    return __builtin_shufflevector(a, b, GS_HIGH);
}

static inline gs_vector gs_even(gs_vector a, gs_vector b) {
    return __builtin_shufflevector(a, b, GS_EVEN);
}

static inline gs_vector gs_odd(gs_vector a, gs_vector b) {
    return __builtin_shufflevector(a, b, GS_ODD);
}

/* The first half of each of two vectors. */
static inline gs_vector gs_halves(gs_vector a, gs_vector b) {
    return __builtin_shufflevector(a, b, GS_HALVES);
}

/* v[i][j] becomes v[j][i]. Each of log2(GS_VECTOR) steps interleaves the two halves of v, like a pack of cards. */
ALWAYS_INLINE void gs_transpose(gs_vector *v) {
    enum { HALF = GS_VECTOR / 2 };
    gs_vector dealt[GS_VECTOR];
    _Pragma("GCC unroll 4") for (int step = 1; step < GS_VECTOR; step *= 2) {
        _Pragma("GCC unroll 8") for (int i = 0; i < HALF; i++) {
            dealt[2 * i] = gs_low(v[i], v[i + HALF]);
            dealt[2 * i + 1] = gs_high(v[i], v[i + HALF]);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++) v[i] = dealt[i];
    }
}

/* v's lanes, the second half added to the first; each sum takes two lanes. */
static inline gs_vector gs_fold(gs_vector v) {
    return gs_low(v, v) + gs_high(v, v);
}

/* The sum of a gs_conv2d_order's lanes. */
static inline float gs_sum_of_conv2d_lanes(const float lane[GS_CONV2D_LANES]) {
    gs_vector v[GS_LANE_VECTORS];
    UNROLL for (int i = 0; i < GS_LANE_VECTORS; i++) v[i] = gs_load(lane + i * GS_VECTOR);
    UNROLL for (int h = GS_LANE_VECTORS / 2; h > 0; h /= 2) UNROLL for (int i = 0; i < h; i++) v[i] +=
        v[i + h];
    UNROLL for (int h = GS_VECTOR / 2; h > 0; h /= 2) v[0] = gs_fold(v[0]);
    return v[0][0];
}

/* Planes of `count` channels, which are `apart` floats apart. */
typedef struct gs_channels {
    size_t count, plane, apart;
} gs_channels;

/* Copy one image so that a pixel's channels are adjacent: blocks of GS_VECTOR channels are `block` floats apart, and
 * pixel p goes to place[p]. The last pixels are copied together with some of those before them. Reads the channels
 * after the last one, up to a multiple of GS_VECTOR. */
static inline void gs_beside(const gs_channels *c, float *to, size_t block, const uint32_t *place,
                             const float *from) {
    const size_t plane = c->plane, apart = c->apart, count = c->count; /* no store changes them */
    for (size_t done = 0; done < count; done += GS_VECTOR, from += GS_VECTOR * apart, to += block) {
        size_t p = 0;
        while (p + GS_VECTOR <= plane) {
            gs_vector v[GS_VECTOR];
            _Pragma("GCC unroll 16") for (size_t i = 0; i < GS_VECTOR; i++) v[i] =
                gs_load(from + i * apart + p);
            gs_transpose(v);
            _Pragma("GCC unroll 16") for (size_t i = 0; i < GS_VECTOR; i++) gs_store(to + place[p + i], v[i]);
            p += GS_VECTOR;
            if (p < plane && p + GS_VECTOR > plane) p = plane - GS_VECTOR;
        }
        for (; p < plane; p++)
            for (size_t i = 0; i < GS_VECTOR; i++) to[place[p] + i] = from[i * apart + p];
    }
}

/* The sum of a plane in lanes: gs_conv2d_order_of_db. */
static inline float gs_sum_of_plane(const float *x, size_t count) {
    gs_vector sums[GS_LANE_VECTORS] = {{0}};
    float lane[GS_CONV2D_LANES];
    size_t p = 0;
    for (; p + GS_CONV2D_LANES <= count; p += GS_CONV2D_LANES)
        UNROLL for (size_t h = 0; h < GS_LANE_VECTORS; h++) sums[h] += gs_load(x + p + h * GS_VECTOR);
    memcpy(lane, sums, sizeof lane);
    for (; p < count; p++) lane[p % GS_CONV2D_LANES] += x[p];
    return gs_sum_of_conv2d_lanes(lane);
}

static inline size_t gs_round_up(size_t n) {
    return (n + GS_VECTOR - 1) / GS_VECTOR * GS_VECTOR;
}

/* y[i][p] = bias[i] + sum_k a[i][k] x[at[k] + p], i < rows, p < columns, k < depth: for each element a chain of fma in
 * the order of k; with relu: max(that, 0). With `sum`, y = +0 + that, and `more_parts` further such sums are added, in
 * order: their a and `at` follow.
 *
 * With a_at, row i of a starts at a + a_at[i] and row k of x at x + k x_row, and `more` further samples follow in the
 * same chain, each a_sample and x_sample floats after the one before it; columns is a multiple of GS_VECTOR; `sum` is y
 * +=. */
typedef struct gs_product {
    int rows, depth, columns;
    const float *a;    /* packed by `pack`, unless there is a_at */
    const size_t *at;  /* `depth` entries */
    const float *bias; /* `rows` elements, or NULL */
    bool relu, sum;
    int more_parts, more;
    const size_t *a_at;
    size_t x_row, a_sample, x_sample;
} gs_product;

/* y is (rows, ld). Reads up to GS_VECTOR - 1 floats past the end of each row of X. */
void GS_ISA(gs_cpu_product)(const gs_product *, float *y, size_t ld, const float *x);

/* Write the matrix (rows, depth) with elements a[row_at[i] + column_at[k]] to `to`, without gaps, in the order in which
 * `product` reads it: in blocks of GS_TILE_ROWS rows, with each column of a block contiguous. */
void GS_ISA(gs_cpu_pack)(float *to, const float *a, int rows, int depth, const size_t *row_at,
                         const size_t *column_at);

/* c[i][k] += sum over `samples` s and p < columns of y[s][i][p] x[s][at[k] + p], i < rows, k < depth. y[s][i] starts at
 * y + s y_sample + i y_row and is followed by zeros up to the next multiple of GS_CONV2D_LANES; in these columns, too,
 * X must hold finite numbers. c is (rows, depth). Column p is added by lane p mod GS_CONV2D_LANES, as gs_conv2d_order
 * says. */
typedef struct gs_dots {
    int rows, depth, columns, samples;
    const size_t *at;
    size_t y_row, y_sample, x_sample;
} gs_dots;

void GS_ISA(gs_cpu_dot_products)(const gs_dots *, float *c, const float *y, const float *x);
