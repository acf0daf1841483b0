#include "cpu/linear.h"
#include "cpu/matmul.h"

/* dw and db of a linear layer whose samples are cut into leaves (gs_epilogue), for one tile of dw at a time:
 *
 *     leaf 0 -> A     leaf 1: A +=     leaf 2 -> B     leaf 3: B +=     A += B     ...
 *
 * A is the tile; B and the sums of higher levels are in `sums`, and stay in the core's caches. */
typedef struct leaves_work {
    const gs_linear_task *l;
    const gs_leaves *leaves;
    size_t each; /* rows of x for a sample */
    int parts;
    float *memory; /* for each part: gs_matmul's strip, then the sums of LEVELS levels */
    size_t part;
} leaves_work;

enum { ROWS = 32, COLUMNS = 256, LEVELS = 3 };

/* c = the sum of `leaves` leaves from `first` on; m describes the tile, with all samples. A leaf of one block of terms
 * is added to its neighbour as it is computed. */
static void add_up(const leaves_work *t, gs_matmul m, int first, int leaves, float *sums) {
    const size_t row = t->each * t->leaves->at[first], half = (size_t)leaves / 2;
    if (leaves == 1) {
        m.depth = (int)(t->each * t->leaves->at[first + 1] - row);
        m.a.at += row * (size_t)t->l->out;
        m.b.at += row * (size_t)t->l->in;
        GS_ISA(gs_cpu_matmul)(&m);
        return;
    }
    gs_matmul right = m;
    right.add = half == 1 && t->each * (t->leaves->at[first + 2] - t->leaves->at[first + 1]) <= GS_BLOCK;
    if (!right.add) right.c.at = sums + half / 2 * ROWS * COLUMNS, right.c.row = COLUMNS;
    add_up(t, m, first, (int)half, sums);
    add_up(t, right, first + (int)half, (int)half, sums);
    for (int i = 0; i < m.rows && !right.add; i++)
        for (int j = 0; j < m.columns; j++)
            m.c.at[(size_t)i * m.c.row + (size_t)j] += right.c.at[(size_t)i * COLUMNS + (size_t)j];
}

static void add_up_db(const leaves_work *t, size_t o, size_t count) {
    float sum[GS_LEAVES][ROWS] = {{0}};
    const int leaves = t->leaves->count;
    for (int k = 0; k < leaves; k++)
        for (size_t i = t->each * t->leaves->at[k]; i < t->each * t->leaves->at[k + 1]; i++)
            for (size_t j = 0; j < count; j++) sum[k][j] += t->l->dy[i * (size_t)t->l->out + o + j];
    for (int d = 1; d < leaves; d *= 2)
        for (int k = 0; k < leaves; k += 2 * d)
            for (size_t j = 0; j < count; j++) sum[k][j] += sum[k + d][j];
    memcpy(t->l->db + o, sum[0], count * sizeof(float));
}

static void leaves_part(void *context, int part) {
    const leaves_work *t = context;
    const size_t in = (size_t)t->l->in, out = (size_t)t->l->out;
    const gs_range r = gs_cpu_range(out, part, t->parts);
    float *strip = t->memory + (size_t)part * t->part;
    for (size_t o = r.begin; o < r.end; o += ROWS) {
        const size_t rows = r.end - o < ROWS ? r.end - o : ROWS;
        if (t->l->db) add_up_db(t, o, rows);
        for (size_t k = 0; k < in; k += COLUMNS)
            add_up(t,
                   (gs_matmul){.rows = (int)rows,
                               .columns = (int)(in - k < COLUMNS ? in - k : COLUMNS),
                               .a = {t->l->dy + o, GS_TILE_ROWS, 1, out},
                               .b = {t->l->x + k, in},
                               .c = {t->l->dw + o * in + k, in},
                               .strip = strip},
                   0, t->leaves->count, strip + GS_STRIP * GS_BLOCK);
    }
}

gs_status GS_ISA(gs_cpu_linear_leaves)(gs_device *d, const gs_linear_task *l, gs_mem dx, gs_mem w,
                                       const gs_leaves *leaves) {
    gs_linear_task masked = *l;
    float *passed = NULL;
    masked.db = NULL;
    if (l->relu_y) GS_TRY(gs_cpu_scratch_rounded(d, (size_t)l->n * (size_t)l->out, &passed));
    GS_ISA(gs_cpu_linear_dy)(d, &masked, passed);
    masked.db = l->db;
    leaves_work t = {.l = &masked, .leaves = leaves, .each = (size_t)l->n / leaves->at[leaves->count]};
    t.part = GS_STRIP * GS_BLOCK + LEVELS * ROWS * COLUMNS;
    t.parts = gs_cpu_fine_parts(d, (size_t)l->out, 16, 64);
    GS_TRY(gs_cpu_scratch(d, (size_t)t.parts * t.part, &t.memory));
    GS_TRY(gs_cpu_run(d, t.parts, leaves_part, &t));
    if (!dx.base) return GS_OK;
    return GS_ISA(gs_cpu_linear_backward)(d, dx, GS_NONE, GS_NONE, gs_cpu_host_memory(masked.dy), GS_NONE, w,
                                          (size_t)l->n, l->in, l->out, false, NULL);
}
