#include "layer/memory/kept.h"

#include <string.h>
#include "layer/memory/dx_places.h"
#include "layer/make.h"
#include "layer/memory/recompute.h"

static bool is_view(const gs_layer *l) {
    return l->children == 0 && l->ops->buffers == GS_VIEW;
}

static bool is_relu(const gs_layer *l) {
    return l->ops->join && strcmp(l->ops->name, "relu") == 0;
}

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

/* The layer in whose buffer that y lies, if only the maker's backward may read it, and only its signs; else NULL. */
static gs_layer *owner_of(const gs_layer *sequence, int maker) {
    gs_layer *l = sequence->child[maker], *owner = l;
    if (l->children > 0) return NULL;
    if (is_relu(l)) {
        const int before = l->y_over_x ? maker_of(sequence, maker) : -1;
        if (l->y_over_x && before < 0) return NULL;
        if (l->y_over_x) owner = sequence->child[before];
        if (owner != l && (owner->children > 0 || gs_y_is_read(owner))) return NULL;
    } else if (gs_y_is_read(l)) {
        const gs_epilogue *then = gs_layer_epilogue(l);
        if (!then || !then->relu) return NULL;
    }
    return owner->y_place >= 0 ? owner : NULL;
}

static bool multiplies(const gs_layer *l) {
    return l->ops->multiplies && !l->joined && !l->elsewhere && l->role == GS_TENSOR_WHOLE;
}

typedef struct planning {
    gs_layer *root;
    gs_dx_places *places;
    bool births; /* forward's steps have numbers */
} planning;

static gs_status keep(planning *p, gs_layer *l, gs_layer *maker, const gs_layer *owner) {
    gs_lives *lives = &p->places->lives;
    const int now = l->number - (int)gs_layer_count(p->root);
    if (!p->births) gs_births_by_number(p->root, lives);
    p->births = true;
    lives->life[owner->y_place].dies = now;
    const size_t numbers = p->places->max_batch * gs_shape_size(l->in);
    l->kept_place = gs_lives_add(lives, (numbers + 1) / 2, now, GS_FOREVER);
    if (l->kept_place < 0) return gs_fail(GS_E_MEMORY, "no memory for a list of buffers");
    const gs_epilogue *then = gs_layer_epilogue(maker);
    maker->keeper = l;
    l->kept_relu = is_relu(maker) || (then && then->relu);
    return GS_OK;
}

static gs_status plan_sequence(gs_layer *l, void *context) {
    planning *p = context;
    if (strcmp(l->ops->name, "sequential") != 0) return GS_OK;
    for (int i = 1; i < l->children; i++) {
        const int maker = multiplies(l->child[i]) ? maker_of(l, i) : -1;
        const gs_layer *owner = maker >= 0 ? owner_of(l, maker) : NULL;
        if (owner) GS_TRY(keep(p, l->child[i], l->child[maker], owner));
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
    if (l->kept_place >= 0) p->lives.life[l->kept_place].dies = p->now;
    if (l->keeper) p->lives.life[l->keeper->kept_place].dies = p->now;
}

gs_status gs_keep_x(gs_layer *l, const gs_pass *pass, gs_mem *x) {
    if (l->kept.base && l->device->precision == GS_PRECISION_F32 && pass->training)
        gs_bug("layer '%s' was bound for products in 16 bits, and is trained in f32", l->name);
    if (l->kept.base && l->device->precision != GS_PRECISION_F32) {
        GS_TRY(l->device->ops->narrow(l->device, l->kept, *x, gs_layer_numbers(pass, l->in), l->kept_relu));
        *x = l->kept;
    }
    l->x = *x;
    return GS_OK;
}
