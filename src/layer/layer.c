#include "layer/layer.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/units.h"
#include "core/text.h"
#include "layer/leaves.h"
#include "layer/make.h"
#include "layer/memory/buffer_plan.h"
#include "layer/watch.h"

/* ---- creating and freeing ---- */

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

gs_layer *gs_layer_with_outputs(const gs_layer_ops *ops, size_t bytes, int outputs) {
    gs_layer *l = gs_layer_new(ops, bytes, 0);
    if (l) l->outputs = outputs;
    return l;
}

void gs_layer_free(gs_layer *l) {
    if (!l) return;
    for (int i = 0; i < l->children; i++) gs_layer_free(l->child[i]);
    if (l->device) {
        if (l->ops->unbind) l->ops->unbind(l);
        l->device->ops->free(l->device, l->epilogue.index);
        if (l->memory.dx_buffer < 0) l->device->ops->free(l->device, l->dx);
        for (int i = 0; l->arena && i < GS_ARENA_CHUNKS; i++)
            l->device->ops->free(l->device, l->arena->chunk[i]);
        for (int i = 0; l->arena && i < GS_WHOLES; i++) l->device->ops->free(l->device, l->arena->whole[i]);
        if (l->arena) l->device->ops->free(l->device, l->arena->sums);
        if (l->arena) l->device->ops->free(l->device, l->arena->leaf_sums);
        if (l->arena) l->device->ops->free(l->device, l->arena->lent_leaves);
        if (l->arena) l->device->ops->free_offloaded(l->device, l->arena->offloaded);
        if (l->arena) free(l->arena->offloaded_floats);
        if (l->arena) gs_lifetimes_free(&l->arena->lifetimes);
        if (l->arena) free(l->arena->offloaded_at);
        free(l->arena);
    }
    free(l->shard);
    free(l->child);
    free(l);
}

gs_status gs_layer_walk(gs_layer *l, gs_status (*visit)(gs_layer *, void *context), void *context) {
    GS_TRY(visit(l, context));
    for (int i = 0; i < l->children; i++) GS_TRY(gs_layer_walk(l->child[i], visit, context));
    return GS_OK;
}

size_t gs_layer_params(const gs_layer *l) {
    size_t count = 0;
    for (int i = 0; i < l->params; i++) count += l->param[i].state ? 0 : l->param[i].count;
    return count;
}

size_t gs_layer_weights(const gs_layer *l) {
    return l->borrowed ? l->borrowed->count : gs_layer_params(l);
}

gs_layer_flops gs_layer_flops_of(const gs_layer *l) {
    gs_layer_flops all = {l->flops, l->flops * (l->needs_dx + (gs_layer_weights(l) > 0))};
    for (int i = 0; i < l->children; i++) {
        const gs_layer_flops child = gs_layer_flops_of(l->child[i]);
        all.forward += child.forward;
        all.backward += child.backward;
    }
    return all;
}

gs_layer *gs_layer_with_std(gs_layer *l, float std) {
    if (l) l->std = std;
    return l;
}

size_t gs_layer_count(const gs_layer *l) {
    size_t count = 1;
    for (int i = 0; i < l->children; i++) count += gs_layer_count(l->child[i]);
    return count;
}

bool gs_layer_learns(const gs_layer *l) {
    bool learns = gs_layer_params(l) > 0;
    for (int i = 0; i < l->children; i++) learns = learns || gs_layer_learns(l->child[i]);
    return learns;
}

bool gs_layer_depends_on_batch(const gs_layer *l) {
    bool found = l->ops->depends_on_batch;
    for (int i = 0; i < l->children; i++) found = found || gs_layer_depends_on_batch(l->child[i]);
    return found;
}

int gs_layer_vocabulary(const gs_layer *l) {
    int found = l->ops->tensor == GS_TENSOR_TABLE ? l->outputs : 0;
    for (int i = 0; i < l->children && found == 0; i++) found = gs_layer_vocabulary(l->child[i]);
    return found;
}

/* ---- plan ---- */

void gs_layer_describe(const gs_layer *l, char *text, size_t size) {
    if (l->ops->describe)
        l->ops->describe(l, text, size);
    else
        snprintf(text, size, "%s", l->ops->name);
    if (l->std != 0) gs_append(text, size, " std %.9g", gs_decimal(l->std));
}

gs_status gs_layer_plan_element_wise(gs_layer *l, gs_shape in) {
    l->out = in;
    l->flops = (double)gs_shape_size(in);
    return GS_OK;
}

gs_status gs_layer_refuse(const gs_layer *l, const char *format, ...) {
    char problem[512], what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    gs_layer_describe(l, what, sizeof what);
    if (!l->name[0]) return gs_fail(GS_E_SHAPE, "%s: %s", what, problem);
    return gs_fail(GS_E_SHAPE, "layer %s (%s): %s", l->name, what, problem);
}

gs_status gs_layer_check_vectors(const gs_layer *l, gs_shape in, const char *wanted) {
    if (in.h == 1 && in.w == 1) return GS_OK;
    return gs_layer_refuse(l, "the input is %s, %s", gs_shape_tuple(in).text, wanted);
}

static gs_status plan_one(gs_layer *l, gs_shape in, bool needs_dx) {
    l->in = in;
    l->needs_dx = needs_dx;
    l->flops = 0;
    memset(l->param, 0, sizeof l->param);
    l->params = 0;
    l->borrowed = NULL;
    l->lent = false;
    if (!(l->std >= 0 && isfinite(l->std)))
        return gs_layer_refuse(l, "the deviation of its initial weights is %g; it must be above 0",
                               (double)l->std);
    l->first = 0;
    l->local_outputs = l->outputs;
    GS_TRY(l->ops->plan(l, in));
    if (!gs_shape_fits(l->out))
        return gs_layer_refuse(l, "its output would be %s for each sample; at most %d numbers are allowed",
                               gs_shape_tuple(l->out).text, GS_SHAPE_MOST);
    return GS_OK;
}

gs_status gs_layer_plan_child(gs_layer *l, int i, const char *label, gs_shape in, bool needs_dx) {
    gs_layer *child = l->child[i];
    int length = snprintf(child->name, sizeof child->name, "%s%s%s", l->name, l->name[0] ? "." : "", label);
    if (length >= (int)sizeof child->name)
        return gs_layer_refuse(
            l,
            "a layer in it would have a name of %d characters; at most %d are allowed: nest less "
            "deeply",
            length, (int)sizeof child->name - 1);
    return plan_one(child, in, needs_dx);
}

/* Set name to "<name of l>.<label>", which must be unique in a weights file. */
static gs_status name_tensor(const gs_layer *l, const char *label, char name[GS_PARAM_NAME]) {
    if (!label || !label[0])
        return gs_layer_refuse(l, "the label of its tensor %d is %s; wanted a word such as weight", l->params,
                               label ? "empty" : "NULL");
    int length = snprintf(name, GS_PARAM_NAME, "%s%s%s", l->name, l->name[0] ? "." : "", label);
    if (length >= GS_PARAM_NAME)
        return gs_layer_refuse(
            l, "one of its tensors would have a name of %d characters; at most %d are allowed: shorten %s",
            length, GS_PARAM_NAME - 1, label);
    for (int i = 0; i < l->params; i++)
        if (strcmp(l->param[i].name, name) == 0)
            return gs_layer_refuse(l, "two of its tensors have the label %s; each needs its own", label);
    return GS_OK;
}

static gs_status check_sizes(const gs_layer *l, const char *label, int ndim, const int dims[],
                             double fan_in) {
    double count = 1;
    if (ndim < 1 || ndim > 4)
        return gs_layer_refuse(l, "its %s has %d dimensions; wanted 1 to 4", label, ndim);
    for (int i = 0; i < ndim; i++) {
        if (dims[i] < 1)
            return gs_layer_refuse(l, "dims[%d] of its %s is %d; it must be at least 1", i, label, dims[i]);
        count *= dims[i];
    }
    if (count > INT_MAX)
        return gs_layer_refuse(l, "its %s would have %.0f elements; at most %d are allowed", label, count,
                               INT_MAX);
    if (!(fan_in >= 0 && fan_in <= INT_MAX))
        return gs_layer_refuse(l, "fan_in of its %s is %g; wanted 0 to %d", label, fan_in, INT_MAX);
    return GS_OK;
}

/* Add the next tensor of the layer; `kind` holds its other properties. */
static gs_status add_tensor(gs_layer *l, const char *label, int ndim, const int dims[], double fan_in,
                            gs_param kind) {
    gs_param p = kind;
    GS_TRY(name_tensor(l, label, p.name));
    if (l->params == GS_LAYER_PARAMS)
        gs_bug("%s: more than %d parameters: %s", l->ops->name, GS_LAYER_PARAMS, label);
    GS_TRY(check_sizes(l, label, ndim, dims, fan_in));
    p.ndim = ndim;
    p.count = 1;
    for (int i = 0; i < ndim; i++) p.count *= (size_t)(p.dims[i] = dims[i]);
    p.fan_in = (int)fan_in;
    l->param[l->params++] = p;
    return GS_OK;
}

gs_status gs_layer_parameter(gs_layer *l, const char *label, int ndim, const int dims[], double fan_in) {
    if (l->std == 0) return add_tensor(l, label, ndim, dims, fan_in, (gs_param){0});
    return add_tensor(l, label, ndim, dims, 0, (gs_param){.std = ndim > 1 ? l->std : 0});
}

gs_status gs_layer_parameter_filled(gs_layer *l, const char *label, int ndim, const int dims[],
                                    float initial) {
    return add_tensor(l, label, ndim, dims, 0, (gs_param){.initial = initial});
}

gs_status gs_layer_state(gs_layer *l, const char *label, int ndim, const int dims[], float initial) {
    return add_tensor(l, label, ndim, dims, 0, (gs_param){.state = true, .initial = initial});
}

/* The root comes first. */
static gs_status number_one(gs_layer *l, void *context) {
    gs_layer **last = context;
    l->root = *last ? (*last)->root : l;
    l->number = *last ? (*last)->number + 1 : 0;
    *last = l;
    return GS_OK;
}

/* Where the next tensor starts in the flat array: first come all parameters, then all state. */
typedef struct placing {
    bool state;
    size_t end;
} placing;

static gs_status place(gs_layer *l, void *context) {
    placing *p = context;
    if (!p->state) l->at = p->end;
    for (int i = 0; i < l->params; i++) {
        if (l->param[i].state != p->state) continue;
        l->param[i].at = p->end;
        p->end += l->param[i].count;
    }
    return GS_OK;
}

size_t gs_layer_states(const gs_layer *l) {
    size_t count = 0;
    for (int i = 0; i < l->params; i++) count += l->param[i].state ? l->param[i].count : 0;
    for (int i = 0; i < l->children; i++) count += gs_layer_states(l->child[i]);
    return count;
}

gs_status gs_layer_plan(gs_layer *root, gs_shape in, size_t *params) {
    if (!gs_shape_is_positive(in))
        return gs_fail(GS_E_SHAPE, "the input is %s; each size must be at least 1", gs_shape_tuple(in).text);
    if (!gs_shape_fits(in))
        return gs_fail(GS_E_SHAPE, "the input is %s; at most %d numbers are allowed for each sample",
                       gs_shape_tuple(in).text, GS_SHAPE_MOST);
    gs_layer *last = NULL;
    placing p = {false, 0};
    root->name[0] = '\0';
    GS_TRY(gs_layer_walk(root, number_one, &last));
    GS_TRY(plan_one(root, in, false));
    GS_TRY(gs_layer_walk(root, place, &p));
    *params = p.end;
    p.state = true;
    return gs_layer_walk(root, place, &p);
}

/* ---- running: a layer's forward and backward, inside the net's watchers ---- */

/* Does backward write sums over samples? A layer that depends on the batch calls gs_layer_leaf_by_leaf itself. */
static bool needs_leaves(const gs_layer *l) {
    const gs_device *d = l->device;
    const bool by_operator = l->ops->sums_leaves && d->ops->sums_leaves && d->precision == GS_PRECISION_F32;
    return (l->params > 0 || l->borrowed) && !l->ops->depends_on_batch && !by_operator;
}

/* Does forward? */
static bool sums_state(const gs_layer *l, const gs_pass *pass) {
    bool state = false;
    for (int i = 0; i < l->params; i++) state = state || l->param[i].state;
    return state && pass->training && !pass->recomputing && !l->ops->depends_on_batch;
}

static gs_status run(gs_layer *l, gs_direction direction, const gs_pass *pass, gs_mem in, gs_mem *out,
                     const gs_layer_watcher *w) {
    if (w) {
        if (w->before) GS_TRY(w->before(w->context, l, direction, pass, in));
        GS_TRY(run(l, direction, pass, in, out, w->next));
        return w->after ? w->after(w->context, l, direction, pass, *out) : GS_OK;
    }
    *out = direction == GS_FORWARD ? gs_layer_y(l, in) : gs_layer_dx(l, in);
    if (direction == GS_BACKWARD && needs_leaves(l))
        return gs_layer_leaf_by_leaf(l, pass, GS_LEAF_GRADIENTS, in, out, l->ops->backward);
    if (direction == GS_BACKWARD) return l->ops->backward(l, pass, in, out);
    l->x = in;
    if (sums_state(l, pass)) return gs_layer_leaf_by_leaf(l, pass, GS_LEAF_STATE, in, out, l->ops->forward);
    return l->ops->forward(l, pass, in, out);
}

gs_status gs_layer_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return run(l, GS_FORWARD, pass, x, y, l->root->watchers);
}

gs_status gs_layer_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    return run(l, GS_BACKWARD, pass, dy, dx, l->root->watchers);
}

void gs_layer_add_hooks(gs_layer *root, gs_layer_hooks *last) {
    gs_layer_hooks **end = &root->hooks;
    while (*end) end = &(*end)->next;
    *end = last;
}
