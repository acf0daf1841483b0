#include "layer/memory/kept.h"

#include <string.h>
#include "layer/make.h"
#include "layer/memory/dx_places.h"
#include "layer/memory/recompute.h"

static bool is_view(const gs_layer *l) {
    return l->children == 0 && l->ops->buffers == GS_VIEW;
}

static bool is_relu(const gs_layer *l) {
    return l->ops->join && strcmp(l->ops->name, "relu") == 0;
}

/* ---- who makes it ---- */

/* The layer that makes x of child i, in a buffer: views have none, and a layer that joined another is not called. Below
 * 0: there is none in this sequence. */
static int maker_of(const gs_layer *sequence, int i) {
    for (i--; i >= 0; i--) {
        const gs_layer *l = sequence->child[i];
        if (l->elsewhere) return -1;
        if (!l->joined && !is_view(l)) return i;
    }
    return -1;
}

static bool reads_y(const gs_layer *l) {
    return gs_y_is_read(l) && !l->ops->leaves_y;
}

/* The y of a relu, of which the signs are enough. */
static bool gives_signs(gs_layer *l) {
    const gs_epilogue *then = gs_layer_epilogue(l);
    return is_relu(l) || (then && then->relu);
}

/* The layer in whose buffer the y of l lies, which is child i of `sequence` where it lies over the y before it. NULL:
 * another one before l reads it in backward, or nobody can say where it lies. */
static gs_layer *buffer_of(gs_layer *l, const gs_layer *sequence, int i) {
    gs_layer *under = l;
    if (gs_layer_is_sequence(l)) {
        i = maker_of(l, l->children);
        under = i < 0 ? NULL : l->child[i];
        sequence = l;
    } else if (gs_layer_is_residual(l) && l->y_over_x) {
        under = l->child[0];
    } else if (l->children == 0 && l->y_over_x) {
        i = maker_of(sequence, i);
        under = i < 0 ? NULL : sequence->child[i];
    } else {
        return (l->children == 0 || gs_layer_is_residual(l)) && l->memory.y_place >= 0 ? l : NULL;
    }
    return !under || reads_y(under) ? NULL : buffer_of(under, sequence, i);
}

/* ---- who reads it ---- */

enum { READERS = 8 };
typedef struct readers {
    gs_layer *layer[READERS];
    int count;
    bool read;         /* by one of them at least; else only the layer before may want it */
    bool element_wise; /* gelu'(-0) is not gelu'(0) to the bit: no such marks for a relu (`narrow`) */
} readers;

/* Statistics of some samples alone begin at a place of their own: so a sample of 16 bits has whole elements. */
static bool can_keep(const gs_layer *l) {
    return (l->ops->rounds_x || l->ops->leaves_x) && !l->joined && !l->elsewhere && !l->part &&
           !(l->ops->of_batch && gs_shape_size(l->in) % 2);
}

/* The layers that get the x of l. false: not all of them are content with 16 bits. */
static bool find_readers(gs_layer *l, readers *all) {
    if (gs_layer_is_sequence(l)) return l->children > 0 && find_readers(l->child[0], all);
    if (gs_layer_is_residual(l)) {
        for (int i = 0; i < l->children; i++)
            if (!find_readers(l->child[i], all)) return false;
        return true;
    }
    if (!can_keep(l) || all->count == READERS) return false;
    all->read = all->read || l->ops->rounds_x;
    all->element_wise = all->element_wise || l->ops->buffers == GS_READS_X;
    all->layer[all->count++] = l;
    return true;
}

/* ---- the plan ---- */

typedef struct planning {
    gs_layer *root;
    gs_dx_places *places;
    bool births; /* forward's steps have numbers */
} planning;

/* The first reader keeps it for all. The y in f32 stays until all of l is done: its shortcut may add it to something,
 * and a test in f32 has no other. */
static gs_status keep(planning *p, const gs_layer *l, const readers *all, gs_layer *maker,
                      const gs_layer *owner) {
    gs_lives *lives = &p->places->lives;
    const int steps = (int)gs_layer_count(p->root), last = l->number + (int)gs_layer_count(l) - 1;
    if (!p->births) gs_births_by_number(p->root, lives);
    p->births = true;
    lives->life[owner->memory.y_place].dies = last - steps;
    const size_t numbers = p->places->max_batch * gs_shape_size(all->layer[0]->in);
    const int place = gs_lives_add(lives, numbers, true, all->layer[0]->number - steps, GS_FOREVER);
    if (place < 0) return gs_fail(GS_E_MEMORY, "no memory for a list of buffers");
    maker->memory.keeper = all->layer[0];
    for (int i = 0; i < all->count; i++) {
        all->layer[i]->memory.kept_place = place;
        all->layer[i]->memory.kept_there = i > 0;
        all->layer[i]->memory.kept_relu = gives_signs(maker);
    }
    return GS_OK;
}

static gs_status plan_sequence(gs_layer *l, void *context) {
    planning *p = context;
    if (!gs_layer_is_sequence(l)) return GS_OK;
    for (int i = 1; i < l->children; i++) {
        readers all = {.count = 0};
        if (l->child[i]->memory.x_half) continue; /* what flows is what is kept */
        const int at = find_readers(l->child[i], &all) ? maker_of(l, i) : -1;
        gs_layer *maker = at >= 0 ? l->child[at] : NULL;
        if (!maker || (gives_signs(maker) && all.element_wise)) continue;
        if (reads_y(maker) && !gives_signs(maker) && !maker->ops->rounds_y) continue;
        const gs_layer *owner = all.read || reads_y(maker) ? buffer_of(maker, l, at) : NULL;
        if (owner) GS_TRY(keep(p, l->child[i], &all, maker, owner));
    }
    return GS_OK;
}

gs_status gs_kept_plan(gs_layer *root, gs_dx_places *places) {
    const gs_device *d = root->device;
    planning p = {root, places, false};
    if (!d || !d->ops->narrow || d->precision == GS_PRECISION_F32) return GS_OK;
    if (root->recompute || d->offload & GS_OFFLOAD_ACTIVATIONS) return GS_OK;
    return gs_layer_walk(root, plan_sequence, &p);
}

void gs_kept_read(const gs_layer *l, gs_dx_places *p) {
    if (l->memory.kept_place >= 0) p->lives.life[l->memory.kept_place].dies = p->now;
    if (l->memory.keeper) p->lives.life[l->memory.keeper->memory.kept_place].dies = p->now;
}

/* ---- in forward ---- */

gs_status gs_keep_x(gs_layer *l, const gs_pass *pass, gs_mem *x) {
    if (l->memory.kept.base && l->device->precision == GS_PRECISION_F32 && pass->training)
        gs_bug("layer '%s' was bound for products in 16 bits, and is trained in f32", l->name);
    l->x = *x;
    if (!l->memory.kept.base || pass->tokens || l->device->precision == GS_PRECISION_F32) return GS_OK;
    l->x = l->memory.kept;
    if (!l->memory.kept_there)
        GS_TRY(l->device->ops->narrow(l->device, l->memory.kept, *x, gs_layer_numbers(pass, l->in),
                                      l->memory.kept_relu));
    if (l->ops->rounds_x == GS_ROUNDS_IN_BOTH) *x = l->memory.kept;
    return GS_OK;
}
