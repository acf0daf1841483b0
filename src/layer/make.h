/* How to write a layer: the functions that it may call besides its device's operators (backend.h); and, at the end, the
 * library's layers.
 *
 * A layer is a struct that begins with a gs_layer, a table of functions (gs_layer_ops in layer.h), and a constructor:
 *
 *     typedef struct scale { gs_layer base; float initial; } scale;
 *
 *     gs_layer *make_scale(float initial) {
 *         scale *me = (scale *)gs_layer_new(&scale_ops, sizeof(scale), 0);
 *         if (me) me->initial = initial;
 *         return me ? &me->base : NULL;
 *     }
 *
 * plan sets l->out and l->flops and describes the parameters. forward and backward call operators of l->device on
 * l->param[0].w, l->param[0].dw, l->y, l->dx and so on, which are in the device's memory. The library's own layers are
 * written in this way: linear.c is a short one with parameters, activations.c has some that work in place, residual.c
 * is a container. lessons/examples/own_layer.c is a whole program. */
#pragma once

#include "layer/layer.h"

/* A zeroed layer of `bytes` bytes, which begin with a gs_layer, and with room for `children` children. gs_layer_free
 * frees it; unbind frees the memory that bind has allocated. `ops` must live as long as the layer. NULL: no memory. */
GS_API gs_layer *gs_layer_new(const gs_layer_ops *ops, size_t bytes, int children);

/* A layer without children; `outputs`: gs_layer.outputs. */
GS_API gs_layer *gs_layer_with_outputs(const gs_layer_ops *ops, size_t bytes, int outputs);

/* In plan: add the next parameter of l, beginning with l->param[0]: its label ("weight"), its shape, and fan_in, the
 * number of inputs that feed one output. fan_in determines the initial values (model/model.h): if it is 0, all elements
 * begin at 0. The parameter's offset is chosen later. This function and the next two return GS_E_SHAPE with a message
 * that names the layer, the value found and the value wanted:
 *
 *     label    NULL or empty; another tensor of this layer has it; "<name of l>.<label>" does not fit GS_PARAM_NAME
 *     ndim     not 1 to 4
 *     dims     one of them is below 1, or their product above INT_MAX
 *     fan_in   below 0 or above INT_MAX
 *
 * More than GS_LAYER_PARAMS in one layer is a bug. */
GS_API gs_status gs_layer_parameter(gs_layer *l, const char *label, int ndim, const int dims[],
                                    double fan_in);

/* The same for a parameter whose elements all begin at `initial`, such as the factor 1 of a normalisation. */
GS_API gs_status gs_layer_parameter_filled(gs_layer *l, const char *label, int ndim, const int dims[],
                                           float initial);

/* In plan: the next tensor of l is state (gs_param): saved, not trained. Every element begins at `initial`. */
GS_API gs_status gs_layer_state(gs_layer *l, const char *label, int ndim, const int dims[], float initial);

/* In plan: GS_E_SHAPE with the message "layer <name> (<description>): ...". */
GS_API gs_status gs_layer_refuse(const gs_layer *l, const char *format, ...) GS_PRINTF(2, 3);

/* In plan, for a layer that takes only vectors: "the input is (1,28,28), <wanted>". */
GS_API gs_status gs_layer_check_vectors(const gs_layer *l, gs_shape in, const char *wanted);

/* plan for an element-wise layer: one output for each input, one operation each. */
GS_API gs_status gs_layer_plan_element_wise(gs_layer *l, gs_shape in);

/* In plan of a container: name child i "<name of l>.<label>" and plan it for the input `in`. needs_dx: a layer before
 * the child has parameters. */
GS_API gs_status gs_layer_plan_child(gs_layer *l, int i, const char *label, gs_shape in, bool needs_dx);

/* The library's containers run their children in a known order: sequentially; or the body, then the shortcut. */
static inline bool gs_layer_is_sequence(const gs_layer *l) {
    return strcmp(l->ops->name, "sequential") == 0;
}

static inline bool gs_layer_is_residual(const gs_layer *l) {
    return strcmp(l->ops->name, "residual") == 0;
}

/* Forward and backward of linear and `tied`, which multiply by gs_layer_weight. */
gs_status gs_layer_linear_forward(gs_layer *, const gs_pass *, gs_mem x, gs_mem *y);
gs_status gs_layer_linear_backward(gs_layer *, const gs_pass *, gs_mem dy, gs_mem *dx);

/* True if the layer or one inside it has parameters. */
GS_API bool gs_layer_learns(const gs_layer *l);

/* In bind: memory for max_batch samples of this shape, 4 bytes per element. Free it in unbind. */
GS_API gs_status gs_layer_alloc(gs_layer *l, size_t max_batch, gs_shape sample, gs_mem *out);

/* The shape of a sample in l->y: l->out, or the result of a pooling in the epilogue. */
gs_shape gs_layer_y_shape(const gs_layer *l);

/* ---- the library's layers; NULL only if there is no memory; plan checks the arguments ---- */

GS_API gs_layer *gs_linear(int out, bool bias);
GS_API gs_layer *gs_conv2d(int out_c, int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h,
                           int pad_w, bool bias);
/* With groups and dilation (gs_conv2d_sizes in operands.h); groups or a dilation of 1 means none. */
GS_API gs_layer *gs_conv2d_grouped(int out_c, int kernel_h, int kernel_w, int stride_h, int stride_w,
                                   int pad_h, int pad_w, int groups, int dilation_h, int dilation_w,
                                   bool bias);
GS_API gs_layer *gs_max_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w);
GS_API gs_layer *gs_avg_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w);
/* gs_layer *gs_relu(void), and so on: layers without settings, each of which is also a word in a model text. */
/* clang-format off */
#define GS_WORD_LAYERS(X) \
    X(global_avg_pool, "the mean of each channel") /* (c, h, w) -> (c, 1, 1) */ \
    X(batch_norm, "gives channels mean 0 and variance 1") \
    X(layer_norm, "gives each vector mean 0 and variance 1") \
    X(flatten, "turns an image into a row of numbers") /* (c, h, w) -> (c h w, 1, 1) */ \
    X(relu, "max(x, 0)") \
    GS_ELEMENT_WISE_ROWS(GS_WORD_LAYER, GS_NO_LAYER, GS_NO_LAYER, X)
#define GS_WORD_LAYER(X, name, forward, backward, reads, what) X(name, what)
#define GS_NO_LAYER(...)
/* clang-format on */
#define GS_DECLARE(name, what) GS_API gs_layer *gs_##name(void);
GS_WORD_LAYERS(GS_DECLARE)
#undef GS_DECLARE
/* gs_layer *gs_dropout(float), and so on: layers with one number as their setting, which words_READ of model_text.c
 * reads. The texts: usage, the number expected after the word, and the effect. */
/* clang-format off */
#define GS_NUMBER_LAYERS(X) \
    X(group_norm, int, count, "group_norm GROUPS", "the number of groups of group_norm", \
      "gives groups of channels mean 0, variance 1") \
    X(dropout, float, chance, "dropout P", "the probability that dropout clears a number", \
      "in training, clears each with probability P") \
    GS_ELEMENT_WISE_ROWS(GS_NO_LAYER, GS_NUMBER_LAYER, GS_NO_LAYER, X)
#define GS_NUMBER_LAYER(X, name, forward, backward, reads, number, what) \
    X(name, float, decimal, #name " " #number, #number " of " #name, what)
/* clang-format on */
#define GS_DECLARE(name, type, read, usage, expected, what) GS_API gs_layer *gs_##name(type);
GS_NUMBER_LAYERS(GS_DECLARE)
#undef GS_DECLARE
GS_API gs_layer *gs_gelu(void);      /* x Phi(x), where Phi is the normal distribution function */
GS_API gs_layer *gs_gelu_tanh(void); /* gelu approximated with a tanh, as in GPT-2 (backend.h) */
GS_API gs_layer *gs_positions(void); /* adds a learned vector for each position of a sequence */
GS_API gs_layer *gs_tied(void);      /* linear without bias, whose weight is the embedding's table */
/* (q, k, v) of each token -> a weighted mean of the values, per head; causal: of the values up to this token. */
GS_API gs_layer *gs_attention(int heads, bool causal);
/* Turns each token number x into a vector: row x of a table with `rows` rows. This layer must come first in a model. */
GS_API gs_layer *gs_embedding(int rows, int width);
/* Returns l, whose initial weights will be normally distributed with mean 0 and this standard deviation, and whose bias
 * will be 0. Returns NULL for NULL. */
GS_API gs_layer *gs_layer_with_std(gs_layer *l, float std);
/* Runs the layers in order. The new layer owns them (not the array) from then on; NULL if one of them is NULL. */
GS_API gs_layer *gs_sequential(int count, gs_layer *const *layers);
/* y = body(x) + shortcut(x); shortcut NULL: y = body(x) + x. The new layer owns both from then on. */
GS_API gs_layer *gs_residual(gs_layer *body, gs_layer *shortcut);
