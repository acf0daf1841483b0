/* Looks up table rows by token number; cpu/plain/embedding.c shows the formulas.
 *
 * In backward several tokens may name the same row. Two threads must not add to it at once, and the order of additions
 * must not depend on which thread is first. Therefore each part owns every `parts`-th row and loops over all tokens in
 * order, but adds only those that name its rows. (Not blocks of rows: frequent tokens often have low numbers.) */
#include "cpu/cpu.h"

typedef struct embedding_work {
    float *y, *dw;
    const float *x, *w, *dy;
    size_t n, c;
    int rows, first, parts;
    float other;
} embedding_work;

static embedding_work work_of(gs_device *d, gs_mem x, size_t n, int rows, int c, int first) {
    const int parts = gs_cpu_parts(d, n * (size_t)c, 1 << 14);
    return (embedding_work){
        .x = gs_cpu_floats(x), .n = n, .c = (size_t)c, .rows = rows, .first = first, .parts = parts};
}

static void forward_part(void *context, int part) {
    const embedding_work *t = context;
    const size_t c = t->c;
    const gs_range r = gs_cpu_tasks(t->n, part, t->parts);
    for (size_t i = r.begin; i < r.end; i++) {
        const int row = gs_token_row(t->x[i] - (float)t->first, t->rows);
        float *y = t->y + i * c;
        if (row >= 0)
            memcpy(y, t->w + (size_t)row * c, c * sizeof *y);
        else
            for (size_t k = 0; k < c; k++) y[k] = t->other;
    }
}

/* y[i] = w[x[i] - first] */
gs_status GS_ISA(gs_cpu_embedding_forward)(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n, int rows,
                                           int c, int first, float other) {
    embedding_work t = work_of(d, x, n, rows, c, first);
    t.y = gs_cpu_floats(y), t.w = gs_cpu_floats(w), t.other = other;
    return gs_cpu_run(d, t.parts, forward_part, &t);
}

static void backward_part(void *context, int part) {
    const embedding_work *t = context;
    for (size_t i = 0; i < t->n; i++) {
        const int row = gs_token_row(t->x[i] - (float)t->first, t->rows);
        if (row < 0 || row % t->parts != part) continue;
        float *restrict dw = t->dw + (size_t)row * t->c;
        const float *dy = t->dy + i * t->c;
        for (size_t k = 0; k < t->c; k++) dw[k] += dy[k];
    }
}

/* forward: y[i] = w[x[i] - first], so dw[r] is the sum of dy[i] over the i with x[i] = first + r */
gs_status GS_ISA(gs_cpu_embedding_backward)(gs_device *d, gs_mem dw, gs_mem dy, gs_mem x, size_t n, int rows,
                                            int c, int first, bool add) {
    embedding_work t = work_of(d, x, n, rows, c, first);
    t.dw = gs_cpu_floats(dw), t.dy = gs_cpu_floats(dy);
    if (!add) GS_TRY(gs_cpu_fill(d, dw, 0, (size_t)rows * t.c));
    return gs_cpu_run(d, t.parts, backward_part, &t);
}
