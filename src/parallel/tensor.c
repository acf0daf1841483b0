#include <math.h>
#include <stdlib.h>

#include "parallel/sequence.h"

/* ---- which layers form a pair ---- */

/* Convolutions are divided if each rank gets at least one channel, but not with `leaves`: adding the channels in parts
 * would rule out the fast convolutions of cpu/winograd.h, even for a lone worker. */
static bool begins_pair(const gs_layer *l, const gs_tensor_group *t) {
    if (l->ops->tensor == GS_TENSOR_CONV) return !t->leaves && l->outputs >= t->size;
    return l->ops->tensor == GS_TENSOR_LINEAR;
}

/* The index of the last layer of the pair that begins at child i; -1: no pair begins there. */
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

static const struct {
    gs_tensor_kind of;
    gs_tensor_role role;
    const gs_layer_ops *does;
} kinds[] = {
    {GS_TENSOR_LINEAR, GS_TENSOR_COLUMNS, &gs_column_linear},
    {GS_TENSOR_LINEAR, GS_TENSOR_OUTPUTS, &gs_column_linear},
    {GS_TENSOR_TIED, GS_TENSOR_OUTPUTS, &gs_column_linear},
    {GS_TENSOR_LINEAR, GS_TENSOR_ROWS, &gs_row_linear},
    {GS_TENSOR_CONV, GS_TENSOR_COLUMNS, &gs_column_conv2d},
    {GS_TENSOR_CONV, GS_TENSOR_ROWS, &gs_row_conv2d},
    {GS_TENSOR_HEADS, GS_TENSOR_INNER, &gs_heads_attention},
    {GS_TENSOR_TABLE, GS_TENSOR_TABLE_ROWS, &gs_row_embedding},
    {GS_TENSOR_TABLE, GS_TENSOR_TOKENS, &gs_token_embedding},
    {GS_TENSOR_VECTORS, GS_TENSOR_TOKENS, &gs_token_layer_norm},
    {GS_TENSOR_PLACES, GS_TENSOR_TOKENS, &gs_token_positions},
    {GS_TENSOR_DRAWS, GS_TENSOR_TOKENS, &gs_token_dropout},
};

/* True if dx is a sum over the ranks. */
static bool has_columns(const gs_layer_shard *p) {
    return p->role == GS_TENSOR_COLUMNS || p->role == GS_TENSOR_OUTPUTS;
}

/* True if y is a sum over the ranks. */
static bool has_rows(const gs_layer_shard *p) {
    return p->role == GS_TENSOR_ROWS || p->role == GS_TENSOR_TABLE_ROWS;
}

static gs_status plan_part(gs_layer *l, gs_shape in);

/* Outputs that are summed over workers, or added in a fixed order, cannot have an epilogue. Messages are in f32: an x
 * or y that is summed or gathered may be 16-bit only if that is done in a separate f32 buffer (gs_tensor_partial). */
static gs_status become_shard(gs_layer *l, const gs_tensor_group *t, gs_tensor_role role,
                              const gs_layer *first) {
    GS_TRY(GS_NEW(l->shard, 1, "the part of a layer"));
    gs_layer_shard *p = l->shard;
    *p = (gs_layer_shard){
        t, role, .blocks = 1, .first = first, .plain = l->ops, .ops = *l->ops, .plan = l->ops->plan};
    gs_layer_ops *ops = &p->ops;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const gs_layer_ops *does = kinds[i].does;
        if (kinds[i].of != ops->tensor || kinds[i].role != role) continue;
        if (does->plan) p->plan = does->plan;
        if (does->bind) ops->bind = does->bind;
        if (does->unbind) ops->unbind = does->unbind;
        if (does->forward) ops->forward = does->forward;
        if (does->backward) ops->backward = does->backward;
    }
    ops->plan = plan_part;
    l->ops = ops;
    if (role == GS_TENSOR_ROWS || t->leaves > 0) ops->fuses = false;
    if (role == GS_TENSOR_TOKENS || t->leaves > 0)
        ops->storage = GS_IN_FLOATS;
    else if (gs_sequence_is_divided(l) && role != GS_TENSOR_INNER)
        ops->storage = has_columns(p) ? GS_X_IN_FLOATS : GS_Y_IN_FLOATS;
    return GS_OK;
}

static gs_status divide_pair(gs_layer *const *child, int end, const gs_tensor_group *t) {
    GS_TRY(become_shard(child[0], t, GS_TENSOR_COLUMNS, child[0]));
    for (int k = 1; k < end; k++) GS_TRY(become_shard(child[k], t, GS_TENSOR_INNER, child[0]));
    if (child[1]->ops->tensor == GS_TENSOR_HEADS) child[0]->shard->blocks = child[1]->shard->blocks = 3;
    return become_shard(child[end], t, GS_TENSOR_ROWS, child[0]);
}

static gs_status divide_pairs(gs_layer *net, const gs_tensor_group *t) {
    for (int i = 0; i < net->children; i++) {
        const int end = gs_layer_is_sequence(net) ? end_of_pair(net, i, t) : -1;
        GS_TRY(end < 0 ? divide_pairs(net->child[i], t) : divide_pair(net->child + i, end - i, t));
        if (end > 0) i = end;
    }
    return GS_OK;
}

/* Divide the model's vocabulary, if it has one. */
static gs_status divide_outputs(gs_layer *net, const gs_tensor_group *t) {
    gs_layer *first = net->children > 1 ? net->child[0] : NULL,
             *last = first ? net->child[net->children - 1] : NULL;
    if (!first || !gs_layer_is_sequence(net) || first->ops->tensor != GS_TENSOR_TABLE || last->shard)
        return GS_OK;
    if (last->ops->tensor == GS_TENSOR_TIED)
        GS_TRY(become_shard(first, t, GS_TENSOR_TABLE_ROWS, NULL));
    else if (last->ops->tensor != GS_TENSOR_LINEAR)
        return GS_OK;
    return become_shard(last, t, GS_TENSOR_OUTPUTS, NULL);
}

static gs_status divide_tokens(gs_layer *l, void *group) {
    return l->shard ? GS_OK : become_shard(l, *(const gs_tensor_group **)group, GS_TENSOR_TOKENS, NULL);
}

gs_status gs_tensor_divide(gs_layer *net, const gs_tensor_group *group) {
    GS_TRY(divide_pairs(net, group));
    if (group->outputs) GS_TRY(divide_outputs(net, group));
    if (!group->sequence || group->size < 2) return GS_OK;
    return gs_layer_walk(net, divide_tokens, &group);
}

int gs_tensor_divided(const gs_layer *net) {
    const gs_tensor_role role = gs_tensor_role_of(net);
    int count = role == GS_TENSOR_ROWS || role == GS_TENSOR_OUTPUTS;
    for (int i = 0; i < net->children; i++) count += gs_tensor_divided(net->child[i]);
    return count;
}

const gs_layer *gs_tensor_outputs(const gs_layer *net) {
    const gs_layer *last = net->children > 0 ? net->child[net->children - 1] : net;
    return gs_tensor_role_of(last) == GS_TENSOR_OUTPUTS ? last : NULL;
}

/* ---- shards of tensors ---- */

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

/* ---- plan ---- */

/* Find this rank's outputs, or its rows of a table. */
static gs_status find_outputs(gs_layer *l) {
    const gs_layer_shard *p = l->shard;
    const bool table = p->role == GS_TENSOR_TABLE_ROWS;
    const int all = l->outputs, size = p->group->size, blocks = p->blocks;
    if (size < 2 || all == 0 || !(table || has_columns(p))) return GS_OK;
    const gs_share share = gs_tensor_share(p->group, all);
    l->local_outputs = gs_share_count(&share);
    if (table) l->first = gs_share_first(&share);
    if (table || p->role == GS_TENSOR_OUTPUTS || l->ops->tensor == GS_TENSOR_CONV)
        return all >= size
                   ? GS_OK
                   : gs_layer_refuse(l, "its %d %s cannot be divided among %d workers; wanted at least %d",
                                     all, table ? "vectors" : "outputs", size, size);
    if (all % (size * blocks) == 0) return GS_OK;
    return gs_layer_refuse(l, "its %d outputs cannot be divided among %d workers%s; wanted a multiple of %d",
                           all, size, blocks > 1 ? ", each with its part of q, k and v" : "", size * blocks);
}

static void cut(gs_param *p, gs_cut how, int blocks, int whole) {
    p->cut = how;
    p->cut_blocks = blocks;
    p->cut_whole = whole;
}

/* The plain plan counts this rank's tokens; at the output of a linear layer that gathers or scatters tokens, their
 * number differs and is corrected here. Then record how the parameters, weight first, are cut. */
static gs_status plan_part(gs_layer *l, gs_shape in) {
    const gs_layer_shard *p = l->shard;
    const bool rows = p->role == GS_TENSOR_ROWS, inside = rows || p->role == GS_TENSOR_INNER;
    GS_TRY(gs_sequence_check(l));
    GS_TRY(find_outputs(l));
    GS_TRY(p->plan(l, in));
    if (p->group->size < 2 || p->role == GS_TENSOR_TOKENS) return GS_OK;
    if (rows && p->group->sequence) l->out.t /= p->group->size;
    if (has_columns(p) && p->group->sequence) {
        l->out.t *= p->group->size;
        l->flops *= p->group->size;
    }
    const int whole = inside ? p->first->outputs / p->first->shard->blocks : l->outputs;
    for (int i = 0; i < (rows ? 1 : l->params); i++) /* b2 is whole */
        cut(&l->param[i], rows ? GS_CUT_COLUMNS : GS_CUT_ROWS, p->blocks, whole);
    return GS_OK;
}

/* ---- sums ---- */

gs_status gs_tensor_sum(const gs_layer *l, gs_mem x, size_t count) {
    const gs_tensor_group *t = l->shard->group;
    return t->size > 1 && count > 0 ? t->sum(t->context, l->device, x, count) : GS_OK;
}

gs_mem gs_tensor_partial(const gs_layer *l, gs_mem x) {
    if (gs_sequence_is_divided(l) && x.base) return gs_sequence_whole(l, GS_WHOLE_DY);
    return x.half && l->shard->group->size > 1 ? l->root->arena->sums : x;
}

gs_status gs_tensor_sum_to(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem partial, gs_mem b,
                           gs_mem x) {
    const gs_backend *ops = l->device->ops;
    const gs_tensor_group *t = l->shard->group;
    const bool divided = gs_sequence_is_divided(l);
    const size_t count = gs_layer_numbers(pass, shape), c = (size_t)shape.c;
    const gs_mem sum = divided ? x : partial;
    if (count == 0) return GS_OK;
    GS_TRY(divided ? t->reduce(t->context, l->device, x, partial, pass->n, gs_shape_size(shape))
                   : gs_tensor_sum(l, sum, count));
    if (b.base) GS_TRY(ops->positions_forward(l->device, sum, sum, b, count / c, c));
    return x.half && !sum.half ? ops->narrow(l->device, x, sum, count, false) : GS_OK;
}

/* ---- bind ---- */

size_t gs_tensor_floats(const gs_layer *l, bool half) {
    const gs_layer_shard *p = l->shard;
    if (!p || p->group->size < 2 || l->other_stage) return 0;
    const bool divided = gs_sequence_is_divided(l), table = l->ops->tensor == GS_TENSOR_TABLE,
               whole = p->role == GS_TENSOR_TOKENS && (table || (p->group->leaves > 0 && l->params > 0)),
               x = has_columns(p) && (divided || l->needs_dx) && (l->memory.x_half || !half),
               y = (has_rows(p) || whole) && (l->memory.y_half || !half);
    const size_t ranks = divided ? (size_t)p->group->size : 1;
    return x ? ranks * gs_shape_size(l->in) : y ? ranks * gs_shape_size(l->out) : 0;
}

typedef struct most {
    size_t floats, half;
} most;

static gs_status find_most(gs_layer *l, void *context) {
    most *m = context;
    const size_t floats = gs_tensor_floats(l, false), half = gs_tensor_floats(l, true);
    if (floats > m->floats) m->floats = floats;
    if (half > m->half) m->half = half;
    return GS_OK;
}

static gs_status allocate(gs_layer *root, size_t floats, gs_mem *out, const char *what) {
    return gs_context(gs_alloc(root->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), out), "%s", what);
}

gs_status gs_tensor_bind(gs_layer *root, size_t max_batch) {
    const gs_layer_shard *p = root->shard;
    gs_arena *a = root->arena;
    most m = {0};
    GS_TRY(gs_layer_walk(root, find_most, &m));
    if (m.half > 0) GS_TRY(allocate(root, max_batch * m.half, &a->sums, "--tensor: sums of a layer"));
    for (int i = 0; gs_sequence_is_divided(root) && i < GS_WHOLES; i++)
        if (i != GS_WHOLE_DX || p->group->leaves > 0)
            GS_TRY(allocate(root, max_batch * m.floats, &a->whole[i], "--sequence: all tokens of a layer"));
    return GS_OK;
}

const char *const gs_tensor_collective_names[] = {"sum", "all-gather", "reduce-scatter"};

double gs_tensor_times_sent(gs_tensor_collective c, int size, bool leaves) {
    const double n = size, once = (n - 1) / n;
    if (c != GS_TENSOR_ALL_REDUCE) return once;
    return leaves ? log2(n) : 2 * once;
}
