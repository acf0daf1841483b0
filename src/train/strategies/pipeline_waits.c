/* How long the stages of a pipeline waited, and why: what each worker writes down, and the report at the end of a run.
 * See train/pipeline/waits.h. */
#include "train/strategies/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/machine.h"
#include "train/internal.h"
#include "train/pipeline/virtual_time.h"
#include "train/pipeline/waits.h"

enum { ROOM = 4096 /* passes: 64 kB; but at least */, LEAST_STEPS = 2 };

/* ---- during a run ---- */

/* In doubles, of all steps that have a place. */
static size_t size_of(const gs_stage_record *r) {
    return 1 + r->room * (1 + 2 * r->passes);
}

static void lay_out(gs_stage_record *r, double *data) {
    r->data = data;
    r->met = data + 1;
    r->time = (gs_pass_time *)(r->met + r->room);
}

/* The place of a step. */
static size_t place_of(const gs_stage_record *r, size_t step) {
    return step % r->room;
}

static gs_pass_time *passes_of(const gs_stage_record *r, size_t step) {
    return &r->time[place_of(r, step) * r->passes];
}

gs_status gs_stage_record_create(gs_pipeline_worker *p) {
    gs_stage_record *r = &p->record;
    r->passes = gs_passes_of_stage(&p->shape);
    r->room = ROOM / r->passes > LEAST_STEPS ? ROOM / r->passes : LEAST_STEPS;
    double *data = calloc(size_of(r), sizeof *data);
    if (!data) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for the times of %zu passes", r->passes);
    lay_out(r, data);
    r->data[0] = gs_machine();
    return GS_OK;
}

void gs_stage_record_free(gs_pipeline_worker *p) {
    free(p->record.data);
}

void gs_stage_record_pass(gs_pipeline_worker *p, double start) {
    gs_stage_record *r = &p->record;
    passes_of(r, r->steps)[r->made] = (gs_pass_time){start, gs_seconds()};
    if (++r->made == r->passes) r->made = 0;
}

void gs_stage_record_step(gs_pipeline_worker *p) {
    gs_stage_record *r = &p->record;
    r->met[place_of(r, r->steps)] = gs_seconds();
    r->steps++;
    r->made = 0;
}

/* ---- the report ---- */

/* What the workers of all pipelines add up. */
typedef struct sums {
    gs_pipeline_waits waits, last; /* of all steps that are kept, and of the last one */
    double seconds[2 * GS_RUNS];
} sums;

/* Of stage s; all: what the stages of a pipeline have sent. */
static gs_stage_record record_of(const gs_pipeline_worker *p, double *all, int s) {
    gs_stage_record r = p->record;
    lay_out(&r, all + (size_t)s * size_of(&r));
    return r;
}

/* On another machine a stage's clock differs from that of the first stage by as much as the moments at which they met;
 * that is off by as long as a message takes. */
static void bring_to_one_clock(const gs_pipeline_worker *p, double *all) {
    const gs_stage_record first = record_of(p, all, 0);
    for (int s = 1; s < p->shape.stages; s++) {
        gs_stage_record r = record_of(p, all, s);
        if (r.data[0] == first.data[0]) continue;
        for (size_t i = 0; i < r.room * r.passes; i++) {
            const double off = first.met[i / r.passes] - r.met[i / r.passes];
            r.time[i].start += off;
            r.time[i].end += off;
        }
    }
}

/* The steps from..to - 1 of all stages, in the order that gs_pipeline_waits_of wants. */
static void collect(const gs_pipeline_worker *p, double *all, size_t from, size_t to, gs_pass_time *out) {
    for (int s = 0; s < p->shape.stages; s++) {
        const gs_stage_record r = record_of(p, all, s);
        for (size_t step = from; step < to; step++, out += r.passes)
            memcpy(out, passes_of(&r, step), r.passes * sizeof *out);
    }
}

/* Of one pipeline, by its first stage. The first step is left out: it has first touches, and threads that start. */
static gs_status add_up(const gs_pipeline_worker *p, double *all, sums *out) {
    const gs_stage_record *r = &p->record;
    const size_t to = r->steps, kept = to < r->room ? to : r->room, stages = (size_t)p->shape.stages;
    const size_t from = to > 1 && kept == to ? 1 : to - kept;
    if (kept == 0) return GS_OK;
    gs_pass_time *time = malloc(stages * (to - from) * r->passes * sizeof *time);
    if (!time) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for the times of %zu steps", to - from);
    bring_to_one_clock(p, all);
    collect(p, all, from, to, time);
    gs_status status = gs_pipeline_waits_of(&p->shape, p->list, time, to - from, &out->waits, out->seconds);
    collect(p, all, to - 1, to, time);
    if (status == GS_OK) status = gs_pipeline_waits_of(&p->shape, p->list, time, 1, &out->last, NULL);
    free(time);
    return status;
}

static gs_status gather(gs_worker *w, const gs_pipeline_worker *p, sums *out) {
    const bool adds = p->stage == 0;
    const size_t size = size_of(&p->record);
    double *all = adds ? malloc((size_t)p->shape.stages * size * sizeof *all) : NULL;
    if (adds && !all) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for the times of all stages");
    gs_status status = gs_comm_gather(w->groups.comm[GS_PP], p->record.data, all, size, GS_F64, 0);
    if (status == GS_OK && adds) status = add_up(p, all, out);
    free(all);
    return status;
}

static gs_bubble bubble_of(const gs_pipeline_worker *p, const gs_pipeline_waits *w, double virtual_time) {
    const double all = w->all > 0 ? w->all : 1;
    return (gs_bubble){.stages = p->shape.stages,
                       .measured = (w->all - w->busy) / all,
                       .virtual_time = virtual_time,
                       .formula = gs_pipeline_bubble(&p->shape),
                       .fill = w->fill / all,
                       .unequal = w->unequal / all,
                       .uneven = w->uneven / all,
                       .messages = w->messages / all,
                       .alone = gs_pipeline_fill_alone(w)};
}

gs_status gs_stage_report(gs_worker *w, gs_result *result) {
    const gs_pipeline_worker *p = w->strategy_state;
    sums all = {0};
    gs_pipeline_run run = {0};
    GS_TRY(gather(w, p, &all));
    GS_TRY(gs_comm_all_reduce(w->comm, &all, sizeof all / sizeof(double), GS_F64, GS_SUM));
    GS_TRY(gs_pipeline_in_virtual_time(
        &p->shape, p->list, &(gs_pipeline_times){.forward = all.seconds, .backward = all.seconds + p->runs},
        &run));
    result->bubble = bubble_of(p, &all.waits, run.bubble);
    result->bubble_last = bubble_of(p, &all.last, run.bubble);
    return GS_OK;
}
