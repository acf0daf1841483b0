/* Every output is a weighted sum of all inputs: y = x w^T + b. */
#include <stdio.h>
#include "layer/make.h"

typedef struct linear {
    gs_layer base;
    int out;
    bool bias;
} linear;

static gs_status linear_plan(gs_layer *l, gs_shape in) {
    const linear *me = (const linear *)l;
    if (me->out < 1) return gs_layer_refuse(l, "the number of outputs is %d; it must be at least 1", me->out);
    if (in.h != 1 || in.w != 1)
        return gs_layer_refuse(l,
                               "the input is (%d,%d,%d), linear wants a flat vector: put flatten before it",
                               in.c, in.h, in.w);
    l->out = (gs_shape){me->out, 1, 1};
    l->flops = 2.0 * in.c * me->out + (me->bias ? me->out : 0);
    GS_TRY(gs_layer_parameter(l, &l->weight, "weight", 2, (int[]){me->out, in.c}, in.c));
    return me->bias ? gs_layer_parameter(l, &l->bias, "bias", 1, (int[]){me->out}, in.c) : GS_OK;
}

static gs_status linear_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    l->x = x;
    *y = l->y;
    const gs_backend *ops = l->device->ops;
    return (l->fused ? ops->linear_relu_forward : ops->linear_forward)(l->device, l->y, x, l->w, l->b,
                                                                       pass->n, l->in.c, l->out.c);
}

/* Of y = x w^T + b: dx = dy w, dw = dy^T x, db = the sum of dy over the samples. */
static gs_status linear_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    *dx = l->dx;
    if (l->fused)
        return l->device->ops->linear_relu_backward(l->device, l->dx, l->dw, l->db, dy, l->y, l->x, l->w,
                                                    pass->n, l->in.c, l->out.c, !pass->fresh);
    return l->device->ops->linear_backward(l->device, l->dx, l->dw, l->db, dy, l->x, l->w, pass->n, l->in.c,
                                           l->out.c, !pass->fresh);
}

static bool linear_fuses_relu(const gs_backend *ops) {
    return ops->linear_relu_forward && ops->linear_relu_backward;
}

static void linear_describe(const gs_layer *l, char *text, size_t size) {
    const linear *me = (const linear *)l;
    snprintf(text, size, "linear %d%s", me->out, me->bias ? "" : " no_bias");
}

static const gs_layer_ops linear_ops = {
    .name = "linear",
    .buffers = GS_OWN,
    .plan = linear_plan,
    .forward = linear_forward,
    .backward = linear_backward,
    .fuses_relu = linear_fuses_relu,
    .describe = linear_describe,
};

gs_layer *gs_linear(int out, bool bias) {
    linear *me = (linear *)gs_layer_new(&linear_ops, sizeof(linear), 0);
    if (!me) return NULL;
    me->out = out;
    me->bias = bias;
    return &me->base;
}
