#include "train/ways/zero_units.h"

#include <stdlib.h>

static size_t end_of(const gs_model *m, int child) {
    const gs_layer *net = m->net;
    return child + 1 < net->children ? net->child[child + 1]->at : m->params;
}

static bool lends(const gs_layer *l) {
    bool found = l->lent;
    for (int i = 0; i < l->children && !found; i++) found = lends(l->child[i]);
    return found;
}

static size_t largest_layer(const gs_model *m) {
    size_t most = 0;
    for (int i = 0; i < m->net->children; i++) {
        const size_t count = end_of(m, i) - m->net->child[i]->at;
        if (count > most) most = count;
    }
    return most;
}

/* What backward runs again must have its weights together (layer/memory/recompute.h). */
static bool of_one_segment(const gs_model *m, int a, int b) {
    return m->net->child[a]->segment && m->net->child[a]->segment == m->net->child[b]->segment;
}

/* The layers one after the other: into the unit before, or a new one. */
static void cut(const gs_model *m, gs_units *u) {
    const size_t most = largest_layer(m);
    for (int i = 0; i < m->net->children; i++) {
        const gs_layer *l = m->net->child[i];
        const size_t count = end_of(m, i) - l->at;
        gs_unit *open = u->count > 0 ? &u->unit[u->count - 1] : NULL;
        if (count == 0) continue;
        if (open && !open->stays && !lends(l) &&
            (open->count + count <= most || of_one_segment(m, open->end - 1, i))) {
            open->count += count;
            open->end = i + 1;
        } else {
            u->unit[u->count++] =
                (gs_unit){.first = l->at, .count = count, .begin = i, .end = i + 1, .stays = lends(l)};
        }
    }
}

gs_status gs_units_cut(const gs_model *m, int workers, bool whole, gs_units *u) {
    const size_t n = (size_t)workers;
    *u = (gs_units){0};
    u->unit = calloc((size_t)m->net->children + 1, sizeof *u->unit);
    if (!u->unit) return gs_fail(GS_E_MEMORY, "--zero: no memory for %d units", m->net->children);
    if (whole)
        u->unit[u->count++] = (gs_unit){.count = m->params, .end = m->net->children};
    else
        cut(m, u);
    for (int i = 0; i < u->count; i++) {
        gs_unit *one = &u->unit[i];
        one->own = one->count / n;
        one->rest = one->count % n;
        one->own_at = u->own;
        one->rest_at = u->rest;
        u->own += one->own;
        u->rest += one->rest;
    }
    return GS_OK;
}

void gs_units_free(gs_units *u) {
    free(u->unit);
    *u = (gs_units){0};
}
