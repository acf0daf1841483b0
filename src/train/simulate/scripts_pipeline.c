/* A step of pipelines in virtual time: the instructions of pipeline/schedule.h, with their messages. */
#include <math.h>
#include <stdlib.h>

#include "train/pipeline/cut.h"
#include "train/simulate/scripts.h"
#include "train/ways/pipeline.h"

typedef struct pipelines {
    gs_scripts *scripts;
    const gs_simulation *sim;
    const gs_simulated_work *work;
    gs_layout layout;
    gs_pipeline shape;
    int first[GS_RUNS + 1];
    gs_tied_runs tied;
    gs_instructions *list; /* [stages] */
} pipelines;

/* A stage has the runs stage, stage + stages, ... */
static int run_of(const pipelines *p, int stage, int chunk) {
    return chunk * p->shape.stages + stage;
}

static double micro_samples(const pipelines *p) {
    return (double)p->sim->settings.batch / p->layout.dp / p->shape.micro_batches;
}

/* Seconds of a micro-batch in a run. */
static double takes(const pipelines *p, int run, bool backward) {
    double all = 0;
    for (int i = p->first[run]; i < p->first[run + 1]; i++)
        all += backward ? p->work->layer[i].backward : p->work->layer[i].forward;
    return all / p->work->samples * micro_samples(p);
}

/* Bytes between a run and the next one, of a micro-batch. */
static size_t between(const pipelines *p, int run) {
    const gs_layer *last = p->work->plan->net->child[p->first[run + 1] - 1];
    return (size_t)ceil((double)gs_shape_size(last->out) * micro_samples(p)) * sizeof(float);
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
    const gs_layer *net = p->work->plan->net;
    const int end = p->first[run + 1];
    const size_t from = run == 0 ? 0 : net->child[p->first[run]]->at,
                 to = end < net->children ? net->child[end]->at : p->work->plan->params;
    return to - from;
}

static size_t params_of(const pipelines *p, int stage) {
    size_t all = 0;
    for (int c = 0; c < p->shape.chunks; c++) all += params_of_run(p, run_of(p, stage, c));
    return all;
}

static bool is_same(const gs_instruction *a, const gs_instruction *b) {
    return a->action == b->action && a->micro_batch == b->micro_batch && a->chunk == b->chunk &&
           a->peer == b->peer;
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
        if (is_same(one, &wanted)) return place;
    }
    gs_bug("stage %d is never sent what it receives from stage %d", stage, receive->peer);
}

static gs_status add_all_reduce(const pipelines *p, const gs_sim_group *g, int place, size_t count) {
    const gs_lists_key key = {.call = {GS_ALL_REDUCE, count, GS_F32, GS_SUM, 0}, .ranks = g->size};
    return count > 0 ? gs_scripts_add_sum(p->scripts, g, place, &key) : GS_OK;
}

/* As in ways/pipeline.c and pipeline_sum.c: a barrier between the stages, the gradients of each run, then the counts;
 * and these once more, among all workers. */
static gs_status add_sums(const pipelines *p, int rank, int stage, int replica) {
    const gs_sim_group beside = {stage * p->layout.dp, 1, p->layout.dp}, all = {0, 1, p->sim->workers},
                       lane = {replica, p->layout.dp, p->shape.stages};
    const gs_lists_key barrier = {.call = {GS_BARRIER, 0, GS_F32, GS_SUM, 0}, .ranks = lane.size};
    GS_TRY(gs_scripts_add_sum(p->scripts, &lane, stage, &barrier));
    for (int c = 0; c < p->shape.chunks; c++)
        GS_TRY(add_all_reduce(p, &beside, replica, params_of_run(p, run_of(p, stage, c))));
    if (stage == p->shape.stages - 1) GS_TRY(add_all_reduce(p, &beside, replica, GS_STATS));
    return add_all_reduce(p, &all, rank, GS_STATS);
}

/* taken[peer]: messages from this stage so far. */
static gs_status add_message(const pipelines *p, int rank, int stage, int replica, const gs_instruction *i,
                             int *taken) {
    gs_virtual_item item = {.what = GS_VIRTUAL_SEND_ONE,
                            .base = i->peer * p->layout.dp + replica,
                            .bytes = bytes_of(p, i, stage),
                            .kind = GS_SIM_MESSAGE};
    if (gs_action_sends(i->action)) return gs_scripts_add(p->scripts, rank, item, false);
    item.what = GS_VIRTUAL_RECV_ONE;
    for (const int place = place_of(p, i, stage); taken[i->peer] < place; taken[i->peer]++)
        GS_TRY(gs_scripts_add(p->scripts, rank, item, false));
    return GS_OK;
}

static gs_status add_instruction(const pipelines *p, int rank, int stage, int replica,
                                 const gs_instruction *i, int *taken) {
    gs_scripts *s = p->scripts;
    const int run = run_of(p, stage, i->chunk);
    if (gs_action_sends(i->action) || gs_action_receives(i->action))
        return add_message(p, rank, stage, replica, i, taken);
    switch (i->action) {
    case GS_DO_FORWARD:
        return gs_scripts_add(s, rank, gs_item_pass(takes(p, run, false), GS_SIM_FORWARD), true);
    case GS_DO_BACKWARD:
        return gs_scripts_add(s, rank, gs_item_pass(takes(p, run, true), GS_SIM_BACKWARD), true);
    case GS_DO_SUM:
        return add_sums(p, rank, stage, replica);
    case GS_DO_UPDATE: {
        const double share = (double)params_of(p, stage) / (double)p->work->plan->params;
        return gs_scripts_add(s, rank, gs_item_pass(p->work->update * share, GS_SIM_UPDATE), true);
    }
    default:
        return GS_OK;
    }
}

static gs_status add_stage(const pipelines *p, int stage) {
    const gs_instructions *its = &p->list[stage];
    for (int replica = 0; replica < p->layout.dp; replica++) {
        int taken[GS_RUNS] = {0};
        for (size_t i = 0; i < its->count; i++)
            GS_TRY(add_instruction(p, stage * p->layout.dp + replica, stage, replica, &its->list[i], taken));
    }
    return GS_OK;
}

static gs_status add_stages(const pipelines *p, const gs_pipeline_schedule *schedule) {
    for (int stage = 0; stage < p->shape.stages; stage++)
        GS_TRY(gs_instructions_create(schedule, &p->shape, stage, &p->list[stage]));
    for (int stage = 0; stage < p->shape.stages; stage++) GS_TRY(add_stage(p, stage));
    return GS_OK;
}

gs_status gs_scripts_add_pipeline(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                                  const gs_layout *l) {
    const gs_pipeline_schedule *schedule;
    pipelines p = {.scripts = s, .sim = sim, .work = w, .layout = *l};
    int chunks;
    GS_TRY(gs_pipeline_read(sim->settings.pipeline_schedule, &schedule, &chunks));
    const int m = sim->settings.micro_batches, runs = l->pp * chunks;
    p.shape = (gs_pipeline){.stages = l->pp, .micro_batches = m > 0 ? m : 4 * l->pp, .chunks = chunks};
    GS_TRY(gs_pipeline_cut(w->plan, "flops", runs, p.first));
    GS_TRY(gs_pipeline_tied(w->plan, runs, p.first, &p.tied));
    if (p.tied.table) p.shape.tied = GS_TIED_ONCE;
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
