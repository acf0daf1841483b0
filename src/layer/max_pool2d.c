/* The largest number of each window. Backward gives its gradient to that number alone, so forward remembers
 * where it was. */
#include "layer/window.h"

typedef struct max_pool2d {
    gs_layer base;
    gs_pool2d_sizes sizes;
    gs_mem index; /* int32, shaped as y */
} max_pool2d;

static gs_status max_pool2d_plan(gs_layer *l, gs_shape in) {
    return gs_layer_plan_pool2d(l, in, &((max_pool2d *)l)->sizes);
}

static gs_status max_pool2d_bind(gs_layer *l, size_t max_batch) {
    return gs_layer_alloc(l, max_batch, l->out, &((max_pool2d *)l)->index);
}

static void max_pool2d_unbind(gs_layer *l) {
    l->device->ops->free(l->device, ((max_pool2d *)l)->index);
}

static gs_status max_pool2d_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const max_pool2d *me = (const max_pool2d *)l;
    *y = l->y;
    return l->device->ops->max_pool2d_forward(l->device, l->y, me->index, x, gs_layer_tokens(l, pass),
                                              &me->sizes);
}

/* Of y = max of the window: dx = the sum of dy over the windows in which this x was the largest. */
static gs_status max_pool2d_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const max_pool2d *me = (const max_pool2d *)l;
    *dx = l->dx;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->max_pool2d_backward(l->device, l->dx, dy, me->index, gs_layer_tokens(l, pass),
                                               &me->sizes);
}

static bool max_pool2d_join(const gs_layer *l, gs_epilogue *then) {
    if (then->pool) return false;
    then->pool = &((const max_pool2d *)l)->sizes;
    return true;
}

static void max_pool2d_describe(const gs_layer *l, char *text, size_t size) {
    gs_layer_describe_pool2d("max_pool", &((const max_pool2d *)l)->sizes, text, size);
}

static const gs_layer_ops max_pool2d_ops = {
    .name = "max_pool2d",
    .buffers = GS_OWN,
    .also_writes = 1, /* the index */
    .also_reads = 1,
    .plan = max_pool2d_plan,
    .bind = max_pool2d_bind,
    .forward = max_pool2d_forward,
    .backward = max_pool2d_backward,
    .unbind = max_pool2d_unbind,
    .join = max_pool2d_join,
    .describe = max_pool2d_describe,
};

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
