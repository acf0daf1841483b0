#include "cpu/linear.h"
#include "cpu/matmul.h"

/* A linear layer for a batch that is small compared with the layer, and at most GS_BLOCK samples (linear.h). Each of
 * the three products reads the large operand in place:
 *
 *     forward    y^T (out, n) = w (out, in) x^T       + b     x is transposed first, and y^T at the end
 *     backward   dx (n, in)   = dy (n, out) w
 *                dw (out, in) (+)= dy^T x                     dy^T is packed in blocks first
 *                db (out)     (+)= column sums of dy
 *
 * (+)= is += with `add`, else =.
 *
 * If a relu follows, forward applies it to y before transposing y, and backward first masks dy.
 *
 * The work is divided by outputs, both in forward and for dw. So the core that reads a row of w also writes that row of
 * dw; this mostly matches sgd.c too, which divides all parameters into as many parts. A cache line last written by
 * another core must be fetched from that core. On two cores of a Xeon a step of mlp took 1608 us with forward divided
 * by samples and dw by inputs, and 1396 us with both divided by outputs; of that the update took 167 and 109 us. The
 * work is divided the other way only if there are too few outputs for all threads. */
typedef struct small_work {
    gs_linear_task l;
    int parts;       /* parts of the current work; in backward, of dy, then of dw */
    int dx_parts;    /* parts of dx */
    bool by_outputs; /* true if y and dw are divided by outputs */
    float *passed;   /* backward: (n, out), the masked dy; unused without a relu */
    float *packed;   /* backward: blocks of GS_TILE_ROWS outputs: dy for sample 0, for sample 1, ... */
    size_t block;    /* floats per block; a power of two would map all blocks to one cache set */
    float *xt;       /* forward: (in, padded), x^T */
    size_t padded;   /* forward: n, rounded up to whole vectors */
    float *scratch;  /* per part: rows of y^T; or gs_matmul's strip, perhaps after columns of x */
    size_t scratch_part;
} small_work;

/* ROWS rows of y^T, and COLUMNS columns of dy, are still in a core's cache when they are next used. With more columns,
 * the blocks of dy would evict each other. */
enum { ROWS = 64, COLUMNS = 64 };

/* In place, the rows of a wider x are so far apart that they would evict each other from the L1 cache. */
enum { WIDE = 1024 };

static bool enough_outputs(int out, int threads) {
    return out >= 16 * threads; /* see gs_cpu_range */
}

/* Some rows of x^T, with zeros after the last sample. */
static void transpose_part(void *context, int part) {
    const small_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->l.in, part, t->parts);
    size_t n = (size_t)t->l.n, padded = t->padded;
    float *xt = t->xt + r.begin * padded;
    GS_ISA(gs_cpu_transpose)(xt, padded, t->l.x + r.begin, (size_t)t->l.in, t->l.n, (int)(r.end - r.begin));
    for (size_t k = r.begin; k < r.end && n < padded; k++, xt += padded)
        memset(xt + n, 0, (padded - n) * sizeof *xt);
}

/* All samples and some outputs, or all outputs and some samples. */
static void forward_part(void *context, int part) {
    const small_work *t = context;
    gs_range s = {0, (size_t)t->l.n}, o = {0, (size_t)t->l.out};
    *(t->by_outputs ? &o : &s) = gs_cpu_range((size_t)(t->by_outputs ? t->l.out : t->l.n), part, t->parts);
    size_t in = (size_t)t->l.in, out = (size_t)t->l.out, width = gs_round_up(s.end - s.begin);
    float *yt = t->scratch + (size_t)part * t->scratch_part;
    for (; o.begin < o.end; o.begin += ROWS) {
        const int rows = (int)(o.end - o.begin < ROWS ? o.end - o.begin : ROWS);
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = rows,
                      .depth = t->l.in,
                      .columns = (int)width,
                      .a = {t->l.w + o.begin * in, GS_TILE_ROWS * in, in, 1},
                      .b = {t->xt + s.begin, t->padded},
                      .c = {yt, width}});
        for (int i = 0; i < rows; i++) {
            float *row = yt + (size_t)i * width, b = t->l.b ? t->l.b[o.begin + (size_t)i] : 0.0f;
            for (size_t j = 0; j < width && t->l.b; j++) row[j] += b;
            for (size_t j = 0; j < width && t->l.relu; j++) row[j] = row[j] < 0.0f ? 0.0f : row[j];
        }
        GS_ISA(gs_cpu_transpose)
        (t->l.y + s.begin * out + o.begin, out, yt, width, rows, (int)(s.end - s.begin));
    }
}

gs_status GS_ISA(gs_cpu_linear_small_forward)(gs_device *d, const gs_linear_task *l) {
    gs_pool *pool = gs_cpu_of(d)->pool;
    const size_t n = (size_t)l->n;
    const int in = l->in, out = l->out;
    small_work t = {.l = *l,
                    .by_outputs = enough_outputs(out, gs_pool_threads(pool)),
                    .padded = gs_round_up(n),
                    .scratch_part = ROWS * gs_round_up(n)};
    int parts = gs_cpu_fine_parts(d, t.by_outputs ? (size_t)out : n, 16, 64);
    size_t xt = (size_t)in * t.padded;
    GS_TRY(gs_cpu_scratch(d, xt + (size_t)parts * t.scratch_part, &t.xt));
    t.scratch = t.xt + xt;
    t.parts = gs_cpu_parts(d, (size_t)in, 64);
    gs_pool_run(pool, t.parts, transpose_part, &t);
    t.parts = parts;
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

/* For some columns of dy, at most COLUMNS: mask dy by the relu, pack it, and sum db. */
static void dy_columns(const small_work *t, size_t begin, size_t end) {
    size_t n = (size_t)t->l.n, out = (size_t)t->l.out, count = end - begin;
    float *restrict db = t->l.db ? t->l.db + begin : NULL;
    for (size_t o = 0; o < count && db && !t->l.add; o++) db[o] = 0;
    float row[COLUMNS] = {0}, *packed = t->packed + begin / GS_TILE_ROWS * t->block;
    for (size_t s = 0; s < n; s++, packed += GS_TILE_ROWS) {
        const float *dy = t->l.dy + s * out + begin;
        if (t->l.relu_y) {
            const float *y = t->l.relu_y + s * out + begin;
            float *restrict passed = t->l.dx ? t->passed + s * out + begin : row;
            for (size_t o = 0; o < count; o++) passed[o] = y[o] > 0.0f ? dy[o] : 0.0f;
            dy = passed;
        }
        for (size_t o = 0; o < count && db; o++) db[o] += dy[o];
        size_t o = 0;
        for (; o + GS_TILE_ROWS <= count; o += GS_TILE_ROWS)
            memcpy(packed + o / GS_TILE_ROWS * t->block, dy + o, GS_TILE_ROWS * sizeof *packed);
        if (o < count) memcpy(packed + o / GS_TILE_ROWS * t->block, dy + o, (count - o) * sizeof *packed);
    }
}

static void dy_part(void *context, int part) {
    const small_work *t = context;
    gs_range r = gs_cpu_range((size_t)t->l.out, part, t->parts);
    for (size_t o = r.begin; o < r.end; o += COLUMNS)
        dy_columns(t, o, r.end - o < COLUMNS ? r.end : o + COLUMNS);
}

static void dw_part(const small_work *t, int part) {
    bool by_rows = t->by_outputs;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->l.out : t->l.in), part, t->parts);
    size_t in = (size_t)t->l.in;
    int count = (int)(r.end - r.begin);
    gs_matmul m = {
        .rows = by_rows ? count : t->l.out,
        .depth = t->l.n,
        .columns = by_rows ? t->l.in : count,
        .a = {by_rows ? t->packed + r.begin / GS_TILE_ROWS * t->block : t->packed, t->block, 1, GS_TILE_ROWS},
        .b = {by_rows ? t->l.x : t->l.x + r.begin, in},
        .c = {by_rows ? t->l.dw + r.begin * in : t->l.dw + r.begin, in},
        .add = t->l.add,
        .by_columns = t->l.in > WIDE,
        .strip = t->scratch + (size_t)part * t->scratch_part};
    GS_ISA(gs_cpu_matmul)(&m);
}

static void dx_part(const small_work *t, int part) {
    bool by_rows = t->l.n >= t->l.in;
    gs_range r = gs_cpu_range((size_t)(by_rows ? t->l.n : t->l.in), part, t->dx_parts);
    size_t in = (size_t)t->l.in, out = (size_t)t->l.out;
    int count = (int)(r.end - r.begin);
    GS_ISA(gs_cpu_matmul)
    (&(gs_matmul){.rows = by_rows ? count : t->l.n,
                  .depth = t->l.out,
                  .columns = by_rows ? t->l.in : count,
                  .a = {by_rows ? t->l.dy + r.begin * out : t->l.dy, GS_TILE_ROWS * out, out, 1},
                  .b = {by_rows ? t->l.w : t->l.w + r.begin, in},
                  .c = {by_rows ? t->l.dx + r.begin * in : t->l.dx + r.begin, in},
                  .by_columns = true,
                  .strip = t->scratch + (size_t)(t->parts + part) * t->scratch_part});
}

/* All parts of dw, then all of dx. With two threads, one computes dw and the other dx, and they share nothing. */
static void product_part(void *context, int part) {
    const small_work *t = context;
    if (part < t->parts)
        dw_part(t, part);
    else
        dx_part(t, part - t->parts);
}

gs_status GS_ISA(gs_cpu_linear_small_backward)(gs_device *d, const gs_linear_task *l) {
    gs_pool *pool = gs_cpu_of(d)->pool;
    const size_t n = (size_t)l->n;
    const int in = l->in, out = l->out;
    bool by_outputs = enough_outputs(out, gs_pool_threads(pool));
    const size_t depth = n > (size_t)out ? n : (size_t)out; /* of dw, and of dx */
    small_work t = {.l = *l,
                    .by_outputs = by_outputs,
                    .block = GS_TILE_ROWS * n + GS_VECTOR,
                    .scratch_part = GS_STRIP * (depth < GS_BLOCK ? depth : GS_BLOCK),
                    .dx_parts = l->dx ? gs_cpu_fine_parts(d, (int)n >= in ? n : (size_t)in, 16, 128) : 0};
    int dw_parts = l->dw ? gs_cpu_fine_parts(d, (size_t)(by_outputs ? out : in), 16, 64) : 0;
    size_t blocks = ((size_t)out + GS_TILE_ROWS - 1) / GS_TILE_ROWS;
    size_t passed = t.l.relu_y ? gs_round_up(n * (size_t)out) : 0, packed = gs_round_up(blocks * t.block);
    GS_TRY(gs_cpu_scratch(d, passed + packed + (size_t)(dw_parts + t.dx_parts) * t.scratch_part, &t.passed));
    t.packed = t.passed + passed;
    t.scratch = t.packed + packed;
    t.parts = gs_cpu_parts(d, (size_t)out, 64);
    if (l->dw) gs_pool_run(pool, t.parts, dy_part, &t);
    if (t.l.relu_y) t.l.dy = t.passed;
    t.parts = dw_parts;
    return gs_cpu_run(d, t.parts + t.dx_parts, product_part, &t);
}
