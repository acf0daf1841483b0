/* The arithmetic of windows that move over an image (window.c): what our own layers share, besides make.h. */
#pragma once

#include "layer/make.h"

/* *window = dilation (kernel - 1) + 1, the pixels from a kernel's first to its last along one axis, after both numbers
 * have been checked. */
gs_status gs_layer_dilated(const gs_layer *l, const char *axis, int kernel, int dilation, int *window);

/* *out = floor((in + 2 pad - kernel) / stride) + 1, the size of a convolution's or a pooling's output along
 * one axis ("height" or "width"), after all four numbers have been checked. */
gs_status gs_layer_window(const gs_layer *l, const char *axis, int in, int kernel, int stride, int pad,
                          int *out);

/* Append " stride 2", " stride 2x1" to a description: a word and one size, or two where they differ; nothing for the
 * sizes that need no word. */
void gs_layer_append_size(char *text, size_t size, const char *word, int h, int w, int usual_h, int usual_w);
