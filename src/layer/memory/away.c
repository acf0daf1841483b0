#include "layer/memory/away.h"

#include <limits.h>
#include "layer/make.h"
#include "layer/memory/recompute.h"

/* ---- units ---- */

static gs_status look_for_buffers(gs_layer *l, void *found) {
    const unsigned offload = l->root->device->offload;
    const bool y = (offload & GS_OFFLOAD_ACTIVATIONS) && l->memory.y_place >= 0,
               weights = (offload & GS_OFFLOAD_WEIGHTS) && l->params > 0;
    if (!l->joined && !l->elsewhere && (y || weights)) *(bool *)found = true;
    return GS_OK;
}

/* One that works in place (positions) changes the y of the unit before it. */
static bool begins_unit(const gs_layer *root, int i) {
    bool found = false;
    const gs_layer *c = root->child[i];
    if (c->memory.segment) return c->memory.segment == i + 1;
    if (c->children == 0 && c->y_over_x) return false;
    (void)gs_layer_walk(root->child[i], look_for_buffers, &found);
    return found;
}

int gs_away_units(gs_layer *root) {
    int count = 0;
    if (!gs_layer_is_sequence(root)) return 0; /* nobody tells of its layers' turns */
    for (int i = 0; i < root->children; i++) {
        if (begins_unit(root, i)) count++;
        root->child[i]->memory.unit = count;
    }
    return count;
}

/* ---- lives ---- */

typedef struct going {
    gs_lives *lives;
    gs_arena *arena;
    int end; /* the last step of forward in which it is there */
} going;

static gs_status let_go(gs_layer *l, void *context) {
    const going *g = context;
    if (l->joined || l->elsewhere || l->memory.y_place < 0) return GS_OK;
    gs_life *life = &g->lives->life[l->memory.y_place];
    if (gs_life_has_gap(life)) return GS_OK; /* backward makes it again */
    life->away = g->end;
    life->back = INT_MAX; /* until gs_away_back says when */
    g->arena->away_floats[l->memory.y_place] = life->floats;
    return GS_OK;
}

void gs_away_plan(gs_layer *root, gs_lives *lives) {
    const int units = gs_away_units(root), all = (int)gs_layer_count(root);
    gs_births_by_number(root, lives);
    for (int i = 0, next = 0; i < root->children; i++) {
        const int unit = root->child[i]->memory.unit;
        if (unit == 0 || unit + 3 > units) continue;
        while (root->child[next]->memory.unit < unit + 3) next++;
        going g = {lives, root->arena, root->child[next]->number - 1 - all};
        (void)gs_layer_walk(root->child[i], let_go, &g);
    }
}

static gs_status come_back(gs_layer *l, void *context) {
    const gs_dx_places *p = context;
    const gs_arena *a = l->root->arena;
    if (l->joined || l->elsewhere || !gs_arena_is_away(a, l->memory.y_place)) return GS_OK;
    p->lives.life[l->memory.y_place].back = p->now + 1;
    return GS_OK;
}

void gs_away_back(gs_dx_places *p, gs_layer *root, int i) {
    const int unit = root->child[i]->memory.unit;
    const bool ends = unit > 0 && (i + 1 == root->children || root->child[i + 1]->memory.unit != unit);
    if (!ends || !root->arena->away_count) return;
    for (int k = 0; k < i; k++)
        if (root->child[k]->memory.unit == unit - 2) (void)gs_layer_walk(root->child[k], come_back, p);
}
