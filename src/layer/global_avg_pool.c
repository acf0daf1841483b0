/* The mean of each channel: average pooling whose one window is the whole image. */
#include "layer/window.h"

typedef struct global_avg_pool {
    gs_layer base;
    gs_pool2d_sizes sizes;
} global_avg_pool;

static gs_status global_avg_pool_plan(gs_layer *l, gs_shape in) {
    gs_pool2d_sizes *s = &((global_avg_pool *)l)->sizes;
    *s = (gs_pool2d_sizes){.kernel_h = in.h, .kernel_w = in.w, .stride_h = 1, .stride_w = 1};
    return gs_layer_plan_pool2d(l, in, s);
}

static gs_status global_avg_pool_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const global_avg_pool *me = (const global_avg_pool *)l;
    *y = l->y;
    return l->device->ops->avg_pool2d_forward(l->device, l->y, x, gs_layer_tokens(l, pass), &me->sizes);
}

/* Of y[c] = sum over h, w of x[c][h][w] / (h w): dx[c][h][w] = dy[c] / (h w). */
static gs_status global_avg_pool_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const global_avg_pool *me = (const global_avg_pool *)l;
    *dx = l->dx;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->avg_pool2d_backward(l->device, l->dx, dy, gs_layer_tokens(l, pass), &me->sizes);
}

static const gs_layer_ops global_avg_pool_ops = {
    .name = "global_avg_pool",
    .buffers = GS_OWN,
    .plan = global_avg_pool_plan,
    .forward = global_avg_pool_forward,
    .backward = global_avg_pool_backward,
};

gs_layer *gs_global_avg_pool(void) {
    return gs_layer_new(&global_avg_pool_ops, sizeof(global_avg_pool), 0);
}
