/* In training each element becomes 0 with probability p, and the others are multiplied by 1 / (1 - p): the expectation
 * stays the same, and evaluation does nothing ("inverted" dropout).
 *
 * Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (JMLR 2014).
 *
 * The mask depends only on (seed, layer, step, index in the global batch): backward draws it again instead of storing
 * it, and it is the same for any number of workers. */
#include <stdio.h>
#include "core/philox.h"
#include "layer/make.h"

typedef struct dropout {
    gs_layer base;
    float p;
} dropout;

static gs_status dropout_plan(gs_layer *l, gs_shape in) {
    const dropout *me = (const dropout *)l;
    if (!(me->p >= 0 && me->p < 1))
        return gs_layer_refuse(l, "the probability is %g; it must be at least 0 and below 1", (double)me->p);
    return gs_layer_plan_element_wise(l, in);
}

static gs_dropout_draw draw(const gs_layer *l, const gs_pass *pass) {
    return (gs_dropout_draw){
        .p = ((const dropout *)l)->p,
        .key = pass->seed,
        .hi = gs_stream_hi(GS_STREAM_DROPOUT, (uint64_t)l->number << 40 | pass->step),
        .first = (uint64_t)pass->first * gs_shape_size(l->in),
    };
}

static gs_status drop(const gs_layer *l, const gs_pass *pass, gs_mem to, gs_mem from) {
    return l->device->ops->dropout(l->device, to, from, gs_layer_numbers(pass, l->in), draw(l, pass));
}

static gs_status dropout_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    if (pass->training) return drop(l, pass, *y, x);
    *y = x;
    return GS_OK;
}

/* y = mask x / (1 - p); dx = mask dy / (1 - p). */
static gs_status dropout_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    if (l->needs_dx && pass->training) return drop(l, pass, *dx, dy);
    *dx = l->needs_dx ? dy : GS_NONE;
    return GS_OK;
}

static void dropout_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "dropout %g", (double)((const dropout *)l)->p);
}

static const gs_layer_ops dropout_ops = {
    .name = "dropout",
    .buffers = GS_ELEMENT_WISE,
    .storage = GS_ALIKE,
    .incremental = true,
    .tensor = GS_TENSOR_DRAWS,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .describe = dropout_describe,
};

gs_layer *gs_dropout(float p) {
    dropout *me = (dropout *)gs_layer_new(&dropout_ops, sizeof(dropout), 0);
    if (!me) return NULL;
    me->p = p;
    return &me->base;
}
