/* Each channel is normalised to mean 0 and variance 1 over the batch, then scaled and shifted by learned parameters:
 *
 *     y = weight (x - mean) / sqrt(var + eps) + bias
 *
 * In evaluation, mean and var are the running statistics of all training batches: running = 0.9 running + 0.1 this
 * batch's, with the unbiased variance. A sample's y depends on other samples only in training. eps is 1e-5.
 *
 * Source: Ioffe, Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate
 * shift" (ICML 2015).
 *
 * gs_pass says which samples share statistics: those of all workers, those of this pass, or those of each small group
 * ("ghost" batches: Hoffer, Hubara, Soudry, "Train longer, generalize better", NeurIPS 2017). Across workers, this
 * layer needs two small sums:
 *
 *     forward     m, sum x, sum x^2     for each channel: they give mean and var of all m elements
 *     backward    sum dy, sum dy u      u = (x - mean) / sqrt(var + eps): dx needs these sums over all workers
 *
 * The sums are doubles. Each worker first computes its own mean, and the variance around it; sum x^2 is computed from
 * these, so a mean far from 0 costs only some of a double's digits. dw and db remain this worker's contributions: like
 * all gradients, they are summed later. If a channel has one element, u is 0 and the running variance is unchanged. */
#include <math.h>
#include <stdlib.h>
#include "layer/make.h"

typedef struct batch_norm {
    gs_layer base;
    gs_batch_norm_sizes sizes;
    gs_mem moments; /* for each group: mean (c), var (c) */
    gs_mem sums;    /* for each group: sum dy (c), sum dy u (c) */
    double m;       /* elements in a channel, over all workers if they share statistics */
    double *shared; /* 1 + 2 c, on the host */
    float *host;    /* 2 c */
} batch_norm;

enum { WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR };

static gs_status batch_norm_plan(gs_layer *l, gs_shape in) {
    batch_norm *me = (batch_norm *)l;
    const int dims[] = {in.c};
    me->sizes = (gs_batch_norm_sizes){.c = in.c, .plane = in.h * in.w, .eps = 1e-5f, .momentum = 0.1f};
    l->out = in;
    l->flops = 7.0 * (double)gs_shape_size(in); /* for mean, variance and y: 1 + 3 + 3 */
    GS_TRY(gs_layer_parameter_filled(l, "weight", 1, dims, 1));
    GS_TRY(gs_layer_parameter_filled(l, "bias", 1, dims, 0));
    GS_TRY(gs_layer_state(l, "running_mean", 1, dims, 0));
    return gs_layer_state(l, "running_var", 1, dims, 1);
}

/* A group has at least one sample, so there are at most max_batch groups. */
static gs_status batch_norm_bind(gs_layer *l, size_t max_batch) {
    batch_norm *me = (batch_norm *)l;
    const gs_shape two = {2 * me->sizes.c, 1, 1, 0};
    const size_t c = (size_t)me->sizes.c, groups = max_batch > 0 ? max_batch : 1;
    GS_TRY(gs_layer_alloc(l, groups, two, &me->moments));
    GS_TRY(gs_layer_alloc(l, groups, two, &me->sums));
    GS_TRY(GS_NEW(me->shared, 1 + 2 * c, "sums of %zu channels", c));
    return GS_NEW(me->host, 2 * c, "sums of %zu channels", c);
}

static void batch_norm_unbind(gs_layer *l) {
    batch_norm *me = (batch_norm *)l;
    l->device->ops->free(l->device, me->moments);
    l->device->ops->free(l->device, me->sums);
    free(me->shared);
    free(me->host);
}

/* ---- groups of samples that share statistics ---- */

typedef struct group {
    size_t n;               /* samples */
    size_t images;          /* samples times the tokens per sample */
    size_t at;              /* offset of its elements in x */
    gs_mem mean, var, sums; /* the group's */
    bool first;             /* the first of this pass */
    float m;                /* elements in a channel */
} group;

/* The number of groups in a pass; one if it has no samples. */
static size_t groups_of(const gs_pass *pass) {
    size_t each = pass->group;
    return each == 0 || pass->n <= each ? 1 : (pass->n + each - 1) / each;
}

static group group_of(const gs_layer *l, const gs_pass *pass, size_t i) {
    const batch_norm *me = (const batch_norm *)l;
    const size_t c = (size_t)me->sizes.c, first = i * pass->group, left = pass->n - first;
    const size_t n = pass->group && pass->group < left ? pass->group : left;
    const size_t images = n * (size_t)gs_shape_tokens(l->in);
    const gs_mem moments = gs_at(me->moments, i * 2 * c);
    return (group){.n = n,
                   .images = images,
                   .at = first * gs_shape_size(l->in),
                   .mean = moments,
                   .var = gs_at(moments, c),
                   .sums = gs_at(me->sums, i * 2 * c),
                   .first = i == 0,
                   .m = (float)((double)images * me->sizes.plane)};
}

/* ---- sums over all workers ---- */

/* Replace this worker's mean and var by those of all workers. With m elements in all and S the sum over the workers,
 * mean = S(x) / m and var = S(x^2) / m - mean^2. */
static gs_status share_statistics(gs_layer *l, const gs_pass *pass, const group *g) {
    batch_norm *me = (batch_norm *)l;
    gs_device *d = l->device;
    const size_t c = (size_t)me->sizes.c;
    const double mine = (double)g->images * me->sizes.plane;
    double *x = me->shared + 1, *x2 = x + c;
    GS_TRY(d->ops->read(d, me->host, me->moments, 2 * c * sizeof *me->host));
    me->shared[0] = mine;
    for (size_t k = 0; k < c; k++) {
        const double mean = (double)me->host[k], var = (double)me->host[c + k];
        x[k] = mine * mean;
        x2[k] = mine * (var + mean * mean);
    }
    GS_TRY(pass->sum_over_workers(pass->sum_context, me->shared, 1 + 2 * c));
    me->m = me->shared[0];
    for (size_t k = 0; k < c; k++) {
        const double mean = x[k] / me->m;
        me->host[k] = (float)mean;
        me->host[c + k] = (float)fmax(x2[k] / me->m - mean * mean, 0);
    }
    return d->ops->write(d, me->moments, me->host, 2 * c * sizeof *me->host);
}

/* Replace this worker's sum dy and sum dy u by the sums over all workers. */
static gs_status share_sums(gs_layer *l, const gs_pass *pass) {
    batch_norm *me = (batch_norm *)l;
    gs_device *d = l->device;
    const size_t count = 2 * (size_t)me->sizes.c;
    GS_TRY(d->ops->read(d, me->host, me->sums, count * sizeof *me->host));
    for (size_t k = 0; k < count; k++) me->shared[k] = (double)me->host[k];
    GS_TRY(pass->sum_over_workers(pass->sum_context, me->shared, count));
    for (size_t k = 0; k < count; k++) me->host[k] = (float)me->shared[k];
    return d->ops->write(d, me->sums, me->host, count * sizeof *me->host);
}

/* ---- forward ---- */

/* Compute a group's statistics, and the new running statistics. */
static gs_status find_statistics(gs_layer *l, const gs_pass *pass, gs_mem x, group g) {
    batch_norm *me = (batch_norm *)l;
    const gs_param *p = l->param;
    GS_TRY(l->device->ops->batch_norm_statistics(l->device, g.mean, g.var, x, g.images, &me->sizes));
    if (pass->sum_over_workers) {
        GS_TRY(share_statistics(l, pass, &g));
        g.m = (float)me->m;
    }
    return l->device->ops->batch_norm_running(l->device, p[RUNNING_MEAN].dw, p[RUNNING_VAR].dw,
                                              p[RUNNING_MEAN].w, p[RUNNING_VAR].w, g.mean, g.var, g.m,
                                              (float)g.n, &me->sizes, !pass->fresh || !g.first);
}

static gs_status train_group(gs_layer *l, const gs_pass *pass, gs_mem x, group g) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_mem here = gs_at_number(x, g.at);
    if (!pass->recomputing) /* when recomputing, the first forward's statistics remain */
        GS_TRY(find_statistics(l, pass, here, g));
    return l->device->ops->batch_norm_forward(l->device, gs_at_number(l->y, g.at), here, l->param[WEIGHT].w,
                                              l->param[BIAS].w, g.mean, g.var, g.images, &me->sizes);
}

static gs_status batch_norm_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_param *p = l->param;
    if (!pass->training)
        return l->device->ops->batch_norm_forward(l->device, *y, x, p[WEIGHT].w, p[BIAS].w, p[RUNNING_MEAN].w,
                                                  p[RUNNING_VAR].w, gs_layer_tokens(l, pass), &me->sizes);
    for (size_t i = 0; i < groups_of(pass); i++) GS_TRY(train_group(l, pass, x, group_of(l, pass, i)));
    return GS_OK;
}

/* ---- backward ---- */

/* y = w u + b, where mean and var also depend on x; dx: batch_norm_backward in backend.h. */
static gs_status backward_group(gs_layer *l, const gs_pass *pass, gs_mem dy, group g) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_backend *ops = l->device->ops;
    const gs_param *p = l->param;
    const gs_mem here = gs_at_number(dy, g.at), x = gs_at_number(l->x, g.at);
    GS_TRY(ops->batch_norm_sums(l->device, g.sums, p[WEIGHT].dw, p[BIAS].dw, here, x, g.mean, g.var, g.images,
                                &me->sizes, !pass->fresh || !g.first));
    if (!l->needs_dx) return GS_OK;
    if (pass->training && pass->sum_over_workers) {
        GS_TRY(share_sums(l, pass));
        g.m = (float)me->m;
    }
    return ops->batch_norm_backward(l->device, gs_at_number(l->dx, g.at), here, x, p[WEIGHT].w, g.mean, g.var,
                                    pass->training ? g.sums : GS_NONE, g.m, g.images, &me->sizes);
}

static gs_status batch_norm_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    gs_pass all = *pass;
    *dx = l->dx;
    if (pass->training) {
        for (size_t i = 0; i < groups_of(pass); i++)
            GS_TRY(backward_group(l, pass, dy, group_of(l, pass, i)));
        return GS_OK;
    }
    all.group = 0;
    group g = group_of(l, &all, 0);
    g.mean = l->param[RUNNING_MEAN].w;
    g.var = l->param[RUNNING_VAR].w;
    return backward_group(l, &all, dy, g);
}

static const gs_layer_ops batch_norm_ops = {
    .name = "batch_norm",
    .buffers = GS_OWN,
    .storage = GS_ALIKE,
    .extra_reads = 1, /* x */
    .depends_on_batch = true,
    .tensor = GS_TENSOR_CHANNELS,
    .plan = batch_norm_plan,
    .bind = batch_norm_bind,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
    .unbind = batch_norm_unbind,
};

gs_layer *gs_batch_norm(void) {
    return gs_layer_new(&batch_norm_ops, sizeof(batch_norm), 0);
}
