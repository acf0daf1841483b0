#include "persist/snapshots.h"

#include <stdlib.h>

#include "core/nettle.h"
#include "io/file.h"
#include "persist/snapshot_id.h"
#include "train/hooks.h"
#include "train/strategy.h"

typedef struct copy {
    gs_snapshot_id id; /* without its hash */
    gs_state state;
} copy;

struct gs_snapshots {
    copy copy[GS_SNAPSHOTS]; /* the newest first */
};

/* ---- memory ---- */

static void free_copy(copy *c) {
    for (int i = 0; i < c->state.vectors; i++) free(c->state.vector[i]);
    free(c->state.weights);
    *c = (copy){0};
}

/* Allocate the copy with this id, and set its scalars; the caller fills in its weights and vectors. */
static gs_status make_copy(copy *c, const gs_snapshot_id *id) {
    const size_t saved = (size_t)id->saved, params = (size_t)id->params;
    const int vectors = (int)id->vectors;
    gs_state *s = &c->state;
    if (!s->weights || c->id.saved != saved || s->params != params || s->vectors != vectors) {
        free_copy(c);
        GS_TRY(GS_NEW(s->weights, saved, "a copy of %zu weights (--elastic)", saved));
        GS_TRY(gs_context(gs_state_make_vectors(s, vectors, params), "--elastic"));
    }
    c->id = *id;
    s->step = id->step;
    s->updates = id->updates;
    s->good = id->good;
    s->samples = id->samples;
    s->loss_scale = id->loss_scale;
    return GS_OK;
}

gs_status gs_snapshots_create(gs_snapshots **out) {
    return GS_NEW(*out, 1, "--elastic");
}

void gs_snapshots_free(gs_snapshots *c) {
    if (!c) return;
    for (int i = 0; i < GS_SNAPSHOTS; i++) free_copy(&c->copy[i]);
    free(c);
}

/* ---- which settings allow snapshots ---- */

gs_status gs_snapshots_check(const gs_settings *s) {
    const char *why = NULL;
    if (s->tensor > 1 || s->zero || gs_strategy_of(s) != &gs_strategy_synchronous)
        return gs_fail(GS_E_USAGE,
                       "%s: --elastic needs workers that each hold the whole state; wanted --sync allreduce "
                       "or --exact, without --zero, --tensor and --pipeline",
                       s->tensor > 1 ? "--tensor"
                       : s->zero     ? "--zero"
                                     : gs_strategy_of(s)->option);
    if (!s->exact && strcmp(s->sync, gs_sync_allreduce.name) != 0)
        return gs_fail(GS_E_USAGE, "--sync %s: --elastic works with --sync allreduce, and with --exact",
                       s->sync);
    if (gs_devices_count(s->devices) != 1) why = "--devices: --elastic has one worker in each process";
    if (s->checkpoint) why = "--checkpoint: use launch --restarts with it, or launch --elastic without it";
    if (s->keep.best) why = "--keep best: the epoch that it keeps would be lost with the rank that has it";
    if (s->offload) why = "--offload: --elastic copies in each step what would be offloaded";
    if (s->digest || s->record)
        why = "--log and --digest record one group of ranks, and --elastic has several";
    return why ? gs_fail(GS_E_USAGE, "%s", why) : GS_OK;
}

/* ---- keeping copies ---- */

static gs_status book(gs_worker *w) {
    gs_snapshots *c = w->settings->snapshots;
    const size_t vectors = (size_t)w->optimizer->vectors * w->model->params;
    if (!c) return GS_OK;
    GS_TRY(gs_book_host(w, GS_MEMORY_WEIGHTS, &c->copy[0], GS_SNAPSHOTS * w->model->saved * sizeof(float)));
    return gs_book_host(w, GS_MEMORY_OPTIMIZER, &c->copy[1], GS_SNAPSHOTS * vectors * sizeof(float));
}

static gs_status keep(gs_worker *w) {
    gs_snapshots *c = w->settings->snapshots;
    gs_optimizer *o = w->optimizer;
    if (!c) return GS_OK;
    copy older = c->copy[1];
    c->copy[1] = c->copy[0];
    c->copy[0] = older;
    copy *new = &c->copy[0];
    const gs_snapshot_id id = {.step = w->step,
                               .updates = o->updates,
                               .good = o->loss_scale.good,
                               .samples = w->train_set->count,
                               .saved = w->model->saved,
                               .params = w->model->params,
                               .vectors = (uint64_t)o->vectors,
                               .loss_scale = o->loss_scale.scale};
    GS_TRY(make_copy(new, &id));
    GS_TRY(gs_model_read_weights(w->model, new->state.weights));
    for (int i = 0; i < o->vectors; i++)
        GS_TRY(gs_optimizer_copy_vector(o, i, 0, o->held, new->state.vector[i], NULL));
    new->id.valid = 1;
    return GS_OK;
}

static gs_status after_step(gs_worker *w, gs_event *e) {
    (void)e;
    return keep(w);
}

const gs_hook gs_hook_snapshots = {.book = book, .begin = keep, .after_step = after_step};

/* ---- after a rendezvous ---- */

static void hash_copy(const copy *c, char hash[GS_SNAPSHOT_HASH]) {
    const uint64_t numbers[] = {c->state.step, c->state.updates, c->state.good, c->state.samples};
    struct sha256_ctx h;
    sha256_init(&h);
    sha256_update(&h, sizeof numbers, (const void *)numbers);
    sha256_update(&h, sizeof c->state.loss_scale, (const void *)&c->state.loss_scale);
    sha256_update(&h, c->id.saved * sizeof(float), (const void *)c->state.weights);
    for (int i = 0; i < c->state.vectors; i++)
        sha256_update(&h, c->state.params * sizeof(float), (const void *)c->state.vector[i]);
    gs_sha256_end(&h, hash);
}

const gs_snapshot_id *gs_snapshot_id_newest(const gs_snapshot_id *of) {
    const gs_snapshot_id *found = NULL;
    for (int i = 0; i < GS_SNAPSHOTS; i++)
        if (of[i].valid && (!found || of[i].step > found->step)) found = &of[i];
    return found;
}

const gs_snapshot_id *gs_snapshot_id_of_step(const gs_snapshot_id *of, uint64_t step) {
    for (int i = 0; i < GS_SNAPSHOTS; i++)
        if (of[i].valid && of[i].step == step) return &of[i];
    return NULL;
}

/* Move the copy of the wanted step to the front, and drop the other one. A new process allocates its copy. */
static gs_status take_up(gs_snapshots *c, const gs_snapshot_id *wanted) {
    if (!c->copy[0].id.valid || c->copy[0].id.step != wanted->step) {
        copy other = c->copy[1];
        c->copy[1] = c->copy[0];
        c->copy[0] = other;
    }
    c->copy[1].id.valid = 0;
    return make_copy(&c->copy[0], wanted);
}

static gs_status receive(const gs_snapshots *c, gs_comm *processes, int from) {
    const gs_state *s = &c->copy[0].state;
    GS_TRY(gs_comm_broadcast(processes, s->weights, (size_t)c->copy[0].id.saved, GS_F32, from));
    for (int i = 0; i < s->vectors; i++)
        GS_TRY(gs_comm_broadcast(processes, s->vector[i], s->params, GS_F32, from));
    return GS_OK;
}

static gs_status settle(gs_snapshots *c, gs_comm *processes, gs_snapshot_id *all, int size,
                        const gs_state **begin) {
    gs_snapshot_id mine[GS_SNAPSHOTS];
    uint64_t step = 0;
    for (int i = 0; i < GS_SNAPSHOTS; i++) {
        mine[i] = c->copy[i].id;
        if (mine[i].valid) hash_copy(&c->copy[i], mine[i].hash);
    }
    memcpy(all, mine, sizeof mine);
    if (processes) GS_TRY(gs_comm_all_gather(processes, mine, all, sizeof mine, GS_U8));
    int first = -1;
    GS_TRY(gs_snapshots_agree(all, size, &step, &first));
    if (first < 0) return GS_OK;
    GS_TRY(take_up(c, gs_snapshot_id_of_step(all + (size_t)first * GS_SNAPSHOTS, step)));
    if (processes) GS_TRY(receive(c, processes, first));
    *begin = &c->copy[0].state;
    return GS_OK;
}

gs_status gs_snapshots_settle(gs_snapshots *c, gs_comm *processes, const gs_state **begin) {
    const int size = processes ? processes->size : 1;
    if (!c) return GS_OK;
    gs_snapshot_id *all;
    GS_TRY(GS_NEW(all, size * GS_SNAPSHOTS, "the copies of %d processes (--elastic)", size));
    gs_status status = settle(c, processes, all, size, begin);
    free(all);
    return status;
}
