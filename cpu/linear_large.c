#include "cpu/linear.h"
#include "cpu/matmul.h"

/* A linear layer for many samples, or for many tokens of few samples (linear.h). Tiles of each product stay in
 * registers (matmul.h); the smaller operand is packed once, in adjacent strips as wide as a tile:
 *
 *     forward    y  (n, out)  = x (n, in) w^T + b      strips of w^T: (in, GS_STRIP)
 *     backward   dx (n, in)   = dy (n, out) w          strips of w:   (out, GS_STRIP)
 *                dw (out, in) (+)= dy^T x              strips of x:   (GS_BLOCK, GS_STRIP)
 *                db (out)     (+)= column sums of dy
 *
 * (+)= is += with `add`, else =. x and dy are read in place.
 *
 * Samples are processed in blocks that stay in the core's L2 cache. Neither the blocks of y and dx nor the threads
 * change the order of a sum: y and dx are bitwise identical to those of linear_small.c for any n. */
typedef struct large_work {
    gs_linear_task l;
    int parts, dw_parts, dx_parts;
    int shares;        /* equal shares into which dw_parts and dx_parts are divided */
    float *strip;      /* forward: per thread, w^T in strips, then the flag "packed"; backward: per part */
    size_t strip_part; /* distance from one to the next, in floats */
    float *passed;     /* backward with relu_y: the masked dy */
} large_work;

/* While cached, ROWS rows of x are multiplied by all strips of w^T, and GS_BLOCK samples of dy^T by all of x. A part of
 * forward has 3 ROWS rows; a part of backward has LEAST rows or columns, because each part copies all strips again.
 * With two threads a step of gpt with 12 sequences took 24.2 ms with parts of 64 to 128, and 22.3 ms with these. */
enum { ROWS = 64, LEAST = 256 };

/* The width of the strip at column j: 4 remaining vectors are split 2 + 2, not 3 + 1. */
static int strip_width(int columns, int j) {
    const int left = columns - j;
    return left == 4 * GS_VECTOR ? 2 * GS_VECTOR : left < GS_STRIP ? left : GS_STRIP;
}

/* All strips of w^T. Each thread packs its own copy at its first part, because fetching strips from another core's
 * cache, line by line, takes longer. With two threads on an EPYC, 768 tokens and 128 -> 512, forward took 552 us with
 * shared strips, and 473 us with separate ones. */
static const float *pack(const large_work *t) {
    const int thread = gs_pool_thread();
    float *strips = t->strip + (size_t)thread * t->strip_part,
          *packed = strips + (size_t)t->l.in * (size_t)t->l.out;
    if (*packed != 0) return strips;
    for (int j = 0, width; j < t->l.out; j += width) {
        width = strip_width(t->l.out, j);
        const size_t at = (size_t)j * (size_t)t->l.in;
        GS_ISA(gs_cpu_transpose)(strips + at, (size_t)width, t->l.w + at, (size_t)t->l.in, width, t->l.in);
    }
    *packed = 1;
    return strips;
}

static void forward_part(void *context, int part) {
    const large_work *t = context;
    const size_t in = (size_t)t->l.in, out = (size_t)t->l.out;
    gs_range r = gs_cpu_range((size_t)t->l.n, part, t->parts);
    const float *strips = pack(t);
    for (size_t i = r.begin; i < r.end; i += ROWS) {
        const int rows = (int)(r.end - i < ROWS ? r.end - i : ROWS);
        float *y = t->l.y + i * out;
        for (int j = 0, width; j < t->l.out; j += width) {
            width = strip_width(t->l.out, j);
            GS_ISA(gs_cpu_matmul)
            (&(gs_matmul){.rows = rows,
                          .depth = t->l.in,
                          .columns = width,
                          .a_ahead = j == 0 && i + ROWS < r.end ? ROWS * in : 0,
                          .a = {t->l.x + i * in, GS_TILE_ROWS * in, in, 1},
                          .b = {strips + (size_t)j * in, (size_t)width},
                          .c = {y + j, out},
                          .bias = t->l.b ? t->l.b + j : NULL});
        }
        for (size_t k = 0; k < (size_t)rows * out && t->l.relu; k++) y[k] = y[k] < 0.0f ? 0.0f : y[k];
    }
}

gs_status GS_ISA(gs_cpu_linear_large_forward)(gs_device *d, const gs_linear_task *l) {
    gs_pool *pool = gs_cpu_of(d)->pool;
    large_work t = {.l = *l};
    const int threads = gs_pool_threads(pool);
    const size_t strips = (size_t)l->in * (size_t)l->out;
    t.strip_part = strips + GS_VECTOR;
    GS_TRY(gs_cpu_scratch(d, (size_t)threads * t.strip_part, &t.strip));
    for (int i = 0; i < threads; i++) t.strip[(size_t)i * t.strip_part + strips] = 0; /* not packed yet */
    t.parts = gs_cpu_fine_parts(d, (size_t)l->n, 32, 3 * ROWS);
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* Mask some elements of dy by the relu. */
static void pass_part(void *context, int part) {
    const large_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->l.n * (size_t)t->l.out, part, t->parts);
    for (size_t i = r.begin; i < r.end; i++) t->passed[i] = t->l.relu_y[i] > 0.0f ? t->l.dy[i] : 0.0f;
}

/* Compute some rows of dw, or columns if it has more of them (a part then copies only those of x), and some of db. */
static void dw_part(const large_work *t, int part) {
    const bool by_rows = t->l.out >= t->l.in;
    const gs_range all = {0, (size_t)(by_rows ? t->l.in : t->l.out)},
                   cut = gs_cpu_range((size_t)(by_rows ? t->l.out : t->l.in), part, t->dw_parts),
                   o = by_rows ? cut : all, k = by_rows ? all : cut,
                   b = gs_cpu_range((size_t)t->l.out, part, t->dw_parts);
    const size_t in = (size_t)t->l.in, out = (size_t)t->l.out;
    for (int s = 0; s < t->l.n; s += GS_BLOCK) {
        const int samples = t->l.n - s < GS_BLOCK ? t->l.n - s : GS_BLOCK;
        const float *dy = t->l.dy + (size_t)s * out;
        float *restrict db = t->l.db;
        for (size_t j = b.begin; j < b.end && db && s == 0 && !t->l.add; j++) db[j] = 0;
        for (size_t i = 0; i < (size_t)samples && db; i++)
            for (size_t j = b.begin; j < b.end; j++) db[j] += dy[i * out + j];
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = (int)(o.end - o.begin),
                      .depth = samples,
                      .columns = (int)(k.end - k.begin),
                      .a = {dy + o.begin, GS_TILE_ROWS, 1, out},
                      .b = {t->l.x + (size_t)s * in + k.begin, in},
                      .next_b = s + GS_BLOCK < t->l.n ? t->l.x + (size_t)(s + GS_BLOCK) * in + k.begin : NULL,
                      .c = {t->l.dw + o.begin * in + k.begin, in},
                      .add = t->l.add || s > 0,
                      .by_columns = true,
                      .strip = t->strip + (size_t)part * t->strip_part});
    }
}

static void dx_part(const large_work *t, int part) {
    gs_range r = gs_cpu_range((size_t)t->l.n, part, t->dx_parts);
    const size_t in = (size_t)t->l.in, out = (size_t)t->l.out;
    GS_ISA(gs_cpu_matmul)
    (&(gs_matmul){.rows = (int)(r.end - r.begin),
                  .depth = t->l.out,
                  .columns = t->l.in,
                  .a_ahead = GS_TILE_ROWS * out,
                  .a = {t->l.dy + r.begin * out, GS_TILE_ROWS * out, out, 1},
                  .b = {t->l.w, in},
                  .c = {t->l.dx + r.begin * in, in},
                  .by_columns = true,
                  .strip = t->strip + (size_t)(t->dw_parts + part) * t->strip_part});
}

/* Each thread starts with its share of dw's parts and continues with its share of dx's parts. These do not depend on
 * dw, so no thread waits in between. The preceding layer will give each thread the same rows of dx, which are then in
 * its core's cache. */
static void product_part(void *context, int part) {
    const large_work *t = context;
    const int dw_each = t->dw_parts / t->shares, dx_each = t->dx_parts / t->shares;
    const int share = part / (dw_each + dx_each), i = part % (dw_each + dx_each);
    if (i < dw_each)
        dw_part(t, share * dw_each + i);
    else
        dx_part(t, share * dx_each + i - dw_each);
}

/* Round `parts` down to a multiple of `threads`, unless it is smaller than `threads`. */
static int whole_shares(int parts, int threads) {
    return parts > threads ? parts / threads * threads : parts;
}

gs_status GS_ISA(gs_cpu_linear_large_backward)(gs_device *d, const gs_linear_task *l) {
    gs_pool *pool = gs_cpu_of(d)->pool;
    const size_t n = (size_t)l->n;
    const int in = l->in, out = l->out;
    large_work t = {.l = *l, .strip_part = GS_STRIP * GS_BLOCK};
    const int threads = gs_pool_threads(pool);
    const size_t longer = (size_t)(out >= in ? out : in);
    t.dw_parts = t.l.dw ? whole_shares(gs_cpu_fine_parts(d, longer, 32, LEAST), threads) : 0;
    t.dx_parts = t.l.dx ? whole_shares(gs_cpu_fine_parts(d, n, 32, LEAST), threads) : 0;
    t.shares = t.dw_parts % threads == 0 && t.dx_parts % threads == 0 ? threads : 1;
    const int parts = t.dw_parts + t.dx_parts;
    const size_t passed = t.l.relu_y ? n * (size_t)out : 0;
    GS_TRY(gs_cpu_scratch(d, passed + (size_t)parts * t.strip_part, &t.passed));
    t.strip = t.passed + passed;
    if (t.l.relu_y) {
        t.parts = gs_cpu_parts(d, n * (size_t)out, 1 << 14);
        gs_pool_run(pool, t.parts, pass_part, &t);
        t.l.dy = t.passed;
    }
    t.parts = parts;
    return gs_cpu_run(d, t.parts, product_part, &t);
}
