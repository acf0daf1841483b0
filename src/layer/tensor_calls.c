#include <math.h>

#include "layer/sequence.h"
#include "layer/tensor.h"

const char *const gs_tensor_act_words[] = {"sum", "all-gather", "reduce-scatter"};

typedef struct list {
    gs_tensor_call *call;
    int count;
    bool leaves;
    size_t ranks; /* a part of a sequence times this is all of it */
} list;

static void add(list *l, gs_tensor_act act, bool backward, size_t floats) {
    l->call[l->count++] = (gs_tensor_call){.act = act, .backward = backward, .floats = floats};
}

/* Where the sum has an order, all of it is added everywhere, and each rank takes its part. */
static void add_scatter(list *l, bool backward, size_t floats) {
    add(l, l->leaves ? GS_TENSOR_ADDS : GS_TENSOR_SCATTERS, backward, floats);
}

/* Of a group without sequences, or of the inner layers of a pair. */
static void add_sums(list *l, const gs_layer *y) {
    if (gs_tensor_sums_y(y)) add(l, GS_TENSOR_ADDS, false, gs_shape_size(y->out));
    if (gs_tensor_sums_dx(y)) add(l, GS_TENSOR_ADDS, true, gs_shape_size(y->in));
}

/* For its dw the first layer of a pair gathers x once more. */
static void add_of_pair(list *l, const gs_layer *y) {
    const size_t in = l->ranks * gs_shape_size(y->in), out = l->ranks * gs_shape_size(y->out);
    if (gs_sequence_gathers_x(y)) {
        add(l, GS_TENSOR_GATHERS, false, in);
        add(l, GS_TENSOR_GATHERS, true, in);
        if (y->needs_dx) add_scatter(l, true, in);
    }
    if (!gs_sequence_reduces_y(y)) return;
    add_scatter(l, false, out);
    add(l, GS_TENSOR_GATHERS, true, out);
}

/* layer_norm sums the gradients of its weights, or with an order gathers what it computes them from; positions gathers
 * those of its rows; an embedding that all have gathers dy. */
static void add_of_sharded(list *l, const gs_layer *y) {
    const size_t floats = l->ranks * gs_shape_size(y->in), tokens = l->ranks * (size_t)gs_shape_tokens(y->in);
    if (y->params == 0) return;
    if (y->ops->tensor == GS_TENSOR_TABLE) {
        add(l, GS_TENSOR_GATHERS, true, l->ranks * gs_shape_size(y->out));
    } else if (y->params == 1) {
        add(l, GS_TENSOR_GATHERS, true, y->param[0].count);
        l->call[l->count - 1].once = true;
    } else if (!l->leaves) {
        add(l, GS_TENSOR_ADDS, true, y->param[0].count + y->param[1].count);
        l->call[l->count - 1].once = true;
    } else {
        for (int i = 0; i < 2; i++) add(l, GS_TENSOR_GATHERS, true, floats); /* x, dy */
        for (int i = 0; i < 2; i++) add(l, GS_TENSOR_GATHERS, true, tokens); /* mean, 1 / deviation */
    }
}

static void add_of_loss(list *l, const gs_layer *y) {
    const size_t tokens = (size_t)gs_shape_tokens(y->out);
    if (y->role != GS_TENSOR_OUTPUTS) return;
    add(l, GS_TENSOR_ADDS, false, (size_t)y->tensor->size * tokens);
    add(l, GS_TENSOR_ADDS, false, 3 * tokens);
}

int gs_tensor_calls(const gs_layer *y, gs_tensor_call call[GS_TENSOR_CALLS]) {
    list l = {.call = call, .ranks = 1};
    if (!y->tensor || y->tensor->size < 2) return 0;
    l.leaves = y->tensor->leaves > 0;
    if (!gs_sequence_is_divided(y)) {
        add_sums(&l, y);
    } else {
        l.ranks = (size_t)y->tensor->size;
        add_of_pair(&l, y);
        if (y->sharded) add_of_sharded(&l, y);
    }
    add_of_loss(&l, y);
    return l.count;
}

double gs_tensor_times_sent(gs_tensor_act act, int size, bool leaves) {
    const double n = size, once = (n - 1) / n;
    if (act != GS_TENSOR_ADDS) return once;
    return leaves ? log2(n) : 2 * once;
}
