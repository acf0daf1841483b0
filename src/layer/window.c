/* The arithmetic of windows that move over an image, for convolution and pooling. */
#include <limits.h>
#include "core/text.h"
#include "layer/window.h"

gs_status gs_layer_window(const gs_layer *l, const char *axis, int in, int kernel, int dilation, int stride,
                          int pad, int *out) {
    if (kernel < 1) return gs_layer_refuse(l, "the window's %s is %d; it must be at least 1", axis, kernel);
    if (dilation < 1)
        return gs_layer_refuse(l, "the dilation of the %s is %d; it must be at least 1", axis, dilation);
    if (stride < 1)
        return gs_layer_refuse(l, "the stride of the %s is %d; it must be at least 1", axis, stride);
    if (pad < 0) return gs_layer_refuse(l, "the padding of the %s is %d; it must be at least 0", axis, pad);
    const int64_t padded = in + 2 * (int64_t)pad, window = dilation * ((int64_t)kernel - 1) + 1;
    if (padded > INT_MAX)
        return gs_layer_refuse(l, "the input's %s with its padding is %lld; at most %d are allowed", axis,
                               (long long)padded, INT_MAX);
    if (window > padded)
        return gs_layer_refuse(l,
                               "the input is %s: its %s with padding is %lld, smaller than the window's %lld",
                               gs_shape_tuple(l->in).text, axis, (long long)padded, (long long)window);
    *out = (int)(padded - window) / stride + 1;
    return GS_OK;
}

void gs_layer_append_size(char *text, size_t size, const char *word, int h, int w, int usual_h, int usual_w) {
    if (h == usual_h && w == usual_w) return;
    gs_append(text, size, h == w ? "%s %d" : "%s %dx%d", word, h, w);
}
