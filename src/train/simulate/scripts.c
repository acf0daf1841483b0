#include "train/simulate/scripts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/buckets.h"
#include "train/layout/layout_cut.h"
#include "train/tensor/tensor.h"

/* ---- items ---- */

gs_status gs_scripts_add(gs_scripts *s, int rank, gs_virtual_item item, bool compute) {
    gs_virtual_script *script = &s->script[rank];
    if (script->items == s->room[rank]) {
        const int room = s->room[rank] ? 2 * s->room[rank] : 16;
        gs_virtual_item *more = realloc(s->item[rank], (size_t)room * sizeof *more);
        if (!more) return gs_fail(GS_E_MEMORY, "no memory for the steps of %d workers", s->workers);
        s->item[rank] = more;
        s->room[rank] = room;
        script->item = more;
    }
    s->item[rank][script->items++] = item;
    if (compute) s->compute[rank] += item.seconds;
    return GS_OK;
}

gs_status gs_scripts_add_sum(gs_scripts *s, const gs_sim_group *g, int place, const gs_lists_key *key) {
    const gs_virtual_list *list;
    if (g->size == 1) return GS_OK;
    GS_TRY(gs_lists_of(&s->lists, key, &list));
    const gs_virtual_item item = {.what = GS_VIRTUAL_LIST,
                                  .base = g->base,
                                  .stride = g->stride,
                                  .list = &list[place],
                                  .kind = GS_SIM_SUM};
    return gs_scripts_add(s, g->base + place * g->stride, item, false);
}

gs_status gs_scripts_add_call(gs_scripts *s, const gs_sim_group *g, int place, gs_operation operation,
                              size_t count) {
    const gs_lists_key key = {.call = {operation, count, GS_F32, GS_SUM, 0}, .ranks = g->size};
    return count > 0 || operation == GS_BARRIER ? gs_scripts_add_sum(s, g, place, &key) : GS_OK;
}

/* What the formula of the scheme gives for it, on links between hosts. */
static void add_formula(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                        const gs_lists_key *key) {
    const gs_link *l = sim->hosts > 1 ? &sim->settings.link : &sim->inside;
    const gs_sync_model m = {l->latency, l->bandwidth > 0 ? 1 / l->bandwidth : 0, w->gamma};
    if (!key->scheme || !key->scheme->time || key->array.wire != GS_WIRE_F32)
        s->formula = NAN;
    else if (key->ranks > 1)
        s->formula += key->scheme->time(key->ranks, (double)key->array.count * sizeof(float), &m);
}

gs_status gs_scripts_sum_key(const gs_simulation *sim, gs_sync_array a, int ranks, gs_lists_key *out) {
    *out = (gs_lists_key){.array = a, .ranks = ranks};
    return gs_sync_find(sim->settings.sync, &out->scheme);
}

/* ---- replicas: step.c, overlap.h ---- */

/* How long backward takes until the gradients from element `first` on are final. */
static double backward_until(const gs_simulated_work *w, size_t first) {
    double seconds = 0;
    for (int i = w->plan->net->children - 1; i >= 0; i--) {
        seconds += w->layer[i].backward;
        if (w->layer[i].at <= first) break;
    }
    return seconds;
}

gs_status gs_scripts_add_compute(gs_scripts *s, int rank) {
    GS_TRY(gs_scripts_add(s, rank, gs_item_pass(s->forward, GS_SIM_FORWARD), true));
    return gs_scripts_add(s, rank, gs_item_pass(s->backward, GS_SIM_BACKWARD), true);
}

static gs_status add_plain(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w) {
    const gs_sim_group all = {0, 1, sim->workers};
    gs_lists_key key;
    const gs_sync_array array = {w->plan->saved + GS_STATS, sim->settings.wire, gs_model_tail(w->plan)};
    GS_TRY(gs_scripts_sum_key(sim, array, sim->workers, &key));
    add_formula(s, sim, w, &key);
    s->buckets = 1;
    for (int r = 0; r < sim->workers; r++) {
        GS_TRY(gs_scripts_add_compute(s, r));
        GS_TRY(gs_scripts_add_sum(s, &all, r, &key));
        GS_TRY(gs_scripts_add(s, r, gs_item_pass(w->update, GS_SIM_UPDATE), true));
    }
    return GS_OK;
}

gs_virtual_item gs_item_work(double seconds, gs_simulated_kind kind) {
    return (gs_virtual_item){.what = GS_VIRTUAL_WORK, .seconds = seconds, .kind = (int)kind};
}

static gs_status add_item(gs_scripts *s, int rank, gs_virtual_what what) {
    return gs_scripts_add(s, rank, (gs_virtual_item){.what = what}, false);
}

/* A thread of its own has the sums, while the worker goes on with backward. */
static gs_status add_bucket_rank(gs_scripts *s, const gs_simulated_work *w, int rank, const gs_bucket *bucket,
                                 const gs_lists_key *key) {
    const gs_sim_group all = {0, 1, s->workers};
    double done = 0;
    GS_TRY(gs_scripts_add(s, rank, gs_item_work(s->forward, GS_SIM_FORWARD), true));
    for (int b = 0; b <= s->buckets; b++) {
        const double until = b < s->buckets ? fmax(done, backward_until(w, bucket[b].first)) : s->backward;
        GS_TRY(gs_scripts_add(s, rank, gs_item_work(until - done, GS_SIM_BACKWARD), true));
        done = until;
        if (b == s->buckets) break;
        GS_TRY(add_item(s, rank, GS_VIRTUAL_ASK));
        GS_TRY(gs_scripts_add_sum(s, &all, rank, &key[b]));
    }
    GS_TRY(add_item(s, rank, GS_VIRTUAL_JOIN));
    return gs_scripts_add(s, rank, gs_item_pass(w->update, GS_SIM_UPDATE), true);
}

static gs_status add_buckets(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                             const gs_bucket *bucket) {
    gs_lists_key *key = calloc((size_t)s->buckets, sizeof *key);
    gs_status status = key ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: no memory for %d sums", s->buckets);
    for (int b = 0; b < s->buckets && status == GS_OK; b++) {
        const gs_sync_array array = {bucket[b].count, sim->settings.wire,
                                     b == 0 ? gs_model_tail(w->plan) : 0};
        status = gs_scripts_sum_key(sim, array, sim->workers, &key[b]);
        if (status == GS_OK) add_formula(s, sim, w, &key[b]);
    }
    for (int r = 0; r < sim->workers && status == GS_OK; r++) status = add_bucket_rank(s, w, r, bucket, key);
    free(key);
    return status;
}

static gs_status add_overlapped(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w) {
    const size_t layers = (size_t)w->plan->net->children,
                 least = (size_t)sim->settings.bucket * 1024 / sizeof(float);
    size_t *at = malloc((layers + 1) * sizeof *at);
    gs_bucket *bucket = malloc((layers + 1) * sizeof *bucket);
    gs_status status =
        at && bucket ? GS_OK : gs_fail(GS_E_MEMORY, "--bucket: no memory for %zu layers", layers);
    for (size_t i = 0; i < layers && status == GS_OK; i++) at[i] = w->layer[i].at;
    if (status == GS_OK) {
        s->buckets = gs_buckets_plan(at, (int)layers, w->plan->saved + GS_STATS, least, bucket);
        status = add_buckets(s, sim, w, bucket);
    }
    free(at);
    free(bucket);
    return status;
}

/* ---- all ---- */

static gs_status allocate(gs_scripts *s) {
    const size_t n = (size_t)s->workers;
    s->script = calloc(n, sizeof *s->script);
    s->item = calloc(n, sizeof *s->item);
    s->room = calloc(n, sizeof *s->room);
    s->compute = calloc(n, sizeof *s->compute);
    if (!s->script || !s->item || !s->room || !s->compute)
        return gs_fail(GS_E_MEMORY, "no memory for the steps of %d workers", s->workers);
    return GS_OK;
}

static gs_status add_step(gs_scripts *s, const gs_sim_step *step) {
    const gs_layout *l = &step->layout;
    if (l->pp > 1) return gs_scripts_add_pipeline(s, step);
    if (l->zero > 0) return gs_scripts_add_zero(s, step);
    if (l->tp > 1) return gs_scripts_add_tensor(s, step);
    return step->sim->settings.bucket && s->workers > 1 ? add_overlapped(s, step->sim, step->work)
                                                        : add_plain(s, step->sim, step->work);
}

static void tell_recorded(const void *context, double share) {
    const gs_simulation *sim = context;
    sim->progress(sim->context, sim->workers, 0, share);
}

gs_status gs_scripts_create(const gs_simulation *sim, const gs_simulated_work *w, gs_scripts *s) {
    const gs_layout l = gs_layout_of(&sim->settings, sim->workers);
    gs_model *part = NULL;
    *s = (gs_scripts){.workers = sim->workers};
    s->lists.progress = sim->progress ? tell_recorded : NULL;
    s->lists.context = sim;
    GS_TRY(allocate(s));
    for (int i = 0; i < w->plan->net->children; i++) {
        s->forward += w->layer[i].forward;
        s->backward += w->layer[i].backward;
    }
    for (int r = 0; r < sim->workers; r++)
        GS_TRY(
            gs_scripts_add(s, r, (gs_virtual_item){.what = GS_VIRTUAL_BEGIN, .kind = GS_SIM_PAUSE}, false));
    if (l.tp > 1) GS_TRY(gs_layout_part(&sim->settings, w->plan, 0, &part));
    gs_status status = part ? gs_tensor_check_part(&sim->settings, part) : GS_OK;
    if (status == GS_OK) status = add_step(s, &(gs_sim_step){sim, w, l, part ? part : w->plan});
    gs_model_free(part);
    return status;
}

void gs_scripts_free(gs_scripts *s) {
    for (int r = 0; s->item && r < s->workers; r++) free(s->item[r]);
    free(s->script);
    free(s->item);
    free(s->room);
    free(s->compute);
    gs_lists_free(&s->lists);
    *s = (gs_scripts){0};
}
