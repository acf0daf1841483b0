/* The arithmetic of windows that move over an image (window.c): what our own layers share, beside make.h. */
#pragma once

#include "layer/make.h"

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
