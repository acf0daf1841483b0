/* A step of pipelines in virtual time: the instructions of pipeline/schedule.h, with their messages. With tp each part
 * of a stage has a pipeline of its own, which sends to the same part of the others (tensor/tensor.c). */
#include <math.h>
#include <stdlib.h>

#include "layer/memory/halves.h"
#include "train/pipeline/cut.h"
#include "train/simulate/scripts.h"
#include "train/strategies/pipeline.h"

typedef struct pipelines {
    gs_scripts *scripts;
    const gs_sim_step *step;
    gs_layout layout;
    gs_pipeline shape;
    int first[GS_RUNS + 1];
    gs_tied_runs tied;
    gs_instructions *list; /* [stages] */
    bool halves;           /* stages send 16 bits, where layers have them */
} pipelines;

/* A stage has the runs stage, stage + stages, ... */
static int run_of(const pipelines *p, int stage, int chunk) {
    return chunk * p->shape.stages + stage;
}

static double micro_samples(const pipelines *p) {
    return (double)p->step->sim->settings.batch / p->layout.dp / p->shape.micro_batches;
}

/* A micro-batch in a run: at once, or with tp layer by layer, with the sums in the group. */
static gs_status add_pass(const pipelines *p, int rank, int run, bool backward) {
    const gs_simulated_work *w = p->step->work;
    const int first = p->first[run], end = p->first[run + 1];
    const double samples = micro_samples(p);
    double all = 0;
    for (int k = 0; k < end - first && p->layout.tp > 1; k++) {
        const int layer = backward ? end - 1 - k : first + k;
        GS_TRY(gs_scripts_add_part(p->scripts, p->step, rank,
                                   &(gs_sim_pass){layer, backward, samples, samples / w->samples}));
    }
    if (p->layout.tp > 1) return GS_OK;
    for (int i = first; i < end; i++) all += backward ? w->layer[i].backward : w->layer[i].forward;
    return gs_scripts_add(
        p->scripts, rank,
        gs_item_pass(all / w->samples * samples, backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD), true);
}

/* Bytes between a run and the next one, of a micro-batch. */
static size_t between(const pipelines *p, int run) {
    const gs_layer *after = p->step->part->net->child[p->first[run + 1]];
    return gs_bytes_of((size_t)ceil((double)gs_shape_size(after->in) * micro_samples(p)),
                       p->halves && after->x_half);
}

static size_t bytes_of(const pipelines *p, const gs_instruction *i, int stage) {
    switch (i->action) {
    case GS_DO_SEND_ACTIVATION:
    case GS_DO_RECV_GRADIENT:
        return between(p, run_of(p, stage, i->chunk));
    case GS_DO_RECV_ACTIVATION:
    case GS_DO_SEND_GRADIENT:
        return between(p, run_of(p, stage, i->chunk) - 1);
    default:
        return p->tied.table ? p->tied.table->count * sizeof(float) : 0;
    }
}

static size_t params_of_run(const pipelines *p, int run) {
    const gs_layer *net = p->step->part->net;
    const int end = p->first[run + 1];
    const size_t from = run == 0 ? 0 : net->child[p->first[run]]->at,
                 to = end < net->children ? net->child[end]->at : p->step->part->params;
    return to - from;
}

static size_t params_of(const pipelines *p, int stage) {
    size_t all = 0;
    for (int c = 0; c < p->shape.chunks; c++) all += params_of_run(p, run_of(p, stage, c));
    return all;
}

/* How many messages a stage must have taken from the peer of this receive, until it has what it wants: they come in the
 * order in which the peer sends them, and those that it wants later are kept (schedule.h). */
static int place_of(const pipelines *p, const gs_instruction *receive, int stage) {
    const gs_instruction wanted = gs_instruction_sent(&p->shape, receive, stage);
    const gs_instructions *its = &p->list[receive->peer];
    int place = 0;
    for (size_t i = 0; i < its->count; i++) {
        const gs_instruction *one = &its->list[i];
        if (!gs_action_sends(one->action) || one->peer != stage) continue;
        place++;
        if (gs_instruction_is(one, &wanted)) return place;
    }
    gs_bug("stage %d is never sent what it receives from stage %d", stage, receive->peer);
}

static bool is_divided(const pipelines *p) {
    return p->layout.zero > 0 && p->layout.dp > 1;
}

/* The gradients of a run, among the workers `beside`. */
static gs_status add_sum(const pipelines *p, const gs_sim_group *beside, int place, size_t count) {
    const size_t n = is_divided(p) ? (size_t)beside->size : 0, rest = n > 0 ? count % n : count;
    GS_TRY(gs_scripts_add_call(p->scripts, beside, place, GS_REDUCE_SCATTER, count - rest));
    return gs_scripts_add_call(p->scripts, beside, place, GS_ALL_REDUCE, rest);
}

/* As in strategies/pipeline.c and all_reduce.c: a barrier between the stages, the gradients of each run, then the
 * counts; and these once more, among all workers. */
static gs_status add_sums(const pipelines *p, int rank, gs_place at) {
    const gs_layout *l = &p->layout;
    gs_scripts *s = p->scripts;
    const gs_sim_group beside = gs_sim_beside(l, at.stage, at.part), all = {0, 1, s->workers},
                       lane = {at.replica * l->tp + at.part, l->dp * l->tp, l->pp};
    GS_TRY(gs_scripts_add_call(s, &lane, at.stage, GS_BARRIER, 0));
    for (int c = 0; c < p->shape.chunks; c++)
        GS_TRY(add_sum(p, &beside, at.replica, params_of_run(p, run_of(p, at.stage, c))));
    if (at.stage == l->pp - 1) GS_TRY(gs_scripts_add_call(s, &beside, at.replica, GS_ALL_REDUCE, GS_STATS));
    return gs_scripts_add_call(s, &all, rank, GS_ALL_REDUCE, GS_STATS);
}

/* With ZeRO 1 of a part, and then the weights become whole. */
static gs_status add_update(const pipelines *p, int rank, gs_place at) {
    const gs_sim_group beside = gs_sim_beside(&p->layout, at.stage, at.part);
    const gs_simulated_work *w = p->step->work;
    const double share = (double)params_of(p, at.stage) / (double)w->plan->params;
    const int parts = is_divided(p) ? beside.size : 1;
    GS_TRY(gs_scripts_add(p->scripts, rank, gs_item_pass(w->update * share / parts, GS_SIM_UPDATE), true));
    for (int c = 0; c < p->shape.chunks && parts > 1; c++)
        GS_TRY(gs_scripts_add_call(p->scripts, &beside, at.replica, GS_ALL_GATHER,
                                   params_of_run(p, run_of(p, at.stage, c)) / (size_t)parts));
    return GS_OK;
}

/* taken[peer]: messages from this stage so far. */
static gs_status add_message(const pipelines *p, int rank, int stage, const gs_instruction *i, int *taken) {
    gs_virtual_item item = {.what = GS_VIRTUAL_SEND_ONE,
                            .base = rank + (i->peer - stage) * p->layout.dp * p->layout.tp,
                            .bytes = bytes_of(p, i, stage),
                            .kind = GS_SIM_MESSAGE};
    if (gs_action_sends(i->action)) return gs_scripts_add(p->scripts, rank, item, false);
    item.what = GS_VIRTUAL_RECV_ONE;
    for (const int place = place_of(p, i, stage); taken[i->peer] < place; taken[i->peer]++)
        GS_TRY(gs_scripts_add(p->scripts, rank, item, false));
    return GS_OK;
}

static gs_status add_instruction(const pipelines *p, int rank, const gs_instruction *i, int *taken) {
    const gs_place at = gs_place_of(&p->layout, rank);
    const int run = run_of(p, at.stage, i->chunk);
    if (gs_action_sends(i->action) || gs_action_receives(i->action))
        return add_message(p, rank, at.stage, i, taken);
    switch (i->action) {
    case GS_DO_FORWARD:
        return add_pass(p, rank, run, false);
    case GS_DO_BACKWARD:
        return add_pass(p, rank, run, true);
    case GS_DO_SUM:
        return add_sums(p, rank, at);
    case GS_DO_UPDATE:
        return add_update(p, rank, at);
    default:
        return GS_OK;
    }
}

static gs_status add_rank(const pipelines *p, int rank) {
    const gs_instructions *its = &p->list[gs_place_of(&p->layout, rank).stage];
    int taken[GS_RUNS] = {0};
    for (size_t i = 0; i < its->count; i++) GS_TRY(add_instruction(p, rank, &its->list[i], taken));
    return GS_OK;
}

static gs_status add_stages(const pipelines *p, const gs_pipeline_schedule *schedule) {
    for (int stage = 0; stage < p->shape.stages; stage++)
        GS_TRY(gs_instructions_create(schedule, &p->shape, stage, &p->list[stage]));
    for (int r = 0; r < p->scripts->workers; r++) GS_TRY(add_rank(p, r));
    return GS_OK;
}

gs_status gs_scripts_add_pipeline(gs_scripts *s, const gs_sim_step *step) {
    const gs_layout *l = &step->layout;
    const gs_settings *settings = &step->sim->settings;
    const gs_pipeline_schedule *schedule;
    pipelines p = {.scripts = s, .step = step, .layout = *l};
    int chunks;
    GS_TRY(gs_pipeline_read(settings->pipeline_schedule, &schedule, &chunks));
    const int m = settings->micro_batches, runs = l->pp * chunks;
    p.shape = (gs_pipeline){.stages = l->pp, .micro_batches = m > 0 ? m : 4 * l->pp, .chunks = chunks};
    GS_TRY(gs_pipeline_cut(step->work->plan, "flops", runs, p.first));
    GS_TRY(gs_pipeline_tied(step->part, runs, p.first, &p.tied));
    if (p.tied.table) p.shape.tied = GS_TIED_ONCE;
    GS_TRY(gs_stage_would_halve(settings, settings->devices, (gs_rank_range){0, 1, 1}, &p.halves));
    if (p.halves) GS_TRY(gs_halves_find(step->part->net));
    GS_TRY(gs_pipeline_check(schedule, &p.shape));
    s->formula = NAN;
    s->buckets = 1;
    p.list = calloc((size_t)l->pp, sizeof *p.list);
    if (!p.list) return gs_fail(GS_E_MEMORY, "no memory for a pipeline of %d stages", l->pp);
    const gs_status status = add_stages(&p, schedule);
    for (int stage = 0; stage < l->pp; stage++) gs_instructions_free(&p.list[stage]);
    free(p.list);
    return status;
}
