#include "attention_tile.clh"

/* Attention in tiles. src/backend.h defines it; cpu/attention.c explains the tiles, and how the softmax is carried from
 * tile to tile. A work-group handles TILE queries of a head and loops over all keys, TILE at a time; in attention_dk_dv
 * it handles TILE keys and loops over all queries. On a CPU a work-group is a single work-item. */

typedef struct attention_sizes {
    int length, width, heads, causal, precision;
} attention_sizes;

#define ITEM ((int)(get_global_id(0) % ITEMS))
#define TASK (get_global_id(0) / ITEMS)

/* The sample's head, and the tile of it, that a work-group handles. */
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

/* ---- forward ---- */

/* y_i = sum_j p_ij v_j, p_i = softmax_j(q_i k_j / sqrt(d)); softmax: the largest q_i k_j of each row (m_i / scale),
 * then the sum of each row */
__kernel OF_ITEMS void attention_forward(__global float *y, ulong y_at, __global float *softmax,
                                         ulong softmax_at, __global const stored *x, ulong x_at, ulong n,
                                         attention_sizes s) {
    SHARED float score[TILE * ROW], side[SIDE], largest[TILE], sum[TILE], factor[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (TASK >= n * s.heads * tiles) return; /* never true on a GPU */
    const place p = place_of(TASK, s);
    const int end = s.causal ? p.first + p.count : s.length;
    __global const stored *q = x + x_at + p.in + p.first * p.in_row, *k = x + x_at + p.in + s.width,
                          *v = k + s.width;
    y += y_at + p.out + p.first * p.out_row;
    softmax += softmax_at + 2 * p.row + p.first;
    EACH(i, TILE) {
        largest[i] = -INFINITY;
        sum[i] = 0;
        factor[i] = 0;
    }
    WAIT;
    for (int j = 0; j < end; j += TILE) {
        const int keys = min(TILE, end - j);
        products(score, side, q, p.in_row, p.count, k + j * p.in_row, p.in_row, keys, p.d, id);
        weigh(score, largest, sum, factor, p.count, keys, s.causal ? p.first - j + 1 : TILE, p.scale, id);
        if (s.precision) round_tile(score, p.count, keys, s.precision, id);
        sum_rows(y, p.out_row, factor, j > 0, p.count, score, 0, keys, v + j * p.in_row, p.in_row, p.d, id);
    }
    finish(y, p.out_row, softmax, s.length, largest, sum, p.count, p.d, id);
}

/* ---- backward: derived in cpu/plain/attention.c ---- */

#ifdef GS_GPU

/* dy_y[i] = dy_i y_i for each head; work-item (sample, head, token) */
__kernel void attention_dy_y(__global float *dy_y, __global const stored *dy, ulong dy_at,
                             __global const stored *y, ulong y_at, ulong rows, attention_sizes s) {
    const size_t row = get_global_id(0), head = row / s.length, sample = head / s.heads;
    const int d = s.width / s.heads;
    if (row >= rows) return;
    const size_t from =
        (sample * s.length + (row - head * s.length)) * s.width + (head - sample * s.heads) * d;
    float sum = 0;
    for (int k = 0; k < d; k++) sum += number(dy[dy_at + from + k]) * number(y[y_at + from + k]);
    dy_y[row] = sum;
}

/* The gradient of q: for the tile's queries, summed over all keys. */
__kernel OF_ITEMS void attention_dq(__global float *dx, ulong dx_at, __global const stored *dy, ulong dy_at,
                                    __global const stored *x, ulong x_at, __global const float *softmax,
                                    ulong softmax_at, __global const float *dy_y, ulong n,
                                    attention_sizes s) {
    SHARED float score[TILE * ROW], gradient[TILE * ROW], side[SIDE], one[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (TASK >= n * s.heads * tiles) return; /* never true on a GPU */
    const place p = place_of(TASK, s);
    const int end = s.causal ? p.first + p.count : s.length;
    __global const stored *q = x + x_at + p.in + p.first * p.in_row, *k = x + x_at + p.in + s.width,
                          *v = k + s.width;
    dx += dx_at + p.in + p.first * p.in_row;
    dy += dy_at + p.out + p.first * p.out_row;
    softmax += softmax_at + 2 * p.row + p.first;
    dy_y += p.row + p.first;
    EACH(i, TILE) one[i] = 1;
    for (int j = 0; j < end; j += TILE) {
        const int keys = min(TILE, end - j);
        products(score, side, q, p.in_row, p.count, k + j * p.in_row, p.in_row, keys, p.d, id);
        products(gradient, side, dy, p.out_row, p.count, v + j * p.in_row, p.in_row, keys, p.d, id);
        weigh_again(score, gradient, softmax, s.length, dy_y, p.count, keys,
                    s.causal ? p.first - j + 1 : TILE, p.scale, id);
        if (s.precision) round_tile(gradient, p.count, keys, s.precision, id);
        sum_rows(dx, p.in_row, one, j > 0, p.count, gradient, 0, keys, k + j * p.in_row, p.in_row, p.d, id);
    }
}

/* The gradients of k and v: for the tile's keys, summed over all queries. */
__kernel OF_ITEMS void attention_dk_dv(__global float *dx, ulong dx_at, __global const stored *dy,
                                       ulong dy_at, __global const stored *x, ulong x_at,
                                       __global const float *softmax, ulong softmax_at,
                                       __global const float *dy_y, ulong n, attention_sizes s) {
    SHARED float score[TILE * ROW], gradient[TILE * ROW], side[SIDE], one[TILE];
    const int id = ITEM;
    const size_t tiles = (s.length + TILE - 1) / TILE;
    if (TASK >= n * s.heads * tiles) return; /* never true on a GPU */
    const place p = place_of(TASK, s);
    const int begin = s.causal ? p.first : 0;
    __global const stored *q = x + x_at + p.in, *k = q + s.width + p.first * p.in_row, *v = k + s.width;
    __global float *dk = dx + dx_at + p.in + s.width + p.first * p.in_row, *dv = dk + s.width;
    dy += dy_at + p.out;
    softmax += softmax_at + 2 * p.row;
    dy_y += p.row;
    EACH(i, TILE) one[i] = 1;
    for (int i = begin; i < s.length; i += TILE) {
        const int queries = min(TILE, s.length - i);
        products(score, side, q + i * p.in_row, p.in_row, queries, k, p.in_row, p.count, p.d, id);
        products(gradient, side, dy + i * p.out_row, p.out_row, queries, v, p.in_row, p.count, p.d, id);
        weigh_again(score, gradient, softmax + i, s.length, dy_y + i, queries, p.count,
                    s.causal ? i - p.first + 1 : TILE, p.scale, id);
        if (s.precision) round_tile(score, queries, p.count, s.precision, id);
        if (s.precision) round_tile(gradient, queries, p.count, s.precision, id);
        sum_rows(dv, p.in_row, one, i > begin, p.count, score, 1, queries, dy + i * p.out_row, p.out_row, p.d,
                 id);
        sum_rows(dk, p.in_row, one, i > begin, p.count, gradient, 1, queries, q + i * p.in_row, p.in_row, p.d,
                 id);
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
        for (int j = 0; j < end; j += TILE) {
            const int keys = min((int)TILE, end - j), later = i > (s.causal ? j : 0);
            const size_t key = j * p.in_row;
            products(score, side, q + at, p.in_row, queries, k + key, p.in_row, keys, p.d, id);
            products(gradient, side, dy + out, p.out_row, queries, v + key, p.in_row, keys, p.d, id);
            weigh_again(score, gradient, softmax + i, s.length, dy_y, queries, keys,
                        s.causal ? i - j + 1 : TILE, p.scale, id);
            if (s.precision) round_tile(score, queries, keys, s.precision, id);
            if (s.precision) round_tile(gradient, queries, keys, s.precision, id);
            sum_rows(dv + key, p.in_row, one, later, keys, score, 1, queries, dy + out, p.out_row, p.d, id);
            sum_rows(dk + key, p.in_row, one, later, keys, gradient, 1, queries, q + at, p.in_row, p.d, id);
            sum_rows(dq + at, p.in_row, one, j > 0, queries, gradient, 0, keys, k + key, p.in_row, p.d, id);
        }
    }
}

#endif
