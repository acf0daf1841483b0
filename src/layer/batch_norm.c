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
 * all gradients, they are summed later. With --exact each leaf of the pass (leaves.h) has its own sums, and its own
 * groups. If a channel has one element, u is 0 and the running variance is unchanged. */
#include <math.h>
#include <stdlib.h>
#include "layer/leaves.h"
#include "layer/make.h"

typedef struct batch_norm {
    gs_layer base;
    gs_batch_norm_sizes sizes;
    gs_mem moments; /* for each group: mean (c), var (c) */
    gs_mem sums;    /* for each group: sum dy (c), sum dy u (c) */
    double m;       /* elements in a channel, over all workers if they share statistics */
    double *shared; /* 1 + 2 c for each of GS_LEAVES leaves, on the host */
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
    GS_TRY(GS_NEW(me->shared, GS_LEAVES * (1 + 2 * c), "sums of %zu channels", c));
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
    gs_mem mean, var, sums; /* its statistics: its own, those of all workers, or the running ones */
    bool first;             /* the first of this pass or leaf */
    float m;                /* elements in a channel */
} group;

/* The number of groups in a pass or leaf; one if it has no samples. */
static size_t groups_of(const gs_pass *pass) {
    size_t each = pass->training ? pass->group : 0;
    return each == 0 || pass->n <= each ? 1 : (pass->n + each - 1) / each;
}

static bool is_shared(const gs_pass *pass) {
    return pass->training && pass->sum_over_workers;
}

/* A group's own statistics are at the index of one of its samples; those of all workers are at index 0. */
static group group_of(const gs_layer *l, const gs_pass *pass, size_t i) {
    const batch_norm *me = (const batch_norm *)l;
    const size_t c = (size_t)me->sizes.c, each = pass->training ? pass->group : 0, left = pass->n - i * each,
                 n = each && each < left ? each : left, images = n * (size_t)gs_shape_tokens(l->in);
    const size_t own = (pass->from + i) * 2 * c;
    const gs_mem moments = gs_at(me->moments, is_shared(pass) ? 0 : own);
    return (group){.n = n,
                   .images = images,
                   .at = i * each * gs_shape_size(l->in),
                   .mean = pass->training ? moments : l->param[RUNNING_MEAN].w,
                   .var = pass->training ? gs_at(moments, c) : l->param[RUNNING_VAR].w,
                   .sums = gs_at(me->sums, own),
                   .first = i == 0,
                   .m = (float)(is_shared(pass) ? me->m : (double)images * me->sizes.plane)};
}

/* ---- sums over all leaves and workers ---- */

/* In a leaf: its mean and var, where shared ones will be read later. */
static gs_status own_statistics(gs_layer *l, const gs_pass *leaf, gs_mem x, gs_mem *y) {
    const batch_norm *me = (const batch_norm *)l;
    const size_t c = (size_t)me->sizes.c, images = leaf->n * (size_t)gs_shape_tokens(l->in);
    const gs_mem moments = gs_at(me->moments, leaf->from * 2 * c);
    (void)y;
    return l->device->ops->batch_norm_statistics(l->device, moments, gs_at(moments, c), x, images,
                                                 &me->sizes);
}

/* Replace the means and vars of this worker's leaves by those of all samples. With m elements in all and S the sum over
 * leaves and workers, mean = S(x) / m and var = S(x^2) / m - mean^2. */
static gs_status share_statistics(gs_layer *l, const gs_pass *pass) {
    batch_norm *me = (batch_norm *)l;
    gs_device *d = l->device;
    const size_t c = (size_t)me->sizes.c, count = 1 + 2 * c;
    double *x = me->shared + 1, *x2 = x + c;
    for (int i = 0; i < gs_leaf_count(pass); i++) {
        const gs_pass leaf = gs_leaf_of(pass, i);
        double *mine = me->shared + (size_t)i * count;
        memset(mine, 0, count * sizeof *mine);
        if (leaf.n == 0) continue;
        GS_TRY(d->ops->read(d, me->host, gs_at(me->moments, leaf.from * 2 * c), 2 * c * sizeof *me->host));
        mine[0] = (double)(leaf.n * (size_t)gs_shape_tokens(l->in)) * me->sizes.plane;
        for (size_t k = 0; k < c; k++) {
            const double mean = (double)me->host[k], var = (double)me->host[c + k];
            mine[1 + k] = mine[0] * mean;
            mine[1 + c + k] = mine[0] * (var + mean * mean);
        }
    }
    GS_TRY(pass->sum_over_workers(pass->sum_context, me->shared, count));
    me->m = me->shared[0];
    for (size_t k = 0; k < c; k++) {
        const double mean = x[k] / me->m;
        me->host[k] = (float)mean;
        me->host[c + k] = (float)fmax(x2[k] / me->m - mean * mean, 0);
    }
    return d->ops->write(d, me->moments, me->host, 2 * c * sizeof *me->host);
}

/* Replace sum dy and sum dy u of this worker's leaves by the sums over all samples. */
static gs_status share_sums(gs_layer *l, const gs_pass *pass) {
    batch_norm *me = (batch_norm *)l;
    gs_device *d = l->device;
    const size_t count = 2 * (size_t)me->sizes.c;
    for (int i = 0; i < gs_leaf_count(pass); i++) {
        const gs_pass leaf = gs_leaf_of(pass, i);
        memset(me->host, 0, count * sizeof *me->host);
        if (leaf.n > 0)
            GS_TRY(d->ops->read(d, me->host, gs_at(me->sums, leaf.from * count), count * sizeof *me->host));
        for (size_t k = 0; k < count; k++) me->shared[(size_t)i * count + k] = (double)me->host[k];
    }
    GS_TRY(pass->sum_over_workers(pass->sum_context, me->shared, count));
    for (size_t k = 0; k < count; k++) me->host[k] = (float)me->shared[k];
    return d->ops->write(d, me->sums, me->host, count * sizeof *me->host);
}

/* ---- forward ---- */

/* In a pass or leaf: compute the groups' statistics, unless they are shared; the new running statistics; and y. */
static gs_status train(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_backend *ops = l->device->ops;
    const gs_param *p = l->param;
    for (size_t i = 0; i < groups_of(pass); i++) {
        const group g = group_of(l, pass, i);
        const gs_mem here = gs_at_number(x, g.at);
        if (!pass->recomputing) { /* when recomputing, the first forward's statistics remain */
            if (!is_shared(pass))
                GS_TRY(ops->batch_norm_statistics(l->device, g.mean, g.var, here, g.images, &me->sizes));
            GS_TRY(ops->batch_norm_running(l->device, p[RUNNING_MEAN].dw, p[RUNNING_VAR].dw,
                                           p[RUNNING_MEAN].w, p[RUNNING_VAR].w, g.mean, g.var, g.m,
                                           (float)g.n, &me->sizes, !pass->fresh || !g.first));
        }
        GS_TRY(ops->batch_norm_forward(l->device, gs_at_number(*y, g.at), here, p[WEIGHT].w, p[BIAS].w,
                                       g.mean, g.var, g.images, &me->sizes));
    }
    return GS_OK;
}

static gs_status batch_norm_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_param *p = l->param;
    if (!pass->training)
        return l->device->ops->batch_norm_forward(l->device, *y, x, p[WEIGHT].w, p[BIAS].w, p[RUNNING_MEAN].w,
                                                  p[RUNNING_VAR].w, gs_layer_tokens(l, pass), &me->sizes);
    if (is_shared(pass) && !pass->recomputing) {
        GS_TRY(gs_layer_leaf_by_leaf(l, pass, GS_LEAF_NO_SUMS, x, y, own_statistics));
        GS_TRY(share_statistics(l, pass));
    }
    return gs_layer_leaf_by_leaf(l, pass, pass->recomputing ? GS_LEAF_NO_SUMS : GS_LEAF_STATE, x, y, train);
}

/* ---- backward ---- */

/* y = w u + b, where mean and var also depend on x; dx: batch_norm_backward in backend.h. */
static gs_status find_dx(const gs_layer *l, const gs_pass *pass, gs_mem dy, const group *g, gs_mem dx) {
    const batch_norm *me = (const batch_norm *)l;
    return l->device->ops->batch_norm_backward(l->device, gs_at_number(dx, g->at), gs_at_number(dy, g->at),
                                               gs_at_number(l->x, g->at), l->param[WEIGHT].w, g->mean, g->var,
                                               pass->training ? g->sums : (gs_mem)GS_NONE, g->m, g->images,
                                               &me->sizes);
}

/* In a pass or leaf: dw, db and, unless statistics are shared, dx. */
static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    const batch_norm *me = (const batch_norm *)l;
    for (size_t i = 0; i < groups_of(pass); i++) {
        const group g = group_of(l, pass, i);
        GS_TRY(l->device->ops->batch_norm_sums(l->device, g.sums, l->param[WEIGHT].dw, l->param[BIAS].dw,
                                               gs_at_number(dy, g.at), gs_at_number(l->x, g.at), g.mean,
                                               g.var, g.images, &me->sizes, !pass->fresh || !g.first));
        if (l->needs_dx && !is_shared(pass)) GS_TRY(find_dx(l, pass, dy, &g, *dx));
    }
    return GS_OK;
}

static gs_status batch_norm_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    GS_TRY(gs_layer_leaf_by_leaf(l, pass, GS_LEAF_GRADIENTS, dy, dx, backward));
    if (!l->needs_dx || !is_shared(pass)) return GS_OK;
    GS_TRY(share_sums(l, pass));
    const group all = group_of(l, pass, 0);
    return find_dx(l, pass, dy, &all, *dx);
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
