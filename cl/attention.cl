#include "attention_tile.clh"

/* Attention in tiles. src/backend.h defines it; cpu/attention.c explains the tiles, and how the softmax is carried from
 * tile to tile. A work-group handles TILE queries of a head and loops over all keys, KEYS at a time; or, for the keys'
 * gradients, TILE keys, and loops over all queries. On a CPU a work-group is a single work-item. */

typedef struct attention_sizes {
    int length, width, heads, causal, precision;
} attention_sizes;

#define ITEM ((int)(get_global_id(0) % ITEMS))
#define TASK (get_global_id(0) / ITEMS)

/* The sample's head, and the tile of it, that a work-group handles. On a GPU there is a tile for each group. There no
 * group may return early: with barriers after it, PoCL 6.0 writes outside of arrays. */
typedef struct place {
    int d, first, count; /* head size; the tile's first token and number of tokens */
    size_t in, out, row; /* offsets of the head's first token in x, in y, and in a head's per-token array */
    size_t in_row, out_row;
    float scale; /* 1 / sqrt(d) */
} place;

static place place_of(size_t task, attention_sizes s) {
    const size_t tiles = (s.length + TILE - 1) / TILE, head = task / tiles, sample = head / s.heads;
    place p;
    p.d = s.width / s.heads;
    p.first = (int)(task - head * tiles) * TILE;
    p.count = min(TILE, s.length - p.first);
    p.in_row = 3 * (size_t)s.width;
    p.out_row = s.width;
    p.in = sample * s.length * p.in_row + (head - sample * s.heads) * p.d;
    p.out = sample * s.length * p.out_row + (head - sample * s.heads) * p.d;
    p.row = head * s.length;
    p.scale = 1.0f / sqrt((float)p.d);
    return p;
}

/* `from` for a tile that starts at this token, and a block (attention_tile.clh). */
static int later(int tile, int block, int causal) {
    return causal && tile - block < KEYS ? tile - block : KEYS;
}

/* y_i = sum_j p_ij v_j, p_i = softmax_j(q_i k_j / sqrt(d)); softmax: each row's largest score, then each row's sum */
__kernel OF_ITEMS void attention_forward(__global float *y, ulong y_at, __global float *softmax,
                                         ulong softmax_at, __global const stored *x, ulong x_at, ulong n,
                                         attention_sizes s) {
    SHARED float score[KEYS * ROW], side[SIDE], largest[TILE], sum[TILE], factor[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (ITEMS == 1 && TASK >= n * s.heads * tiles) return;
    const place p = place_of(TASK, s);
    const int end = s.causal ? p.first + p.count : s.length;
    __global const stored *q = x + x_at + p.in + p.first * p.in_row, *k = x + x_at + p.in + s.width,
                          *v = k + s.width;
    y += y_at + p.out + p.first * p.out_row;
    softmax += softmax_at + 2 * p.row + p.first;
    EACH(i, TILE) {
        largest[i] = -INFINITY;
        sum[i] = 0;
    }
    WAIT;
    for (int j = 0; j < end; j += KEYS) {
        const int keys = min((int)KEYS, end - j), from = later(p.first, j, s.causal);
        products(score, side, q, p.in_row, p.count, p.scale, k + j * p.in_row, p.in_row, keys, 1, p.d, from,
                 id);
        weigh(score, largest, sum, factor, p.count, keys, from, id);
        if (s.precision) round_tile(score, p.count, keys, from, s.precision, id);
        sum_rows(y, p.out_row, factor, j > 0, 0, p.count, score, keys, v + j * p.in_row, p.in_row, p.d, from,
                 id);
    }
    finish(y, p.out_row, softmax, s.length, largest, sum, p.count, p.d, id);
}

#ifdef GS_GPU

/* dy_y[i] = dy_i y_i for each head; work-item (sample, head, token) */
__kernel void attention_dy_y(__global float *dy_y, __global const stored *dy, ulong dy_at,
                             __global const stored *y, ulong y_at, ulong rows, attention_sizes s) {
    const size_t row = get_global_id(0), head = row / s.length, sample = head / s.heads;
    const int d = s.width / s.heads;
    if (row >= rows) return;
    const size_t from =
        (sample * s.length + (row - head * s.length)) * s.width + (head - sample * s.heads) * d;
    float all = 0, sum = 0;
    for (int k = 0; k < d; k++) {
        if (k % TERMS == 0 && k > 0) {
            all = AND_BLOCK(k - TERMS, all, sum);
            sum = 0;
        }
        sum = fma(number(dy[dy_at + from + k]), number(y[y_at + from + k]), sum);
    }
    dy_y[row] = AND_BLOCK(d - TERMS, all, sum);
}

/* The gradient of q for the tile's queries, summed over all keys; or, if of_keys, the gradients of k and v for the
 * tile's keys, summed over all queries. */
__kernel OF_ITEMS void attention_gradient(__global float *dx, ulong dx_at, __global const stored *dy,
                                          ulong dy_at, __global const stored *x, ulong x_at,
                                          __global const float *softmax, ulong softmax_at,
                                          __global const float *dy_y, ulong n, attention_sizes s,
                                          int of_keys) {
    SHARED float score[TILE * ROW], gradient[TILE * ROW], side[SIDE], one[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (ITEMS == 1 && TASK >= n * s.heads * tiles) return;
    const place p = place_of(TASK, s);
    const size_t in = p.in_row, out = p.out_row, own = p.first * in;
    const int begin = of_keys && s.causal ? p.first & ~(KEYS - 1) : 0;
    const int end = of_keys || !s.causal ? s.length : p.first + p.count;
    __global const stored *q = x + x_at + p.in, *k = q + s.width, *v = k + s.width;
    dx += dx_at + p.in + own;
    dy += dy_at + p.out;
    softmax += softmax_at + 2 * p.row;
    dy_y += p.row;
    EACH(i, TILE) one[i] = 1;
    for (int j = begin; j < end; j += KEYS) {
        const int count = min((int)KEYS, end - j), from = later(p.first, j, s.causal);
        const int query = of_keys ? j : p.first;
        __global const stored *rows = (of_keys ? q : k) + j * in;
        if (of_keys) {
            products(score, side, k + own, in, p.count, 1, rows, in, count, p.scale, p.d, from, id);
            products(gradient, side, v + own, in, p.count, 1, dy + j * out, out, count, 1, p.d, from, id);
        } else {
            products(score, side, q + own, in, p.count, p.scale, rows, in, count, 1, p.d, from, id);
            products(gradient, side, dy + p.first * out, out, p.count, 1, v + j * in, in, count, 1, p.d, from,
                     id);
        }
        weigh_again(score, gradient, softmax + query, s.length, dy_y + query, of_keys, p.count, count, from,
                    p.scale, id);
        if (s.precision) round_tile(score, p.count, count, from, s.precision, id);
        if (s.precision) round_tile(gradient, p.count, count, from, s.precision, id);
        if (of_keys)
            sum_rows(dx + 2 * s.width, in, one, j > begin, 1, p.count, score, count, dy + j * out, out, p.d,
                     from, id);
        sum_rows(dx + of_keys * s.width, in, one, j > begin, of_keys, p.count, gradient, count, rows, in, p.d,
                 from, id);
    }
}

#else

/* A work-item computes a whole head, and each score only once for the gradients of q, k and v. For each tile of keys,
 * the first tile of queries to reach it writes the gradients, and later ones add to them. */
__kernel OF_ITEMS void attention_backward(__global float *dx, ulong dx_at, __global const stored *dy,
                                          ulong dy_at, __global const stored *x, ulong x_at,
                                          __global const stored *y, ulong y_at, __global const float *softmax,
                                          ulong softmax_at, ulong n, attention_sizes s) {
    float score[TILE * ROW], gradient[TILE * ROW], side[SIDE], one[TILE], dy_y[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (TASK >= n * s.heads) return;
    const place p = place_of(TASK * tiles, s);
    __global const stored *q = x + x_at + p.in, *k = q + s.width, *v = k + s.width;
    __global float *dq = dx + dx_at + p.in, *dk = dq + s.width, *dv = dk + s.width;
    dy += dy_at + p.out;
    y += y_at + p.out;
    softmax += softmax_at + 2 * p.row;
    EACH(i, TILE) one[i] = 1;
    for (int i = 0; i < s.length; i += TILE) {
        const int queries = min((int)TILE, s.length - i), end = s.causal ? i + queries : s.length;
        const size_t at = i * p.in_row, out = i * p.out_row;
        dots(dy_y, dy + out, y + out, p.out_row, queries, p.d);
        for (int j = 0; j < end; j += KEYS) {
            const int keys = min((int)KEYS, end - j), add = i > (s.causal ? j : 0),
                      from = later(i, j, s.causal);
            const size_t key = j * p.in_row;
            products(score, side, q + at, p.in_row, queries, p.scale, k + key, p.in_row, keys, 1, p.d, from,
                     id);
            products(gradient, side, dy + out, p.out_row, queries, 1, v + key, p.in_row, keys, 1, p.d, from,
                     id);
            weigh_again(score, gradient, softmax + i, s.length, dy_y, queries, keys, from, p.scale);
            if (s.precision) round_tile(score, queries, keys, from, s.precision, id);
            if (s.precision) round_tile(gradient, queries, keys, from, s.precision, id);
            sum_rows(dv + key, p.in_row, one, add, 1, keys, score, queries, dy + out, p.out_row, p.d, from,
                     id);
            sum_rows(dk + key, p.in_row, one, add, 1, keys, gradient, queries, q + at, p.in_row, p.d, from,
                     id);
            sum_rows(dq + at, p.in_row, one, j > 0, 0, queries, gradient, keys, k + key, p.in_row, p.d, from,
                     id);
        }
    }
}

#endif
