/* Attention; cpu/plain/attention.c shows the formulas.
 *
 * The scores of all queries and keys would be length^2 numbers per head. They are never stored: TILE queries are
 * multiplied by TILE keys at a time, and the scores are used at once, while they are cached.
 *
 *               queries                   In a tile of scores the queries are adjacent, so that one vector
 *              i i i i i i                instruction handles sixteen queries: largest, sum, exp.
 *     keys   j s s s s s s
 *            j s s s s s s                Softmax needs the largest score and the sum of a whole row, but sees it tile
 *            j s s s s s s                by tile: it keeps the largest so far, m, and l, the sum of exp(s - m) so far.
 *                                         When a tile has a larger one, m', earlier sums shrink by exp(m - m'):
 *
 *         l = exp(m - m') l + sum_j exp(s_j - m')          y = exp(m - m') y + sum_j exp(s_j - m') v_j
 *
 * and at the end y / l is the mean of the values, weighted by the softmax. Forward stores m and l for each query, and
 * from them backward recomputes p_ij = exp(s_ij - m) / l: one more product instead of memory that grows with length^2.
 * The single number m + log(l) would not be exact enough: next to an m of 1e8 a float has no digits left for log(l).
 *
 * If one key has all the weight, y_i is its v_j, and dy_i v_j - dy_i y_i is 0. The result is exactly 0, because the
 * same product sums both terms: if the order of summation differed, huge keys and queries would magnify the error.
 *
 * Source: Dao, Fu, Ermon, Rudra, Re, "FlashAttention: fast and memory-efficient exact attention with IO-awareness"
 * (NeurIPS 2022); the running sum: Milakov, Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867,
 * 2018).
 *
 * In 16 bits (gs_precision) the products read rounded numbers: copies of q, k, v and dy, and tiles of p and ds, rounded
 * as soon as they are computed. Scores, their sums and the softmax are f32.
 *
 * The products come from matmul.h, whose sums have a fixed order. A task is a whole head of a sample, so no two threads
 * add to the same element, and results are bitwise identical for any number of threads. */
#include "core/functions.h"
#include "cpu/attention_tile.h"

typedef int32_t ints __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct attention_work {
    const gs_attention_sizes *s;
    const float *x, *dy;
    float *y, *softmax, *dx;
    float *scratch;
    gs_precision precision;
    size_t each; /* floats of scratch per part */
    size_t tasks;
    int parts;
} attention_work;

static size_t scratch_of(const gs_attention_sizes *s) {
    const size_t d = (size_t)(s->width / s->heads);
    return 2 * TILE * TILE + 2 * d * TILE + (size_t)GS_STRIP * (d > TILE ? d : TILE);
}

static head head_of(const attention_work *t, size_t task, int part) {
    const gs_attention_sizes *s = t->s;
    const int d = s->width / s->heads;
    const size_t sample = task / (size_t)s->heads, number = task % (size_t)s->heads;
    const size_t in = 3 * (size_t)s->width, from = sample * (size_t)s->length * in + number * (size_t)d;
    const size_t out = sample * (size_t)s->length * (size_t)s->width + number * (size_t)d;
    head h = {.d = d,
              .length = s->length,
              .causal = s->causal,
              .precision = t->precision,
              .scale = 1 / sqrtf((float)d),
              .in_row = in,
              .out_row = (size_t)s->width,
              .q = t->x + from,
              .y = t->y + out,
              .largest = t->softmax + task * 2 * (size_t)s->length,
              .score = t->scratch + (size_t)part * t->each};
    h.sum = h.largest + s->length;
    h.k = h.q + s->width;
    h.v = h.k + s->width;
    h.gradient = h.score + TILE * TILE;
    h.qt = h.gradient + TILE * TILE;
    h.dyt = h.qt + d * TILE;
    h.strip = h.dyt + d * TILE;
    if (!t->dx) return h;
    h.dy = t->dy + out;
    h.dq = t->dx + from;
    h.dk = h.dq + s->width;
    h.dv = h.dk + s->width;
    return h;
}

/* The running results for TILE queries. */
typedef struct running {
    float largest[TILE], sum[TILE], factor[TILE];
} running;

/* score = exp(score - the largest so far); the running sums are rescaled to match */
static void take_tile(float *score, int keys, int lanes, bool diagonal, running *r) {
    for (int i = 0; i < lanes; i += SIDE) {
        const int end = diagonal ? least(keys, i + SIDE) : keys;
        gs_float16 top = *(gs_float16 *)(r->largest + i);
        for (int j = 0; j < end; j++) {
            const gs_float16 s = *(gs_float16 *)(score + j * TILE + i);
            const ints more = s > top;
            top = (gs_float16)(((ints)s & more) | ((ints)top & ~more));
        }
        *(gs_float16 *)(r->factor + i) = *(gs_float16 *)(r->largest + i) - top;
        *(gs_float16 *)(r->largest + i) = top;
    }
    for (int i = 0; i < lanes; i++) {
        r->factor[i] = gs_exp(r->factor[i]);
        r->sum[i] *= r->factor[i];
    }
    for (int j = 0; j < keys; j++)
        for (int i = first_lane(j, diagonal); i < lanes; i += SIDE) {
            float *restrict row = score + j * TILE + i;
            const float *restrict largest = r->largest + i;
            for (int k = 0; k < SIDE; k++) row[k] = gs_exp(row[k] - largest[k]);
            *(gs_float16 *)(r->sum + i) += *(const gs_float16 *)row;
        }
}

static void scale_rows(const head *h, float *y, int count, const float *factor) {
    for (int i = 0; i < count; i++, y += h->out_row)
        for (int k = 0; k < h->d; k++) y[k] *= factor[i];
}

/* For TILE queries from i on, compute y, and the values of the softmax that backward needs. */
static void forward_queries(const head *h, int i) {
    const int count = least(TILE, h->length - i), lanes = whole(count),
              end = h->causal ? i + count : h->length;
    float *y = h->y + (size_t)i * h->out_row;
    running r;
    for (int a = 0; a < TILE; a++) {
        r.largest[a] = -INFINITY;
        r.sum[a] = 0;
    }
    turn(h, h->qt, h->q + (size_t)i * h->in_row, h->in_row, count, h->scale);
    for (int j = 0; j < end; j += TILE) {
        const int keys = least(TILE, end - j);
        const bool diagonal = h->causal && j == i;
        tile_of(h, h->score, h->k + (size_t)j * h->in_row, h->in_row, keys, h->qt, lanes, diagonal);
        fetch_next(h, i, j, 0);
        if (diagonal) hide_later(h->score, keys);
        fetch_next(h, i, j, 1);
        take_tile(h->score, keys, lanes, diagonal, &r);
        round_tile(h, h->score, keys, lanes, diagonal);
        for (int piece = 2; piece < PIECES; piece++) fetch_next(h, i, j, piece);
        if (j > 0) scale_rows(h, y, count, r.factor);
        to_queries(h, y, h->out_row, count, h->score, keys, h->v + (size_t)j * h->in_row, j > 0, diagonal);
    }
    for (int a = 0; a < count; a++) {
        h->largest[i + a] = r.largest[a];
        h->sum[i + a] = r.sum[a];
        r.factor[a] = 1 / r.sum[a];
    }
    scale_rows(h, y, count, r.factor);
}

/* Call `tile` for each tile of queries in each head of a part. */
static void each_tile(const attention_work *t, int part, void (*tile)(const head *, int i)) {
    const gs_range r = gs_cpu_tasks(t->tasks, part, t->parts);
    for (size_t task = r.begin; task < r.end; task++) {
        const head next = head_of(t, task + 1 < r.end ? task + 1 : task, part);
        head h = head_of(t, task, part);
        if (task + 1 < r.end) h.next = &next;
        for (int i = 0; i < h.length; i += TILE) tile(&h, i);
    }
}

static void forward_part(void *context, int part) {
    each_tile(context, part, forward_queries);
}

static size_t tokens_floats(const gs_attention_sizes *s) {
    return (size_t)s->length * (size_t)s->width;
}

static gs_status run(gs_device *d, attention_work *t, size_t n, void (*work)(void *, int)) {
    const gs_attention_sizes *s = t->s;
    t->precision = d->precision;
    t->tasks = n * (size_t)s->heads;
    t->each = scratch_of(s);
    const size_t work_in_all = n * (size_t)s->length * (size_t)s->length * (size_t)s->width;
    t->parts = gs_cpu_at_most(t->tasks, gs_cpu_fine_parts(d, work_in_all, 1 << 14, 1 << 20));
    GS_TRY(gs_cpu_scratch(d, (size_t)t->parts * t->each, &t->scratch));
    return gs_cpu_run(d, t->parts, work, t);
}

gs_status GS_ISA(gs_cpu_attention_forward)(gs_device *d, gs_mem y, gs_mem softmax, gs_mem x, size_t n,
                                           const gs_attention_sizes *s) {
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 1, &(gs_operand){&x, n * 3 * tokens_floats(s)}));
    attention_work t = {
        .s = s, .x = gs_cpu_floats(x), .y = gs_cpu_floats(y), .softmax = gs_cpu_floats(softmax)};
    return run(d, &t, n, forward_part);
}

/* Values for each query of a tile. */
typedef struct rows {
    float largest[TILE], share[TILE], dy_y[TILE]; /* share: 1 / sum; 0 past the last query */
} rows;

/* score = p = exp(score - largest) / sum; gradient: on entry dy v, on return p (dy v - dy y) / sqrt(d) */
static void gradient_of_tile(const head *h, int keys, int lanes, bool diagonal, const rows *of) {
    const float scale = h->scale;
    for (int j = 0; j < keys; j++)
        for (int i = first_lane(j, diagonal); i < lanes; i += SIDE) {
            float *restrict p = h->score + j * TILE + i;
            const float *restrict largest = of->largest + i, *restrict share = of->share + i;
            gs_float16 *g = (gs_float16 *)(h->gradient + j * TILE + i);
            for (int k = 0; k < SIDE; k++) p[k] = gs_exp(p[k] - largest[k]) * share[k];
            *g = *(const gs_float16 *)p * (*g - *(const gs_float16 *)(of->dy_y + i)) * scale;
        }
}

/* For TILE queries from i on, compute dq, and what these queries contribute to dk and dv. The first tile writes dk and
 * dv, later ones add to them. */
static void backward_queries(const head *h, int i) {
    const int count = least(TILE, h->length - i), lanes = whole(count),
              end = h->causal ? i + count : h->length;
    const float *dy = h->dy + (size_t)i * h->out_row, *y = h->y + (size_t)i * h->out_row,
                *q = h->q + (size_t)i * h->in_row;
    float *dq = h->dq + (size_t)i * h->in_row;
    rows r = {{0}, {0}, {0}};
    turn(h, h->qt, q, h->in_row, count, h->scale);
    turn(h, h->dyt, dy, h->out_row, count, 1);
    for (int a = 0; a < count; a++) {
        r.largest[a] = h->largest[i + a];
        r.share[a] = 1 / h->sum[i + a];
    }
    dots(h, r.dy_y, y, h->out_row, count, h->dyt, h->gradient);
    for (int j = 0; j < end; j += TILE) {
        const int keys = least(TILE, end - j);
        const size_t at = (size_t)j * h->in_row;
        const bool first = i == (h->causal ? j : 0), diagonal = h->causal && j == i;
        tile_of(h, h->score, h->k + at, h->in_row, keys, h->qt, lanes, diagonal);
        if (diagonal) hide_later(h->score, keys);
        fetch_next(h, i, j, 0);
        tile_of(h, h->gradient, h->v + at, h->in_row, keys, h->dyt, lanes, diagonal);
        fetch_next(h, i, j, 1);
        gradient_of_tile(h, keys, lanes, diagonal, &r);
        round_tile(h, h->score, keys, lanes, diagonal);
        round_tile(h, h->gradient, keys, lanes, diagonal);
        fetch_next(h, i, j, 2);
        to_keys(h, h->dv + at, keys, h->score, count, dy, h->out_row, !first, diagonal);
        fetch_next(h, i, j, 3);
        to_keys(h, h->dk + at, keys, h->gradient, count, q, h->in_row, !first, diagonal);
        fetch_next(h, i, j, 4);
        to_queries(h, dq, h->in_row, count, h->gradient, keys, h->k + at, j > 0, diagonal);
    }
}

static void backward_part(void *context, int part) {
    each_tile(context, part, backward_queries);
}

/* forward: y_i = sum_j p_ij v_j, p_i = softmax_j(q_i k_j / sqrt(d)); cpu/plain/attention.c derives the gradients */
gs_status GS_ISA(gs_cpu_attention_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y,
                                            gs_mem softmax, size_t n, const gs_attention_sizes *s) {
    const gs_operand products[] = {
        {&x, n * 3 * tokens_floats(s)}, {&dy, n * tokens_floats(s)}, {&y, n * tokens_floats(s)}};
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 3, products));
    attention_work t = {.s = s,
                        .x = gs_cpu_floats(x),
                        .dy = gs_cpu_floats(dy),
                        .y = gs_cpu_floats(y),
                        .softmax = gs_cpu_floats(softmax),
                        .dx = gs_cpu_floats(dx)};
    return run(d, &t, n, backward_part);
}
