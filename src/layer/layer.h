/* Layers: forward, backward, and what backward needs from forward.
 *
 * A network is built by nesting constructors (make.h), or from a text (model/model_text.h):
 *
 *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_flatten(), gs_linear(512, true), gs_relu()});
 *
 * A layer goes through three stages: made (it has only its settings), planned (shapes and parameters are known; no
 * device yet), bound (its buffers are on a device, and its parameters are slices of the model's two flat arrays).
 * Containers (`sequential`, `residual`) are layers too: they hold children and pass the three stages on. */
#pragma once

#include "backend.h"
#include "core/shape.h"
#include "layer/pass.h"
#include "layer/traits.h"

typedef struct gs_arena gs_arena;             /* memory/buffer_plan.h */
typedef struct gs_buffer_plan gs_buffer_plan; /* there too */

/* The part of a layer's forward that backward runs again (recompute.h). */
typedef enum gs_rerun {
    GS_RERUN_NOT,
    GS_RERUN_INSIDE, /* of a container: some layers in it; its own y is not made */
    GS_RERUN_WHOLE
} gs_rerun;

/* The decisions of the memory plan for a layer. The plan is made once for the whole net, when it is bound, and carried
 * out around the layer's forward and backward. */
typedef struct gs_layer_memory {
    int y_buffer, dx_buffer; /* the numbers of its two arena buffers; below 0: its own buffer, or none */
    int backward_step;       /* how many steps of backward are done once its own is (gs_buffer_plan.now) */
    bool x_half, y_half;     /* in 16 bits: x and dx; y and dy (half_storage.h); of a net: its two ends */
    int segment; /* of a layer in the root: one more than the number of the first child in its segment; 0: none */
    int unit; /* of a layer in the root: what is offloaded together with it, from 1 (offload.h); 0: nothing */
    gs_rerun rerun; /* within a segment */
} gs_layer_memory;

enum { GS_LAYER_PARAMS = 8 }; /* at most, in one layer, its state included */

typedef struct gs_layer_ops {
    const char *name; /* the operator's name everywhere: "conv2d" */
    gs_buffers buffers;
    gs_storage storage;
    /* in -> out, parameters and state (make.h), flops. GS_E_SHAPE if `in` does not fit: the message says why. */
    gs_status (*plan)(gs_layer *, gs_shape in);
    /* Allocate device memory beyond y and dx (an index, say); NULL: none. */
    gs_status (*bind)(gs_layer *, size_t max_batch);
    /* *y: where to write the output; forward may return another address. layer->x is already x. */
    gs_status (*forward)(gs_layer *, const gs_pass *, gs_mem x, gs_mem *y);
    /* Gradient of the output -> gradient of the input: *dx says where to write it (GS_NONE if !needs_dx); backward may
     * return another address. Adds to dw and db, or writes them if the pass is fresh. */
    gs_status (*backward)(gs_layer *, const gs_pass *, gs_mem dy, gs_mem *dx);
    /* Containers: plan the buffers for dx of their layers and for their own dx, the result (buffer_plan.h). NULL: they
     * share no buffers with others. */
    int (*plan_backward)(gs_layer *, gs_buffer_plan *, int dy);
    /* Frees what bind made; NULL: nothing. */
    void (*unbind)(gs_layer *);
    bool fuses; /* its operator takes an epilogue (backend.h), which a sequential fills */
    /* Add this layer's work to the epilogue of a layer before it. false: the epilogue cannot express it. NULL:
     * never. */
    bool (*fuse_into)(const gs_layer *, gs_epilogue *);
    bool depends_on_batch; /* in training a sample's y depends on the samples beside it (gs_pass.group) */
    gs_tensor_kind tensor;
    bool incremental; /* forward can take a part of each sequence (gs_pass.tokens) */
    /* For layers that keep something of earlier tokens: allocate that, once. GS_E_SHAPE: impossible. NULL: nothing is
     * kept. */
    gs_status (*cache)(gs_layer *, size_t max_batch);
    /* For `profile`: further arrays of the size of y that forward writes (except y) and backward reads (except dy). */
    int extra_writes, extra_reads;
    /* The layer as in a model text: "conv 32 3x3 pad 1". At most `size` bytes. NULL: its name is enough. */
    void (*describe)(const gs_layer *, char *text, size_t size);
} gs_layer_ops;

struct gs_layer {
    const gs_layer_ops *ops;
    gs_layer **child; /* sequential: its layers; residual: body, then shortcut (or only body) */
    int children;

    float std; /* of its initial weights (gs_layer_with_std); 0: they are not normal */
    int outputs; /* how many outputs, channels, heads or rows of a table it was made with; 0: it has none of these */
    bool bias; /* linear and conv2d: made with one */
    int block; /* the block of a model text that it came from, from 1 on, each use counted; 0: none */

    int recompute; /* of the root, before it is bound: see recompute.h */
    /* A stage of a pipeline whose neighbours use 16 bits too (memory/half_storage.h). */
    bool half_ends;

    /* before plan: a layer that a tensor group divides (parallel/tensor.h); NULL: it is whole */
    struct gs_layer_shard *shard;

    /* planned */
    gs_layer *root; /* the model's outermost layer */
    char name[48];  /* its path, as in PyTorch's Sequential: "0", "3.body.1"; "" for the model's root */
    int number;     /* counting from 0 through the whole model, in the order of gs_layer_walk, for dropout */
    gs_shape in, out;
    int first, local_outputs; /* it computes this many outputs from `first` on: all, unless it is a shard */
    gs_param param[GS_LAYER_PARAMS];
    int params;
    const gs_param *borrowed; /* the tensor of another layer, its weight; NULL: it has its own */
    /* Another layer borrows param[0]. Its backward runs first and writes dw, so this layer's adds to it even in a fresh
     * pass. */
    bool lent;
    size_t at;     /* where its parameters, or those of the layers in it, begin in the flat arrays */
    double flops;  /* of one sample forward; a multiply-add counts as 2; the bias's work included */
    bool needs_dx; /* false if no layer before this one has parameters */
    bool y_over_x, dx_over_dy; /* a layer works in place: it has no y, no dx of its own */

    /* bound */
    gs_device *device;
    gs_epilogue epilogue;         /* additional work of its operator: that of layers fused into it */
    gs_mem y, dx;                 /* buffers for max_batch samples; GS_NONE if there is none. y is its own */
    gs_arena *arena;              /* the root's */
    struct gs_layer_hooks *hooks; /* the root's, not owned (watch.h); NULL: none */
    gs_mem x;                     /* of the last forward */
    struct gs_layer_watcher *watchers; /* of the root: the last that began (watch.h); NULL: none */
    gs_layer_memory memory;
    size_t bytes; /* of its buffers; the root's include dx space that no y shares */
    bool fused;   /* a layer before it does its work (sequential.c): it is not bound and not called */
    /* Another stage of a pipeline computes it (gs_model_config): not bound, not called, but with w and dw. */
    bool other_stage;
};

/* ---- the three stages, for any layer and all that it contains ---- */

/* Give names and numbers, infer shapes, and place the parameters consecutively in the flat array, followed by all
 * state. *params = the total count of the parameters, without state. On GS_E_SHAPE the message names the layer
 * ("layer 4 (linear 10): ..."). */
gs_status gs_layer_plan(gs_layer *root, gs_shape in, size_t *params);

/* Allocate buffers for max_batch samples and point all w and dw into the two flat arrays. needs_dx: the caller wants
 * the gradient of the root's input. Once for each layer. After a failure gs_layer_free frees what was allocated. */
gs_status gs_layer_bind(gs_layer *root, gs_device *device, gs_mem weights, gs_mem gradients, size_t max_batch,
                        bool needs_dx);

/* How many trained numbers the layer itself has, without those of its children. */
size_t gs_layer_params(const gs_layer *l);

/* How many trained numbers its operators read: its own, or borrowed ones. */
size_t gs_layer_weights(const gs_layer *l);

/* FLOPs of one sample in the layer and its children. Backward takes as many as forward for dx, and as many again for dw
 * and db, if the layer has any. */
typedef struct gs_layer_flops {
    double forward, backward;
} gs_layer_flops;
gs_layer_flops gs_layer_flops_of(const gs_layer *);

/* The layer as in a model text: ops->describe, or its name; then its std. */
GS_API void gs_layer_describe(const gs_layer *, char *text, size_t size);

/* The number of layers, the layer itself and all inside it. */
size_t gs_layer_count(const gs_layer *);

/* The vocabulary of the layer or of one inside it: it takes token numbers below this (GS_TENSOR_TABLE). 0: none. */
int gs_layer_vocabulary(const gs_layer *);
bool gs_layer_depends_on_batch(const gs_layer *); /* it, or one inside, depends on the batch */
/* Floats of state behind the parameters. */
size_t gs_layer_states(const gs_layer *root);

/* Free a layer, its children and all their buffers; NULL is allowed. */
GS_API void gs_layer_free(gs_layer *);

/* Call visit for the layer and, depth first and in order, for all inside it; stops at the first failure. */
GS_API gs_status gs_layer_walk(gs_layer *root, gs_status (*visit)(gs_layer *, void *context), void *context);

/* ops->forward and ops->backward, inside the net's watchers (watch.h). *y and *dx are its own buffers (below) unless it
 * returns others. x is stored in the layer. */
GS_API gs_status gs_layer_forward(gs_layer *, const gs_pass *, gs_mem x, gs_mem *y);
GS_API gs_status gs_layer_backward(gs_layer *, const gs_pass *, gs_mem dy, gs_mem *dx);

/* ---- what forward and backward ask of a layer ---- */

/* False: a layer before it does its work, or another stage of a pipeline does. */
static inline bool gs_layer_is_called(const gs_layer *l) {
    return !l->fused && !l->other_stage;
}

/* Its weight: its first tensor, or a borrowed one. */
static inline const gs_param *gs_layer_weight(const gs_layer *l) {
    return l->borrowed ? l->borrowed : &l->param[0];
}

/* Vectors or images that a layer handles if it treats each token alike. */
static inline size_t gs_layer_tokens(const gs_layer *l, const gs_pass *pass) {
    return pass->n * (pass->tokens ? pass->tokens : (size_t)gs_shape_tokens(l->in));
}

/* Numbers of the pass where a sample has this shape. */
static inline size_t gs_layer_numbers(const gs_pass *pass, gs_shape sample) {
    if (pass->tokens) sample.t = (int)pass->tokens;
    return pass->n * gs_shape_size(sample);
}

/* For element-wise layers (GS_ELEMENT_WISE, GS_READS_X): the address of y for this x, and of dx for this dy. */
static inline gs_mem gs_layer_y(const gs_layer *l, gs_mem x) {
    return l->y_over_x ? x : l->y;
}

static inline gs_mem gs_layer_dx(const gs_layer *l, gs_mem dy) {
    return l->dx_over_dy ? dy : l->dx;
}
