#include "layer/tensor.h"

#include <string.h>

#include "layer/make.h"
#include "layer/sequence.h"

/* ---- which layers are a pair ---- */

/* Convolutions are divided where each rank has a channel. With an order of sums they are not: adding over the channels
 * in parts would cost them their fast ways of multiplying (cpu/winograd.h), also where a worker is alone. */
static bool begins_pair(const gs_layer *l, const gs_tensor_group *t) {
    if (l->ops->tensor == GS_TENSOR_CONV) return !t->leaves && l->outputs >= t->size;
    return l->ops->tensor == GS_TENSOR_LINEAR;
}

/* The last layer of the pair that begins at child i; below 0: none does. */
static int end_of_pair(const gs_layer *l, int i, const gs_tensor_group *t) {
    const gs_tensor_kind ends = l->child[i]->ops->tensor;
    bool heads = false;
    for (int k = i + 1; k < l->children && begins_pair(l->child[i], t); k++) {
        const gs_tensor_kind kind = l->child[k]->ops->tensor;
        if (kind == ends) return l->child[k]->outputs > 0 ? k : -1;
        if (kind == GS_TENSOR_ELEMENTS || (kind == GS_TENSOR_CHANNELS && ends == GS_TENSOR_CONV)) continue;
        if (kind != GS_TENSOR_HEADS || ends != GS_TENSOR_LINEAR || heads || k > i + 1) return -1;
        heads = true;
    }
    return -1;
}

static void give_role(gs_layer *l, const gs_tensor_group *tensor, gs_tensor_role role, int blocks) {
    l->tensor = tensor;
    l->role = role;
    l->blocks = blocks;
}

static int divide_pairs(gs_layer *net, const gs_tensor_group *tensor) {
    int pairs = 0;
    for (int i = 0; i < net->children; i++) {
        const int end = gs_layer_is_sequence(net) ? end_of_pair(net, i, tensor) : -1;
        if (end < 0) {
            pairs += divide_pairs(net->child[i], tensor);
            continue;
        }
        const bool heads = net->child[i + 1]->ops->tensor == GS_TENSOR_HEADS;
        give_role(net->child[i], tensor, GS_TENSOR_COLUMNS, heads ? 3 : 1); /* q, k and v */
        for (int k = i + 1; k < end; k++) give_role(net->child[k], tensor, GS_TENSOR_INNER, 1);
        give_role(net->child[end], tensor, GS_TENSOR_ROWS, 1);
        for (int k = i; k <= end; k++) net->child[k]->pair = net->child[i];
        pairs++;
        i = end;
    }
    return pairs;
}

/* The words of a model that has some. */
static int divide_outputs(gs_layer *net, const gs_tensor_group *tensor) {
    gs_layer *first = net->children > 1 ? net->child[0] : NULL,
             *last = first ? net->child[net->children - 1] : NULL;
    if (!first || !gs_layer_is_sequence(net) || first->ops->tensor != GS_TENSOR_TABLE) return 0;
    if (last->role != GS_TENSOR_WHOLE) return 0;
    const bool tied = last->ops->tensor == GS_TENSOR_TIED;
    if (!tied && last->ops->tensor != GS_TENSOR_LINEAR) return 0;
    if (tied) give_role(first, tensor, GS_TENSOR_TABLE_ROWS, 1);
    give_role(last, tensor, GS_TENSOR_OUTPUTS, 1);
    return 1;
}

int gs_tensor_divide(gs_layer *net, const gs_tensor_group *tensor) {
    const int pairs = divide_pairs(net, tensor), outputs = tensor->outputs ? divide_outputs(net, tensor) : 0;
    gs_sequence_divide(net, tensor);
    return pairs + outputs;
}

int gs_tensor_divided(const gs_layer *net) {
    int count = net->role == GS_TENSOR_ROWS || net->role == GS_TENSOR_OUTPUTS;
    for (int i = 0; i < net->children; i++) count += gs_tensor_divided(net->child[i]);
    return count;
}

const gs_layer *gs_tensor_outputs(const gs_layer *net) {
    const gs_layer *last = net->children > 0 ? net->child[net->children - 1] : net;
    return last->role == GS_TENSOR_OUTPUTS ? last : NULL;
}

/* ---- parts of tensors ---- */

gs_share gs_tensor_share(const gs_tensor_group *t, int whole) {
    return (gs_share){t->rank, t->size, whole, t->leaves ? t->leaves / t->size : 1};
}

gs_tensor_rows gs_tensor_rows_of(const gs_param *p, int rank, int size) {
    if (p->cut == GS_UNCUT) return (gs_tensor_rows){1, p->count, p->count, p->count, 0};
    const bool columns = p->cut == GS_CUT_COLUMNS;
    const int blocks = columns ? 1 : p->cut_blocks, all = p->cut_whole / blocks;
    const gs_share share = {rank, size, all, 1};
    const size_t each = p->count / ((size_t)p->dims[0] * (size_t)(columns ? p->dims[1] : 1)),
                 floats = (size_t)gs_share_count(&share) * each, of_all = each * (size_t)all,
                 first = (size_t)gs_share_first(&share) * each;
    return (gs_tensor_rows){(size_t)(columns ? p->dims[0] : blocks), floats, floats, of_all, first};
}

size_t gs_tensor_count(const gs_param *part, int rank, int size) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    return r.count * r.floats;
}

void gs_tensor_take(const gs_param *part, int rank, int size, float *to, const float *whole) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(to + i * r.part_step, whole + r.whole_first + i * r.whole_step, r.floats * sizeof *to);
}

void gs_tensor_put(const gs_param *part, int rank, int size, const float *from, float *whole) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(whole + r.whole_first + i * r.whole_step, from + i * r.part_step, r.floats * sizeof *whole);
}

/* ---- linear layers ---- */

static bool sums_dx(const gs_layer *l) {
    return l->role == GS_TENSOR_COLUMNS || l->role == GS_TENSOR_OUTPUTS;
}

bool gs_tensor_sums_dx(const gs_layer *l) {
    return sums_dx(l) && l->needs_dx;
}

bool gs_tensor_sums_y(const gs_layer *l) {
    return l->role == GS_TENSOR_ROWS || l->role == GS_TENSOR_TABLE_ROWS;
}

gs_status gs_tensor_outputs_here(const gs_layer *l, int *out) {
    const int all = l->outputs;
    *out = 0;
    if (all == 0) return GS_OK;
    const int size = l->tensor && sums_dx(l) ? l->tensor->size : 1, blocks = size > 1 ? l->blocks : 1;
    *out = all / size;
    if (size > 1 && (l->role == GS_TENSOR_OUTPUTS || l->ops->tensor == GS_TENSOR_CONV)) {
        const gs_share share = gs_tensor_share(l->tensor, all);
        *out = gs_share_count(&share);
        if (all >= size) return GS_OK;
        return gs_layer_refuse(l, "its %d outputs cannot be divided among %d workers; wanted at least %d",
                               all, size, size);
    }
    if (all % (size * blocks) == 0) return GS_OK;
    return gs_layer_refuse(l, "its %d outputs cannot be divided among %d workers%s; wanted a multiple of %d",
                           all, size, blocks > 1 ? ", each with its part of q, k and v" : "", size * blocks);
}

static void cut(gs_param *p, gs_cut how, int blocks, int whole) {
    p->cut = how;
    p->cut_blocks = blocks;
    p->cut_whole = whole;
}

void gs_tensor_plan(gs_layer *l) {
    if (l->role == GS_TENSOR_WHOLE || l->tensor->size == 1) return;
    if (gs_sequence_reduces_y(l) && l->role == GS_TENSOR_ROWS) l->out.t /= l->tensor->size;
    if (gs_sequence_gathers_x(l)) {
        l->out.t *= l->tensor->size;
        l->flops *= l->tensor->size;
    }
    const int whole = !l->pair                       ? l->outputs
                      : l->role == GS_TENSOR_COLUMNS ? l->outputs
                                                     : l->pair->outputs / l->pair->blocks;
    for (int i = 0; i < l->params; i++) {
        if (l->role != GS_TENSOR_ROWS)
            cut(&l->param[i], GS_CUT_ROWS, l->blocks, whole);
        else if (i == 0) /* b2 is whole */
            cut(&l->param[i], GS_CUT_COLUMNS, 1, whole);
    }
}

gs_status gs_tensor_sum(const gs_layer *l, gs_mem x, size_t count) {
    const gs_tensor_group *t = l->tensor;
    return t->size > 1 && count > 0 ? t->sum(t->context, l->device, x, count) : GS_OK;
}

gs_mem gs_tensor_unsummed(const gs_layer *l, gs_mem x) {
    return x.half && l->tensor->size > 1 ? l->root->arena->sums : x;
}

static gs_status round_to(const gs_layer *l, gs_mem from, gs_mem x, size_t count) {
    const bool differs = x.half && !from.half && count > 0;
    return differs ? l->device->ops->narrow(l->device, x, from, count, false) : GS_OK;
}

gs_status gs_tensor_sum_to(const gs_layer *l, gs_mem unsummed, gs_mem x, size_t count) {
    GS_TRY(gs_tensor_sum(l, unsummed, count));
    return round_to(l, unsummed, x, count);
}

/* Numbers of a sample. */
static gs_status find_most(gs_layer *l, void *most) {
    size_t numbers = 0;
    if (l->elsewhere || !l->tensor || l->tensor->size < 2) return GS_OK;
    if (gs_tensor_sums_y(l) && l->y_half) numbers = gs_shape_size(l->out);
    if (gs_tensor_sums_dx(l) && l->x_half) numbers = gs_shape_size(l->in);
    if (numbers > *(size_t *)most) *(size_t *)most = numbers;
    return GS_OK;
}

gs_status gs_tensor_bind(gs_layer *root, size_t max_batch) {
    size_t most = 0;
    GS_TRY(gs_layer_walk(root, find_most, &most));
    if (most == 0) return GS_OK;
    return gs_context(
        gs_alloc(root->device, GS_MEMORY_ACTIVATIONS, max_batch * most * sizeof(float), &root->arena->sums),
        "--tensor: sums of a layer");
}

/* How many leaves of the sum that the group divides are this rank's. */
static int own_leaves(const gs_layer *l) {
    return l->tensor->leaves / l->tensor->size;
}

static const gs_param *weight_of(const gs_layer *l) {
    return l->borrowed ? l->borrowed : &l->param[0];
}

/* Where sequences are divided, what is to be summed lies in the room for all tokens. */
static gs_mem unsummed(const gs_layer *l, gs_mem place, bool divided) {
    return divided && place.base ? gs_sequence_whole(l, GS_WHOLE_DY) : gs_tensor_unsummed(l, place);
}

/* What is gathered lies there until the next one is. */
static gs_status gather_x(const gs_layer *l, const gs_pass *pass, gs_mem *x) {
    const gs_mem part = *x;
    if (!gs_sequence_gathers_x(l)) return GS_OK;
    *x = gs_sequence_whole(l, GS_WHOLE_X);
    return gs_sequence_gather(l, pass, l->in, part, *x);
}

static size_t tokens_of(const gs_layer *l, const gs_pass *pass) {
    return gs_sequence_is_divided(l) ? pass->n * (size_t)gs_sequence_tokens(l) : gs_layer_tokens(l, pass);
}

/* y = the sum of all ranks' `sums`, or this rank's tokens of that, + b. In 16 bits it is rounded once. */
static gs_status sum_y(const gs_layer *l, const gs_pass *pass, gs_mem sums, gs_mem b, bool divided) {
    const size_t vectors = pass->n * (size_t)gs_shape_tokens(l->out), c = (size_t)l->out.c;
    const gs_mem y = divided ? l->y : sums;
    if (divided)
        GS_TRY(gs_sequence_reduce(l, pass, l->out, sums, y));
    else
        GS_TRY(gs_tensor_sum(l, y, vectors * c));
    if (b.base) GS_TRY(l->device->ops->positions_forward(l->device, y, y, b, vectors, c));
    return round_to(l, y, l->y, vectors * c);
}

/* y = sum over the ranks of x w^T, + b. Where ranks have outputs, these are whole sums, and the group does not add. */
gs_status gs_tensor_linear_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y,
                                   const gs_epilogue *then) {
    const gs_backend *ops = l->device->ops;
    const size_t n = tokens_of(l, pass);
    const bool rows = l->role == GS_TENSOR_ROWS, divided = gs_sequence_reduces_y(l);
    const gs_param *w = weight_of(l);
    const gs_mem b = l->params > 1 ? l->param[1].w : (gs_mem)GS_NONE, sums = unsummed(l, l->y, divided);
    *y = l->y;
    GS_TRY(gather_x(l, pass, &x));
    if (!rows && !l->tensor->leaves)
        return ops->linear_forward(l->device, l->y, x, w->w, b, n, l->in.c, l->out.c, then);
    if (l->tensor->leaves)
        GS_TRY(ops->linear_tree_forward(l->device, sums, x, w->w, n, l->in.c, l->out.c,
                                        rows ? own_leaves(l) : 1));
    else
        GS_TRY(ops->linear_forward(l->device, sums, x, w->w, GS_NONE, n, l->in.c, l->out.c, NULL));
    if (rows) return sum_y(l, pass, sums, b, divided);
    return b.base ? ops->positions_forward(l->device, l->y, l->y, b, n, (size_t)l->out.c) : GS_OK;
}

/* Of y = x w^T + b: dw = dy^T x, db = the sum of dy, both whole sums; dx = dy w, where ranks have outputs the sum of
 * what these give. */
gs_status gs_tensor_linear_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx,
                                    const gs_epilogue *then) {
    const gs_backend *ops = l->device->ops;
    const size_t n = tokens_of(l, pass);
    const bool divided = gs_sequence_gathers_x(l);
    const gs_param *w = weight_of(l);
    const gs_mem db = l->params > 1 ? l->param[1].dw : (gs_mem)GS_NONE,
                 sums = gs_tensor_sums_dx(l) ? unsummed(l, l->dx, divided) : l->dx;
    gs_mem x = l->x;
    *dx = l->dx;
    GS_TRY(gather_x(l, pass, &x));
    if (gs_sequence_reduces_y(l)) {
        GS_TRY(gs_sequence_gather(l, pass, l->out, dy, gs_sequence_whole(l, GS_WHOLE_DY)));
        dy = gs_sequence_whole(l, GS_WHOLE_DY);
    }
    if (l->tensor->leaves) {
        const bool words = l->role == GS_TENSOR_OUTPUTS;
        const gs_share share = gs_tensor_share(l->tensor, words ? l->outputs : 0);
        GS_TRY(ops->linear_tree_backward(l->device, sums, w->dw, db, dy, x, w->w, n, l->in.c, l->out.c,
                                         !pass->fresh, sums_dx(l) ? own_leaves(l) : 1, l->blocks,
                                         words ? &share : NULL));
    } else {
        GS_TRY(ops->linear_backward(l->device, sums, w->dw, db, dy, x, w->w, n, l->in.c, l->out.c,
                                    !pass->fresh, then));
    }
    if (!gs_tensor_sums_dx(l)) return GS_OK;
    if (divided) return gs_sequence_reduce(l, pass, l->in, sums, l->dx);
    return gs_tensor_sum_to(l, sums, l->dx, pass->n * gs_shape_size(l->in));
}
