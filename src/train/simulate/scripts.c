#include "train/simulate/scripts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/rehearsal.h"

/* What is being written: a worker's script. */
typedef struct writer {
    gs_scripts *scripts;
    const gs_simulation *sim;
    const gs_simulated_work *work;
    gs_layout layout;
    gs_rehearsal *role; /* [pp * tp]: of the first replica */
    /* of the rank at hand */
    int rank;
    bool in_job;
    gs_virtual_item compute; /* layers one after the other are one item */
} writer;

static gs_status add(writer *w, gs_virtual_item item) {
    gs_scripts *s = w->scripts;
    gs_virtual_script *script = &s->script[w->rank];
    if (script->items == s->room[w->rank]) {
        const int room = s->room[w->rank] ? 2 * s->room[w->rank] : 16;
        gs_virtual_item *more = realloc(s->item[w->rank], (size_t)room * sizeof *more);
        if (!more) return gs_fail(GS_E_MEMORY, "no memory for the steps of %d workers", s->workers);
        s->item[w->rank] = more;
        s->room[w->rank] = room;
        script->item = more;
    }
    s->item[w->rank][script->items++] = item;
    return GS_OK;
}

/* ---- seconds ---- */

static double seconds_of_layers(const gs_simulated_work *w, const gs_rehearsed_item *i) {
    double seconds = 0, flops = 0;
    for (int k = i->first; k < i->end; k++) {
        seconds += i->backward ? w->layer[k].backward : w->layer[k].forward;
        flops += gs_rehearsed_flops(w->plan->net->child[k]);
    }
    return seconds * ((double)i->samples / w->samples) * (flops > 0 ? i->flops / flops : 1);
}

static gs_status flush(writer *w) {
    const gs_virtual_item item = w->compute;
    w->compute.seconds = 0;
    return item.seconds > 0 ? add(w, item) : GS_OK;
}

/* Beside a thread that has the messages a worker's own time is another one. */
static gs_status add_compute(writer *w, double seconds, gs_simulated_kind kind, bool beside) {
    if (w->compute.kind != (int)kind) GS_TRY(flush(w));
    w->compute.what = beside ? GS_VIRTUAL_WORK : GS_VIRTUAL_PASS;
    w->compute.kind = (int)kind;
    w->compute.seconds += seconds;
    w->scripts->compute[w->rank] += seconds;
    return GS_OK;
}

/* ---- calls to others ---- */

static gs_status add_call(writer *w, const gs_rehearsed_item *i, bool beside) {
    const gs_layout *l = &w->layout;
    const int stride = i->axis == GS_DP ? l->tp : i->axis == GS_PP ? l->dp * l->tp : 1;
    const gs_virtual_list *list;
    gs_place first = gs_place_of(l, w->rank);
    if (i->axis == GS_DP || i->axis == GS_WORLD) first.replica = 0;
    if (i->axis == GS_TP || i->axis == GS_WORLD) first.part = 0;
    if (i->axis == GS_PP || i->axis == GS_WORLD) first.stage = 0;
    const int base = gs_rank_at(l, first);
    const gs_virtual_item join = {.what = GS_VIRTUAL_JOIN};
    GS_TRY(gs_lists_of(&w->scripts->lists, &i->key, &list));
    if (beside && !w->in_job) GS_TRY(add(w, join));
    GS_TRY(add(w, (gs_virtual_item){.what = GS_VIRTUAL_LIST,
                                    .base = base,
                                    .stride = stride,
                                    .list = &list[(w->rank - base) / stride],
                                    .kind = GS_SIM_SUM}));
    return beside && !w->in_job ? add(w, join) : GS_OK;
}

/* Within the rank's own replica. */
static gs_status add_message(writer *w, const gs_call *message) {
    const gs_place mine = gs_place_of(&w->layout, w->rank);
    gs_place other = gs_place_of(&w->layout, message->root);
    other.replica = mine.replica;
    return add(w, (gs_virtual_item){.what = message->operation == GS_SEND ? GS_VIRTUAL_SEND_ONE
                                                                          : GS_VIRTUAL_RECV_ONE,
                                    .base = gs_rank_at(&w->layout, other),
                                    .bytes = message->count,
                                    .kind = GS_SIM_MESSAGE});
}

/* ---- a worker ---- */

static gs_status add_item(writer *w, const gs_rehearsed_item *i, bool beside) {
    static const gs_virtual_what marks[] = {[GS_REHEARSED_ASK] = GS_VIRTUAL_ASK,
                                            [GS_REHEARSED_NOTE] = GS_VIRTUAL_NOTE,
                                            [GS_REHEARSED_AWAIT] = GS_VIRTUAL_AWAIT,
                                            [GS_REHEARSED_JOIN] = GS_VIRTUAL_JOIN};
    if (i->what == GS_REHEARSED_LAYERS)
        return add_compute(w, seconds_of_layers(w->work, i), i->backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD,
                           beside);
    if (i->what == GS_REHEARSED_UPDATE)
        return add_compute(w, w->work->update * (double)i->params / (double)w->work->plan->params,
                           GS_SIM_UPDATE, false);
    GS_TRY(flush(w));
    if (i->what == GS_REHEARSED_CALL) return add_call(w, i, beside);
    if (i->what == GS_REHEARSED_MESSAGE) return add_message(w, &i->message);
    if (i->what == GS_REHEARSED_ASK || i->what == GS_REHEARSED_NOTE) w->in_job = i->what == GS_REHEARSED_ASK;
    return add(w, (gs_virtual_item){.what = marks[i->what], .base = (int)(i->ticket % GS_VIRTUAL_SLOTS)});
}

static gs_status add_worker(writer *w, int rank) {
    const gs_place at = gs_place_of(&w->layout, rank);
    const gs_rehearsal *r = &w->role[at.stage * w->layout.tp + at.part];
    w->rank = rank;
    w->in_job = false;
    GS_TRY(add(w, (gs_virtual_item){.what = GS_VIRTUAL_BEGIN, .kind = GS_SIM_PAUSE}));
    for (size_t i = 0; i < r->items; i++) GS_TRY(add_item(w, &r->item[i], r->beside));
    return flush(w);
}

/* ---- what the sums are ---- */

/* What the formula of the scheme gives for it, on links between hosts. */
static double formula_of(const gs_simulation *sim, const gs_simulated_work *w, const gs_lists_key *key) {
    const gs_link *l = sim->hosts > 1 ? &sim->settings.link : &sim->inside;
    const gs_sync_model m = {l->latency, l->bandwidth > 0 ? 1 / l->bandwidth : 0, w->gamma};
    if (!key->scheme || !key->scheme->time || key->array.wire != GS_WIRE_F32) return NAN;
    return key->scheme->time(key->ranks, (double)key->array.count * sizeof(float), &m);
}

static void describe_sums(writer *w) {
    const gs_rehearsal *r = &w->role[0];
    const gs_layout *l = &w->layout;
    gs_scripts *s = w->scripts;
    for (size_t i = 0; i < r->items; i++) {
        const gs_rehearsed_item *item = &r->item[i];
        if (item->what != GS_REHEARSED_CALL || item->axis != GS_DP) continue;
        if (l->zero ? item->key.call.operation == GS_REDUCE_SCATTER : item->key.scheme != NULL) s->buckets++;
        s->formula += formula_of(w->sim, w->work, &item->key);
    }
    if (l->pp > 1 || (l->tp > 1 && !l->zero) || s->buckets == 0) s->buckets = 1;
    if (l->pp > 1 || l->tp > 1 || l->zero) s->formula = NAN;
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

static gs_status rehearse(writer *w) {
    const gs_layout *l = &w->layout;
    const gs_model *plan = w->work->plan;
    gs_settings s = w->sim->settings;
    s.model = plan->text;
    if (s.micro_batch == 0) s.micro_batch = s.batch; /* a worker's part at once */
    s.batch_norm.over = GS_BATCH_NORM_LOCAL;
    if (l->pp > 1) s.pipeline_cut = "flops";
    for (int stage = 0; stage < l->pp; stage++)
        for (int part = 0; part < l->tp; part++)
            GS_TRY(gs_rehearsal_create(&s, plan->in, gs_model_answers(plan), w->sim->workers,
                                       gs_rank_at(l, (gs_place){0, part, stage}),
                                       &w->role[stage * l->tp + part]));
    return GS_OK;
}

static gs_status write_scripts(writer *w) {
    GS_TRY(rehearse(w));
    describe_sums(w);
    for (int r = 0; r < w->sim->workers; r++) GS_TRY(add_worker(w, r));
    return GS_OK;
}

static void tell_recorded(const void *context, double share) {
    const gs_simulation *sim = context;
    sim->progress(sim->context, sim->workers, 0, share);
}

gs_status gs_scripts_create(const gs_simulation *sim, const gs_simulated_work *work, gs_scripts *s) {
    writer w = {.scripts = s, .sim = sim, .work = work, .layout = gs_layout_of(&sim->settings, sim->workers)};
    const int roles = w.layout.pp * w.layout.tp;
    *s = (gs_scripts){.workers = sim->workers};
    s->lists.progress = sim->progress ? tell_recorded : NULL;
    s->lists.context = sim;
    GS_TRY(allocate(s));
    w.role = calloc((size_t)roles, sizeof *w.role);
    if (!w.role) return gs_fail(GS_E_MEMORY, "no memory for the steps of %d stages", roles);
    const gs_status status = write_scripts(&w);
    for (int i = 0; i < roles; i++) gs_rehearsal_free(&w.role[i]);
    free(w.role);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
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
