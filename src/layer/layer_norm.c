/* Each vector is normalised to mean 0 and variance 1 over its elements, then scaled and shifted by learned parameters:
 *
 *     y = weight (x - mean) / sqrt(var + eps) + bias
 *
 * In a sequence each token is a vector. No vector's y depends on another's x, so training and evaluation compute the
 * same, for any batch and any number of workers. eps is 1e-5.
 *
 * Source: Ba, Kiros, Hinton, "Layer normalization" (arXiv 1607.06450, 2016). */
#include "layer/layer_norm.h"

static gs_status layer_norm_plan(gs_layer *l, gs_shape in) {
    const int dims[] = {in.c};
    GS_TRY(gs_layer_check_vectors(l, in, "layer_norm needs vectors: put flatten before it"));
    l->out = in;
    l->flops = 8.0 * (double)gs_shape_size(in); /* mean, variance, y: 1 + 3 + 4 */
    GS_TRY(gs_layer_parameter_filled(l, "weight", 1, dims, 1));
    return gs_layer_parameter_filled(l, "bias", 1, dims, 0);
}

static gs_status layer_norm_bind(gs_layer *l, size_t max_batch) {
    gs_norm *me = (gs_norm *)l;
    const gs_shape one = {gs_shape_tokens(l->in), 1, 1, 0};
    GS_TRY(gs_layer_alloc(l, max_batch, one, &me->mean));
    return gs_layer_alloc(l, max_batch, one, &me->rstd);
}

static void layer_norm_unbind(gs_layer *l) {
    const gs_norm *me = (const gs_norm *)l;
    l->device->ops->free(l->device, me->mean);
    l->device->ops->free(l->device, me->rstd);
}

static gs_status layer_norm_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const gs_norm *me = (const gs_norm *)l;
    return l->device->ops->layer_norm_forward(l->device, *y, me->mean, me->rstd, x,
                                              l->param[GS_NORM_WEIGHT].w, l->param[GS_NORM_BIAS].w,
                                              gs_layer_tokens(l, pass), l->in.c, 1e-5f);
}

/* y = w u + b, where mean and var also depend on x; dx: layer_norm_backward in backend.h. */
static gs_status layer_norm_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const gs_norm *me = (const gs_norm *)l;
    const gs_param *w = &l->param[GS_NORM_WEIGHT], *b = &l->param[GS_NORM_BIAS];
    const size_t from = pass->from * (size_t)gs_shape_tokens(l->in);
    return l->device->ops->layer_norm_backward(l->device, *dx, w->dw, b->dw, dy, l->x, w->w,
                                               gs_at(me->mean, from), gs_at(me->rstd, from),
                                               gs_layer_tokens(l, pass), l->in.c, !pass->fresh);
}

static const gs_layer_ops layer_norm_ops = {
    .name = "layer_norm",
    .buffers = GS_OWN,
    .storage = GS_ALIKE,
    .incremental = true,
    .tensor = GS_TENSOR_VECTORS,
    .extra_reads = 1, /* x */
    .plan = layer_norm_plan,
    .bind = layer_norm_bind,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
    .unbind = layer_norm_unbind,
};

gs_layer *gs_layer_norm(void) {
    return gs_layer_new(&layer_norm_ops, sizeof(gs_norm), 0);
}
