/* Binding a model: pointers into the flat arrays, and the buffers of its layers. */
#include <stdlib.h>

#include "core/shard.h"
#include "layer/memory/away.h"
#include "layer/memory/dx_places.h"
#include "layer/memory/halves.h"
#include "layer/make.h"
#include "layer/memory/recompute.h"
#include "parallel/tensor.h"

typedef struct binding {
    gs_device *device;
    gs_mem weights, gradients;
    size_t max_batch;
    bool needs_dx;
} binding;

gs_shape gs_layer_y_shape(const gs_layer *l) {
    const gs_pool2d_sizes *pool = l->then.pool;
    return pool ? (gs_shape){pool->c, pool->out_h, pool->out_w, l->out.t} : l->out;
}

gs_status gs_layer_alloc(gs_layer *l, size_t max_batch, gs_shape sample, gs_mem *out) {
    size_t bytes;
    if (__builtin_mul_overflow(max_batch, gs_shape_size(sample) * sizeof(float), &bytes))
        return gs_fail(GS_E_MEMORY, "%zu samples of %s", max_batch, gs_shape_tuple(sample).text);
    l->bytes += bytes;
    return gs_alloc(l->device, GS_MEMORY_ACTIVATIONS, bytes, out);
}

/* All but y and dx. */
static gs_status allocate_buffers(gs_layer *l, size_t max_batch) {
    if (l->then.pool) GS_TRY(gs_layer_alloc(l, max_batch, gs_layer_y_shape(l), &l->then.index));
    return l->ops->bind ? l->ops->bind(l, max_batch) : GS_OK;
}

static gs_status bind_one(gs_layer *l, void *context) {
    const binding *b = context;
    if (l->device) gs_bug("layer '%s' is already bound", l->name);
    l->memory.y_place = l->memory.dx_place = GS_DX_NONE;
    if (l->joined) return GS_OK;
    l->needs_dx = l->needs_dx || b->needs_dx; /* whoever wants the root's dx needs that of every layer */
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        p->w = gs_at(b->weights, p->at);
        p->dw = gs_at(b->gradients, p->at);
    }
    if (l->elsewhere) return GS_OK;
    l->device = b->device;
    const char *name = l->name[0] ? l->name : "0"; /* a root has no name */
    return gs_context(allocate_buffers(l, b->max_batch), "layer %s (%s)", name, l->ops->name);
}

/* ---- y and dx: their lives, then their places ---- */

static gs_status take_y(gs_layer *l, void *context) {
    gs_dx_places *places = context;
    const size_t most =
        SIZE_MAX / (2 * sizeof(float) * gs_layer_count(l->root)); /* so that no sum overflows */
    const gs_shape sample = gs_layer_y_shape(l);
    if (l->joined || l->elsewhere || l->ops->buffers == GS_VIEW || l->y_over_x) return GS_OK;
    if (places->max_batch > most / gs_shape_size(sample))
        return gs_fail(GS_E_MEMORY, "%zu samples of %s", places->max_batch, gs_shape_tuple(sample).text);
    if (gs_y_take(places, l) >= 0) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory for a list of buffers");
}

static bool works_away(const gs_arena *a, int place) {
    return !a->copies && gs_arena_is_away(a, place);
}

/* Places in the arena, for all that do not lie away. *end: floats up to the end of the last one. */
static gs_status place_here(const gs_arena *a, gs_lives *lives, size_t *end) {
    gs_lives here = {.life = calloc(lives->count + 1, sizeof *here.life)};
    size_t next = 0;
    if (!here.life) return gs_fail(GS_E_MEMORY, "no memory for a list of %zu buffers", lives->count);
    for (size_t i = 0; i < lives->count; i++)
        if (!works_away(a, (int)i)) here.life[here.count++] = lives->life[i];
    const gs_status status = gs_lives_place(&here, a->most, end);
    for (size_t i = 0; i < lives->count; i++)
        if (!works_away(a, (int)i)) lives->life[i].at = here.life[next++].at;
    gs_lives_free(&here);
    return status;
}

/* Pieces as large as the device allows: mostly one. */
static gs_status allocate_arena(gs_layer *root, gs_lives *lives, size_t before) {
    size_t end = 0;
    gs_arena *a = root->arena;
    a->most = (root->device->most_at_once ? root->device->most_at_once : SIZE_MAX) / sizeof(float);
    GS_TRY(place_here(a, lives, &end));
    for (size_t i = 0, done = 0; done < end; i++) {
        const size_t floats = gs_smaller(a->most, end - done);
        if (i == GS_ARENA_PIECES)
            return gs_fail(GS_E_MEMORY, "%zu bytes: %s allows %zu at once", end * sizeof(float),
                           root->device->name, root->device->most_at_once);
        GS_TRY(gs_context(gs_alloc(root->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), &a->piece[i]),
                          "activations"));
        done += floats;
    }
    root->bytes += (end - gs_smaller(before, end)) * sizeof(float);
    return GS_OK;
}

/* Each y has whole pages of a file, and a place of its own: a disk is large. Those that backward makes again stay in
 * the arena: nobody needs them in between. */
static void choose_whole_pages(gs_arena *a, const gs_lives *lives, size_t count) {
    enum { PAGE = 4096 / sizeof(float) };
    for (size_t i = 0; i < count; i++)
        if (!gs_life_has_gap(&lives->life[i]))
            a->away_floats[i] = (lives->life[i].floats + PAGE - 1) / PAGE * PAGE;
}

static gs_status allocate_away(gs_layer *root, gs_lives *lives, size_t count) {
    gs_arena *a = root->arena;
    size_t end = 0;
    void *memory;
    a->copies = !root->device->ops->host_memory;
    a->away_floats = calloc(count + 1, sizeof *a->away_floats);
    a->away_at = calloc(count + 1, sizeof *a->away_at);
    if (!a->away_floats || !a->away_at)
        return gs_fail(GS_E_MEMORY, "no memory for a list of %zu buffers", count);
    if (a->copies)
        gs_away_plan(root, lives);
    else
        choose_whole_pages(a, lives, count);
    for (size_t i = 0; i < count; i++) {
        a->away_at[i] = end;
        end += a->away_floats[i];
    }
    if (end == 0) return GS_OK; /* all of a few layers stays */
    GS_TRY(gs_alloc_away(root->device, GS_MEMORY_ACTIVATIONS, end * sizeof(float), &memory));
    a->away = memory;
    a->away_count = (int)count;
    return GS_OK;
}

/* What gs_dx_place has decided. */
typedef struct placing {
    const gs_lives *lives;
    const gs_arena *arena;
    gs_device *device;
    size_t max_batch;
} placing;

static gs_mem place_of(const placing *p, int place, bool half) {
    const size_t at = p->lives->life[place].at;
    if (works_away(p->arena, place))
        return gs_at(p->device->ops->host_memory(p->arena->away), p->arena->away_at[place]);
    gs_mem m = gs_at(p->arena->piece[at / p->arena->most], at % p->arena->most);
    m.half = half;
    return m;
}

static gs_status bind_y_and_dx(gs_layer *l, void *context) {
    const placing *p = context;
    if (l->joined || l->elsewhere) return GS_OK;
    if (l->memory.y_place >= 0) l->y = place_of(p, l->memory.y_place, l->memory.y_half);
    if (l->memory.y_place >= 0 && !gs_life_has_gap(&p->lives->life[l->memory.y_place]))
        l->bytes += p->lives->life[l->memory.y_place].floats * sizeof(float);
    l->then.y = l->y; /* read where there is an epilogue */
    if (l->memory.dx_place >= 0)
        l->dx = place_of(p, l->memory.dx_place, l->memory.x_half);
    else if (l->ops->buffers != GS_VIEW && l->needs_dx && !l->dx_over_dy)
        GS_TRY(gs_layer_alloc(l, p->max_batch, l->in, &l->dx));
    return GS_OK;
}

static gs_status bind_activations(gs_layer *root, gs_dx_places *places) {
    size_t y = 0;
    root->arena = calloc(1, sizeof *root->arena);
    if (!root->arena) return gs_fail(GS_E_MEMORY, "no memory for an arena");
    GS_TRY(gs_halves_plan(root));
    GS_TRY(gs_layer_walk(root, take_y, places));
    GS_TRY(gs_recompute_plan(root, &places->lives));
    const size_t away = root->device->offload & GS_OFFLOAD_ACTIVATIONS ? places->lives.count : 0;
    if (away) GS_TRY(allocate_away(root, &places->lives, away));
    for (size_t i = 0; i < places->lives.count; i++)
        if (!works_away(root->arena, (int)i) && !gs_life_has_gap(&places->lives.life[i]))
            y += places->lives.life[i].floats;
    gs_dx_place(root, places, GS_DX_NONE);
    GS_TRY(allocate_arena(root, &places->lives, y));
    placing p = {&places->lives, root->arena, root->device, places->max_batch};
    GS_TRY(gs_layer_walk(root, bind_y_and_dx, &p));
    return gs_tensor_bind(root, places->max_batch);
}

gs_status gs_layer_bind(gs_layer *root, gs_device *device, gs_mem weights, gs_mem gradients, size_t max_batch,
                        bool needs_dx) {
    binding b = {device, weights, gradients, max_batch, needs_dx};
    GS_TRY(gs_layer_walk(root, bind_one, &b));
    gs_dx_places places = {.max_batch = max_batch};
    const gs_status status = bind_activations(root, &places);
    if (status == GS_OK)
        root->arena->lives = places.lives;
    else
        gs_lives_free(&places.lives);
    return status;
}
