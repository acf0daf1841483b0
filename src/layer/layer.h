/* Layers: forward, backward, and the data that backward needs from forward.
 *
 * A network is built by nesting constructors (make.h), or from a text (model/model_text.h):
 *
 *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_flatten(), gs_linear(512, true), gs_relu()});
 *
 * A layer goes through three stages: created (only its settings are known), planned (shapes and parameters are known;
 * no device yet), bound (its buffers are on a device, and its parameters are slices of the model's two flat arrays).
 * Containers (`sequential`, `residual`) are layers too: they take their children through the three stages. */
#pragma once

#include "layer/pass.h"

typedef struct gs_arena gs_arena;             /* memory/buffer_plan.h */
typedef struct gs_buffer_plan gs_buffer_plan; /* also in memory/buffer_plan.h */

/* How much of a layer's forward runs again in backward (recompute.h). */
typedef enum gs_rerun {
    GS_RERUN_NOT,
    GS_RERUN_INSIDE, /* for a container: some layers in it run again; its own y is not computed again */
    GS_RERUN_WHOLE
} gs_rerun;

/* The memory plan's decisions for a layer. The plan is made once for the whole net, at binding, and carried out around
 * the layer's forward and backward. */
typedef struct gs_layer_memory {
    int y_buffer, dx_buffer; /* indices of its two arena buffers; below 0: its own buffer, or none */
    int backward_step;       /* how many steps of backward are done when its own is (gs_buffer_plan.now) */
    bool x_half, y_half;     /* in 16 bits: x and dx; y and dy (half_storage.h); for the root: its ends */
    int segment;    /* for a child of the root: 1 + the index of its segment's first child; 0: no segment */
    int unit;       /* for a child of the root: its unit of offloading, from 1 (offload.h); 0: none */
    gs_rerun rerun; /* within a segment */
} gs_layer_memory;

enum { GS_LAYER_PARAMS = 8 }; /* maximum in one layer, state included */

typedef struct gs_layer_ops {
    const char *name; /* the operator's name, used everywhere: "conv2d" */
    gs_buffers buffers;
    gs_storage storage;
    /* Set out, flops, parameters and state (make.h) for `in`. GS_E_SHAPE if `in` does not fit; the message says why. */
    gs_status (*plan)(gs_layer *, gs_shape in);
    /* Allocate device memory besides y and dx (an index, for example); NULL: none. */
    gs_status (*bind)(gs_layer *, size_t max_batch);
    /* *y: where to write the output; forward may replace it by another address. layer->x is already set to x. */
    gs_status (*forward)(gs_layer *, const gs_pass *, gs_mem x, gs_mem *y);
    /* Gradient of the output -> gradient of the input: *dx says where to write it (GS_NONE if !needs_dx); backward may
     * replace it by another address. Adds to dw and db, or writes them if the pass is fresh. */
    gs_status (*backward)(gs_layer *, const gs_pass *, gs_mem dy, gs_mem *dx);
    /* For containers: plan the buffers for the dx of their layers, and for their own dx; returns the latter
     * (buffer_plan.h). NULL: the layers share no buffers with others. */
    int (*plan_backward)(gs_layer *, gs_buffer_plan *, int dy);
    /* Frees the memory that bind allocated; NULL: nothing to free. */
    void (*unbind)(gs_layer *);
    bool fuses; /* its operator accepts an epilogue (backend.h), which a sequential fills */
    /* Add this layer's work to the epilogue of an earlier layer. False: the epilogue cannot express it. NULL: never
     * possible. */
    bool (*fuse_into)(const gs_layer *, gs_epilogue *);
    bool sums_leaves;      /* backward passes the leaves on to an operator that can sum them (leaves.h) */
    bool depends_on_batch; /* in training, a sample's y depends on the other samples (gs_pass.group) */
    gs_tensor_kind tensor;
    bool incremental; /* forward can process part of each sequence (gs_pass.tokens) */
    /* For layers that remember earlier tokens: allocate that memory, once. GS_E_SHAPE: impossible. NULL: nothing to
     * remember. */
    gs_status (*cache)(gs_layer *, size_t max_batch);
    /* For `profile`: how many arrays of y's size forward writes besides y, and how many backward reads besides dy. */
    int extra_writes, extra_reads;
    /* The layer as in a model text: "conv 32 3x3 pad 1". At most `size` bytes. NULL: its name is enough. */
    void (*describe)(const gs_layer *, char *text, size_t size);
} gs_layer_ops;

struct gs_layer {
    const gs_layer_ops *ops;
    gs_layer **child; /* sequential: its layers; residual: body, then shortcut (or only body) */
    int children;

    float std;   /* standard deviation of normal initial weights (gs_layer_with_std); 0: not normal */
    int outputs; /* outputs, channels, heads or table rows, as given to its constructor; 0: it has none */
    bool bias;   /* linear and conv2d: created with a bias */
    int block;   /* which use of a block in the model text it comes from, from 1; 0: none */

    int recompute; /* for the root, before binding: see recompute.h */
    /* True for a pipeline stage whose neighbours also store activations in 16 bits (memory/half_storage.h). */
    bool half_ends;

    /* before plan: its shard, if a tensor group divides it (parallel/tensor.h); NULL: it is whole */
    struct gs_layer_shard *shard;

    /* planned */
    gs_layer *root; /* the model's outermost layer */
    char name[48];  /* its path, as in PyTorch's Sequential: "0", "3.body.1"; "" for the model's root */
    int number;     /* its index in the whole model in the order of gs_layer_walk, from 0; used by dropout */
    gs_shape in, out;
    int first, local_outputs; /* the outputs that it computes, from `first` on; all unless it is a shard */
    gs_param param[GS_LAYER_PARAMS];
    int params;
    const gs_param *borrowed; /* another layer's tensor that it uses as its weight; NULL: it has its own */
    /* Another layer borrows param[0]. That layer's backward runs first and writes dw, so this layer adds to dw even in
     * a fresh pass. */
    bool lent;
    size_t at;                 /* where its parameters, or those inside it, begin in the flat arrays */
    double flops;              /* for one sample's forward; a multiply-add counts as 2; includes the bias */
    bool needs_dx;             /* false if no earlier layer has parameters */
    bool y_over_x, dx_over_dy; /* the layer works in place and has no y, or no dx, of its own */

    /* bound */
    gs_device *device;
    gs_epilogue epilogue;              /* the work of the layers fused into its operator */
    gs_mem y, dx;                      /* its own buffers for max_batch samples; GS_NONE: it has none */
    gs_arena *arena;                   /* the root's */
    struct gs_layer_hooks *hooks;      /* the root's, not owned (watch.h); NULL: none */
    gs_mem x;                          /* from the last forward */
    struct gs_layer_watcher *watchers; /* for the root: the watcher added last (watch.h); NULL: none */
    gs_layer_memory memory;
    size_t bytes; /* size of its buffers; the root's size includes each dx that shares no space with a y */
    bool fused;   /* an earlier layer does its work (sequential.c): it is not bound and not called */
    /* Another pipeline stage computes it (gs_model_config): not bound and not called, but it has w and dw. */
    bool other_stage;
};

/* ---- the three stages, for any layer and all layers inside it ---- */

/* Assign names and numbers, infer shapes, and place the parameters consecutively in the flat array, followed by all
 * state. *params = the total count of parameters, without state. On GS_E_SHAPE the message names the layer ("layer 4
 * (linear 10): ..."). */
gs_status gs_layer_plan(gs_layer *root, gs_shape in, size_t *params);

/* Allocate buffers for max_batch samples and point all w and dw into the two flat arrays. needs_dx: the caller wants
 * the gradient of the root's input. Call it once. After a failure gs_layer_free frees the memory allocated so far. */
gs_status gs_layer_bind(gs_layer *root, gs_device *device, gs_mem weights, gs_mem gradients, size_t max_batch,
                        bool needs_dx);

/* The number of trained floats in the layer itself, without its children. */
size_t gs_layer_params(const gs_layer *l);

/* The number of trained floats that its operators read: its own, or borrowed ones. */
size_t gs_layer_weights(const gs_layer *l);

/* FLOPs for one sample in the layer and its children. For dx, backward takes as many as forward; if the layer has
 * weights, it takes as many again for dw and db. */
typedef struct gs_layer_flops {
    double forward, backward;
} gs_layer_flops;
gs_layer_flops gs_layer_flops_of(const gs_layer *);

/* The layer as in a model text: ops->describe, or its name; then its std. */
GS_API void gs_layer_describe(const gs_layer *, char *text, size_t size);

/* The number of layers: the layer itself and all layers inside it. */
size_t gs_layer_count(const gs_layer *);

/* The vocabulary size of the layer or one inside it (GS_TENSOR_TABLE): token numbers are below it. 0: none. */
int gs_layer_vocabulary(const gs_layer *);
bool gs_layer_depends_on_batch(const gs_layer *); /* also true if a layer inside it does */
/* The number of floats of state, which follow the parameters. */
size_t gs_layer_states(const gs_layer *root);

/* Free a layer, its children and all their buffers; NULL is allowed. */
GS_API void gs_layer_free(gs_layer *);

/* Call visit for the layer and, depth first and in order, for all layers inside it; stops at the first failure. */
GS_API gs_status gs_layer_walk(gs_layer *root, gs_status (*visit)(gs_layer *, void *context), void *context);

/* Run ops->forward or ops->backward, with the net's watchers around it (watch.h). *y and *dx are the layer's own
 * buffers (below) unless it returns others. x is stored in the layer. */
GS_API gs_status gs_layer_forward(gs_layer *, const gs_pass *, gs_mem x, gs_mem *y);
GS_API gs_status gs_layer_backward(gs_layer *, const gs_pass *, gs_mem dy, gs_mem *dx);

/* ---- helpers for forward and backward ---- */

/* False: an earlier layer does its work, or another pipeline stage does. */
static inline bool gs_layer_is_called(const gs_layer *l) {
    return !l->fused && !l->other_stage;
}

/* The layer's weight: its first tensor, or a borrowed one. */
static inline const gs_param *gs_layer_weight(const gs_layer *l) {
    return l->borrowed ? l->borrowed : &l->param[0];
}

/* The number of vectors or images that a layer processes if it treats all tokens alike. */
static inline size_t gs_layer_tokens(const gs_layer *l, const gs_pass *pass) {
    return pass->n * (pass->tokens ? pass->tokens : (size_t)gs_shape_tokens(l->in));
}

/* The number of elements in the pass if a sample has this shape. */
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
