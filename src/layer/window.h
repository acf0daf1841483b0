/* The arithmetic of windows that move over an image (window.c); the library's layers use it in addition to make.h. */
#pragma once

#include "layer/make.h"

/* The output size of a convolution or a pooling along one axis ("height" or "width"), after checking all arguments:
 *
 *     window = dilation (kernel - 1) + 1: the pixels from a kernel's first to its last
 *     *out   = floor((in + 2 pad - window) / stride) + 1 */
gs_status gs_layer_window(const gs_layer *l, const char *axis, int in, int kernel, int dilation, int stride,
                          int pad, int *out);

/* Append " stride 2" or " stride 2x1" to a description: a word and one size, or two sizes if they differ; nothing for
 * the usual sizes. */
void gs_layer_append_size(char *text, size_t size, const char *word, int h, int w, int usual_h, int usual_w);
