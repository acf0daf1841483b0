/* The largest number of each window. Backward gives its gradient to that number alone, so forward remembers
 * where it was. Where a convolution before it does it along with its own work (sequential.c), nothing is left to do:
 * x is our y already, and dy may pass as it is. */
#include "layer/make.h"

typedef gs_max_pool2d_layer max_pool2d;

static gs_status max_pool2d_plan(gs_layer *l, gs_shape in) {
    return gs_layer_plan_pool2d(l, in, &((max_pool2d *)l)->sizes);
}

static gs_status max_pool2d_bind(gs_layer *l, size_t max_batch) {
    max_pool2d *me = (max_pool2d *)l;
    return l->device->ops->alloc(l->device, max_batch * gs_shape_size(l->out) * sizeof(int32_t), &me->index);
}

static void max_pool2d_unbind(gs_layer *l) {
    l->device->ops->free(l->device, ((max_pool2d *)l)->index);
}

static gs_status max_pool2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const max_pool2d *me = (const max_pool2d *)l;
    *y = l->y;
    if (l->fused) return GS_OK;
    return l->device->ops->max_pool2d_forward(l->device, l->y, me->index, x, pass->n, &me->sizes);
}

/* Of y = max of the window: dx = the sum of dy over the windows in which this x was the largest. */
static gs_status max_pool2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const max_pool2d *me = (const max_pool2d *)l;
    *dx = l->fused ? dy : l->dx;
    if (l->fused) return GS_OK;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->max_pool2d_backward(l->device, l->dx, dy, me->index, pass->n, &me->sizes);
}

static void max_pool2d_describe(const gs_layer *l, char *text, size_t size) {
    gs_layer_describe_pool2d("max_pool", &((const max_pool2d *)l)->sizes, text, size);
}

static const gs_layer_ops max_pool2d_ops = {
    .name = "max_pool2d",
    .buffers = GS_OWN,
    .plan = max_pool2d_plan,
    .bind = max_pool2d_bind,
    .forward = max_pool2d_forward,
    .backward = max_pool2d_backward,
    .unbind = max_pool2d_unbind,
    .describe = max_pool2d_describe,
};

bool gs_layer_is_max_pool2d(const gs_layer *l) {
    return l->ops == &max_pool2d_ops;
}

gs_layer *gs_max_pool2d(int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w) {
    max_pool2d *me = (max_pool2d *)gs_layer_new(&max_pool2d_ops, sizeof(max_pool2d), 0);
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
