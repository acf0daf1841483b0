/* Lab 14, as given: a layer batch_norm of the student's functions and its device's operators. The library's layer is
 * src/layer/batch_norm.c in the open source. */
#include "tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/cpu.h"
#include "layer/make.h"

typedef struct batch_norm {
    gs_layer base;
    gs_batch_norm_sizes sizes;
    float *moments; /* of each ghost batch: mean and var of each channel */
    double *numbers, all;
} batch_norm;

enum { WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR };

/* A checker calls over its wire instead (remote.c). */
__attribute__((weak)) gs_shard lab_cut(size_t total, int i, int n, size_t together) {
    return gs_schedule_cut(total, i, n, together);
}

/* ---- a layer ---- */

static gs_status plan(gs_layer *l, gs_shape in) {
    batch_norm *me = (batch_norm *)l;
    const int dims[] = {in.c};
    me->sizes = (gs_batch_norm_sizes){.c = in.c, .plane = in.h * in.w, .eps = 1e-5f, .momentum = 0.1f};
    l->out = in;
    l->flops = 7.0 * (double)gs_shape_size(in);
    GS_TRY(gs_layer_parameter_filled(l, "weight", 1, dims, 1));
    GS_TRY(gs_layer_parameter_filled(l, "bias", 1, dims, 0));
    GS_TRY(gs_layer_state(l, "running_mean", 1, dims, 0));
    return gs_layer_state(l, "running_var", 1, dims, 1);
}

static gs_status bind(gs_layer *l, size_t max_batch) {
    batch_norm *me = (batch_norm *)l;
    const size_t c = (size_t)me->sizes.c, groups = max_batch > 0 ? max_batch : 1;
    if (!l->device->ops->host_memory)
        return gs_fail(GS_E_USAGE, "lab 14: the device is %s; wanted cpu, whose memory lab.c can read",
                       l->device->name);
    me->moments = malloc(groups * 2 * c * sizeof *me->moments);
    me->numbers = malloc((1 + 2 * c) * sizeof *me->numbers);
    return me->moments && me->numbers ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for %zu channels", c);
}

static void unbind(gs_layer *l) {
    batch_norm *me = (batch_norm *)l;
    free(me->moments);
    free(me->numbers);
}

static gs_mem mem(float *p) {
    return (gs_mem){.base = p};
}

/* ---- the samples that share statistics ---- */

static gs_status nobody_else(gs_comm *c, const gs_call *call, const void *in, void *out) {
    (void)c, (void)call, (void)in, (void)out;
    return GS_OK;
}

static const gs_transport alone_ops = {.collective = nobody_else};
static gs_comm alone = {.ops = &alone_ops, .size = 1};

/* The workers that share a group's statistics. */
static gs_comm *workers_of(const gs_pass *pass) {
    return pass->sum_over_workers ? ((gs_worker *)pass->sum_context)->groups.comm[GS_DP] : &alone;
}

static size_t groups_of(const gs_pass *pass) {
    return pass->group == 0 || pass->n <= pass->group ? 1 : (pass->n + pass->group - 1) / pass->group;
}

static norm group_of(const gs_layer *l, const gs_pass *pass, size_t i, gs_mem x) {
    const batch_norm *me = (const batch_norm *)l;
    const size_t first = i * pass->group, left = pass->n - first, c = (size_t)me->sizes.c;
    return (norm){.n = pass->group && pass->group < left ? pass->group : left,
                  .channels = c,
                  .plane = (size_t)me->sizes.plane,
                  .x = gs_cpu_floats(x) + first * gs_shape_size(l->in),
                  .weight = gs_cpu_floats(l->param[WEIGHT].w),
                  .mean = me->moments + i * 2 * c,
                  .var = me->moments + i * 2 * c + c,
                  .eps = me->sizes.eps};
}

/* ---- forward ---- */

static gs_status train_group(gs_layer *l, const gs_pass *pass, gs_mem x, size_t i) {
    batch_norm *me = (batch_norm *)l;
    const gs_param *p = l->param;
    const norm b = group_of(l, pass, i, x);
    const gs_mem here = mem((float *)b.x), to = gs_at(l->y, (size_t)(b.x - gs_cpu_floats(x)));
    float *mean = me->moments + i * 2 * b.channels, *var = mean + b.channels;
    if (!pass->recomputing) {
        const double mine = (double)(b.n * b.plane);
        GS_TRY(l->device->ops->batch_norm_statistics(l->device, mem(mean), mem(var), here, b.n, &me->sizes));
        GS_TRY(shared_statistics(workers_of(pass), mine, b.channels, mean, var, &me->all, me->numbers));
        const group g = {b.n, me->all};
        running_part(&g, b.channels, mean, var, gs_cpu_floats(p[RUNNING_MEAN].w),
                     gs_cpu_floats(p[RUNNING_VAR].w), me->sizes.momentum, gs_cpu_floats(p[RUNNING_MEAN].dw),
                     gs_cpu_floats(p[RUNNING_VAR].dw), pass->fresh && i == 0);
    }
    return l->device->ops->batch_norm_forward(l->device, to, here, p[WEIGHT].w, p[BIAS].w, mem(mean),
                                              mem(var), b.n, &me->sizes);
}

static gs_status forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    const batch_norm *me = (const batch_norm *)l;
    const gs_param *p = l->param;
    *y = l->y;
    if (pass->training && pass->sum_over_workers && ((gs_worker *)pass->sum_context)->settings->exact)
        return gs_fail(GS_E_USAGE, "lab 14: --exact does not work with lab.c, which sums over workers");
    if (!pass->training)
        return l->device->ops->batch_norm_forward(l->device, l->y, x, p[WEIGHT].w, p[BIAS].w,
                                                  p[RUNNING_MEAN].w, p[RUNNING_VAR].w, pass->n, &me->sizes);
    for (size_t i = 0; i < groups_of(pass); i++) GS_TRY(train_group(l, pass, x, i));
    return GS_OK;
}

/* ---- backward ---- */

static gs_status backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    batch_norm *me = (batch_norm *)l;
    const gs_param *p = l->param;
    *dx = l->dx;
    if (!pass->training) return gs_fail(GS_E_USAGE, "lab 14: backward is for training");
    if (!l->needs_dx) return gs_layer_refuse(l, "lab 14: wanted a layer with parameters before it");
    if (pass->fresh) {
        memset(gs_cpu_floats(p[WEIGHT].dw), 0, (size_t)me->sizes.c * sizeof(float));
        memset(gs_cpu_floats(p[BIAS].dw), 0, (size_t)me->sizes.c * sizeof(float));
    }
    for (size_t i = 0; i < groups_of(pass); i++) {
        norm b = group_of(l, pass, i, l->x);
        const size_t at = (size_t)(b.x - gs_cpu_floats(l->x));
        b.dy = gs_cpu_floats(dy) + at;
        b.all = pass->sum_over_workers ? me->all : (double)(b.n * b.plane);
        GS_TRY(shared_backward(workers_of(pass), &b, gs_cpu_floats(l->dx) + at, gs_cpu_floats(p[WEIGHT].dw),
                               gs_cpu_floats(p[BIAS].dw), me->numbers));
    }
    return GS_OK;
}

static const gs_layer_ops ops = {.name = "batch_norm",
                                 .buffers = GS_OWN,
                                 .extra_reads = 1,
                                 .depends_on_batch = true,
                                 .plan = plan,
                                 .bind = bind,
                                 .forward = forward,
                                 .backward = backward,
                                 .unbind = unbind};

/* Replaces the library's. */
gs_layer *gs_batch_norm(void) {
    return gs_layer_new(&ops, sizeof(batch_norm), 0);
}
