#include "cpu/linear.h"
#include "cpu/matmul.h"
#include "cpu/round16.h"

/* A linear layer whose sums can be divided among workers, for --exact (backend.h, parallel/tensor.h). Each product of
 * gs_matmul here computes one leaf:
 *
 *     leaf       0     1     2     3          `sums` holds each level's left sum until the right one is ready.
 *                 \   /       \   /           Like a carry in a binary counter, leaf k is added to one sum for each
 *                  0+1         2+3            1 at the end of the number k in binary.
 *                     \       /
 *                      0 .. 3
 */
typedef struct tree_work {
    float *y, *dx;
    const float *x, *w, *dy;
    size_t n, in, out;
    int leaves, blocks;
    const gs_share *share; /* NULL: this worker has all outputs */
    float *memory;
} tree_work;

/* Sizes that fit in the caches: SAMPLES samples of x^T, a leaf of ROWS outputs, DX_ROWS samples of dx per level. */
enum { SAMPLES = 128, ROWS = 16, DX_ROWS = 64 };

static int levels_of(int leaves) {
    int levels = 0;
    while (1 << levels < leaves) levels++;
    return levels;
}

/* x is the sum of leaf `leaf`. Add each stored left sum that waits for it; store the result unless it is the total. */
static void join(float *restrict x, float *restrict sums, size_t count, int leaf, int leaves) {
    for (; leaf & 1; leaf >>= 1, leaves >>= 1, sums += count)
        for (size_t i = 0; i < count; i++) x[i] += sums[i];
    if (leaves > 1) memcpy(sums, x, count * sizeof *x);
}

static size_t first_of(size_t terms, int leaf, int leaves) {
    return terms * (size_t)leaf / (size_t)leaves;
}

/* Compute `rows` outputs for all samples in xt (in, width). `to` is (rows, width). */
static void forward_rows(const tree_work *t, const float *xt, size_t width, size_t first, int rows, float *to,
                         float *sums) {
    for (int leaf = 0; leaf < t->leaves; leaf++) {
        const size_t k = first_of(t->in, leaf, t->leaves), end = first_of(t->in, leaf + 1, t->leaves);
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = rows,
                      .depth = (int)(end - k),
                      .columns = (int)width,
                      .a = {t->w + first * t->in + k, GS_TILE_ROWS * t->in, t->in, 1},
                      .b = {xt + k * width, width},
                      .c = {to, width}});
        join(to, sums, (size_t)rows * width, leaf, t->leaves);
    }
}

static void forward(void *context, int part) {
    const tree_work *t = context;
    (void)part;
    for (size_t s = 0; s < t->n; s += SAMPLES) {
        const size_t n = t->n - s < SAMPLES ? t->n - s : SAMPLES, width = gs_round_up(n);
        float *xt = t->memory, *to = xt + t->in * width, *sums = to + ROWS * width;
        if (width > n) memset(xt, 0, t->in * width * sizeof *xt);
        GS_ISA(gs_cpu_transpose)(xt, width, t->x + s * t->in, t->in, (int)n, (int)t->in);
        for (size_t o = 0; o < t->out; o += ROWS) {
            const int rows = (int)(t->out - o < ROWS ? t->out - o : ROWS);
            forward_rows(t, xt, width, o, rows, to, sums);
            GS_ISA(gs_cpu_transpose)(t->y + s * t->out + o, t->out, to, width, rows, (int)n);
        }
    }
}

gs_status GS_ISA(gs_cpu_linear_tree_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n, int in,
                                             int out, int leaves) {
    const size_t i = (size_t)in, o = (size_t)out, width = gs_round_up(n < SAMPLES ? n : SAMPLES);
    if (n == 0) return GS_OK;
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 2, (gs_operand[]){{&x, n * i}, {&w, i * o}}));
    tree_work t = {.y = gs_cpu_floats(y),
                   .x = gs_cpu_floats(x),
                   .w = gs_cpu_floats(w),
                   .n = n,
                   .in = i,
                   .out = o,
                   .leaves = leaves};
    GS_TRY(gs_cpu_scratch(d, (i + ROWS * (size_t)(1 + levels_of(leaves))) * width, &t.memory));
    return gs_cpu_run(d, 1, forward, &t);
}

/* A leaf's first output within a block. */
static size_t first_output(const tree_work *t, size_t block, int leaf) {
    return t->share ? (size_t)gs_share_leaf(t->share, leaf) : first_of(block, leaf, t->leaves);
}

/* The sum for one leaf, which covers a part of each block. */
static void dx_leaf(const tree_work *t, size_t s, int rows, int leaf, float *to, float *strip) {
    const size_t block = t->out / (size_t)t->blocks, first = first_output(t, block, leaf),
                 depth = first_output(t, block, leaf + 1) - first;
    for (int b = 0; b < t->blocks; b++) {
        const size_t k = (size_t)b * block + first;
        GS_ISA(gs_cpu_matmul)
        (&(gs_matmul){.rows = rows,
                      .depth = (int)depth,
                      .columns = (int)t->in,
                      .a = {t->dy + s * t->out + k, GS_TILE_ROWS * t->out, t->out, 1},
                      .b = {t->w + k * t->in, t->in},
                      .c = {to, t->in},
                      .add = b > 0,
                      .by_columns = true,
                      .strip = strip});
    }
}

/* If there is only one leaf, its sum is written directly to dx. */
static void backward(void *context, int part) {
    const tree_work *t = context;
    (void)part;
    float *to = t->memory, *sums = to + DX_ROWS * t->in,
          *strip = sums + DX_ROWS * t->in * (size_t)levels_of(t->leaves);
    for (size_t s = 0; s < t->n; s += DX_ROWS) {
        const int rows = (int)(t->n - s < DX_ROWS ? t->n - s : DX_ROWS);
        const size_t count = (size_t)rows * t->in;
        float *dx = t->dx + s * t->in;
        for (int leaf = 0; leaf < t->leaves; leaf++) {
            const bool last = leaf + 1 == t->leaves;
            dx_leaf(t, s, rows, leaf, last ? dx : to, strip);
            join(last ? dx : to, sums, count, leaf, t->leaves);
        }
    }
}

/* forward: y = x w^T + b */
gs_status GS_ISA(gs_cpu_linear_tree_backward)(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy,
                                              gs_mem x, gs_mem w, size_t n, int in, int out, bool add,
                                              int leaves, int blocks, const gs_share *share) {
    const size_t i = (size_t)in, o = (size_t)out;
    if (dw.base) GS_TRY(GS_ISA(gs_cpu_linear_backward)(d, GS_NONE, dw, db, dy, x, w, n, in, out, add, NULL));
    if (n == 0 || !dx.base) return GS_OK;
    GS_TRY(GS_ISA(gs_cpu_rounded)(d, 2, (gs_operand[]){{&w, i * o}, {&dy, n * o}}));
    tree_work t = {.dx = gs_cpu_floats(dx),
                   .dy = gs_cpu_floats(dy),
                   .w = gs_cpu_floats(w),
                   .n = n,
                   .in = i,
                   .out = o,
                   .leaves = leaves,
                   .blocks = blocks,
                   .share = share};
    GS_TRY(gs_cpu_scratch(d, DX_ROWS * i * (size_t)(1 + levels_of(leaves)) + GS_STRIP * GS_BLOCK, &t.memory));
    return gs_cpu_run(d, 1, backward, &t);
}
