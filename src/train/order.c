#include "train/order.h"

#include <stdlib.h>
#include <string.h>

#include "sync/scheme.h"
#include "train/internal.h"

gs_status gs_order_create(gs_worker *w, size_t count) {
    gs_order *o = &w->order;
    o->leaves = w->schedule.mine;
    for (int i = 0; 2 << i <= o->leaves; i++) {
        o->level[i] = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, count * sizeof(float));
        if (!o->level[i]) return gs_fail(GS_E_MEMORY, "--exact: no memory for a sum of %zu floats", count);
        o->floats += count;
    }
    return GS_OK;
}

void gs_order_free(gs_order *o) {
    for (int i = 0; i < GS_ORDER_LEVELS; i++) free(o->level[i]);
    *o = (gs_order){0};
}

bool gs_order_leaf(const gs_order *o, size_t at, size_t count, int k, float *x) {
    int i = 0;
    for (; k >> i & 1; i++) gs_sync_add(x, o->level[i] + at, count);
    if (k + 1 == o->leaves) return true;
    memcpy(o->level[i] + at, x, count * sizeof *x);
    return false;
}

void gs_add_neighbours(float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_sync_add(x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}

gs_status gs_leaf(gs_worker *w, int k) {
    return w->lockstep ? gs_lockstep_leaf(w->lockstep, k) : gs_gradient(w);
}

gs_status gs_local_gradient(gs_worker *w) {
    const gs_model *m = w->model;
    const gs_backend *ops = w->device->ops;
    const size_t count = m->saved + GS_STATS;
    void *dw;
    if (w->order.leaves < 2) return gs_leaf(w, 0);
    for (int k = 0; k < w->order.leaves; k++) {
        GS_TRY(gs_leaf(w, k));
        GS_TRY(ops->map(w->device, m->gradients, count * sizeof(float), &dw));
        (void)gs_order_leaf(&w->order, 0, count, k, dw);
        GS_TRY(ops->unmap(w->device, m->gradients, dw));
        GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));
    }
    return GS_OK;
}
