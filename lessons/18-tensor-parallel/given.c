/* Lab 18, as given: `train --tensor T` with lab.c, on the device "cpu". Its cuts decide which worker holds which part
 * of a tensor; its layers and its loss replace those of a group. */
#include "tasks.h"

#include <stdlib.h>
#include <string.h>
#include "cpu/cpu.h"
#include "parallel/tensor.h"

/* ---- 18.1: who owns which part of a tensor ---- */

/* Like gs_tensor_rows_of. A convolution has several floats in each column. */
static lab_cut cut_of(const gs_param *p, int rank, int size) {
    if (p->cut == GS_UNCUT) return (lab_cut){0, p->count, p->count, 1};
    const size_t whole = (size_t)p->cut_whole, rows = (size_t)p->dims[0];
    if (p->cut == GS_CUT_ROWS) return lab_rows_of(whole, p->count / rows, (size_t)p->cut_blocks, rank, size);
    const size_t each = p->count / (rows * (size_t)p->dims[1]);
    lab_cut c = lab_columns_of(rows, whole, rank, size);
    c.first *= each, c.length *= each, c.step *= each;
    return c;
}

/* False for a run of a wrong cut that would leave the tensor: skipped. */
static bool fits(const gs_param *p, const lab_cut *c, size_t i, size_t *at) {
    const size_t first = c->first + i * c->step;
    size_t whole = p->count;
    if (p->cut == GS_CUT_ROWS) whole = p->count / (size_t)p->dims[0] * (size_t)p->cut_whole;
    if (p->cut == GS_CUT_COLUMNS) whole = p->count / (size_t)p->dims[1] * (size_t)p->cut_whole;
    *at = first;
    return first <= whole && c->length <= whole - first;
}

size_t gs_tensor_count(const gs_param *part, int rank, int size) {
    const lab_cut c = cut_of(part, rank, size);
    return c.count * c.length;
}

void gs_tensor_get_shard(const gs_param *part, int rank, int size, float *to, const float *whole) {
    const lab_cut c = cut_of(part, rank, size);
    size_t at;
    for (size_t i = 0; i < c.count && (i + 1) * c.length <= part->count; i++)
        if (fits(part, &c, i, &at)) memcpy(to + i * c.length, whole + at, c.length * sizeof *to);
}

void gs_tensor_put_shard(const gs_param *part, int rank, int size, const float *from, float *whole) {
    const lab_cut c = cut_of(part, rank, size);
    size_t at;
    for (size_t i = 0; i < c.count; i++)
        if (fits(part, &c, i, &at)) memcpy(whole + at, from + i * c.length, c.length * sizeof *whole);
}

/* ---- 18.2, 18.3: the layers ---- */

static _Thread_local gs_comm *group; /* this thread's worker's */

/* False in a dry run, and in a warm-up, before the group has met. */
static bool is_real(const gs_layer *l) {
    const gs_worker *w = l->shard->group->context;
    group = w->groups.met ? w->groups.comm[GS_TP] : NULL;
    return !l->device->dry && group;
}

static lab_layer layer_of(const gs_layer *l, const gs_pass *pass) {
    const gs_param *w = l->borrowed ? l->borrowed : &l->param[0];
    return (lab_layer){.n = gs_layer_tokens(l, pass),
                       .in = (size_t)l->in.c,
                       .out = (size_t)l->out.c,
                       .w = gs_cpu_floats(w->w),
                       .b = l->params > 1 ? gs_cpu_floats(l->param[1].w) : NULL};
}

static gs_status check_device(const gs_device *d) {
    if (!d->ops->host_memory) return gs_fail(GS_E_USAGE, "lab 18 trains on the CPU: --device cpu");
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    return gs_fail(GS_E_USAGE, "lab 18 computes in f32; wanted no --precision");
}

typedef gs_status (*student_forward)(gs_comm *, const lab_layer *, const float *x, float *y);
typedef gs_status (*student_backward)(gs_comm *, const lab_layer *, const float *dy, const float *x,
                                      float *dx, float *dw, float *db);

/* No activation is fused into the student's layers. */
static gs_status forward_by(student_forward theirs, gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem y) {
    GS_TRY(check_device(l->device));
    const lab_layer mine = layer_of(l, pass);
    return is_real(l) ? theirs(group, &mine, gs_cpu_floats(x), gs_cpu_floats(y)) : GS_OK;
}

static gs_status backward_by(student_backward theirs, gs_layer *l, const gs_pass *pass, gs_mem dy,
                             gs_mem dx) {
    const gs_backend *ops = l->device->ops;
    const lab_layer mine = layer_of(l, pass);
    const gs_param *w = l->borrowed ? l->borrowed : &l->param[0];
    float *db = l->params > 1 ? gs_cpu_floats(l->param[1].dw) : NULL;
    if (!is_real(l)) return GS_OK;
    if (pass->fresh) GS_TRY(ops->fill(l->device, w->dw, 0, mine.out * mine.in));
    if (pass->fresh && db) GS_TRY(ops->fill(l->device, l->param[1].dw, 0, mine.out));
    return theirs(group, &mine, gs_cpu_floats(dy), gs_cpu_floats(l->x),
                  l->needs_dx ? gs_cpu_floats(dx) : NULL, gs_cpu_floats(w->dw), db);
}

static gs_status first_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return forward_by(lab_first_forward, l, pass, x, *y);
}

static gs_status second_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return forward_by(lab_second_forward, l, pass, x, *y);
}

static gs_status first_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    return backward_by(lab_first_backward, l, pass, dy, *dx);
}

static gs_status second_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    return backward_by(lab_second_backward, l, pass, dy, *dx);
}

/* Replace the library's. */
const gs_layer_ops gs_column_linear = {.forward = first_forward, .backward = first_backward},
                   gs_row_linear = {.forward = second_forward, .backward = second_backward};

/* ---- 18.4: the loss ---- */

/* The library sums twice between its three operators. The student's function, called by the second operator, sums by
 * itself; each rank then returns its share of a total that the library's sums reproduce. The library counts right
 * answers. */
static gs_status (*library_sums)(gs_device *, gs_mem, gs_mem, gs_mem, gs_mem, gs_mem, size_t, int, float,
                                 const gs_share *);

static gs_status part_sums(gs_device *d, gs_mem p, gs_mem sums, gs_mem most, gs_mem x, gs_mem labels,
                           size_t n, int classes, float smoothing, const gs_share *share) {
    GS_TRY(library_sums(d, p, sums, most, x, labels, n, classes, smoothing, share));
    if (d->dry || !group) return GS_OK;
    const lab_words w = {.n = n,
                         .words = (size_t)classes,
                         .first = (size_t)gs_share_first(share),
                         .x = gs_cpu_floats(x),
                         .label = gs_cpu_ints(labels)};
    float *to = gs_cpu_floats(sums), *loss = to + n;
    float *room = malloc((2 * n + 1) * sizeof *room);
    if (!room) return gs_fail(GS_E_MEMORY, "lab 18: no memory for %zu tokens", n);
    const gs_status status = lab_words_loss(group, &w, gs_cpu_floats(p), loss, room);
    free(room);
    /* the library adds these up, divides p by the first, and computes the loss log(first) - second */
    for (size_t i = 0; i < n; i++) {
        to[i] = 1.0f / (float)group->size;
        loss[i] = -loss[i] / (float)group->size;
    }
    return status;
}

static gs_status part_backward(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes,
                               float smoothing, const gs_share *share) {
    (void)smoothing; /* unused in the lab */
    const lab_words w = {.n = n,
                         .words = (size_t)classes,
                         .first = (size_t)gs_share_first(share),
                         .label = gs_cpu_ints(labels)};
    if (!d->dry) lab_words_dx(&w, gs_cpu_floats(p), gs_cpu_floats(dx));
    return GS_OK;
}

static bool fuses_nothing(gs_device *d, const gs_epilogue *e) {
    (void)d, (void)e;
    return false;
}

static void edit(gs_backend *table) {
    library_sums = table->softmax_part_sums;
    table->softmax_part_sums = part_sums;
    table->softmax_part_backward = part_backward;
    table->fuses = fuses_nothing;
}

void lab_install(void) {
    gs_backend_replace(edit);
}
