#include "layer/layer.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "layer/make.h"

/* ---- making and freeing ---- */

gs_layer *gs_layer_new(const gs_layer_ops *ops, size_t bytes, int children) {
    gs_layer *l = calloc(1, bytes);
    if (!l) return NULL;
    l->ops = ops;
    if (children == 0) return l;
    l->child = calloc((size_t)children, sizeof(gs_layer *));
    l->children = children;
    if (l->child) return l;
    free(l);
    return NULL;
}

void gs_layer_free(gs_layer *l) {
    if (!l) return;
    for (int i = 0; i < l->children; i++) gs_layer_free(l->child[i]);
    if (l->device) {
        if (l->ops->unbind) l->ops->unbind(l);
        l->device->ops->free(l->device, l->y);
        l->device->ops->free(l->device, l->dx);
    }
    free(l->child);
    free(l);
}

gs_status gs_layer_walk(gs_layer *l, gs_status (*visit)(gs_layer *, void *context), void *context) {
    GS_TRY(visit(l, context));
    for (int i = 0; i < l->children; i++) GS_TRY(gs_layer_walk(l->child[i], visit, context));
    return GS_OK;
}

bool gs_layer_learns(const gs_layer *l) {
    bool learns = l->weight.count > 0 || l->bias.count > 0;
    for (int i = 0; i < l->children; i++) learns = learns || gs_layer_learns(l->child[i]);
    return learns;
}

/* ---- plan ---- */

gs_status gs_layer_refuse(const gs_layer *l, const char *format, ...) {
    char problem[512], what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    l->ops->describe(l, what, sizeof what);
    if (!l->name[0]) return gs_fail(GS_E_SHAPE, "%s: %s", what, problem);
    return gs_fail(GS_E_SHAPE, "layer %s (%s): %s", l->name, what, problem);
}

/* A batch's element is found with int arithmetic within a sample, so a sample is kept below 2^31 numbers. */
static bool too_large(gs_shape s) {
    return (double)s.c * s.h * s.w > INT_MAX;
}

static gs_status plan_one(gs_layer *l, gs_shape in, bool needs_dx) {
    l->in = in;
    l->needs_dx = needs_dx;
    l->flops = 0;
    memset(&l->weight, 0, sizeof l->weight);
    memset(&l->bias, 0, sizeof l->bias);
    GS_TRY(l->ops->plan(l, in));
    if (too_large(l->out))
        return gs_layer_refuse(
            l, "its output would be (%d,%d,%d) for each sample; at most %d numbers are possible", l->out.c,
            l->out.h, l->out.w, INT_MAX);
    return GS_OK;
}

gs_status gs_layer_plan_child(gs_layer *l, int i, const char *label, gs_shape in, bool needs_dx) {
    gs_layer *child = l->child[i];
    int length = snprintf(child->name, sizeof child->name, "%s%s%s", l->name, l->name[0] ? "." : "", label);
    if (length >= (int)sizeof child->name)
        return gs_layer_refuse(
            l,
            "a layer in it would have a name of %d characters; at most %d are possible: nest less "
            "deeply",
            length, (int)sizeof child->name - 1);
    return plan_one(child, in, needs_dx);
}

gs_status gs_layer_parameter(gs_layer *l, gs_param *p, const char *label, int ndim, const int dims[],
                             double fan_in) {
    double count = 1;
    p->ndim = ndim;
    for (int i = 0; i < ndim; i++) count *= p->dims[i] = dims[i];
    if (count > INT_MAX)
        return gs_layer_refuse(l, "its %s would have %.0f elements; at most %d are possible", label, count,
                               INT_MAX);
    p->count = (size_t)count;
    p->fan_in = (int)fan_in;
    snprintf(p->name, sizeof p->name, "%s%s%s", l->name, l->name[0] ? "." : "", label);
    return GS_OK;
}

static gs_status number_one(gs_layer *l, void *context) {
    int *next = context;
    l->number = (*next)++;
    return GS_OK;
}

static gs_status place_parameters(gs_layer *l, void *context) {
    size_t *end = context;
    l->weight.at = *end;
    l->bias.at = l->weight.at + l->weight.count;
    *end = l->bias.at + l->bias.count;
    return GS_OK;
}

gs_status gs_layer_plan(gs_layer *root, gs_shape in, size_t *params) {
    if (in.c < 1 || in.h < 1 || in.w < 1)
        return gs_fail(GS_E_SHAPE, "the input is (%d,%d,%d); each size must be at least 1", in.c, in.h, in.w);
    if (too_large(in))
        return gs_fail(GS_E_SHAPE, "the input is (%d,%d,%d); at most %d numbers are possible for each sample",
                       in.c, in.h, in.w, INT_MAX);
    int next = 0;
    *params = 0;
    root->name[0] = '\0';
    GS_TRY(gs_layer_walk(root, number_one, &next));
    GS_TRY(plan_one(root, in, false));
    return gs_layer_walk(root, place_parameters, params);
}

/* ---- bind ---- */

typedef struct binding {
    gs_device *device;
    gs_mem weights, gradients;
    size_t max_batch;
    bool needs_dx;
} binding;

static gs_status allocate(gs_layer *l, size_t max_batch, gs_shape sample, gs_mem *out) {
    size_t bytes;
    if (__builtin_mul_overflow(max_batch, gs_shape_size(sample) * sizeof(float), &bytes))
        return gs_fail(GS_E_MEMORY, "%zu samples of (%d,%d,%d)", max_batch, sample.c, sample.h, sample.w);
    return l->device->ops->alloc(l->device, bytes, out);
}

static gs_status allocate_buffers(gs_layer *l, size_t max_batch) {
    if (l->ops->buffers != GS_VIEW) {
        if (!l->y_over_x && !l->pool) GS_TRY(allocate(l, max_batch, l->out, &l->y));
        if (l->needs_dx && !l->dx_over_dy) GS_TRY(allocate(l, max_batch, l->in, &l->dx));
    }
    return l->ops->bind ? l->ops->bind(l, max_batch) : GS_OK;
}

static gs_status bind_one(gs_layer *l, void *context) {
    const binding *b = context;
    if (l->device) gs_bug("layer '%s' is bound already", l->name);
    l->device = b->device;
    l->needs_dx = l->needs_dx || b->needs_dx; /* whoever wants the root's dx needs that of every layer */
    if (l->weight.count) {
        l->w = gs_at(b->weights, l->weight.at);
        l->dw = gs_at(b->gradients, l->weight.at);
    }
    if (l->bias.count) {
        l->b = gs_at(b->weights, l->bias.at);
        l->db = gs_at(b->gradients, l->bias.at);
    }
    const char *name = l->name[0] ? l->name : "0"; /* a root has no name */
    return gs_context(allocate_buffers(l, b->max_batch), "layer %s (%s)", name, l->ops->name);
}

gs_status gs_layer_bind(gs_layer *root, gs_device *device, gs_mem weights, gs_mem gradients, size_t max_batch,
                        bool needs_dx) {
    binding b = {device, weights, gradients, max_batch, needs_dx};
    return gs_layer_walk(root, bind_one, &b);
}
