/* A model: layers, all parameters in one flat array, all gradients in another.
 *
 * The gradient array ends with GS_STATS extra floats (backend.h), which the loss adds to. So one sum over the
 * workers carries the gradients *and* the counts, and the division by the global count can come after it.
 *
 *     weights   | 0.weight | 0.bias | 2.weight | ... |
 *     gradients | 0.weight | 0.bias | 2.weight | ... | loss correct samples stop |
 */
#ifndef GS_MODEL_MODEL_H
#define GS_MODEL_MODEL_H

#include "layer/layer.h"

typedef enum gs_loss { GS_SOFTMAX_CROSS_ENTROPY, GS_MEAN_SQUARED_ERROR } gs_loss;

typedef struct gs_model {
    char *text;    /* the full text, after a name was looked up */
    gs_layer *net; /* planned; bound if device is not NULL */
    gs_shape in, out;
    gs_scaling scaling; /* of the inputs that it was trained on; (0, 1) until somebody sets it */
    size_t params;      /* floats in `weights` */
    gs_param **param;   /* all parameters in order of their place; param_count of them */
    int param_count;
    double flops_forward, flops_backward; /* of one sample; backward without the first layer's dx */

    gs_device *device; /* not owned */
    size_t max_batch;
    gs_loss loss;
    gs_mem weights;   /* params floats */
    gs_mem gradients; /* params + GS_STATS floats */
    /* The loss's own, (max_batch, classes) each; which of the two first depends on the loss. */
    gs_mem probability, target, dlogits;
} gs_model;

/* Parse and plan only: shapes, parameters, FLOPs, no device. Errors: GS_E_MODEL, GS_E_SHAPE, GS_E_MEMORY. */
gs_status gs_model_plan(const char *name_or_text, gs_shape in, gs_model **out);

/* Plan, bind to `device` for up to max_batch samples at once, and set the initial values from `seed`. */
gs_status gs_model_create(gs_device *device, const char *name_or_text, gs_shape in, size_t max_batch,
                          gs_loss loss, uint64_t seed, gs_model **out);

/* Frees all that it holds, not the device; NULL is allowed. */
void gs_model_free(gs_model *);

/* PyTorch's defaults for Linear and Conv2d: weight and bias uniform in (-k, k), k = 1 / sqrt(fan_in)
 * (kaiming_uniform with a = sqrt(5), He et al. 2015). Element i of parameter p is word i % 4 of
 * philox(seed, (GS_STREAM_WEIGHTS, p), i / 4), so it depends on nothing else. host holds `params` floats. */
void gs_model_initial_values(const gs_model *, uint64_t seed, float *host);

/* *logits = net(x); x is (pass->n, in) */
gs_status gs_model_forward(gs_model *, const gs_pass *, gs_mem x, gs_mem *logits);

/* Adds (loss, correct, samples) of these logits against n int32 labels to the tail of `gradients`. */
gs_status gs_model_loss(gs_model *, const gs_pass *, gs_mem logits, gs_mem labels);

/* Adds to `gradients` the gradient of the *sum* of the samples' losses, or, where the pass is `fresh`, writes it there
 * (not the stats, which are loss's). After forward and loss of this pass. */
gs_status gs_model_backward(gs_model *, const gs_pass *, gs_mem logits, gs_mem labels);

/* gradients = 0, stats included: once at the start of a step. Or, which saves a pass over them: the stats alone, and the
 * step's first backward is `fresh`. */
gs_status gs_model_clear_gradients(gs_model *);
gs_status gs_model_clear_stats(gs_model *);

/* The place of the GS_STATS floats. */
static inline gs_mem gs_model_stats(const gs_model *m) {
    return gs_at(m->gradients, m->params);
}

/* Copy all weights to or from the host (params floats). */
gs_status gs_model_read_weights(gs_model *, float *host);
gs_status gs_model_write_weights(gs_model *, const float *host);

#endif
