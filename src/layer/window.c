/* The arithmetic of windows that move over an image: shared by convolution and pooling. */
#include <limits.h>
#include <stdio.h>
#include "layer/window.h"

gs_status gs_layer_window(const gs_layer *l, const char *axis, int in, int kernel, int stride, int pad,
                          int *out) {
    if (kernel < 1) return gs_layer_refuse(l, "the window's %s is %d; it must be at least 1", axis, kernel);
    if (stride < 1)
        return gs_layer_refuse(l, "the stride of the %s is %d; it must be at least 1", axis, stride);
    if (pad < 0) return gs_layer_refuse(l, "the padding of the %s is %d; it must be at least 0", axis, pad);
    int64_t padded = in + 2 * (int64_t)pad;
    if (padded > INT_MAX)
        return gs_layer_refuse(l, "the input's %s with its padding is %lld; at most %d are allowed", axis,
                               (long long)padded, INT_MAX);
    if (kernel > padded)
        return gs_layer_refuse(l,
                               "the input is %s: its %s with padding is %lld, smaller than the window's %d",
                               gs_shape_tuple(l->in).text, axis, (long long)padded, kernel);
    *out = (int)(padded - kernel) / stride + 1;
    return GS_OK;
}

/* As PyTorch: a window that could hold nothing but padding would have no largest element. */
static gs_status pool_padding(const gs_layer *l, const char *axis, int kernel, int pad) {
    if (pad <= kernel / 2) return GS_OK;
    return gs_layer_refuse(l, "the padding of the %s is %d; at most half of the window's %d is allowed", axis,
                           pad, kernel);
}

gs_status gs_layer_plan_pool2d(gs_layer *l, gs_shape in, gs_pool2d_sizes *s) {
    s->c = in.c;
    s->in_h = in.h;
    s->in_w = in.w;
    GS_TRY(gs_layer_window(l, "height", in.h, s->kernel_h, s->stride_h, s->pad_h, &s->out_h));
    GS_TRY(gs_layer_window(l, "width", in.w, s->kernel_w, s->stride_w, s->pad_w, &s->out_w));
    GS_TRY(pool_padding(l, "height", s->kernel_h, s->pad_h));
    GS_TRY(pool_padding(l, "width", s->kernel_w, s->pad_w));
    l->out = (gs_shape){in.c, s->out_h, s->out_w, in.t};
    l->flops = (double)gs_shape_tokens(in) * in.c * s->out_h * s->out_w * s->kernel_h * s->kernel_w;
    return GS_OK;
}

void gs_layer_describe_size(const char *word, int h, int w, char *text, size_t size) {
    if (h == w)
        snprintf(text, size, "%s %d", word, h);
    else
        snprintf(text, size, "%s %dx%d", word, h, w);
}

void gs_layer_describe_pool2d(const char *word, const gs_pool2d_sizes *s, char *text, size_t size) {
    char kernel[40], stride[40] = "", pad[40] = "";
    gs_layer_describe_size("", s->kernel_h, s->kernel_w, kernel, sizeof kernel);
    if (s->stride_h != s->kernel_h || s->stride_w != s->kernel_w)
        gs_layer_describe_size(" stride", s->stride_h, s->stride_w, stride, sizeof stride);
    if (s->pad_h != 0 || s->pad_w != 0) gs_layer_describe_size(" pad", s->pad_h, s->pad_w, pad, sizeof pad);
    snprintf(text, size, "%s%s%s%s", word, kernel, stride, pad);
}
