/* One head of attention, tile by tile: its memory, and a tile's products, for cpu/attention.c. Like matmul.h's
 * functions, these are compiled once per instruction set. */
#pragma once

#include "cpu/matmul.h"
#include "cpu/round16.h"

#include <math.h>

enum { TILE = 64, SIDE = 16 };

/* One head of one sample, and the memory of the part that computes it. */
typedef struct head {
    int d, length;
    bool causal;
    gs_precision precision;
    float scale;             /* 1 / sqrt(d) */
    size_t in_row, out_row;  /* distance from one token to the next in x and in y, in floats */
    const float *q, *k, *v;  /* for its first token */
    float *y;                /* for its first token */
    float *largest, *sum;    /* per token, for the softmax */
    const float *dy;         /* backward */
    float *dq, *dk, *dv;     /* backward */
    float *score, *gradient; /* tiles: (key, query) */
    float *qt, *dyt;         /* TILE queries and their dy, transposed: (d, query); the queries are scaled */
    float *strip;            /* for matmul */
    const struct head *next; /* the head this part computes after this one, or NULL */
} head;

/* ---- fetching ---- */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* A head's rows are short, and a token's other heads lie between them, so the core does not predict the next row. While
 * the queries from i on are multiplied by their first tile of keys, the same tokens of the next head are fetched, in
 * PIECES. On an EPYC, backward for 12 sequences of 64 uncached tokens took 600 us, and 835 us without this. */
enum { PIECES = 5 };

static void fetch_row(const float *row, int count) {
    for (int k = 0; k < count; k += GS_LINE) __builtin_prefetch(row + k, 0, 2);
}

static void fetch_next(const head *h, int i, int j, int piece) {
    const head *n = h->next;
    const int end = n && j == 0 ? least(n->length, i + TILE * (piece + 1) / PIECES) : 0;
    for (int a = i + TILE * piece / PIECES; a < end; a++) {
        const size_t in = (size_t)a * n->in_row, out = (size_t)a * n->out_row;
        fetch_row(n->q + in, n->d);
        fetch_row(n->k + in, n->d);
        fetch_row(n->v + in, n->d);
        if (!n->dy) continue;
        fetch_row(n->dy + out, n->d);
        fetch_row(n->y + out, n->d);
    }
}

/* ---- products ----
 *
 * A tile on the diagonal (`diagonal`) is cut into bands of SIDE keys or queries, and bands entirely past the diagonal,
 * where queries would see later keys, are skipped. The sums are the same, because those keys have weight 0. */

/* c = `rows` rows of `a`, which are `row` floats apart, times `columns` columns of t, a transposed matrix */
static void multiply(const head *h, float *c, size_t c_row, const float *a, size_t row, int rows,
                     const float *t, int columns) {
    const gs_matmul m = {.rows = rows,
                         .depth = h->d,
                         .columns = columns,
                         .a = {a, GS_TILE_ROWS * row, row, 1},
                         .b = {t, TILE},
                         .c = {c, c_row},
                         .strip = h->strip};
    GS_ISA(gs_cpu_matmul)(&m);
}

/* tile (key, query) = rows of `keys` times t, a transposed matrix */
static void tile_of(const head *h, float *tile, const float *keys, size_t row, int count, const float *t,
                    int lanes, bool diagonal) {
    const int band = diagonal ? SIDE : count;
    for (int j = 0; j < count; j += band) {
        const int first = diagonal ? j : 0;
        multiply(h, tile + j * TILE + first, TILE, keys + (size_t)j * row, row, least(band, count - j),
                 t + first, lanes - first);
    }
}

/* to[i] = row i times column i of t: the diagonal of tile_of, bit for bit. */
static void dots(const head *h, float *to, const float *rows, size_t row, int count, const float *t,
                 float *room) {
    for (int i = 0; i < count; i += SIDE) {
        const int here = least(SIDE, count - i);
        multiply(h, room, SIDE, rows + (size_t)i * row, row, here, t + i, SIDE);
        for (int k = 0; k < here; k++) to[i + k] = room[k * SIDE + k];
    }
}

/* to[query] (+)= sum over the keys of tile[key][query] from[key] */
static void to_queries(const head *h, float *to, size_t to_row, int queries, const float *tile, int keys,
                       const float *from, bool add, bool diagonal) {
    const int band = diagonal ? SIDE : queries;
    for (int i = 0; i < queries; i += band) GS_ISA(gs_cpu_matmul)
    (&(gs_matmul){.rows = least(band, queries - i),
                  .depth = diagonal ? least(keys, i + band) : keys,
                  .columns = h->d,
                  .a = {tile + i, GS_TILE_ROWS, 1, TILE},
                  .b = {from, h->in_row},
                  .c = {to + (size_t)i * to_row, to_row},
                  .add = add,
                  .strip = h->strip});
}

/* to[key] (+)= sum over the queries of tile[key][query] from[query] */
static void to_keys(const head *h, float *to, int keys, const float *tile, int queries, const float *from,
                    size_t from_row, bool add, bool diagonal) {
    const int band = diagonal ? SIDE : keys;
    for (int j = 0; j < keys; j += band) {
        const int first = diagonal ? j : 0;
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = least(band, keys - j),
                      .depth = queries - first,
                      .columns = h->d,
                      .a = {tile + j * TILE + first, GS_TILE_ROWS * TILE, TILE, 1},
                      .b = {from + (size_t)first * from_row, from_row},
                      .c = {to + (size_t)j * h->in_row, h->in_row},
                      .add = add,
                      .strip = h->strip});
    }
}

/* to (d, query) = factor times from (query, d), transposed; zeros past the last query */
static void turn(const head *h, float *to, const float *from, size_t row, int count, float factor) {
    if (count < TILE) memset(to, 0, (size_t)(h->d * TILE) * sizeof *to);
    GS_ISA(gs_cpu_transpose)(to, TILE, from, row, count, h->d);
    for (int i = 0; i < h->d * TILE; i++) to[i] *= factor;
}

static int whole(int count) {
    return (count + SIDE - 1) / SIDE * SIDE;
}

/* The first query whose score with key j was computed. */
static int first_lane(int j, bool diagonal) {
    return diagonal ? j / SIDE * SIDE : 0;
}

/* In the tile on the diagonal, hide from each query the later keys. */
static void hide_later(float *score, int count) {
    for (int j = 1; j < count; j++)
        for (int i = first_lane(j, true); i < j; i++) score[j * TILE + i] = -INFINITY;
}

/* Round the factors of the next products. */
static void round_tile(const head *h, float *tile, int keys, int lanes, bool diagonal) {
    for (int j = 0; j < keys && h->precision != GS_PRECISION_F32; j++) {
        const int first = first_lane(j, diagonal);
        float *row = tile + j * TILE + first;
        gs_round16(h->precision, row, row, (size_t)(lanes - first));
    }
}
