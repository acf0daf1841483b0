/* A model: layers, all parameters in one flat array, all gradients in another.
 *
 * The gradient array ends with GS_STATS extra floats (backend.h), which the loss adds to. So one sum over the
 * workers carries the gradients *and* the counts, and the division by the global count can come after it.
 *
 * After the weights lies the layers' state, if any (gs_param in layer/layer.h). It is read, written, saved and summed
 * with them, and not trained.
 *
 *     weights   | 0.weight | 0.bias | 2.weight | ... | 1.running_mean | ... |
 *     gradients | 0.weight | 0.bias | 2.weight | ... | 1.running_mean | ... | loss correct samples stop |
 */
#pragma once

#include "core/scaling.h"
#include "layer/pass.h"
#include "parallel/group.h"

struct gs_vocabulary;

typedef struct gs_model {
    char *text;    /* the full text: of a name what it stands for, of the caller's net gs_model_text_of */
    gs_layer *net; /* planned; bound if device is not NULL */
    gs_shape in, out;
    gs_scaling scaling; /* of the inputs that it was trained on; GS_NOT_SCALED until set */
    const struct gs_vocabulary
        *vocabulary;  /* of the text that it was trained on, not owned; NULL: it was none */
    size_t params;    /* floats in `weights` that are trained */
    size_t saved;     /* all floats in `weights`, state included */
    gs_param **param; /* param_count parameters in order of their place; then state, up to saved_count */
    int param_count, saved_count;
    double flops_forward, flops_backward; /* of one sample; backward without the first layer's dx */

    gs_device *device; /* not owned */
    size_t max_batch;
    gs_loss loss;
    /* Of GS_SOFTMAX_CROSS_ENTROPY in training: see softmax_cross_entropy_forward in backend.h. 0 until set. */
    float label_smoothing;
    bool knows_labels;        /* they were checked with their data set: the loss need not look at each */
    gs_mem weights;           /* `saved` floats */
    float *offloaded_weights; /* where they lie with GS_OFFLOAD_WEIGHTS (alloc_offloaded), else NULL */
    /* Then, where operators cannot work there: `weights` holds the state alone, at its usual place, and layers find
     * their weights in windows (offload.h). */
    bool weights_in_windows;
    struct gs_model_offload *offload; /* what is offloaded of it; NULL: nothing */
    /* The group of workers that divides the pairs of linear layers, and this worker's place in it (parallel/tensor.h).
     * size 0: none. Where it is more than 1, `params`, `saved`, `param` and the arrays are those of this worker's part,
     * and `undivided` plans the whole model; else that is NULL. */
    gs_tensor_group tensor;
    struct gs_model *undivided;
    uint32_t written; /* then: the CRC-32 of the whole weights, of which it has taken its part last */
    bool replica;     /* they are another model's */
    bool stage;       /* and so are the gradients */
    bool has_loss;    /* a stage that has not the last layer has none */
    gs_mem gradients; /* saved + GS_STATS floats */
    /* Where training holds weights or gradients of the parameters elsewhere: how many floats. The array then holds what
     * follows them, at the same places, and nothing before that. 0: it holds all. */
    size_t weights_apart, gradients_apart;
    /* Buffers of the loss, (max_batch, outputs) each. Which of the first two exist depends on the loss. */
    gs_mem probability, target, dlogits;
    /* Where a group divides the outputs, `out` and these are of this worker's, and there is room for what the loss
     * sums: of max_batch samples, ranks + 3 numbers for each target. */
    gs_mem loss_sums;
} gs_model;

/* What model to make. A field that is left out, or 0, means the default. One of `text`, `net` and `of` says which
 * layers it has. */
typedef struct gs_model_config {
    const char *text; /* a name, or layers as a text (model_text.h) */
    /* Layers that the caller has built, own layers included (layer/make.h). They belong to the model
     * from here on, and are freed if it cannot be made. NULL, because a constructor had no memory: GS_E_MEMORY.
     *
     *     gs_layer *net = gs_sequential(3, (gs_layer *[]){gs_linear(16, true), gs_tanh(), gs_linear(1, true)}); */
    gs_layer *net;
    gs_shape in;      /* shape of a sample */
    size_t max_batch; /* most samples of a pass. 0: weights alone, without gradients; it computes nothing */
    gs_loss loss;     /* usually GS_SOFTMAX_CROSS_ENTROPY */
    uint64_t seed;    /* of the initial values; */
    bool unset;       /* there are none: the weights stay as they are allocated */
    int recompute;    /* parts that backward computes again, to the same bits (layer/memory/recompute.h) */
    gs_tensor_group tensor; /* divides the model, of which this worker has a part. Bits do not depend on it */

    /* A replica of this model, made from a text: on the same device, with its weights, which must live as long, and
     * gradients and activations of its own. It is made as `of` was; only max_batch is given. */
    const struct gs_model *of;
    /* last > 0: a stage of a pipeline, a replica that computes only layers first .. last - 1 of the outermost sequence,
     * and has activations for these alone. Names, numbers and places of all layers, and so their dropout, are those of
     * the whole. The gradients too are those of `of`; pass->fresh is the stage's own. in: what the first of its layers
     * takes; out: what the last one gives, and forward returns. Only a stage with the last layer has a loss; for
     * another one gs_model_loss is a bug. `of` may have weights alone, once whoever makes the stages has put its
     * `weights` and `gradients` where they are to be. */
    int first, last;
} gs_model_config;

/* Make a model with initial values:
 *
 *     gs_model_create(device, &(gs_model_config){.text = "lenet", .in = {1, 28, 28, 0}, .max_batch = 64}, &model)
 *
 * device NULL: a plan, which has shapes, parameters and FLOPs, and computes nothing. On failure *out is NULL. Errors:
 * GS_E_MODEL, GS_E_SHAPE (also where a pair of layers does not divide), GS_E_MEMORY, and the device's. */
GS_API gs_status gs_model_create(gs_device *device, const gs_model_config *, gs_model **out);

/* The plan of the whole model: itself, unless it is divided. */
static inline const gs_model *gs_model_whole(const gs_model *m) {
    return m->undivided ? m->undivided : m;
}

/* Frees all that it holds, not the device; NULL is allowed. */
GS_API void gs_model_free(gs_model *);

/* PyTorch's defaults for Linear and Conv2d: weight and bias uniform in (-k, k), k = 1 / sqrt(fan_in)
 * (kaiming_uniform with a = sqrt(5), He et al. 2015). Element i of parameter p is word i % 4 of
 * philox(seed, (GS_STREAM_WEIGHTS, p), i / 4), so it depends on nothing else. Of a layer with "std S" the weights are
 * normal with deviation S (core/normal.h makes one number of each word), and the bias is 0. State, and what a layer
 * fills (layer/make.h), gets its own. host holds `saved` floats. */
void gs_model_initial_values(const gs_model *, uint64_t seed, float *host);

/* *logits = net(x); x is (pass->n, in). GS_E_USAGE: more samples than max_batch. */
GS_API gs_status gs_model_forward(gs_model *, const gs_pass *, gs_mem x, gs_mem *logits);

/* Adds (loss, correct, samples) of these logits against the n samples' targets to the tail of `gradients`. `correct`
 * are the samples whose largest output is that of the label, or of the largest target: of one output all, which says
 * nothing. GS_E_FORMAT: a label outside of the classes. */
GS_API gs_status gs_model_loss(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets);

/* Adds to `gradients` the gradient of the *sum* of the samples' losses (times pass->loss_scale), or, where the pass is
 * `fresh`, writes it there (not the stats, which are loss's). After forward and loss of this pass. */
GS_API gs_status gs_model_backward(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets);

/* The same of a stage that has the loss, and of one that has none, where dy is the gradient of its output. *dx: that of
 * its input; GS_NONE where no layer before it learns. */
gs_status gs_model_backward_stage(gs_model *, const gs_pass *, gs_mem logits, gs_mem targets, gs_mem dy,
                                  gs_mem *dx);

/* gradients = 0, stats included: once at the start of a step. Or, which saves a pass over them: the stats alone, and
 * the step's first backward is `fresh`. */
GS_API gs_status gs_model_clear_gradients(gs_model *);
GS_API gs_status gs_model_clear_stats(gs_model *);

/* The layers' state = what `gradients` hold of it, the sum over `samples` samples (as the loss counts them), divided by
 * these. A part of each update (optim/optimizer.h). */
gs_status gs_model_update_state(gs_model *, double samples);
/* The same of `count` floats of the state that lie elsewhere. */
gs_status gs_model_update_state_of(gs_model *, gs_mem state, gs_mem sums, size_t count, double samples);

/* The outputs of the whole model. */
static inline int gs_model_outputs(const gs_model *m) {
    return gs_model_whole(m)->out.c;
}

/* How many targets a sample has: one, or one for each token of the outputs. The loss goes through the rows
 * (samples x targets, outputs of a token), and counts each row as one sample. */
static inline int gs_model_targets(const gs_model *m) {
    return gs_shape_tokens(m->out);
}

/* The place of the GS_STATS floats. */
static inline gs_mem gs_model_stats(const gs_model *m) {
    return gs_at(m->gradients, m->saved);
}

/* How many floats at the end of `gradients` are not gradients: the state's and GS_STATS. They are never rounded. */
static inline size_t gs_model_tail(const gs_model *m) {
    return m->saved - m->params + GS_STATS;
}

/* Copy all weights and state to or from the host (`saved` floats). What is written is that of the whole model, of which
 * a worker with a part takes its own; what is read is that part. */
GS_API gs_status gs_model_read_weights(gs_model *, float *host);
GS_API gs_status gs_model_write_weights(gs_model *, const float *host);

/* Show all of them to the host, for reading, wherever they lie; until unmap nobody may use the model. */
gs_status gs_model_map_weights(gs_model *, float **host);
gs_status gs_model_unmap_weights(gs_model *, float *host);
