/* The channels of an image, or the elements of a vector, form G groups of equal size. Each group of each sample is
 * normalised to mean 0 and variance 1; then each channel is scaled and shifted by learned parameters. With m elements
 * in a group:
 *
 *     mean = sum x / m;    var = sum (x - mean)^2 / m;    u = (x - mean) / sqrt(var + eps);    y = weight u + bias
 *
 * Like batch_norm, but over part of a sample instead of the batch. No sample's y depends on another's x, so training
 * and evaluation compute the same, for any batch and any number of workers. With one group it is a layer_norm of the
 * image; with as many groups as channels, an "instance norm". eps is 1e-5.
 *
 * The groups of all samples are stored consecutively, so batch_norm's operators can treat n samples of G groups as one
 * sample of n G channels: they compute u from x. A second call computes y from u, with the real channels, mean 0 and
 * variance 1.
 *
 * Source: Wu, He, "Group normalization" (ECCV 2018). */
#include <stdio.h>
#include "layer/make.h"

enum { WEIGHT, BIAS, SUMS = 6 /* arrays with an element for each group of each sample */ };

typedef struct group_norm {
    gs_layer base;   /* `outputs` is its number of groups */
    gs_mem of_group; /* SUMS arrays, see below */
    gs_mem ones;     /* as many as channels, or as groups of all samples if that is more */
    gs_mem zeros;
    gs_mem u;        /* for backward, if there is no dx to hold u */
    size_t elements; /* in each of these arrays */
} group_norm;

static gs_status group_norm_plan(gs_layer *l, gs_shape in) {
    const int dims[] = {in.c};
    if (l->outputs < 1 || in.c % l->outputs != 0)
        return gs_layer_refuse(l, "the input has %d channels, which %d groups do not divide evenly", in.c,
                               l->outputs);
    if (gs_shape_tokens(in) > 1) return gs_layer_refuse(l, "it does not take sequences; wanted layer_norm");
    l->out = in;
    l->flops = 10.0 * (double)gs_shape_size(in); /* mean, variance, u, y: 1 + 3 + 4 + 2 */
    GS_TRY(gs_layer_parameter_filled(l, "weight", 1, dims, 1));
    return gs_layer_parameter_filled(l, "bias", 1, dims, 0);
}

static gs_status group_norm_bind(gs_layer *l, size_t max_batch) {
    group_norm *me = (group_norm *)l;
    const gs_shape one = {1, 1, 1, 0};
    const size_t groups = max_batch * (size_t)l->outputs, channels = (size_t)l->in.c,
                 numbers = groups > channels ? groups : channels;
    me->elements = numbers;
    GS_TRY(gs_layer_alloc(l, SUMS * numbers, one, &me->of_group));
    GS_TRY(gs_layer_alloc(l, numbers, one, &me->ones));
    GS_TRY(gs_layer_alloc(l, numbers, one, &me->zeros));
    if (!l->needs_dx) GS_TRY(gs_layer_alloc(l, max_batch, l->in, &me->u));
    return l->device->ops->fill(l->device, me->ones, 1, numbers);
}

static void group_norm_unbind(gs_layer *l) {
    const group_norm *me = (const group_norm *)l;
    const gs_mem own[] = {me->of_group, me->ones, me->zeros, me->u};
    for (int i = 0; i < 4; i++) l->device->ops->free(l->device, own[i]);
}

/* The groups and the channels of a pass, as sizes for batch_norm's operators. */
typedef struct sizes {
    gs_batch_norm_sizes groups, channels;
    gs_mem mean, var, sums,
        unused[2]; /* one element per group; unused: the gradients of a weight and bias that do not exist */
} sizes;

static sizes sizes_of(const gs_layer *l, const gs_pass *pass) {
    const group_norm *me = (const group_norm *)l;
    const size_t plane = (size_t)l->in.h * (size_t)l->in.w, all = pass->n * (size_t)l->outputs;
    const gs_mem m = me->of_group, from = gs_at(m, pass->from * (size_t)l->outputs);
    return (sizes){
        .groups = {.c = (int)all, .plane = (int)((size_t)(l->in.c / l->outputs) * plane), .eps = 1e-5f},
        .channels = {.c = l->in.c, .plane = (int)plane, .eps = 0},
        .mean = from,
        .var = gs_at(from, me->elements),
        .sums = gs_at(m, 2 * me->elements),
        .unused = {gs_at(m, 4 * me->elements), gs_at(m, 5 * me->elements)}};
}

/* Compute u from x. */
static gs_status normalise(const gs_layer *l, const sizes *s, gs_mem u, gs_mem x) {
    const group_norm *me = (const group_norm *)l;
    return l->device->ops->batch_norm_forward(l->device, u, x, me->ones, me->zeros, s->mean, s->var, 1,
                                              &s->groups);
}

static gs_status group_norm_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const group_norm *me = (const group_norm *)l;
    const gs_backend *ops = l->device->ops;
    const sizes s = sizes_of(l, pass);
    GS_TRY(ops->batch_norm_statistics(l->device, s.mean, s.var, x, 1, &s.groups));
    GS_TRY(normalise(l, &s, *y, x));
    return ops->batch_norm_forward(l->device, *y, *y, l->param[WEIGHT].w, l->param[BIAS].w, me->zeros,
                                   me->ones, pass->n, &s.channels);
}

/* y = weight u + bias: first sum the gradients of weight and bias, then compute g = weight dy. u is x after batch_norm,
 * so dx is batch_norm's dx for the gradient g. u is computed again; dx's memory holds u, then g. */
static gs_status group_norm_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const group_norm *me = (const group_norm *)l;
    const gs_backend *ops = l->device->ops;
    const gs_param *w = &l->param[WEIGHT];
    const sizes s = sizes_of(l, pass);
    const gs_mem u = l->needs_dx ? *dx : me->u;
    GS_TRY(normalise(l, &s, u, l->x));
    GS_TRY(ops->batch_norm_sums(l->device, s.sums, w->dw, l->param[BIAS].dw, dy, u, me->zeros, me->ones,
                                pass->n, &s.channels, !pass->fresh));
    if (!l->needs_dx) return GS_OK;
    GS_TRY(ops->batch_norm_backward(l->device, *dx, dy, l->x, w->w, me->zeros, me->ones, GS_NONE, 1, pass->n,
                                    &s.channels));
    GS_TRY(ops->batch_norm_sums(l->device, s.sums, s.unused[0], s.unused[1], *dx, l->x, s.mean, s.var, 1,
                                &s.groups, false));
    return ops->batch_norm_backward(l->device, *dx, *dx, l->x, me->ones, s.mean, s.var, s.sums,
                                    (float)s.groups.plane, 1, &s.groups);
}

static void group_norm_describe(const gs_layer *l, char *text, size_t size) {
    snprintf(text, size, "%s %d", l->ops->name, l->outputs);
}

static const gs_layer_ops group_norm_ops = {
    .name = "group_norm",
    .buffers = GS_OWN,
    .storage = GS_IN_FLOATS,
    .extra_reads = 1, /* x */
    .plan = group_norm_plan,
    .bind = group_norm_bind,
    .forward = group_norm_forward,
    .backward = group_norm_backward,
    .unbind = group_norm_unbind,
    .describe = group_norm_describe,
};

gs_layer *gs_group_norm(int groups) {
    return gs_layer_with_outputs(&group_norm_ops, sizeof(group_norm), groups);
}
