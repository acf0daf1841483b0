/* Pooling: each window of the image becomes one value, its maximum (max_pool2d) or its mean (avg_pool2d, where padding
 * counts as zeros). global_avg_pool is average pooling with one window, the whole image: the mean of each channel.
 *
 * The backward of max_pool2d passes the gradient only to the largest element, so forward stores its index. */
#include <stdio.h>
#include "layer/window.h"

typedef struct pool2d {
    gs_layer base;
    gs_pool2d_sizes sizes;
    gs_mem index; /* max_pool2d: int32, same shape as y */
} pool2d;

/* Only the windows; plan computes the other sizes. */
static gs_pool2d_sizes windows(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w) {
    return (gs_pool2d_sizes){0, 0, 0, 0, 0, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w};
}

static gs_layer *make(const gs_layer_ops *ops, gs_pool2d_sizes sizes) {
    pool2d *me = (pool2d *)gs_layer_new(ops, sizeof(pool2d), 0);
    if (me) me->sizes = sizes;
    return (gs_layer *)me;
}

/* The limit is PyTorch's: a window of padding alone would have no largest element. */
static gs_status check_padding(const gs_layer *l, const char *axis, int kernel, int pad) {
    if (pad <= kernel / 2) return GS_OK;
    return gs_layer_refuse(l, "the padding of the %s is %d; at most half of the window's %d is allowed", axis,
                           pad, kernel);
}

static gs_status pool2d_plan(gs_layer *l, gs_shape in) {
    gs_pool2d_sizes *s = &((pool2d *)l)->sizes;
    s->c = in.c;
    s->in_h = in.h;
    s->in_w = in.w;
    GS_TRY(gs_layer_window(l, "height", in.h, s->kernel_h, 1, s->stride_h, s->pad_h, &s->out_h));
    GS_TRY(gs_layer_window(l, "width", in.w, s->kernel_w, 1, s->stride_w, s->pad_w, &s->out_w));
    GS_TRY(check_padding(l, "height", s->kernel_h, s->pad_h));
    GS_TRY(check_padding(l, "width", s->kernel_w, s->pad_w));
    l->out = (gs_shape){in.c, s->out_h, s->out_w, in.t};
    l->flops = (double)gs_shape_tokens(in) * in.c * s->out_h * s->out_w * s->kernel_h * s->kernel_w;
    return GS_OK;
}

/* "max_pool 2", "avg_pool 3x2 stride 1 pad 1x0": as in a model text, whose words lack the "2d". */
static void describe(const gs_layer *l, char *text, size_t size) {
    const gs_pool2d_sizes *s = &((const pool2d *)l)->sizes;
    snprintf(text, size, "%.*s", (int)strcspn(l->ops->name, "2"), l->ops->name);
    gs_layer_append_size(text, size, "", s->kernel_h, s->kernel_w, 0, 0);
    gs_layer_append_size(text, size, " stride", s->stride_h, s->stride_w, s->kernel_h, s->kernel_w);
    gs_layer_append_size(text, size, " pad", s->pad_h, s->pad_w, 0, 0);
}

/* ---- max_pool2d ---- */

static gs_status max_pool2d_bind(gs_layer *l, size_t max_batch) {
    return gs_layer_alloc(l, max_batch, l->out, &((pool2d *)l)->index);
}

static void max_pool2d_unbind(gs_layer *l) {
    l->device->ops->free(l->device, ((pool2d *)l)->index);
}

static gs_status max_pool2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const pool2d *me = (const pool2d *)l;
    return l->device->ops->max_pool2d_forward(l->device, *y, me->index, x, gs_layer_tokens(l, pass),
                                              &me->sizes);
}

/* y = max of the window; dx = the sum of dy over the windows in which this x was the largest. */
static gs_status max_pool2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const pool2d *me = (const pool2d *)l;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->max_pool2d_backward(l->device, *dx, dy, me->index, gs_layer_tokens(l, pass),
                                               &me->sizes);
}

static bool max_pool2d_join(const gs_layer *l, gs_epilogue *then) {
    if (then->pool) return false;
    then->pool = &((const pool2d *)l)->sizes;
    return true;
}

static const gs_layer_ops max_pool2d_ops = {
    .name = "max_pool2d",
    .buffers = GS_OWN,
    .storage = GS_ALIKE,
    .tensor = GS_TENSOR_CHANNELS,
    .extra_writes = 1, /* the index */
    .extra_reads = 1,
    .plan = pool2d_plan,
    .bind = max_pool2d_bind,
    .forward = max_pool2d_forward,
    .backward = max_pool2d_backward,
    .unbind = max_pool2d_unbind,
    .fuse_into = max_pool2d_join,
    .describe = describe,
};

gs_layer *gs_max_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w) {
    return make(&max_pool2d_ops, windows(kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w));
}

/* ---- avg_pool2d, global_avg_pool ---- */

static gs_status avg_pool2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return l->device->ops->avg_pool2d_forward(l->device, *y, x, gs_layer_tokens(l, pass),
                                              &((const pool2d *)l)->sizes);
}

/* y = sum of x over the window / its size; dx = the sum of dy over the windows that contain this x / their size. */
static gs_status avg_pool2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->avg_pool2d_backward(l->device, *dx, dy, gs_layer_tokens(l, pass),
                                               &((const pool2d *)l)->sizes);
}

static const gs_layer_ops avg_pool2d_ops = {
    .name = "avg_pool2d",
    .buffers = GS_OWN,
    .storage = GS_ALIKE,
    .tensor = GS_TENSOR_CHANNELS,
    .plan = pool2d_plan,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
    .describe = describe,
};

gs_layer *gs_avg_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w) {
    return make(&avg_pool2d_ops, windows(kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w));
}

static gs_status global_avg_pool_plan(gs_layer *l, gs_shape in) {
    ((pool2d *)l)->sizes = windows(in.h, in.w, 1, 1, 0, 0);
    return pool2d_plan(l, in);
}

static const gs_layer_ops global_avg_pool_ops = {
    .name = "global_avg_pool",
    .buffers = GS_OWN,
    .storage = GS_ALIKE,
    .plan = global_avg_pool_plan,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
};

gs_layer *gs_global_avg_pool(void) {
    return make(&global_avg_pool_ops, (gs_pool2d_sizes){0});
}
