/* What the files of the layers share: making a layer, planning a child, refusing a shape. */
#ifndef GS_LAYER_MAKE_H
#define GS_LAYER_MAKE_H

#include "layer/layer.h"

/* A zeroed layer of `bytes` bytes that begin with a gs_layer, with room for `children`. NULL: no memory. */
gs_layer *gs_layer_new(const gs_layer_ops *ops, size_t bytes, int children);

/* For a container: name child i "<name of l>.<label>" and plan it for the input `in`. needs_dx: something
 * that learns lies before the child. */
gs_status gs_layer_plan_child(gs_layer *l, int i, const char *label, gs_shape in, bool needs_dx);

/* GS_E_SHAPE with the message "layer <name> (<description>): ...". */
gs_status gs_layer_refuse(const gs_layer *l, const char *format, ...) GS_PRINTF(2, 3);

/* True if the layer or one inside it has parameters. */
bool gs_layer_learns(const gs_layer *l);

/* Describe a parameter of l: its place is decided later. GS_E_SHAPE if it would be too large. */
gs_status gs_layer_parameter(gs_layer *l, gs_param *p, const char *label, int ndim, const int dims[],
                             double fan_in);

bool gs_layer_is_relu(const gs_layer *l);

/* A max pooling; a convolution may have to do it (sequential.c). */
typedef struct gs_max_pool2d_layer {
    gs_layer base;
    gs_pool2d_sizes sizes;
    gs_mem index; /* int32, shaped as y */
} gs_max_pool2d_layer;

bool gs_layer_is_max_pool2d(const gs_layer *l);

/* ---- windows (window.c) ---- */

/* *out = floor((in + 2 pad - kernel) / stride) + 1, the size of a convolution's or a pooling's output along
 * one axis ("height" or "width"), after all four numbers have been checked. */
gs_status gs_layer_window(const gs_layer *l, const char *axis, int in, int kernel, int stride, int pad,
                          int *out);

/* Plan a pooling whose kernel, stride and pad are known: the sizes of the input and the output. */
gs_status gs_layer_plan_pool2d(gs_layer *l, gs_shape in, gs_pool2d_sizes *sizes);

/* "max_pool 2", "avg_pool 3x2 stride 1 pad 1x0": a pooling as in a model text. */
void gs_layer_describe_pool2d(const char *word, const gs_pool2d_sizes *sizes, char *text, size_t size);

/* "stride 2", "stride 2x1": a word and one size, or two where they differ. */
void gs_layer_describe_size(const char *word, int h, int w, char *text, size_t size);

/* For element-wise layers: the place of y for this x, the place of dx for this dy. */
static inline gs_mem gs_layer_y(const gs_layer *l, gs_mem x) {
    return l->y_over_x ? x : l->y;
}

static inline gs_mem gs_layer_dx(const gs_layer *l, gs_mem dy) {
    return l->dx_over_dy ? dy : l->dx;
}

#endif
