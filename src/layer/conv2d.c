/* Every output pixel is a weighted sum of the window of input pixels under it, with the same weights everywhere. With
 * groups, an output channel sees only the input channels of its group; with as many groups as channels, each channel
 * has its own weights ("depthwise"). With dilation, a window's pixels are spaced apart: a large window with few
 * weights. */
#include <stdio.h>
#include "core/text.h"
#include "layer/window.h"

typedef struct conv2d {
    gs_layer base;
    gs_conv2d_sizes sizes; /* plan sets the in_ and out_ members */
} conv2d;

static gs_status conv2d_plan(gs_layer *l, gs_shape in) {
    conv2d *me = (conv2d *)l;
    gs_conv2d_sizes *s = &me->sizes;
    if (l->local_outputs < 1)
        return gs_layer_refuse(l, "the number of output channels is %d; it must be at least 1",
                               l->local_outputs);
    s->out_c = l->local_outputs;
    s->in_c = in.c;
    s->in_h = in.h;
    s->in_w = in.w;
    if (s->groups < 1)
        return gs_layer_refuse(l, "the number of groups is %d; it must be at least 1", s->groups);
    if (in.c % s->groups != 0 || s->out_c % s->groups != 0)
        return gs_layer_refuse(
            l, "%d input channels and %d output channels cannot both be cut into %d equal groups", in.c,
            s->out_c, s->groups);
    GS_TRY(gs_layer_window(l, "height", in.h, s->kernel_h, s->dilation_h, s->stride_h, s->pad_h, &s->out_h));
    GS_TRY(gs_layer_window(l, "width", in.w, s->kernel_w, s->dilation_w, s->stride_w, s->pad_w, &s->out_w));
    l->out = (gs_shape){s->out_c, s->out_h, s->out_w, in.t};

    const int group_c = in.c / s->groups;
    double window = (double)group_c * s->kernel_h * s->kernel_w;
    double pixels = (double)s->out_c * s->out_h * s->out_w;
    l->flops = gs_shape_tokens(in) * (2 * window * pixels + (l->bias ? pixels : 0));
    int dims[] = {s->out_c, group_c, s->kernel_h, s->kernel_w};
    GS_TRY(gs_layer_parameter(l, "weight", 4, dims, window));
    return l->bias ? gs_layer_parameter(l, "bias", 1, dims, window) : GS_OK;
}

static gs_status conv2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const conv2d *me = (const conv2d *)l;
    return l->device->ops->conv2d_forward(l->device, *y, x, l->param[0].w, l->param[1].w,
                                          gs_layer_tokens(l, pass), &me->sizes, &l->epilogue);
}

/* y = x * w + b; a pixel's dx is the sum of dy times w over the windows that contain it; dw and db are sums over all
 * samples' windows. */
static gs_status conv2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const conv2d *me = (const conv2d *)l;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    return l->device->ops->conv2d_backward(l->device, *dx, w->dw, b->dw, dy, l->x, w->w,
                                           gs_layer_tokens(l, pass), &me->sizes, !pass->fresh, &l->epilogue);
}

static void conv2d_describe(const gs_layer *l, char *text, size_t size) {
    const conv2d *me = (const conv2d *)l;
    const gs_conv2d_sizes *s = &me->sizes;
    snprintf(text, size, "conv %d %dx%d", l->outputs, s->kernel_h, s->kernel_w);
    gs_layer_append_size(text, size, " stride", s->stride_h, s->stride_w, 1, 1);
    gs_layer_append_size(text, size, " pad", s->pad_h, s->pad_w, 0, 0);
    gs_layer_append_size(text, size, " groups", s->groups, s->groups, 1, 1);
    gs_layer_append_size(text, size, " dilation", s->dilation_h, s->dilation_w, 1, 1);
    if (!l->bias) gs_append(text, size, " no_bias");
}

#define CONV2D                                                                                               \
    .name = "conv2d", .buffers = GS_OWN, .storage = GS_EITHER, .plan = conv2d_plan,                          \
    .forward = conv2d_forward, .backward = conv2d_backward, .describe = conv2d_describe

static const gs_layer_ops conv2d_ops = {CONV2D, .tensor = GS_TENSOR_CONV, .fuses = true};
/* For gs_conv2d_is_grouped, whose operator supports no epilogue. */
static const gs_layer_ops conv2d_grouped_ops = {CONV2D};

gs_layer *gs_conv2d_grouped(int out_c, int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h,
                            int pad_w, int groups, int dilation_h, int dilation_w, bool bias) {
    const gs_conv2d_sizes sizes = {
        .out_c = out_c,
        .kernel_h = kernel_h,
        .kernel_w = kernel_w,
        .stride_h = stride_h,
        .stride_w = stride_w,
        .pad_h = pad_h,
        .pad_w = pad_w,
        .groups = groups,
        .dilation_h = dilation_h,
        .dilation_w = dilation_w,
    };
    const gs_layer_ops *ops = gs_conv2d_is_grouped(&sizes) ? &conv2d_grouped_ops : &conv2d_ops;
    gs_layer *l = gs_layer_with_outputs(ops, sizeof(conv2d), out_c);
    if (!l) return NULL;
    ((conv2d *)l)->sizes = sizes;
    l->bias = bias;
    return l;
}

gs_layer *gs_conv2d(int out_c, int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w,
                    bool bias) {
    return gs_conv2d_grouped(out_c, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, 1, 1, 1, bias);
}
