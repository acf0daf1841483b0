#include "cpu/product.h"

/* ---- y = a X ---- */

/* One tile of y in registers. rows and vectors are constants at each call, so the loops over them are unrolled. The
 * tile's memory is prefetched while the sums are computed. */
ALWAYS_INLINE void product_tile(const gs_product *t, const int rows, const int vectors, const float *a,
                                const float *bias, float *y, size_t ld, const float *x) {
    gs_vector sum[GS_TILE_ROWS][GS_TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            sum[i][j] = (gs_vector){0} + (bias ? bias[i] : 0.0f);
            __builtin_prefetch(y + (size_t)i * ld + j * GS_VECTOR, 1);
        }
    }
    for (int k = 0; k < t->depth; k++, a += rows) {
        const float *row = x + t->at[k];
        gs_vector b[GS_TILE_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++) {
            b[j] = gs_load(row + j * GS_VECTOR);
            KEEP_IN_REGISTER(b[j]);
        }
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += a[i] * b[j];
        }
    }
    if (t->relu) { /* a NaN stays a NaN */
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = gs_where(~(sum[i][j] < 0.0f), sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) gs_store(y + (size_t)i * ld + j * GS_VECTOR, sum[i][j]);
    }
}

#define ROWS(n)                                                                                              \
    case n:                                                                                                  \
        product_tile(t, n, vectors, a, bias, y, ld, x);                                                      \
        return;

ALWAYS_INLINE void product_rows(const gs_product *t, int rows, const int vectors, const float *a,
                                const float *bias, float *y, size_t ld, const float *x) {
    switch (rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
#if defined(__AVX512F__) || defined(__aarch64__)
        ROWS(5)
        ROWS(6)
        ROWS(7)
        ROWS(8)
#endif
    default:
        gs_bug("product: a tile of %d rows", rows);
    }
}

/* All rows of y, for `vectors` vectors of columns: these columns of X stay in the cache throughout. */
ALWAYS_INLINE void product_columns(const gs_product *t, const int vectors, float *y, size_t ld,
                                   const float *x) {
    for (int i = 0; i < t->rows; i += GS_TILE_ROWS) {
        int rows = t->rows - i < GS_TILE_ROWS ? t->rows - i : GS_TILE_ROWS;
        product_rows(t, rows, vectors, t->a + (size_t)i * (size_t)t->depth, t->bias ? t->bias + i : NULL,
                     y + (size_t)i * ld, ld, x);
    }
}

/* For fewer columns than a vector holds: the tile is first computed in scratch memory. */
static void product_narrow(const gs_product *t, float *y, size_t ld, const float *x) {
    float tile[GS_TILE_ROWS * GS_VECTOR];
    for (int i = 0; i < t->rows; i += GS_TILE_ROWS) {
        int rows = t->rows - i < GS_TILE_ROWS ? t->rows - i : GS_TILE_ROWS;
        product_rows(t, rows, 1, t->a + (size_t)i * (size_t)t->depth, t->bias ? t->bias + i : NULL, tile,
                     GS_VECTOR, x);
        for (int r = 0; r < rows; r++)
            for (int p = 0; p < t->columns; p++)
                y[(size_t)(i + r) * ld + (size_t)p] = tile[r * GS_VECTOR + p];
    }
}

void GS_ISA(gs_cpu_product)(const gs_product *t, float *y, size_t ld, const float *x) {
    if (t->columns < GS_VECTOR) {
        product_narrow(t, y, ld, x);
        return;
    }
    int p = 0;
    for (; p + GS_TILE_VECTORS * GS_VECTOR <= t->columns; p += GS_TILE_VECTORS * GS_VECTOR)
        product_columns(t, GS_TILE_VECTORS, y + p, ld, x + p);
    /* The last tile overlaps the one before it; if there is only one, its vectors overlap. */
    int left = (t->columns - p + GS_VECTOR - 1) / GS_VECTOR, last = t->columns - left * GS_VECTOR;
    if (left == 3 && last >= 0)
        product_columns(t, 3, y + last, ld, x + last);
    else if (left == 2 && last >= 0)
        product_columns(t, 2, y + last, ld, x + last);
    else
        for (; p < t->columns; p += GS_VECTOR) {
            int at = p + GS_VECTOR <= t->columns ? p : t->columns - GS_VECTOR;
            product_columns(t, 1, y + at, ld, x + at);
        }
}

void GS_ISA(gs_cpu_pack)(float *to, const float *a, int rows, int depth, const size_t *row_at,
                         const size_t *column_at) {
    for (int i = 0; i < rows; i += GS_TILE_ROWS) {
        int block = rows - i < GS_TILE_ROWS ? rows - i : GS_TILE_ROWS;
        for (int k = 0; k < depth; k++)
            for (int r = 0; r < block; r++) *to++ = a[row_at[i + r] + column_at[k]];
    }
}

/* ---- c += y X^T ---- */

/* sums[i] = the sum of all lanes of v[i], for `count` vectors, a power of two up to GS_VECTOR. Each step merges two
 * vectors: the even lanes hold the first one's partial sums, half as many as before, the odd lanes the second one's:
 *
 *     a0 a1 a2 a3,  b0 b1 b2 b3   ->   a0+a2 b0+b2 a1+a3 b1+b3
 *
 * All sums together take count - 1 steps of two shuffles and an addition; separately, each sum would take
 * log2(GS_VECTOR) steps of a shuffle and an addition. */
ALWAYS_INLINE void sums_of_lanes(float *sums, gs_vector *v, const int count) {
#define PAIR_UP(half)                                                                                        \
    if (count > half)                                                                                        \
        UNROLL for (int i = 0; i < half; i++) v[i] = gs_low(v[i], v[i + half]) + gs_high(v[i], v[i + half]);
    PAIR_UP(8)
    PAIR_UP(4)
    PAIR_UP(2)
    PAIR_UP(1)
    float lanes[GS_VECTOR]; /* lane i is part of sum i mod count */
    gs_store(lanes, v[0]);
    for (int i = 0; i < count; i++) {
        sums[i] = lanes[i];
        for (int part = i + count; part < GS_VECTOR; part += count) sums[i] += lanes[part];
    }
}

/* sums_of_lanes for any number of vectors. */
ALWAYS_INLINE void all_sums_of_lanes(float *sums, gs_vector *v, const int count) {
    const int rest = count % GS_VECTOR;
    _Pragma("GCC unroll 8") for (int i = 0; i < count - rest; i += GS_VECTOR)
        sums_of_lanes(sums + i, v + i, GS_VECTOR);
    sums += count - rest, v += count - rest;
    if (rest & 8) sums_of_lanes(sums, v, 8);
    sums += rest & 8, v += rest & 8;
    if (rest & 4) sums_of_lanes(sums, v, 4);
    sums += rest & 4, v += rest & 4;
    if (rest & 2) sums_of_lanes(sums, v, 2);
    sums += rest & 2, v += rest & 2;
    if (rest & 1) sums_of_lanes(sums, v, 1);
}

/* One tile of c. Until the end, each of its sums is a vector of partial sums. */
ALWAYS_INLINE void dot_tile(const gs_dots *t, const int rows, const int columns, float *c, const float *y,
                            const float *x, const size_t *at) {
    gs_vector sum[GS_DOT_ROWS * GS_DOT_COLUMNS];
    _Pragma("GCC unroll 24") for (int i = 0; i < rows * columns; i++) sum[i] = (gs_vector){0};
    for (int s = 0; s < t->samples; s++, y += t->y_sample, x += t->x_sample) {
        const float *row[GS_DOT_COLUMNS];
        UNROLL for (int j = 0; j < columns; j++) row[j] = x + at[j];
        for (size_t p = 0; p < (size_t)t->columns; p += GS_VECTOR) {
            gs_vector a[GS_DOT_ROWS];
            UNROLL for (int i = 0; i < rows; i++) a[i] = gs_load(y + (size_t)i * t->y_row + p);
            UNROLL for (int j = 0; j < columns; j++) {
                gs_vector b = gs_load(row[j] + p);
                KEEP_IN_REGISTER(b);
                UNROLL for (int i = 0; i < rows; i++) sum[i * columns + j] += a[i] * b;
            }
        }
    }
    float sums[GS_DOT_ROWS * GS_DOT_COLUMNS];
    all_sums_of_lanes(sums, sum, rows * columns);
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < columns; j++) c[(size_t)i * (size_t)t->depth + (size_t)j] +=
            sums[i * columns + j];
    }
}

/* Columns k .. end - 1 of c, for one block of rows. */
ALWAYS_INLINE void dot_rows(const gs_dots *t, const int rows, float *c, const float *y, const float *x, int k,
                            int end) {
    for (; k + GS_DOT_COLUMNS <= end; k += GS_DOT_COLUMNS)
        dot_tile(t, rows, GS_DOT_COLUMNS, c + k, y, x, t->at + k);
    for (; k + 3 <= end; k += 3) dot_tile(t, rows, 3, c + k, y, x, t->at + k);
    for (; k < end; k++) dot_tile(t, rows, 1, c + k, y, x, t->at + k);
}

/* Columns k .. end - 1 of c, for all rows. */
static void dot_columns(const gs_dots *t, float *c, const float *y, const float *x, int k, int end) {
    int blocks = (t->rows + GS_DOT_ROWS - 1) / GS_DOT_ROWS; /* nearly equal: 6 is 3 + 3, not 4 + 2 */
    for (int b = 0, i = 0; b < blocks; b++) {
        int next = t->rows * (b + 1) / blocks, rows = next - i;
        float *to = c + (size_t)i * (size_t)t->depth;
        const float *from = y + (size_t)i * t->y_row;
        if (rows == 1) dot_rows(t, 1, to, from, x, k, end);
        if (rows == 2) dot_rows(t, 2, to, from, x, k, end);
        if (rows == 3) dot_rows(t, 3, to, from, x, k, end);
#if defined(__AVX512F__) || defined(__aarch64__)
        if (rows == 4) dot_rows(t, 4, to, from, x, k, end);
#endif
        i = next;
    }
}

/* Takes some columns of c at a time, so that their rows of X stay in the L2 cache while all rows of y are processed. */
void GS_ISA(gs_cpu_dot_products)(const gs_dots *t, float *c, const float *y, const float *x) {
    enum { CACHED_FLOATS = 1 << 16 };
    int fit = CACHED_FLOATS / (t->columns * t->samples) / GS_DOT_COLUMNS,
        some = (fit < 1 ? 1 : fit) * GS_DOT_COLUMNS;
    for (int k = 0; k < t->depth; k += some)
        dot_columns(t, c, y, x, k, t->depth - k < some ? t->depth : k + some);
}
