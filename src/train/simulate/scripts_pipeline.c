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
    gs_model *part; /* of the model, with tp; else it is the plan of all */
    gs_pipeline shape;
    int first[GS_RUNS + 1];
    gs_tied_runs tied;
    gs_instructions list; /* of the stage at hand */
} pipelines;

static double micro_samples(const pipelines *p) {
    return (double)p->sim->settings.batch / p->layout.dp / p->shape.micro_batches;
}

/* Seconds of a micro-batch in a stage. */
static double takes(const pipelines *p, int stage, bool backward) {
    double all = 0;
    for (int i = p->first[stage]; i < p->first[stage + 1]; i++)
        all += backward ? p->work->layer[i].backward : p->work->layer[i].forward;
    return all / p->work->samples * micro_samples(p);
}

/* Bytes between a stage and the next one, of a micro-batch. */
static size_t between(const pipelines *p, int stage) {
    const gs_layer *last = p->part->net->child[p->first[stage + 1] - 1];
    return (size_t)ceil((double)gs_shape_size(last->out) * micro_samples(p)) * sizeof(float);
}

static size_t bytes_of(const pipelines *p, const gs_instruction *i, int stage) {
    switch (i->action) {
    case GS_DO_SEND_ACTIVATION:
    case GS_DO_RECV_GRADIENT:
        return between(p, stage);
    case GS_DO_RECV_ACTIVATION:
    case GS_DO_SEND_GRADIENT:
        return between(p, stage - 1);
    default:
        return p->tied.table ? p->tied.table->count * sizeof(float) : 0;
    }
}

static size_t params_of(const pipelines *p, int stage) {
    const gs_layer *net = p->part->net;
    const int end = p->first[stage + 1];
    const size_t from = stage == 0 ? 0 : net->child[p->first[stage]]->at,
                 to = end < net->children ? net->child[end]->at : p->part->params;
    return to - from;
}

/* A micro-batch in a stage: at once, or with tp layer by layer, with the sums in the group. */
static gs_status add_pass(const pipelines *p, int rank, int stage, bool backward) {
    const int first = p->first[stage], end = p->first[stage + 1];
    if (p->layout.tp == 1)
        return gs_scripts_add(
            p->scripts, rank,
            gs_item_pass(takes(p, stage, backward), backward ? GS_SIM_BACKWARD : GS_SIM_FORWARD), true);
    for (int i = first; i < end; i++)
        GS_TRY(gs_scripts_add_part(p->scripts, p->work, p->part, rank, backward ? end - 1 - (i - first) : i,
                                   backward, micro_samples(p)));
    return GS_OK;
}

/* Of part `beside.base % tp` of a stage, replica `replica`: train/layout/layout.h has the ranks. */
static gs_status add_instruction(const pipelines *p, const gs_sim_group *beside, int stage, int replica,
                                 const gs_instruction *i, const gs_lists_key *sum) {
    gs_scripts *s = p->scripts;
    const int dp = p->layout.dp, tp = p->layout.tp, rank = beside->base + replica * tp;
    const bool divided = p->layout.zero > 0 && dp > 1;
    if (gs_action_sends(i->action) || gs_action_receives(i->action)) {
        const gs_virtual_item item = {.what = gs_action_sends(i->action) ? GS_VIRTUAL_SEND_ONE
                                                                         : GS_VIRTUAL_RECV_ONE,
                                      .base = (i->peer - stage) * dp * tp + rank,
                                      .bytes = bytes_of(p, i, stage),
                                      .kind = GS_SIM_MESSAGE};
        return gs_scripts_add(s, rank, item, false);
    }
    switch (i->action) {
    case GS_DO_FORWARD:
        return add_pass(p, rank, stage, false);
    case GS_DO_BACKWARD:
        return add_pass(p, rank, stage, true);
    case GS_DO_SUM:
        return divided ? gs_scripts_add_reduce(s, beside, replica, params_of(p, stage), 0)
                       : gs_scripts_add_sum(s, beside, replica, sum);
    case GS_DO_UPDATE: {
        const double share = (double)params_of(p, stage) / (double)p->work->plan->params;
        return divided ? gs_scripts_add_own_update(s, beside, replica, params_of(p, stage),
                                                   p->work->update * share)
                       : gs_scripts_add(s, rank, gs_item_pass(p->work->update * share, GS_SIM_UPDATE), true);
    }
    default:
        return GS_OK;
    }
}

static gs_status add_stage(pipelines *p, const gs_pipeline_schedule *schedule, int stage) {
    gs_lists_key sum = {.array = {params_of(p, stage), p->sim->settings.wire, 0}, .ranks = p->layout.dp};
    GS_TRY(gs_sync_find(p->sim->settings.sync, &sum.scheme));
    GS_TRY(gs_instructions_create(schedule, &p->shape, stage, &p->list));
    for (int r = 0; r < p->layout.dp * p->layout.tp; r++) {
        const gs_sim_group beside = {stage * p->layout.dp * p->layout.tp + r % p->layout.tp, p->layout.tp,
                                     p->layout.dp};
        for (size_t i = 0; i < p->list.count; i++)
            GS_TRY(add_instruction(p, &beside, stage, r / p->layout.tp, &p->list.list[i], &sum));
    }
    return GS_OK;
}

gs_status gs_scripts_add_pipeline(gs_scripts *s, const gs_simulation *sim, const gs_simulated_work *w,
                                  const gs_layout *l) {
    const gs_pipeline_schedule *schedule;
    pipelines p = {.scripts = s, .sim = sim, .work = w, .layout = *l};
    int chunks;
    GS_TRY(gs_pipeline_read(sim->settings.pipeline_schedule, &schedule, &chunks));
    if (chunks > 1 || schedule->chunked)
        return gs_fail(GS_E_USAGE, "simulate knows --pipeline-schedule gpipe and 1f1b, not interleaved");
    const int m = sim->settings.micro_batches;
    p.shape = (gs_pipeline){.stages = l->pp, .micro_batches = m > 0 ? m : 4 * l->pp, .chunks = 1};
    GS_TRY(gs_pipeline_cut(w->plan, "flops", l->pp, p.first));
    GS_TRY(gs_pipeline_tied(w->plan, l->pp, p.first, &p.tied));
    if (p.tied.table) p.shape.tied = GS_TIED_ONCE;
    GS_TRY(gs_pipeline_check(schedule, &p.shape));
    s->formula = NAN;
    s->buckets = 1;
    p.part = w->plan;
    if (l->tp > 1) GS_TRY(gs_scripts_plan_part(w, l, &p.part));
    gs_status status = GS_OK;
    for (int stage = 0; stage < l->pp && status == GS_OK; stage++) {
        status = add_stage(&p, schedule, stage);
        gs_instructions_free(&p.list);
        p.list = (gs_instructions){0};
    }
    if (l->tp > 1) gs_model_free(p.part);
    return status;
}
