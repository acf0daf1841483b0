#include "layer/tensor.h"

#include <string.h>

#include "layer/make.h"

/* ---- which layers are a pair ---- */

/* The last layer of the pair that begins at child i; below 0: none does. */
static int end_of_pair(const gs_layer *l, int i) {
    bool heads = false;
    for (int k = i + 1; k < l->children && l->child[i]->ops->tensor == GS_TENSOR_LINEAR; k++) {
        const gs_tensor_kind kind = l->child[k]->ops->tensor;
        if (kind == GS_TENSOR_LINEAR) return k;
        if (kind == GS_TENSOR_NOTHING || (kind == GS_TENSOR_HEADS && (heads || k > i + 1))) return -1;
        heads = heads || kind == GS_TENSOR_HEADS;
    }
    return -1;
}

static void give_role(gs_layer *l, const gs_tensor_group *tensor, gs_tensor_role role, int blocks) {
    l->tensor = tensor;
    l->role = role;
    l->blocks = blocks;
}

int gs_tensor_divide(gs_layer *net, const gs_tensor_group *tensor) {
    int pairs = 0;
    for (int i = 0; i < net->children; i++) {
        const int end = strcmp(net->ops->name, "sequential") == 0 ? end_of_pair(net, i) : -1;
        if (end < 0) {
            pairs += gs_tensor_divide(net->child[i], tensor);
            continue;
        }
        const bool heads = net->child[i + 1]->ops->tensor == GS_TENSOR_HEADS;
        give_role(net->child[i], tensor, GS_TENSOR_COLUMNS, heads ? 3 : 1); /* q, k and v */
        for (int k = i + 1; k < end; k++) give_role(net->child[k], tensor, GS_TENSOR_INNER, 1);
        give_role(net->child[end], tensor, GS_TENSOR_ROWS, 1);
        pairs++;
        i = end;
    }
    return pairs;
}

int gs_tensor_pairs(const gs_layer *net) {
    int pairs = net->role == GS_TENSOR_ROWS;
    for (int i = 0; i < net->children; i++) pairs += gs_tensor_pairs(net->child[i]);
    return pairs;
}

/* ---- parts of tensors ---- */

typedef struct rows {
    size_t count, floats;         /* so many runs, of so many floats */
    size_t part_step, whole_step; /* from one to the next */
    size_t whole_first;           /* where the first begins in the whole tensor */
} rows;

static rows rows_of(const gs_param *p, int rank, int size) {
    const size_t parts = p->cut == GS_UNCUT ? 1 : (size_t)size, r = p->cut == GS_UNCUT ? 0 : (size_t)rank;
    const size_t runs = p->cut == GS_CUT_COLUMNS ? (size_t)p->dims[0]
                        : p->cut == GS_CUT_ROWS  ? (size_t)p->cut_blocks
                                                 : 1;
    const size_t floats = p->count / runs;
    return (rows){runs, floats, floats, floats * parts, floats * r};
}

void gs_tensor_take(const gs_param *part, int rank, int size, float *to, const float *whole) {
    const rows r = rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(to + i * r.part_step, whole + r.whole_first + i * r.whole_step, r.floats * sizeof *to);
}

void gs_tensor_put(const gs_param *part, int rank, int size, const float *from, float *whole) {
    const rows r = rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(whole + r.whole_first + i * r.whole_step, from + i * r.part_step, r.floats * sizeof *whole);
}

/* ---- the two linear layers ---- */

void gs_tensor_plan_linear(gs_layer *l) {
    if (l->tensor->size == 1) return;
    for (int i = 0; i < l->params; i++) {
        const bool columns = l->role == GS_TENSOR_COLUMNS;
        l->param[i].cut = columns ? GS_CUT_ROWS : i == 0 ? GS_CUT_COLUMNS : GS_UNCUT; /* b2 is whole */
        l->param[i].cut_blocks = columns ? l->blocks : 1;
    }
}

static gs_status sum(const gs_layer *l, gs_mem x, size_t count) {
    const gs_tensor_group *t = l->tensor;
    return t->size > 1 && count > 0 ? t->sum(t->context, l->device, x, count) : GS_OK;
}

/* How many leaves of the sum that the group divides are this rank's. */
static int own_leaves(const gs_layer *l) {
    return l->tensor->leaves / l->tensor->size;
}

/* y = sum over the ranks of x w^T, + b. The first layer of a pair has whole sums, and the group does not add. */
gs_status gs_tensor_linear_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y,
                                   const gs_epilogue *then) {
    const gs_backend *ops = l->device->ops;
    const size_t n = gs_layer_tokens(l, pass);
    const bool rows = l->role == GS_TENSOR_ROWS;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    l->x = x;
    *y = l->y;
    if (!rows && !l->tensor->leaves)
        return ops->linear_forward(l->device, l->y, x, w->w, b->w, n, l->in.c, l->out.c, then);
    if (l->tensor->leaves)
        GS_TRY(ops->linear_tree_forward(l->device, l->y, x, w->w, n, l->in.c, l->out.c,
                                        rows ? own_leaves(l) : 1));
    else
        GS_TRY(ops->linear_forward(l->device, l->y, x, w->w, GS_NONE, n, l->in.c, l->out.c, NULL));
    if (rows) GS_TRY(sum(l, l->y, n * (size_t)l->out.c));
    return b->w.base ? ops->positions_forward(l->device, l->y, l->y, b->w, n, (size_t)l->out.c) : GS_OK;
}

/* Of y = x w^T + b: dw = dy^T x, db = the sum of dy, both whole sums; dx = dy w, in the first layer of a pair the sum
 * of what the ranks' outputs give. */
gs_status gs_tensor_linear_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx,
                                    const gs_epilogue *then) {
    const gs_backend *ops = l->device->ops;
    const size_t n = gs_layer_tokens(l, pass);
    const bool columns = l->role == GS_TENSOR_COLUMNS;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    *dx = l->dx;
    if (l->tensor->leaves)
        GS_TRY(ops->linear_tree_backward(l->device, l->dx, w->dw, b->dw, dy, l->x, w->w, n, l->in.c, l->out.c,
                                         !pass->fresh, columns ? own_leaves(l) : 1, l->blocks));
    else
        GS_TRY(ops->linear_backward(l->device, l->dx, w->dw, b->dw, dy, l->x, w->w, n, l->in.c, l->out.c,
                                    !pass->fresh, then));
    return columns && l->needs_dx ? sum(l, l->dx, n * (size_t)l->in.c) : GS_OK;
}
