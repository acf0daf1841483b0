/* A model: layers, all parameters in one flat array, all gradients in another.
 *
 * The gradient array ends with GS_STATS extra floats (backend.h), to which the loss adds its numbers. One sum over the
 * workers therefore covers the gradients *and* the counts; the gradients are divided by the global count afterwards.
 *
 * The layers' state, if any, follows the weights (gs_param in layer/layer.h). It is read, written, saved and summed
 * like them, but not trained.
 *
 *     weights   | 0.weight | 0.bias | 2.weight | ... | 1.running_mean | ... |
 *     gradients | 0.weight | 0.bias | 2.weight | ... | 1.running_mean | ... | loss correct samples stop |
 */
#pragma once

#include "layer/pass.h"
#include "parallel/group.h"

struct gs_vocabulary;

typedef struct gs_model {
    char *text;    /* the full text: a named model's text, or gs_model_text_of the caller's net */
    gs_layer *net; /* planned; bound if device is not NULL */
    gs_shape in, out;
    gs_scaling scaling;                     /* for the training inputs; GS_NOT_SCALED until set */
    const struct gs_vocabulary *vocabulary; /* of the training text, not owned; NULL: no training text */
    size_t params;                          /* number of trained floats in `weights` */
    size_t saved;                           /* number of all floats in `weights`, including state */
    gs_param **param; /* in the order of `weights`: param_count parameters, then state, up to saved_count */
    int param_count, saved_count;
    double flops_forward, flops_backward; /* for one sample; backward without the first layer's dx */

    gs_device *device; /* not owned */
    size_t max_batch;
    gs_loss loss;
    /* For training with GS_SOFTMAX_CROSS_ENTROPY: see softmax_cross_entropy_forward in backend.h. 0 until set. */
    float label_smoothing;
    bool knows_labels;        /* the data set was checked, so the loss need not check each label */
    gs_mem weights;           /* `saved` floats */
    float *offloaded_weights; /* the weights if GS_OFFLOAD_WEIGHTS is set (alloc_offloaded), else NULL */
    /* True if operators cannot access the offloaded weights. Then `weights` holds only the state, at its usual offset,
     * and layers find their weights in windows (offload.h). */
    bool weights_in_windows;
    struct gs_model_offload *offload; /* NULL: nothing is offloaded */
    /* The group of workers that divides the pairs of linear layers, and this worker's rank (parallel/tensor.h). size 0:
     * no group. With size > 1, `params`, `saved`, `param` and the arrays describe this worker's shard, and `undivided`
     * is a plan of the whole model; otherwise `undivided` is NULL. */
    gs_tensor_group tensor;
    struct gs_model *undivided;
    uint32_t written; /* for size > 1: the CRC-32 of the whole weights last written */
    bool replica;     /* the weights belong to another model */
    bool stage;       /* the gradients also belong to another model */
    bool has_loss;    /* false for stages without the last layer */
    gs_mem gradients; /* saved + GS_STATS floats */
    /* How many floats of the weights, or of the gradients, training stores elsewhere. The array holds only the
     * remaining floats, at their usual offsets. 0: it holds all. */
    size_t weights_apart, gradients_apart;
    /* Buffers for the loss, (max_batch, outputs) each. The loss determines which of the first two exist. */
    gs_mem probability, target, dlogits;
    /* If a group divides the outputs, `out` describes this worker's shard, the buffers above hold it, and this one
     * holds the sums of the loss over the group: ranks + 3 floats for each target of max_batch samples. */
    gs_mem loss_sums;
} gs_model;

/* The model to create. A field that is 0 means the default. One of `text`, `net` and `of` defines the layers. */
typedef struct gs_model_config {
    const char *text; /* a name, or layers as text (model_text.h) */
    /* Layers built by the caller, including the caller's own kinds (layer/make.h). The model owns them, and frees them
     * even if creating the model fails. If a constructor ran out of memory and returned NULL: GS_E_MEMORY.
     *
     *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_linear(16, true), gs_tanh(), gs_linear(1, true)}); */
    gs_layer *net;
    gs_shape in;      /* shape of a sample */
    size_t max_batch; /* maximum number of samples in a pass. 0: only weights, without gradients or passes */
    gs_loss loss;     /* usually GS_SOFTMAX_CROSS_ENTROPY */
    uint64_t seed;    /* for the initial values */
    bool unset;       /* leave the weights as allocated */
    int recompute;    /* which segments backward recomputes, to the same bits (layer/memory/recompute.h) */
    gs_tensor_group tensor; /* divides the model; the results are the same bits */

    /* Create a replica of this model, which was built from a text and must outlive the replica: on the same device,
     * with the same weights, but its own gradients and activations. Of the other fields only max_batch is read. */
    const struct gs_model *of;
    /* last > 0: a pipeline stage, a replica that computes only layers first .. last - 1 of the outermost sequence and
     * holds only their activations. Its layers have the names, numbers and offsets of the whole model, and therefore
     * its dropout. A stage shares the gradients of `of`, but has its own pass->fresh. in: the input of its first layer;
     * out: the output of its last layer, which forward returns. Only the stage with the last layer has a loss; for
     * others gs_model_loss is a bug. `of` may have only weights, if its creator sets its `weights` and `gradients`. */
    int first, last;
} gs_model_config;

/* Create a model with initial values:
 *
 *     gs_model_create(device, &(gs_model_config){.text = "lenet", .in = {1, 28, 28, 0}, .max_batch = 64}, &model)
 *
 * device NULL: a plan with shapes, parameters and FLOPs, which computes nothing. On failure *out is NULL. Errors:
 * GS_E_MODEL, GS_E_SHAPE (also if a pair of layers cannot be divided), GS_E_MEMORY, and the device's. */
GS_API gs_status gs_model_create(gs_device *device, const gs_model_config *, gs_model **out);

/* The plan of the whole model: the model itself unless it is divided. */
static inline const gs_model *gs_model_whole(const gs_model *m) {
    return m->undivided ? m->undivided : m;
}

/* Frees everything except the device; NULL is allowed. */
GS_API void gs_model_free(gs_model *);

/* Initial values as PyTorch's defaults for Linear and Conv2d: weight and bias uniform in (-k, k), k = 1 / sqrt(fan_in)
 * (kaiming_uniform with a = sqrt(5), He et al. 2015). Element i of parameter p uses word i % 4 of philox(seed,
 * (GS_STREAM_WEIGHTS, p), i / 4). A layer with "std S" has bias 0 and normally distributed weights with standard
 * deviation S (core/normal.h turns each word into a number). State, and some parameters, have a fixed initial value
 * (layer/make.h). host holds `saved` floats. */
void gs_model_initial_values(const gs_model *, uint64_t seed, float *host);

/* *logits = net(x); x is (pass->n, in). GS_E_USAGE: more samples than max_batch. */
GS_API gs_status gs_model_forward(gs_model *, const gs_pass *, gs_mem x, gs_mem *logits);

/* Add (loss, correct, samples) for these logits and the targets of the n samples to the tail of `gradients`. `correct`
 * counts the samples whose largest output is at the index of the label or of the largest target; with one output, all
 * samples. GS_E_FORMAT: a label out of range. */
GS_API gs_status gs_model_loss(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets);

/* Add the gradient of the *sum* of the samples' losses (times pass->loss_scale) to `gradients`; a `fresh` pass writes
 * it instead. The stats are unchanged. Call it after this pass's forward and loss. */
GS_API gs_status gs_model_backward(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets);

/* The backward of a stage. For a stage without a loss, dy is the gradient of its output. *dx = the gradient of its
 * input; GS_NONE if no layer before the stage has parameters. */
gs_status gs_model_backward_stage(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets, gs_mem dy,
                                  gs_mem *dx);

/* At the start of a step: clear all gradients and the stats. It is cheaper to clear only the stats, and make the step's
 * first backward `fresh`. */
GS_API gs_status gs_model_clear_gradients(gs_model *);
GS_API gs_status gs_model_clear_stats(gs_model *);

/* Set the layers' state to its part of `gradients` divided by `samples`; that part is a sum over `samples` samples, as
 * the loss counts them. This is part of each update (optim/optimizer.h). */
gs_status gs_model_update_state(gs_model *, double samples);
/* The same for `count` floats of state stored elsewhere. */
gs_status gs_model_update_state_of(gs_model *, gs_mem state, gs_mem sums, size_t count, double samples);

/* The number of targets per sample: one, or one for each token of the outputs. The loss treats each row of (samples x
 * targets, outputs of a token) as a sample. */
static inline int gs_model_targets(const gs_model *m) {
    return gs_shape_tokens(m->out);
}

/* The GS_STATS floats at the end of `gradients`. */
static inline gs_mem gs_model_stats(const gs_model *m) {
    return gs_at(m->gradients, m->saved);
}

/* The number of floats at the end of `gradients` that are not gradients: state and GS_STATS. They are never rounded. */
static inline size_t gs_model_tail(const gs_model *m) {
    return m->saved - m->params + GS_STATS;
}

/* Copy all weights and state to or from the host (`saved` floats). If the model is divided, write takes the whole
 * model's weights, and each worker keeps its shard; read returns the shard. */
GS_API gs_status gs_model_read_weights(gs_model *, float *host);
GS_API gs_status gs_model_write_weights(gs_model *, const float *host);

/* Map all weights and state for the host to read; the model must not be used until unmap. */
gs_status gs_model_map_weights(gs_model *, float **host);
gs_status gs_model_unmap_weights(gs_model *, float *host);
