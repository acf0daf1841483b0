/* Binding a model: its layers get buffers, and pointers into the flat arrays. */
#include <stdlib.h>

#include "layer/memory/offload.h"
#include "layer/memory/half_storage.h"
#include "layer/make.h"
#include "layer/memory/recompute.h"

typedef struct binding {
    gs_device *device;
    gs_mem weights, gradients;
    size_t max_batch;
    bool needs_dx;
} binding;

gs_shape gs_layer_y_shape(const gs_layer *l) {
    const gs_pool2d_sizes *pool = l->epilogue.pool;
    return pool ? (gs_shape){pool->c, pool->out_h, pool->out_w, l->out.t} : l->out;
}

gs_status gs_layer_alloc(gs_layer *l, size_t max_batch, gs_shape sample, gs_mem *out) {
    size_t bytes;
    if (__builtin_mul_overflow(max_batch, gs_shape_size(sample) * sizeof(float), &bytes))
        return gs_fail(GS_E_MEMORY, "%zu samples of %s", max_batch, gs_shape_tuple(sample).text);
    l->bytes += bytes;
    return gs_alloc(l->device, GS_MEMORY_ACTIVATIONS, bytes, out);
}

/* Allocate everything except y and dx. */
static gs_status allocate_buffers(gs_layer *l, size_t max_batch) {
    if (l->epilogue.pool) GS_TRY(gs_layer_alloc(l, max_batch, gs_layer_y_shape(l), &l->epilogue.index));
    return l->ops->bind ? l->ops->bind(l, max_batch) : GS_OK;
}

static gs_status bind_one(gs_layer *l, void *context) {
    const binding *b = context;
    if (l->device) gs_bug("layer '%s' is already bound", l->name);
    l->memory.y_buffer = l->memory.dx_buffer = GS_NO_BUFFER;
    if (l->fused) return GS_OK;
    l->needs_dx = l->needs_dx || b->needs_dx; /* the root's dx needs the dx of every layer */
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        p->w = gs_at(b->weights, p->at);
        p->dw = gs_at(b->gradients, p->at);
    }
    if (l->other_stage) return GS_OK;
    l->device = b->device;
    const char *name = l->name[0] ? l->name : "0"; /* a root has no name */
    return gs_context(allocate_buffers(l, b->max_batch), "layer %s (%s)", name, l->ops->name);
}

/* ---- y and dx: their lifetimes, then their offsets ---- */

static gs_status take_y(gs_layer *l, void *context) {
    gs_buffer_plan *plan = context;
    const size_t most =
        SIZE_MAX / (2 * sizeof(float) * gs_layer_count(l->root)); /* so that sums cannot overflow */
    const gs_shape sample = gs_layer_y_shape(l);
    if (l->fused || l->other_stage || l->ops->buffers == GS_VIEW || l->y_over_x) return GS_OK;
    if (plan->max_batch > most / gs_shape_size(sample))
        return gs_fail(GS_E_MEMORY, "%zu samples of %s", plan->max_batch, gs_shape_tuple(sample).text);
    if (gs_buffer_plan_y(plan, l) >= 0) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory for a list of buffers");
}

static bool stays_offloaded(const gs_arena *a, int buffer) {
    return !a->copies && gs_arena_is_offloaded(a, buffer);
}

/* Find places in the arena for all buffers that are not offloaded. *end: floats up to the end of the last one. */
static gs_status place_in_arena(const gs_arena *a, gs_lifetimes *lifetimes, size_t *end) {
    gs_lifetimes here = {0};
    size_t next = 0;
    GS_TRY(GS_NEW(here.life, lifetimes->count, "a list of %zu buffers", lifetimes->count));
    for (size_t i = 0; i < lifetimes->count; i++)
        if (!stays_offloaded(a, (int)i)) here.life[here.count++] = lifetimes->life[i];
    const gs_status status = gs_lifetimes_place(&here, a->most, end);
    for (size_t i = 0; i < lifetimes->count; i++)
        if (!stays_offloaded(a, (int)i)) lifetimes->life[i].at = here.life[next++].at;
    gs_lifetimes_free(&here);
    return status;
}

/* Allocate chunks as large as the device allows; usually one is enough. */
static gs_status allocate_arena(gs_layer *root, gs_lifetimes *lifetimes, size_t before) {
    size_t end = 0;
    gs_arena *a = root->arena;
    a->most = (root->device->max_alloc ? root->device->max_alloc : SIZE_MAX) / sizeof(float);
    GS_TRY(place_in_arena(a, lifetimes, &end));
    for (size_t i = 0, done = 0; done < end; i++) {
        const size_t floats = gs_smaller(a->most, end - done);
        if (i == GS_ARENA_CHUNKS)
            return gs_fail(GS_E_MEMORY, "%zu bytes: %s allows %zu at once", end * sizeof(float),
                           root->device->name, root->device->max_alloc);
        GS_TRY(gs_context(gs_alloc(root->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), &a->chunk[i]),
                          "activations"));
        done += floats;
    }
    root->bytes += (end - gs_smaller(before, end)) * sizeof(float);
    return GS_OK;
}

/* Each y gets whole pages of a file, shared with no other y: disk space is cheap. The y that backward computes again
 * stay in the arena, because they need no memory in between. */
static void choose_whole_pages(gs_arena *a, const gs_lifetimes *lifetimes, size_t count) {
    enum { PAGE = 4096 / sizeof(float) };
    for (size_t i = 0; i < count; i++)
        if (!gs_lifetime_has_gap(&lifetimes->life[i]))
            a->offloaded_floats[i] = (lifetimes->life[i].floats + PAGE - 1) / PAGE * PAGE;
}

static gs_status allocate_offloaded(gs_layer *root, gs_lifetimes *lifetimes, size_t count) {
    gs_arena *a = root->arena;
    size_t end = 0;
    void *memory;
    a->copies = !root->device->ops->host_memory;
    GS_TRY(GS_NEW(a->offloaded_floats, count, "a list of %zu buffers", count));
    GS_TRY(GS_NEW(a->offloaded_at, count, "a list of %zu buffers", count));
    if (a->copies)
        gs_offload_plan(root, lifetimes);
    else
        choose_whole_pages(a, lifetimes, count);
    for (size_t i = 0; i < count; i++) {
        a->offloaded_at[i] = end;
        end += a->offloaded_floats[i];
    }
    if (end == 0) return GS_OK; /* with few layers, everything stays in memory */
    GS_TRY(gs_alloc_offloaded(root->device, GS_MEMORY_ACTIVATIONS, end * sizeof(float), &memory));
    a->offloaded = memory;
    a->offloaded_count = (int)count;
    return GS_OK;
}

/* The planned buffers and the arena, for bind_y_and_dx. */
typedef struct placing {
    const gs_lifetimes *lifetimes;
    const gs_arena *arena;
    gs_device *device;
    size_t max_batch;
} placing;

static gs_mem place_of(const placing *p, int buffer, bool half) {
    const size_t at = p->lifetimes->life[buffer].at;
    if (stays_offloaded(p->arena, buffer))
        return gs_at(p->device->ops->host_memory(p->arena->offloaded), p->arena->offloaded_at[buffer]);
    gs_mem m = gs_at(p->arena->chunk[at / p->arena->most], at % p->arena->most);
    m.half = half;
    return m;
}

static gs_status bind_y_and_dx(gs_layer *l, void *context) {
    const placing *p = context;
    if (l->fused || l->other_stage) return GS_OK;
    if (l->memory.y_buffer >= 0) l->y = place_of(p, l->memory.y_buffer, l->memory.y_half);
    if (l->memory.y_buffer >= 0 && !gs_lifetime_has_gap(&p->lifetimes->life[l->memory.y_buffer]))
        l->bytes += p->lifetimes->life[l->memory.y_buffer].floats * sizeof(float);
    l->epilogue.y = l->y; /* read if there is an epilogue */
    if (l->memory.dx_buffer >= 0)
        l->dx = place_of(p, l->memory.dx_buffer, l->memory.x_half);
    else if (l->ops->buffers != GS_VIEW && l->needs_dx && !l->dx_over_dy)
        GS_TRY(gs_layer_alloc(l, p->max_batch, l->in, &l->dx));
    return GS_OK;
}

static gs_status bind_activations(gs_layer *root, gs_buffer_plan *plan) {
    size_t y = 0;
    GS_TRY(GS_NEW(root->arena, 1, "an arena"));
    GS_TRY(gs_half_storage_plan(root));
    GS_TRY(gs_layer_walk(root, take_y, plan));
    GS_TRY(gs_recompute_plan(root, &plan->lifetimes));
    const size_t offloaded = root->device->offload & GS_OFFLOAD_ACTIVATIONS ? plan->lifetimes.count : 0;
    if (offloaded) GS_TRY(allocate_offloaded(root, &plan->lifetimes, offloaded));
    for (size_t i = 0; i < plan->lifetimes.count; i++)
        if (!stays_offloaded(root->arena, (int)i) && !gs_lifetime_has_gap(&plan->lifetimes.life[i]))
            y += plan->lifetimes.life[i].floats;
    gs_buffer_plan_backward(root, plan, GS_NO_BUFFER);
    GS_TRY(allocate_arena(root, &plan->lifetimes, y));
    placing p = {&plan->lifetimes, root->arena, root->device, plan->max_batch};
    return gs_layer_walk(root, bind_y_and_dx, &p);
}

gs_status gs_layer_bind(gs_layer *root, gs_device *device, gs_mem weights, gs_mem gradients, size_t max_batch,
                        bool needs_dx) {
    binding b = {device, weights, gradients, max_batch, needs_dx};
    GS_TRY(gs_layer_walk(root, bind_one, &b));
    gs_buffer_plan plan = {.max_batch = max_batch};
    const gs_status status = bind_activations(root, &plan);
    if (status == GS_OK)
        root->arena->lifetimes = plan.lifetimes;
    else
        gs_lifetimes_free(&plan.lifetimes);
    return status;
}
