/* A dry run of a run: the calls that its workers make, in their order, as far as they allocate (predict/memory.h). */
#include <stdio.h>
#include <stdlib.h>

#include "train/hooks.h"
#include "train/evaluate.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/worker_report.h"
#include "predict/memory.h"
#include "predict/dry_run.h"
#include "train/run.h"

/* ---- the calls of a worker ---- */

/* A copy of the weights, as read_weights makes it. */
static gs_status dry_weights(gs_worker *w) {
    GS_TRY(gs_book_host(w, GS_MEMORY_WEIGHTS, &w->model, gs_model_whole(w->model)->saved * sizeof(float)));
    return gs_partition_weights(w, NULL);
}

/* The step after `done` others. Strategies whose workers are apart between steps take nothing more in one. */
static gs_status dry_step(gs_worker *w, uint64_t done) {
    gs_dry_run *r = gs_dry_run_of(w);
    gs_score unused;
    w->step = w->schedule.done = done;
    w->in_step = true;
    r->at = gs_schedule_begin(&w->schedule);
    r->taken = 0;
    gs_status status = w->strategy->apart ? gs_gradient(w) : w->strategy->step(w, &unused);
    w->in_step = false;
    return w->strategy->apart && status == GS_OK ? gs_update(w, 1) : status;
}

/* A step and a test leave pages of what is offloaded to those that follow: what can follow them does so here, too. */
static gs_status dry_epoch(gs_worker *w, uint64_t steps, bool last) {
    const bool offload = w->device->offload != 0, more = steps > 1;
    const int alike =
        more && (gs_has_stages(w) || offload) ? 2 : 1; /* the second with the first's scratch memory */
    const int tests = w->settings->tests, times = more && offload && tests > 1 ? 2 : 1;
    gs_score unused;
    for (int i = 0; i < times; i++) {
        for (int k = 0; k < alike; k++) GS_TRY(dry_step(w, 0));
        if (last && more) GS_TRY(dry_step(w, steps - 1));
        if (tests > 0) GS_TRY(gs_evaluate(w, w->test_set, &unused, NULL));
    }
    return GS_OK;
}

static gs_status dry_calls(gs_worker *w) {
    const gs_settings *s = w->settings;
    gs_state *unused;
    const uint64_t epoch = gs_steps_of_epoch(w->train_set->count, w->batch);
    const uint64_t all = epoch * (uint64_t)s->epochs, steps = s->steps && s->steps < all ? s->steps : all;
    const bool keeps = s->keep.best && (w->comm->rank == 0 || gs_weights_are_divided(w->model));
    if (!gs_has_stages(w)) GS_TRY(gs_warm_up(w));
    GS_TRY(gs_prepare_steps(w));
    GS_HOOKS(book, w);
    const uint64_t epochs = w->device->offload ? 3
                            : gs_has_stages(w) ? 2
                                               : 1; /* a test leaves scratch memory */
    for (uint64_t i = 0; i * epoch < steps && i < epochs; i++) {
        GS_TRY(dry_epoch(w, steps < epoch ? steps : epoch, steps >= epoch));
        if (i == 0 && keeps) GS_TRY(dry_weights(w));
    }
    if (s->save_state) GS_TRY(gs_state_create(w, &unused));
    return keeps ? GS_OK : dry_weights(w);
}

/* A worker that is not there: its settings, its data, and what goes through its calls. */
typedef struct player {
    const gs_settings *settings;
    const gs_dataset *train_set, *test_set;
    int threads, workers, rank;
    gs_status (*play)(gs_worker *, void *context);
    void *context;
} player;

static gs_status play(const player *p, gs_dry_run *r) {
    gs_settings s = *p->settings;
    gs_worker w;
    gs_comm *comm;
    char device[48];
    s.dry_run = &r->calls;
    s.begin = NULL;
    s.load = NULL;
    GS_TRY(gs_devices_name(s.devices, p->rank % gs_devices_count(s.devices), device));
    GS_TRY(gs_comm_dry_create(p->rank, p->workers, &r->comm, &comm));
    gs_status status =
        gs_worker_create(&w, &s, device, comm, p->threads, GS_NOT_SCALED, p->train_set, p->test_set);
    if (status == GS_OK) {
        status = p->play(&w, p->context);
        gs_worker_free(&w);
    }
    gs_comm_free(comm);
    return status;
}

static gs_status play_step(gs_worker *w, void *dry_run) {
    gs_dry_run *r = dry_run;
    gs_dry_run_watch(r, w);
    GS_TRY(gs_prepare_steps(w));
    r->on = true;
    GS_TRY(dry_step(w, 0));
    r->sent = w->measured.sent;
    return r->failed;
}

/* A set of shapes alone is all that a dry run looks at. */
gs_status gs_dry_run_create(const gs_settings *s, gs_shape in, int targets, int workers, int rank,
                            gs_dry_run *out) {
    const gs_dataset set = {.count = s->batch, .shape = in, .labels_each = targets};
    gs_dry_run_begin(out, true);
    return play(&(player){s, &set, &set, 1, workers, rank, play_step, out}, out);
}

/* ---- what they took ---- */

typedef struct listing {
    gs_memory_plan *plan;
    size_t room;
    double held; /* of the vectors of its layers, with ZeRO */
} listing;

static gs_status list_layer(gs_layer *l, void *context) {
    listing *to = context;
    gs_memory_plan *p = to->plan;
    if (l->fused || l->other_stage || p->layers == to->room) return GS_OK;
    gs_memory_layer *row = &p->layer[p->layers];
    double state = 0;
    for (int i = 0; i < l->params; i++) state += l->param[i].state ? (double)l->param[i].count : 0;
    const double own = (double)gs_layer_params(l);
    snprintf(row->name, sizeof row->name, "%s", l->name);
    gs_layer_describe(l, row->what, sizeof row->what);
    if (l->children > 0) snprintf(row->what, sizeof row->what, "%s", l->ops->name);
    row->weights = sizeof(float) * own;
    row->optimizer = row->weights * p->vectors * to->held;
    row->state = 2 * sizeof(float) * state; /* the running ones, and the sums that they become */
    row->activations = l == l->root ? 0 : (double)l->bytes;
    p->shared -= row->activations;
    if (row->weights + row->state + row->activations > 0) p->layers++;
    return GS_OK;
}

static gs_status count_params(gs_layer *l, void *count) {
    for (int i = 0; i < l->params && !l->other_stage; i++)
        if (!l->param[i].state) *(size_t *)count += l->param[i].count;
    return GS_OK;
}

static gs_status list_layers(gs_memory_plan *p, const gs_worker *w) {
    size_t params = 0; /* in its layers */
    gs_model *m = w->model;
    (void)gs_layer_walk(m->net, count_params, &params);
    for (int i = 0; w->strategy->model && (m = w->strategy->model(w, i)); i++) {
        if (i == 0) params = 0;
        (void)gs_layer_walk(m->net, count_params, &params);
    }
    listing to = {p, gs_layer_count(w->model->net),
                  params > 0 ? (double)w->optimizer->held / (double)params : 1};
    GS_TRY(GS_NEW(p->layer, to.room, "a list of %zu layers", to.room));
    p->params = gs_model_whole(w->model)->params;
    p->own = params;
    p->vectors = w->optimizer->vectors;
    p->batch = w->batch;
    const gs_recomputed r = gs_worker_recomputes(w);
    p->again = r.forward > 0 ? r.again / r.forward : 0;
    p->shared = p->worker[0].use[GS_ON_DEVICE].bytes[GS_MEMORY_ACTIVATIONS] +
                p->worker[0].use[GS_OFFLOADED].bytes[GS_MEMORY_ACTIVATIONS];
    if (!w->strategy->model) return gs_layer_walk(w->model->net, list_layer, &to);
    for (int i = 0; (m = w->strategy->model(w, i)); i++) GS_TRY(gs_layer_walk(m->net, list_layer, &to));
    return GS_OK;
}

/* The next one of the plan. */
static gs_status play_run(gs_worker *w, void *memory_plan) {
    gs_memory_plan *plan = memory_plan;
    gs_memory_worker *out = &plan->worker[plan->workers++];
    GS_TRY(dry_calls(w));
    GS_TRY(gs_devices_name(w->settings->devices, w->comm->rank % gs_devices_count(w->settings->devices),
                           out->device));
    for (int p = 0; p < GS_MEMORY_PLACES; p++) out->use[p] = w->device->memory.peak[p];
    out->rank = w->comm->rank;
    out->micro_batch = w->schedule.most;
    out->eval_block = w->eval_block;
    return plan->workers == 1 ? list_layers(plan, w) : GS_OK;
}

/* ---- all workers ---- */

static double bytes_of(const gs_dataset *set) {
    return set->folder ? 0 : (double)set->count * (double)gs_sample_bytes(set);
}

static gs_status check(const gs_run *run, const gs_settings *s, int workers) {
    GS_TRY(gs_check_each_setting(s));
    GS_TRY(gs_check_settings(s));
    GS_TRY(gs_check_workers(s, run->train_set, workers));
    GS_TRY(gs_check_batch_norm(s, run->train_set, workers));
    return gs_run_check_sizes(run, s, workers);
}

gs_status gs_run_dry(gs_run *run, const gs_settings *s, bool all, gs_memory_plan *plan) {
    const gs_rendezvous *p = run->settings.processes;
    const int workers = gs_run_all_workers(run),
              first = all || workers == run->local ? 0 : p->rank * run->local;
    *plan = (gs_memory_plan){
        .run = run, .settings = *s, .all_workers = workers, .layout = gs_layout_of(s, workers)};
    if (workers == 1) plan->layout.zero = 0;
    plan->settings.train_set = run->train_set;
    plan->settings.test_set = run->test_set;
    GS_TRY(check(run, s, workers));
    const int count = all ? workers : run->local;
    GS_TRY(GS_NEW(plan->worker, count, "the plans of %d workers", count));
    plan->set_bytes = bytes_of(run->train_set);
    if (run->test_set != run->train_set) plan->set_bytes += bytes_of(run->test_set);
    for (int i = 0; i < count; i++) {
        gs_dry_run r;
        gs_dry_run_begin(&r, false);
        GS_TRY(play(
            &(player){s, run->train_set, run->test_set, run->threads, workers, first + i, play_run, plan},
            &r));
    }
    return GS_OK;
}
