#include "layer/memory/offload.h"

#include <limits.h>
#include "layer/make.h"
#include "layer/memory/recompute.h"

/* ---- units ---- */

static gs_status look_for_buffers(gs_layer *l, void *found) {
    const unsigned offload = l->root->device->offload;
    const bool y = (offload & GS_OFFLOAD_ACTIVATIONS) && l->memory.y_buffer >= 0,
               weights = (offload & GS_OFFLOAD_WEIGHTS) && l->params > 0;
    if (!l->fused && !l->other_stage && (y || weights)) *(bool *)found = true;
    return GS_OK;
}

/* A layer that works in place (positions) belongs to the preceding unit, whose y it changes. */
static bool begins_unit(const gs_layer *root, int i) {
    bool found = false;
    const gs_layer *c = root->child[i];
    if (c->memory.segment) return c->memory.segment == i + 1;
    if (c->children == 0 && c->y_over_x) return false;
    (void)gs_layer_walk(root->child[i], look_for_buffers, &found);
    return found;
}

int gs_offload_units(gs_layer *root) {
    int count = 0;
    if (!gs_layer_is_sequence(root)) return 0; /* its layers' hooks are never called */
    for (int i = 0; i < root->children; i++) {
        if (begins_unit(root, i)) count++;
        root->child[i]->memory.unit = count;
    }
    return count;
}

/* ---- lifetimes ---- */

typedef struct leaving {
    gs_lifetimes *lifetimes;
    gs_arena *arena;
    int end; /* the last step of forward in which y is in memory */
} leaving;

static gs_status leave(gs_layer *l, void *context) {
    const leaving *g = context;
    if (l->fused || l->other_stage || l->memory.y_buffer < 0) return GS_OK;
    gs_lifetime *life = &g->lifetimes->life[l->memory.y_buffer];
    if (gs_lifetime_has_gap(life)) return GS_OK; /* backward computes it again */
    life->pause = g->end;
    life->resume = INT_MAX; /* until gs_offload_plan_fetch sets it */
    g->arena->offloaded_floats[l->memory.y_buffer] = life->floats;
    return GS_OK;
}

void gs_offload_plan(gs_layer *root, gs_lifetimes *lifetimes) {
    const int units = gs_offload_units(root), all = (int)gs_layer_count(root);
    gs_lifetimes_from_forward(root, lifetimes);
    for (int i = 0, next = 0; i < root->children; i++) {
        const int unit = root->child[i]->memory.unit;
        if (unit == 0 || unit + 3 > units) continue;
        while (root->child[next]->memory.unit < unit + 3) next++;
        leaving g = {lifetimes, root->arena, root->child[next]->number - 1 - all};
        (void)gs_layer_walk(root->child[i], leave, &g);
    }
}

static gs_status come_back(gs_layer *l, void *context) {
    const gs_buffer_plan *p = context;
    const gs_arena *a = l->root->arena;
    if (l->fused || l->other_stage || !gs_arena_is_offloaded(a, l->memory.y_buffer)) return GS_OK;
    p->lifetimes.life[l->memory.y_buffer].resume = p->now + 1;
    return GS_OK;
}

void gs_offload_plan_fetch(gs_buffer_plan *p, gs_layer *root, int i) {
    const int unit = root->child[i]->memory.unit;
    const bool ends = unit > 0 && (i + 1 == root->children || root->child[i + 1]->memory.unit != unit);
    if (!ends || !root->arena->offloaded_count) return;
    for (int k = 0; k < i; k++)
        if (root->child[k]->memory.unit == unit - 2) (void)gs_layer_walk(root->child[k], come_back, p);
}
