/* x Phi(x), element by element: each number is weighted by how many are smaller, if they are normally distributed.
 *
 * Source: Hendrycks, Gimpel, "Gaussian error linear units (GELUs)" (arXiv 1606.08415, 2016), which has the form with
 * tanh too.
 */
#include <stdio.h>
#include "layer/make.h"

typedef struct gelu {
    gs_layer base;
    bool with_tanh;
} gelu;

static gs_status gelu_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_backend *ops = l->device->ops;
    return (((const gelu *)l)->with_tanh ? ops->gelu_tanh_forward : ops->gelu_forward)(
        l->device, *y, x, gs_layer_numbers(pass, l->in));
}

/* Of y = x Phi(x): dx = dy (Phi(x) + x phi(x)); with tanh: see backend.h. */
static gs_status gelu_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_backend *ops = l->device->ops;
    if (!l->needs_dx) return GS_OK;
    return (((const gelu *)l)->with_tanh ? ops->gelu_tanh_backward : ops->gelu_backward)(
        l->device, *dx, dy, l->x, pass->n * gs_shape_size(l->in));
}

static void gelu_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "gelu%s", ((const gelu *)l)->with_tanh ? " tanh" : "");
}

static const gs_layer_ops gelu_ops = {
    .name = "gelu",
    .buffers = GS_READS_X,
    GS_LAYER_OF_ELEMENTS,
    .forward = gelu_forward,
    .backward = gelu_backward,
    .describe = gelu_describe,
};

gs_layer *gs_gelu(bool with_tanh) {
    gelu *me = (gelu *)gs_layer_new(&gelu_ops, sizeof(gelu), 0);
    if (!me) return NULL;
    me->with_tanh = with_tanh;
    return &me->base;
}
