/* The mean of each window; padding counts as zeros. */
#include "layer/window.h"

typedef struct avg_pool2d {
    gs_layer base;
    gs_pool2d_sizes sizes;
} avg_pool2d;

static gs_status avg_pool2d_plan(gs_layer *l, gs_shape in) {
    return gs_layer_plan_pool2d(l, in, &((avg_pool2d *)l)->sizes);
}

static gs_status avg_pool2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const avg_pool2d *me = (const avg_pool2d *)l;
    *y = l->y;
    return l->device->ops->avg_pool2d_forward(l->device, l->y, x, gs_layer_tokens(l, pass), &me->sizes);
}

/* Of y = sum of x over the window / its size: dx = the sum of dy over the windows with this x / their size. */
static gs_status avg_pool2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const avg_pool2d *me = (const avg_pool2d *)l;
    *dx = l->dx;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->avg_pool2d_backward(l->device, l->dx, dy, gs_layer_tokens(l, pass), &me->sizes);
}

static void avg_pool2d_describe(const gs_layer *l, char *text, size_t size) {
    gs_layer_describe_pool2d("avg_pool", &((const avg_pool2d *)l)->sizes, text, size);
}

static const gs_layer_ops avg_pool2d_ops = {
    .name = "avg_pool2d",
    .buffers = GS_OWN,
    .plan = avg_pool2d_plan,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
    .describe = avg_pool2d_describe,
};

gs_layer *gs_avg_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w) {
    avg_pool2d *me = (avg_pool2d *)gs_layer_new(&avg_pool2d_ops, sizeof(avg_pool2d), 0);
    if (!me) return NULL;
    me->sizes = (gs_pool2d_sizes){
        .kernel_h = kernel_h,
        .kernel_w = kernel_w,
        .stride_h = stride_h,
        .stride_w = stride_w,
        .pad_h = pad_h,
        .pad_w = pad_w,
    };
    return &me->base;
}
