#include "cpu/product.h"

/* ---- y = a X ---- */

/* What a gs_product asks for, a constant at each call: one chain for each element, with a packed; several, with `sum`;
 * or a_at. */
typedef enum kind { CHAIN, PARTS, SAMPLES } kind;

/* One tile of y in registers. rows and vectors are constants at each call, so the loops over them are unrolled. The
 * tile's memory is prefetched while the sums are computed. at: t->at, its part, or the tile's rows of t->a_at. */
ALWAYS_INLINE void product_tile(const gs_product *t, const kind kind, int part, const int rows,
                                const int vectors, const float *a, const size_t *at, const float *bias,
                                float *y, size_t ld, const float *x) {
    const bool packed = kind != SAMPLES;
    gs_vector sum[GS_TILE_ROWS][GS_TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            sum[i][j] = (gs_vector){0} + (bias ? bias[i] : 0.0f);
            if (packed) __builtin_prefetch(y + (size_t)i * ld + j * GS_VECTOR, 1);
        }
    }
    const float *row_of_a[GS_TILE_ROWS];
    UNROLL for (int i = 0; i < rows && !packed; i++) row_of_a[i] = a + at[i];
    for (int s = 0; s <= (packed ? 0 : t->more); s++, x += t->x_sample) {
        const float *next = x;
        const size_t x_row = t->x_row, depth = (size_t)t->depth;
        for (size_t k = 0; k < depth; k++, a += rows) {
            if (!packed) KEEP_INDEX(k);
            const float *row = packed ? x + at[k] : next;
            next += x_row;
            gs_vector b[GS_TILE_VECTORS];
            UNROLL for (int j = 0; j < vectors; j++) b[j] = gs_load(row + j * GS_VECTOR);
            UNROLL for (int i = 0; i < rows; i++) {
                UNROLL for (int j = 0; j < vectors; j++) sum[i][j] =
                    gs_fma_each(packed ? a[i] : row_of_a[i][k], b[j], sum[i][j]);
            }
        }
        UNROLL for (int i = 0; i < rows && !packed; i++) row_of_a[i] += t->a_sample;
    }
    if (kind != CHAIN) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++) {
                gs_vector before = {0};
                if (!packed || part > 0) before = gs_load(y + (size_t)i * ld + j * GS_VECTOR);
                sum[i][j] += before;
            }
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
        product_tile(t, kind, part, n, vectors, a, at, bias, y, ld, x);                                      \
        break;

/* Rows from `first` on, as many as a tile holds. */
ALWAYS_INLINE void product_rows(const gs_product *t, const kind kind, int first, int rows, const int vectors,
                                float *y, size_t ld, const float *x) {
    const size_t depth = (size_t)t->depth;
    const int parts = kind == PARTS ? t->more_parts + 1 : 1;
    const float *a = kind == SAMPLES ? t->a : t->a + (size_t)(first * parts) * depth;
    const size_t *at = kind == SAMPLES ? t->a_at + first : t->at;
    const float *bias = t->bias ? t->bias + first : NULL;
    for (int part = 0; part < parts; part++, a += (size_t)rows * depth, at += depth) switch (rows) {
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
ALWAYS_INLINE void product_columns(const gs_product *t, const kind kind, const int vectors, float *y,
                                   size_t ld, const float *x) {
    for (int i = 0; i < t->rows; i += GS_TILE_ROWS) {
        int rows = t->rows - i < GS_TILE_ROWS ? t->rows - i : GS_TILE_ROWS;
        product_rows(t, kind, i, rows, vectors, y + (size_t)i * ld, ld, x);
    }
}

/* For fewer columns than a vector holds: the tile is first computed in scratch memory. */
static __attribute__((noinline)) void product_narrow(const gs_product *t, float *y, size_t ld,
                                                     const float *x) {
    float tile[GS_TILE_ROWS * GS_VECTOR];
    for (int i = 0; i < t->rows; i += GS_TILE_ROWS) {
        int rows = t->rows - i < GS_TILE_ROWS ? t->rows - i : GS_TILE_ROWS;
        if (t->sum)
            product_rows(t, PARTS, i, rows, 1, tile, GS_VECTOR, x);
        else
            product_rows(t, CHAIN, i, rows, 1, tile, GS_VECTOR, x);
        for (int r = 0; r < rows; r++)
            for (int p = 0; p < t->columns; p++)
                y[(size_t)(i + r) * ld + (size_t)p] = tile[r * GS_VECTOR + p];
    }
}

ALWAYS_INLINE void product(const gs_product *t, const kind kind, float *y, size_t ld, const float *x) {
    int p = 0;
    for (; p + GS_TILE_VECTORS * GS_VECTOR <= t->columns; p += GS_TILE_VECTORS * GS_VECTOR)
        product_columns(t, kind, GS_TILE_VECTORS, y + p, ld, x + p);
    /* The last tile overlaps the one before it; if there is only one, its vectors overlap. */
    int left = (t->columns - p + GS_VECTOR - 1) / GS_VECTOR, last = t->columns - left * GS_VECTOR;
    if (left == 3 && last >= 0)
        product_columns(t, kind, 3, y + last, ld, x + last);
    else if (left == 2 && last >= 0)
        product_columns(t, kind, 2, y + last, ld, x + last);
    else
        for (; p < t->columns; p += GS_VECTOR) {
            int at = p + GS_VECTOR <= t->columns ? p : t->columns - GS_VECTOR;
            product_columns(t, kind, 1, y + at, ld, x + at);
        }
}

/* Separate functions, because in one the compiler would run out of registers. */
static __attribute__((noinline)) void product_parts(const gs_product *t, float *y, size_t ld,
                                                    const float *x) {
    product(t, PARTS, y, ld, x);
}

static __attribute__((noinline)) void product_samples(const gs_product *t, float *y, size_t ld,
                                                      const float *x) {
    product(t, SAMPLES, y, ld, x);
}

void GS_ISA(gs_cpu_product)(const gs_product *t, float *y, size_t ld, const float *x) {
    if (t->a_at)
        product_samples(t, y, ld, x);
    else if (t->columns < GS_VECTOR)
        product_narrow(t, y, ld, x);
    else if (t->sum)
        product_parts(t, y, ld, x);
    else
        product(t, CHAIN, y, ld, x);
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

/* sums[i] = the sum of all lanes of v[i], for `count` vectors, a power of two up to GS_VECTOR: lane l += lane l + h,
 * for h = half the lanes, ..., 2, 1. Each step merges two vectors: the even lanes hold the first one's partial sums,
 * half as many as before, the odd lanes the second one's:
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
    UNROLL for (int half = GS_VECTOR / 2; half >= count; half /= 2) v[0] = gs_fold(v[0]);
    float lanes[GS_VECTOR];
    gs_store(lanes, v[0]);
    for (int i = 0; i < count; i++) sums[i] = lanes[i * (GS_VECTOR / count)];
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

/* One tile of c. Until the end, each of its sums has GS_CONV2D_LANES partial sums. */
ALWAYS_INLINE void dot_tile(const gs_dots *t, const int rows, const int columns, float *c, const float *y,
                            const float *x, const size_t *at) {
    gs_vector sum[GS_LANE_VECTORS][GS_DOT_ROWS * GS_DOT_COLUMNS];
    UNROLL for (int h = 0; h < GS_LANE_VECTORS; h++)
        _Pragma("GCC unroll 24") for (int i = 0; i < rows * columns; i++) sum[h][i] = (gs_vector){0};
    for (int s = 0; s < t->samples; s++, y += t->y_sample, x += t->x_sample) {
        const float *row[GS_DOT_COLUMNS];
        UNROLL for (int j = 0; j < columns; j++) row[j] = x + at[j];
        for (size_t p = 0; p < (size_t)t->columns; p += GS_CONV2D_LANES) {
            UNROLL for (int h = 0; h < GS_LANE_VECTORS; h++) {
                gs_vector a[GS_DOT_ROWS];
                UNROLL for (int i = 0; i < rows; i++) a[i] =
                    gs_load(y + (size_t)i * t->y_row + p + h * GS_VECTOR);
                UNROLL for (int j = 0; j < columns; j++) {
                    gs_vector b = gs_load(row[j] + p + h * GS_VECTOR);
                    UNROLL for (int i = 0; i < rows; i++) sum[h][i * columns + j] =
                        gs_fma(a[i], b, sum[h][i * columns + j]);
                }
            }
        }
    }
    UNROLL for (int part = GS_LANE_VECTORS / 2; part > 0; part /= 2) UNROLL for (int h = 0; h < part; h++)
        _Pragma("GCC unroll 24") for (int i = 0; i < rows * columns; i++) sum[h][i] += sum[h + part][i];
    float sums[GS_DOT_ROWS * GS_DOT_COLUMNS];
    all_sums_of_lanes(sums, sum[0], rows * columns);
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
#if defined(__AVX512F__)
        if (rows == 3) dot_rows(t, 3, to, from, x, k, end);
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
