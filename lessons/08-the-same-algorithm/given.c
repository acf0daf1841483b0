/* Lab 8, as given: what else --exact and --verify need. */
#include "tasks.h"
#include "train/hooks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- --exact ---- */

typedef struct exact {
    gs_shard leaves;              /* virtual shards of this worker */
    size_t count;                 /* floats in the gradient array, counts included */
    float *leaf[GS_EXACT_SHARDS]; /* the gradient of each; leaf[0] becomes their sum */
    float *arrived;
} exact;

static gs_status create(gs_worker *w) {
    exact *e = w->strategy_state = calloc(1, sizeof *e);
    if (!e) return gs_fail(GS_E_MEMORY, "no memory for --exact");
    e->leaves = leaves_of(w->comm->rank, w->comm->size);
    if (e->leaves.count < 1 || e->leaves.count > GS_EXACT_SHARDS ||
        e->leaves.first > GS_EXACT_SHARDS - e->leaves.count)
        return gs_fail(GS_E_SHAPE, "worker %d of %d has %zu leaves from %zu on, of %d", w->comm->rank,
                       w->comm->size, e->leaves.count, e->leaves.first, GS_EXACT_SHARDS);
    e->count = w->model->params + GS_STATS;
    e->arrived = malloc(e->count * sizeof(float));
    bool there = e->arrived != NULL;
    for (size_t i = 0; i < e->leaves.count && there; i++)
        there = (e->leaf[i] = malloc(e->count * sizeof(float)));
    return there ? GS_OK : gs_fail(GS_E_MEMORY, "--exact: no memory for %zu gradients", e->leaves.count);
}

static void free_leaves(gs_worker *w) {
    exact *e = w->strategy_state;
    if (!e) return;
    for (int i = 0; i < GS_EXACT_SHARDS; i++) free(e->leaf[i]);
    free(e->arrived);
    free(e);
}

/* The gradient of each of this worker's leaves, computed separately, then their sum; and the sum over all workers. */
static gs_status sum(gs_worker *w) {
    const exact *e = w->strategy_state;
    gs_device *d = w->device;
    size_t bytes = e->count * sizeof(float);
    for (size_t i = 0; i < e->leaves.count; i++) {
        GS_TRY(gs_gradient(w)); /* of the next leaf: the schedule has them in this order */
        GS_TRY(d->ops->read(d, e->leaf[i], w->model->gradients, bytes));
    }
    tree_sum(e->leaf, (int)e->leaves.count, e->count);
    GS_TRY(tree_across(w->comm, e->leaf[0], e->arrived, e->count));
    return d->ops->write(d, w->model->gradients, e->leaf[0], bytes);
}

static gs_status step(gs_worker *w, gs_score *score) {
    GS_TRY(sum(w));
    GS_TRY(gs_read_score(w, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));
    GS_TRY(gs_update(w, score->samples));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    (void)s;
    snprintf(text, size, "gradients summed in one fixed tree");
}

static const gs_strategy of_lab = {.name = "exact",
                                   .option = "--exact",
                                   .leaf_by_leaf = true,
                                   .describe = describe,
                                   .create = create,
                                   .step = step,
                                   .free = free_leaves};

void lab_install(void) {
    (void)gs_strategy_replace(of_lab.name, &of_lab);
}

/* --verify: the checksums of this worker's tensors go to all; then each looks at all of them. */
static gs_status compare(const gs_worker *w, const float *weights, uint32_t *mine, uint32_t *all) {
    const gs_model *m = w->model;
    int worker = 0, tensor = 0;
    for (int t = 0; t < m->param_count; t++)
        mine[t] = (uint32_t)crc32_z(0, (const void *)(weights + m->param[t]->at),
                                    m->param[t]->count * sizeof *weights);
    GS_TRY(gs_comm_all_gather(w->comm, mine, all, (size_t)m->param_count * sizeof *mine, GS_U8));
    if (!first_different(all, w->comm->size, m->param_count, &worker, &tensor)) return GS_OK;
    GS_TRY(gs_comm_barrier(w->comm)); /* nobody leaves before all know */
    if (worker < 0 || worker >= w->comm->size || tensor < 0 || tensor >= m->param_count)
        return gs_fail(GS_E_SHAPE, "step %" PRIu64 ": worker %d, tensor %d; there are %d and %d", w->step,
                       worker, tensor, w->comm->size, m->param_count);
    return gs_fail(GS_E_DIFFER, "step %" PRIu64 ": worker %d's %s differs from the others'", w->step, worker,
                   m->param[tensor]->name);
}

static gs_status verify(gs_worker *w, gs_event *e) {
    (void)e;
    const size_t every = w->settings->verify, count = (size_t)w->model->param_count;
    if (every == 0 || w->step % every != 0 || w->comm->size == 1) return GS_OK;
    uint32_t *mine = calloc(count * (size_t)(1 + w->comm->size), sizeof *mine); /* and behind them all */
    float *weights = malloc(w->model->params * sizeof *weights + 1);
    gs_status status = mine && weights ? gs_model_read_weights(w->model, weights)
                                       : gs_fail(GS_E_MEMORY, "no memory for --verify");
    if (status == GS_OK) status = compare(w, weights, mine, mine + count);
    free(mine);
    free(weights);
    return status;
}

const gs_hook gs_hook_verify = {.after_step = verify};
