/* How long the stages of a pipeline waited, and why: what each worker writes down, and the report at the end of a run.
 *
 * T is the time from the first forward of a step to its last backward, both of which stage 0 makes. The p stages have
 * p T of it, and compute for the sum of all passes, `busy`; for the rest they wait. The same instructions are played in
 * virtual time (pipeline/virtual_time.h) with messages that take none: T_0 where each pass takes the mean of all in its
 * direction, T_1 where each takes the mean of its stage. So
 *
 *     p T - busy  =  (p T_0 - busy)       fill and drain: alone a share of the time, (p - 1) / (m + p - 1) by formula
 *                  + (p T_1 - p T_0)      stages of unequal times
 *                  + (p T - p T_1)        the rest: messages, wake-ups and loads, and passes that do not always take
 *                                         as long
 *
 * exactly. A schedule that lets stages wait where they need not has more fill and drain than the formula. */
#include "train/strategies/pipeline.h"

#include <string.h>

#include "core/clock.h"
#include "train/internal.h"
#include "train/pipeline/virtual_time.h"

void gs_stage_record_pass(gs_pipeline_worker *p, const gs_instruction *i, double start) {
    gs_stage_record *r = &p->record;
    const double end = gs_seconds();
    const int run = i->chunk * p->shape.stages + p->stage;
    if (!r->in_step) {
        memset(&r->last, 0, sizeof r->last);
        r->began = start;
    }
    r->in_step = true;
    r->last.seconds[i->action == GS_DO_BACKWARD][run] += end - start;
    if (p->stage == 0) r->last.span = end - r->began;
}

/* The first step has first touches, and threads that start: it counts only while there is no other one. */
void gs_stage_record_step(gs_pipeline_worker *p) {
    gs_stage_record *r = &p->record;
    const int chunks = p->shape.chunks;
    r->in_step = false;
    if (r->steps++ < 2) memset(&r->all, 0, sizeof r->all);
    r->all.span += r->last.span;
    for (int k = 0; k < 2 * chunks; k++) {
        const int run = k / 2 * p->shape.stages + p->stage;
        r->all.seconds[k % 2][run] += r->last.seconds[k % 2][run];
    }
}

gs_status gs_bubble_of(const gs_pipeline *p, const gs_instructions *lists, const gs_stage_times *times,
                       gs_bubble *out) {
    const int runs = p->stages * p->chunks;
    double mean[2][GS_RUNS], sum[2] = {0, 0};
    gs_pipeline_run equal, own;
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < runs; r++) sum[k] += times->seconds[k][r];
        for (int r = 0; r < runs; r++) mean[k][r] = sum[k] / runs;
    }
    equal = own = (gs_pipeline_run){0};
    GS_TRY(gs_pipeline_in_virtual_time(p, lists, &(gs_pipeline_times){mean[0], mean[1], 0}, &equal));
    GS_TRY(gs_pipeline_in_virtual_time(p, lists,
                                       &(gs_pipeline_times){times->seconds[0], times->seconds[1], 0}, &own));
    /* of p T */
    const double all = p->stages * times->span, busy = all > 0 ? (sum[0] + sum[1]) / all : 1,
                 t0 = busy / (1 - equal.bubble), t1 = busy / (1 - own.bubble);
    *out = (gs_bubble){.stages = p->stages,
                       .measured = 1 - busy,
                       .virtual_time = own.bubble,
                       .formula = gs_pipeline_bubble(p),
                       .fill = t0 - busy,
                       .unequal = t1 - t0,
                       .rest = 1 - t1,
                       .alone = equal.bubble};
    return GS_OK;
}

gs_status gs_stage_report(gs_worker *w, gs_result *result) {
    const gs_pipeline_worker *p = w->strategy_state;
    gs_stage_times sum[] = {p->record.all, p->record.last}; /* of the workers of all pipelines */
    GS_TRY(gs_comm_all_reduce(w->comm, sum, sizeof sum / (sizeof(double)), GS_F64, GS_SUM));
    GS_TRY(gs_bubble_of(&p->shape, p->list, &sum[0], &result->bubble));
    return gs_bubble_of(&p->shape, p->list, &sum[1], &result->bubble_last);
}
