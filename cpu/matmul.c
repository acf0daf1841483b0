#include "cpu/matmul.h"

/* Memory to prefetch. A large batch fits in no core's cache, and the core does not predict where a tile's next rows
 * are. One line is fetched per step of the depth, because many at once would wait for each other. On an EPYC, with 768
 * tokens that were in no cache, backward took 1,918 us without this and 1,850 us with it (128 -> 512), and 2,028 and
 * 1,890 us (512 -> 128). */
typedef struct soon {
    const float *from; /* NULL: nothing */
    size_t step;       /* floats */
} soon;

/* One tile. rows, vectors and fetches are constants at each call, so the loops over them are unrolled. `next`: the next
 * tile's memory, which is prefetched. */
ALWAYS_INLINE void tile_of(const gs_matmul *t, const int rows, const int vectors, const bool fetches,
                           const float *a, const float *b, size_t b_row, float *c, size_t c_row,
                           const float *next, const float *bias, bool add, soon fetch) {
    gs_vector sum[GS_TILE_ROWS][GS_TILE_VECTORS];
    const float *row[GS_TILE_ROWS];
    UNROLL for (int i = 0; i < rows; i++) {
        row[i] = a + (size_t)i * t->a.row;
        UNROLL for (int j = 0; j < vectors; j++) {
            sum[i][j] = (gs_vector){0};
            __builtin_prefetch(next + (size_t)i * c_row + j * GS_VECTOR, 1);
        }
    }
    size_t at = 0, a_column = t->a.column;
    for (int k = 0; k < t->depth; k++, at += a_column, b += b_row) {
        gs_vector x[GS_TILE_VECTORS];
        if (fetches) {
            __builtin_prefetch(fetch.from, 0, 2);
            fetch.from += fetch.step;
        }
        UNROLL for (int j = 0; j < vectors; j++) x[j] = gs_load(b + j * GS_VECTOR);
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = gs_fma_each(row[i][at], x[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++) {
            float *to = c + (size_t)i * c_row + j * GS_VECTOR;
            if (add) sum[i][j] = gs_load(to) + sum[i][j];
            if (bias) sum[i][j] += gs_load(bias + j * GS_VECTOR);
            gs_store(to, sum[i][j]);
        }
    }
}

static void tile(const gs_matmul *t, int rows, int vectors, const float *a, const float *b, size_t b_row,
                 float *c, size_t c_row, const float *next, const float *bias, bool add) {
    switch (rows * 4 + vectors) {
#define TILE(r, v)                                                                                           \
    case r * 4 + v:                                                                                          \
        tile_of(t, r, v, false, a, b, b_row, c, c_row, next, bias, add, (soon){NULL, 0});                    \
        return;
#define TILES(r) TILE(r, 1) TILE(r, 2) TILE(r, 3)
        TILES(1);
        TILES(2);
        TILES(3);
        TILES(4);
#if defined(__AVX512F__) || defined(__aarch64__)
        TILES(5);
        TILES(6);
        TILES(7);
        TILES(8);
#endif
    default:
        gs_bug("matmul: a tile of %d rows and %d vectors", rows, vectors);
    }
}

/* A whole tile with prefetching; a separate function, so that all registers are available to it. */
static __attribute__((noinline)) void fetching_tile(const gs_matmul *t, int vectors, const float *a,
                                                    const float *b, size_t b_row, float *c, const float *next,
                                                    const float *bias, soon fetch) {
    if (vectors == 3)
        tile_of(t, GS_TILE_ROWS, 3, true, a, b, b_row, c, t->c.row, next, bias, t->add, fetch);
    else
        tile_of(t, GS_TILE_ROWS, 2, true, a, b, b_row, c, t->c.row, next, bias, t->add, fetch);
}

/* The number of vectors in the tile at column j: 4 remaining ones are split 2 + 2, not 3 + 1. */
static int vectors_at(const gs_matmul *t, int j) {
    int left = (t->columns - j + GS_VECTOR - 1) / GS_VECTOR;
    return left == 4 ? 2 : left < GS_TILE_VECTORS ? left : GS_TILE_VECTORS;
}

/* Copy `width` columns of b from column j on, contiguously, with zeros past the end of b. If they were read in place,
 * rows a power of two apart would evict each other from the cache. */
static void copy_strip(const gs_matmul *t, int j, int width) {
    int left = t->columns - j < width ? t->columns - j : width;
    float *to = t->strip;
    for (int k = 0; k < t->depth; k++, to += width) {
        const float *from = t->b.at + (size_t)k * t->b.row + j;
        if (left < width) memset(to, 0, (size_t)width * sizeof *to);
        for (int i = 0; i < left / GS_VECTOR; i++)
            gs_store(to + i * GS_VECTOR, gs_load(from + i * GS_VECTOR));
        for (int i = left / GS_VECTOR * GS_VECTOR; i < left; i++) to[i] = from[i];
    }
}

/* If c ends within the tile's last vector, the tile is first computed in scratch memory. */
static void narrow_tile(const gs_matmul *t, int rows, int vectors, const float *a, float *c, int columns) {
    float whole[GS_TILE_ROWS * GS_STRIP];
    tile(t, rows, vectors, a, t->strip, (size_t)vectors * GS_VECTOR, whole, GS_STRIP, c, NULL, false);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float *to = c + (size_t)i * t->c.row + j, value = whole[i * GS_STRIP + j];
            *to = t->add ? *to + value : value;
        }
}

/* What to fetch while the tile at row i and column j is computed. */
static soon fetch_at(const gs_matmul *t, int i, int j, int vectors, const float *a) {
    const int block = i / GS_TILE_ROWS, after = j + vectors * GS_VECTOR;
    if (t->a_ahead > 0) return (soon){a + t->a_ahead, GS_TILE_ROWS};
    const float *b = after < t->columns ? t->b.at + after : t->next_b;
    if (t->by_columns && b && block * GS_LINE < GS_STRIP) return (soon){b + block * GS_LINE, t->b.row};
    return (soon){NULL, 0};
}

/* The tile at row i and column j; `copied`: its part of b is in the strip. */
static void tile_at(const gs_matmul *t, int i, int j, int vectors, bool copied) {
    int rows = t->rows - i < GS_TILE_ROWS ? t->rows - i : GS_TILE_ROWS;
    const float *a = t->a.at + (size_t)(i / GS_TILE_ROWS) * t->a.block;
    const float *b = copied ? t->strip : t->b.at + j;
    size_t b_row = copied ? (size_t)vectors * GS_VECTOR : t->b.row;
    float *c = t->c.at + (size_t)i * t->c.row + j;
    const float *next = t->by_columns ? c + GS_TILE_ROWS * t->c.row : c + vectors * GS_VECTOR;
    const float *bias = t->bias ? t->bias + j : NULL;
    const soon fetch = fetch_at(t, i, j, vectors, a);
    if (t->columns - j < vectors * GS_VECTOR)
        narrow_tile(t, rows, vectors, a, c, t->columns - j);
    else if (fetch.from && rows == GS_TILE_ROWS && vectors > 1)
        fetching_tile(t, vectors, a, b, b_row, c, next, bias, fetch);
    else
        tile(t, rows, vectors, a, b, b_row, c, t->c.row, next, bias, t->add);
}

static void walk_by_columns(const gs_matmul *t) {
    for (int j = 0, vectors; j < t->columns; j += vectors * GS_VECTOR) {
        vectors = vectors_at(t, j);
        copy_strip(t, j, vectors * GS_VECTOR);
        for (int i = 0; i < t->rows; i += GS_TILE_ROWS) tile_at(t, i, j, vectors, true);
    }
}

static void walk_by_rows(const gs_matmul *t) {
    int last = 0; /* where the last tiles start, if b must be copied for them */
    while (t->columns - last > vectors_at(t, last) * GS_VECTOR) last += vectors_at(t, last) * GS_VECTOR;
    bool copied = (t->columns - last) % GS_VECTOR != 0;
    if (copied) copy_strip(t, last, vectors_at(t, last) * GS_VECTOR);
    for (int i = 0; i < t->rows; i += GS_TILE_ROWS)
        for (int j = 0, vectors; j < t->columns; j += vectors * GS_VECTOR) {
            vectors = vectors_at(t, j);
            tile_at(t, i, j, vectors, copied && j == last);
        }
}

/* A block of GS_BLOCK terms of all sums at a time. While a block of tiles takes its terms, what it shall fetch lies
 * GS_TILE_ROWS times as far ahead (fetch_at). */
void GS_ISA(gs_cpu_matmul)(const gs_matmul *t) {
    gs_matmul m = *t;
    int k = 0;
    do {
        const int left = t->depth - k;
        m.depth = left < GS_BLOCK ? left : GS_BLOCK;
        m.bias = left > GS_BLOCK ? NULL : t->bias;
        m.a_ahead = t->a_ahead ? t->a_ahead + (size_t)k * (GS_TILE_ROWS - 1) : 0;
        (t->by_columns ? walk_by_columns : walk_by_rows)(&m);
        m.a.at += GS_BLOCK * t->a.column;
        m.b.at += GS_BLOCK * t->b.row;
        m.add = true;
        k += GS_BLOCK;
    } while (k < t->depth);
}

ALWAYS_INLINE void transpose_block(float *to, size_t to_row, const float *from, size_t from_row) {
    gs_vector v[GS_VECTOR];
    _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++) v[i] = gs_load(from + (size_t)i * from_row);
    gs_transpose(v);
    _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++) gs_store(to + (size_t)i * to_row, v[i]);
}

void GS_ISA(gs_cpu_transpose)(float *to, size_t to_row, const float *from, size_t from_row, int rows,
                              int columns) {
    int i = 0;
    for (; i + GS_VECTOR <= rows; i += GS_VECTOR) {
        int j = 0;
        for (; j + GS_VECTOR <= columns; j += GS_VECTOR)
            transpose_block(to + (size_t)j * to_row + i, to_row, from + (size_t)i * from_row + j, from_row);
        for (; j < columns; j++)
            for (int r = i; r < i + GS_VECTOR; r++)
                to[(size_t)j * to_row + r] = from[(size_t)r * from_row + j];
    }
    for (; i < rows; i++)
        for (int j = 0; j < columns; j++) to[(size_t)j * to_row + i] = from[(size_t)i * from_row + j];
}
