/* Every output pixel is a weighted sum of the window of input pixels under it, with the same weights
 * everywhere. */
#include <stdio.h>
#include "layer/window.h"

typedef struct conv2d {
    gs_layer base;
    gs_conv2d_sizes sizes; /* in and out are known after plan */
    bool bias;
    gs_epilogue then;
} conv2d;

static gs_status conv2d_plan(gs_layer *l, gs_shape in) {
    conv2d *me = (conv2d *)l;
    gs_conv2d_sizes *s = &me->sizes;
    if (s->out_c < 1)
        return gs_layer_refuse(l, "the number of output channels is %d; it must be at least 1", s->out_c);
    s->in_c = in.c;
    s->in_h = in.h;
    s->in_w = in.w;
    GS_TRY(gs_layer_window(l, "height", in.h, s->kernel_h, s->stride_h, s->pad_h, &s->out_h));
    GS_TRY(gs_layer_window(l, "width", in.w, s->kernel_w, s->stride_w, s->pad_w, &s->out_w));
    l->out = (gs_shape){s->out_c, s->out_h, s->out_w, in.t};

    double window = (double)in.c * s->kernel_h * s->kernel_w;
    double pixels = (double)s->out_c * s->out_h * s->out_w;
    l->flops = gs_shape_tokens(in) * (2 * window * pixels + (me->bias ? pixels : 0));
    int dims[] = {s->out_c, in.c, s->kernel_h, s->kernel_w};
    GS_TRY(gs_layer_parameter(l, "weight", 4, dims, window));
    return me->bias ? gs_layer_parameter(l, "bias", 1, dims, window) : GS_OK;
}

static gs_status conv2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const conv2d *me = (const conv2d *)l;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    l->x = x;
    *y = l->y;
    return l->device->ops->conv2d_forward(l->device, l->y, x, w->w, b->w, gs_layer_tokens(l, pass),
                                          &me->sizes, &me->then);
}

/* Of y = x * w + b: a pixel's dx gathers dy times w over the windows that contain it; dw and db sum over all
 * windows of all samples. */
static gs_status conv2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const conv2d *me = (const conv2d *)l;
    const gs_param *w = &l->param[0], *b = &l->param[1];
    *dx = l->dx;
    return l->device->ops->conv2d_backward(l->device, l->dx, w->dw, b->dw, dy, l->x, w->w,
                                           gs_layer_tokens(l, pass), &me->sizes, !pass->fresh, &me->then);
}

static void conv2d_describe(const gs_layer *l, char *text, size_t size) {
    const conv2d *me = (const conv2d *)l;
    const gs_conv2d_sizes *s = &me->sizes;
    char stride[40] = "", pad[40] = "";
    if (s->stride_h != 1 || s->stride_w != 1)
        gs_layer_describe_size(" stride", s->stride_h, s->stride_w, stride, sizeof stride);
    if (s->pad_h != 0 || s->pad_w != 0) gs_layer_describe_size(" pad", s->pad_h, s->pad_w, pad, sizeof pad);
    snprintf(text, size, "conv %d %dx%d%s%s%s", s->out_c, s->kernel_h, s->kernel_w, stride, pad,
             me->bias ? "" : " no_bias");
}

static const gs_layer_ops conv2d_ops = {
    .name = "conv2d",
    .buffers = GS_OWN,
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
    .epilogue = offsetof(conv2d, then),
    .describe = conv2d_describe,
};

gs_layer *gs_conv2d(int out_c, int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w,
                    bool bias) {
    conv2d *me = (conv2d *)gs_layer_new(&conv2d_ops, sizeof(conv2d), 0);
    if (!me) return NULL;
    me->sizes = (gs_conv2d_sizes){
        .out_c = out_c,
        .kernel_h = kernel_h,
        .kernel_w = kernel_w,
        .stride_h = stride_h,
        .stride_w = stride_w,
        .pad_h = pad_h,
        .pad_w = pad_w,
    };
    me->bias = bias;
    return &me->base;
}
