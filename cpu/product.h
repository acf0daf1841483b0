/* The two small products for convolution, with a tile's sums in registers.
 *
 * Both read a matrix X whose rows may be anywhere in memory: row k starts at x + at[k]. Rows may overlap, so the
 * patches of a convolution (conv2d.c) need not be written out. A tile of the result stays in registers while the inner
 * loop runs over the depth; tiles are as large as each instruction set's registers allow. On how to choose tiles from
 * the sizes of registers and caches, see Goto, van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM
 * Transactions on Mathematical Software 34, 2008).
 *
 * `make` compiles this file with -ffp-contract=fast: a * b + c is one instruction where the machine has it. */
#pragma once

#include "cpu/cpu.h"

/* Floats per vector register, and the tiles: GS_TILE_ROWS x GS_TILE_VECTORS sums for `product`, and GS_DOT_ROWS x
 * GS_DOT_COLUMNS for `dot_products`. */
#if defined(__AVX512F__)
enum { GS_VECTOR = 16, GS_TILE_ROWS = 8, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 4, GS_DOT_COLUMNS = 6 };
#elif defined(__AVX__)
enum { GS_VECTOR = 8, GS_TILE_ROWS = 4, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 3, GS_DOT_COLUMNS = 3 };
#elif defined(__aarch64__)
enum { GS_VECTOR = 4, GS_TILE_ROWS = 8, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 4, GS_DOT_COLUMNS = 6 };
#else
enum { GS_VECTOR = 4, GS_TILE_ROWS = 4, GS_TILE_VECTORS = 3, GS_DOT_ROWS = 3, GS_DOT_COLUMNS = 3 };
#endif

/* A register of floats, which can be loaded from and stored to any address, and a register of as many int32. */
typedef float gs_vector __attribute__((vector_size(4 * GS_VECTOR), aligned(4), may_alias));
typedef int32_t gs_vector_int __attribute__((vector_size(4 * GS_VECTOR), aligned(4), may_alias));

static inline gs_vector gs_load(const float *x) {
    return *(const gs_vector *)x;
}

static inline void gs_store(float *x, gs_vector v) {
    *(gs_vector *)x = v;
}

/* a where the mask is -1, and 0 where it is 0 */
static inline gs_vector gs_where(gs_vector_int mask, gs_vector a) {
    return (gs_vector)((gs_vector_int)a & mask);
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Without this, the compiler reloads a vector for each multiply-add, which takes longer. */
#if defined(__AVX512F__)
#define KEEP_IN_REGISTER(v) __asm__("" : "+v"(v))
#else
#define KEEP_IN_REGISTER(v) (void)(v)
#endif

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

static inline size_t gs_round_up(size_t n) {
    return (n + GS_VECTOR - 1) / GS_VECTOR * GS_VECTOR;
}

/* y[i][p] = bias[i] + sum_k a[i][k] x[at[k] + p], i < rows, p < columns, k < depth; with relu: max(that, 0) */
typedef struct gs_product {
    int rows, depth, columns;
    const float *a;    /* packed by `pack` */
    const size_t *at;  /* `depth` entries */
    const float *bias; /* `rows` elements, or NULL */
    bool relu;
} gs_product;

/* y is (rows, ld). Reads up to GS_VECTOR - 1 floats past the end of each row of X. */
void GS_ISA(gs_cpu_product)(const gs_product *, float *y, size_t ld, const float *x);

/* Write the matrix (rows, depth) with elements a[row_at[i] + column_at[k]] to `to`, without gaps, in the order in which
 * `product` reads it: in blocks of GS_TILE_ROWS rows, with each column of a block contiguous. */
void GS_ISA(gs_cpu_pack)(float *to, const float *a, int rows, int depth, const size_t *row_at,
                         const size_t *column_at);

/* c[i][k] += sum over `samples` s and p < columns of y[s][i][p] x[s][at[k] + p], i < rows, k < depth. y[s][i] starts at
 * y + s y_sample + i y_row and is followed by zeros up to the next multiple of GS_VECTOR; in these columns, too,
 * X must hold finite numbers. c is (rows, depth). */
typedef struct gs_dots {
    int rows, depth, columns, samples;
    const size_t *at;
    size_t y_row, y_sample, x_sample;
} gs_dots;

void GS_ISA(gs_cpu_dot_products)(const gs_dots *, float *c, const float *y, const float *x);
