/* --pipeline P: each worker has a stage of the model, and micro-batches follow each other through the stages.
 *
 *     worker 0   layers 0-2    F0 F1 F2 F3 .  .  B0 B1 B2 B3  update       F: forward, its y goes to the next stage
 *     worker 1   layers 3-11   .  F0 F1 F2 F3 B0 B1 B2 B3 .   update       B: backward, its dx goes to the one before
 *
 * A schedule (../pipeline/schedule.h) is a list of instructions for each stage, which its worker executes one after the
 * other (pipeline_run.c): it never asks where another stage is. The model is cut so that the slowest stage is as fast
 * as can be (../pipeline/cut.h, ../settle_cut.c). Each micro-batch that is forward and not yet backward needs
 * activations of its own, of the stage's layers: gs_model_wishes.
 *
 * More workers are several pipelines, side by side. Of N pipelines worker r is stage r / N of pipeline r % N
 * (../layout/layout.h), and each pipeline has a part of the batch:
 *
 *     pipeline 0    worker 0  ->  worker 2        gradients are summed over the same stage
 *     pipeline 1    worker 1  ->  worker 3        of all pipelines: 0 + 1, 2 + 3
 *
 * The weights after a step are those of one worker with --accumulate M, up to rounding. With --exact the micro-batches
 * are virtual shards, each by itself from an empty gradient on, and they are added in their tree (../order.h): the
 * bits of one worker. What a stage computes is what these layers compute in a whole model; messages change no bit.
 *
 * `tied` (layer/tied.c) is in the last stage, and the table in the first. The last one has a copy. Its part of the
 * gradient goes to the first stage, which adds its own and updates, and sends the table back. With --exact it goes for
 * each micro-batch, since the embedding's backward adds to it row by row, in an order that must stay.
 *
 * A worker holds the weights, the gradients and the optimiser's vectors of its stage alone (../holding.h). When the
 * run begins it has all weights for a moment; they become whole again, on the host, to be saved. The test set goes
 * through the stages too.
 *
 * With --zero the replicas of a stage, one in each pipeline, divide its vectors (../zero/zero.h): gradients are
 * reduce-scattered among them, each updates its part, and the weights are all-gathered. --zero 2 and 3 do so unit by
 * unit in each micro-batch: they keep less, and send as many times the bytes as there are micro-batches.
 *
 * Sources: see schedule.h.
 */
#include "train/strategies/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/device.h"
#include "train/internal.h"
#include "train/reducer.h"

/* ---- settings ---- */

enum { CHUNKS = 2 /* of interleaved, unless it says otherwise */ };

gs_status gs_pipeline_read(const char *text, const gs_pipeline_schedule **schedule, int *chunks) {
    const char *name = text ? text : gs_1f1b.name;
    const size_t length = strcspn(name, ":");
    *schedule = NULL;
    for (const gs_pipeline_schedule *const *s = gs_pipeline_schedules(); *s; s++)
        if (strlen((*s)->name) == length && strncmp((*s)->name, name, length) == 0) *schedule = *s;
    *chunks = *schedule && (*schedule)->chunked ? CHUNKS : 1;
    char end;
    if (*schedule && !name[length]) return GS_OK;
    if (*schedule && (*schedule)->chunked && sscanf(name + length, ":%6d%c", chunks, &end) == 1 &&
        *chunks >= 1 && *chunks <= GS_RUNS)
        return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--pipeline-schedule: '%s' is not a schedule; wanted gpipe, 1f1b, eager, interleaved, or "
                   "interleaved:V with V from 1 to %d runs of layers in each stage",
                   name, GS_RUNS);
}

/* What other strategies do not know. */
static gs_status check_others(const gs_settings *s) {
    if (s->pipeline > 1) return GS_OK; /* with --tensor */
    const char *option = s->micro_batches > 0   ? "micro-batches"
                         : s->pipeline_cut      ? "pipeline-cut"
                         : s->pipeline_schedule ? "pipeline-schedule"
                                                : NULL;
    if (!option) return GS_OK;
    return gs_fail(GS_E_USAGE, "--%s is for --pipeline P, which cuts the model into P stages", option);
}

static gs_status check(const gs_settings *s, bool chosen) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    if (!chosen) return check_others(s);
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    return gs_pipeline_cut_check(s->pipeline_cut);
}

static gs_status check_model(const gs_settings *s, const gs_model *plan, gs_pipeline *p) {
    const int runs = p->stages * p->chunks;
    int *first = malloc((GS_RUNS + 1) * sizeof *first);
    gs_tied_runs tied = {NULL, 0, 0};
    if (!first) return gs_fail(GS_E_MEMORY, "no memory to cut a model");
    gs_status status = gs_pipeline_cut(plan, s->pipeline_cut, NULL, runs, first);
    if (status == GS_OK) status = gs_pipeline_tied(plan, runs, first, &tied);
    if (tied.table) p->tied = s->exact ? GS_TIED_EACH : GS_TIED_ONCE;
    free(first);
    return status;
}

size_t gs_pipeline_micro_batch(const gs_settings *s, size_t batch, int workers) {
    const size_t part = gs_schedule_cut(batch, 0, gs_parts_of(s, workers), gs_together(s)).count;
    return gs_schedule_cut(part, 0, gs_passes(s), gs_together(s)).count;
}

/* A micro-batch is computed at once. */
static gs_status check_sizes(const gs_settings *s, const gs_dataset *set, int workers) {
    const size_t batch = s->batch ? s->batch : set->count;
    size_t most;
    GS_TRY(gs_largest_piece(s, set->shape, &most));
    const size_t cuts = (size_t)gs_parts_of(s, workers) * (size_t)gs_passes(s),
                 micro = gs_pipeline_micro_batch(s, batch, workers);
    if (micro <= most) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--batch %zu in %zu micro-batches, of all pipelines together: one of them has %zu "
                   "samples, and at most %zu are computed at once; wanted %s, or --micro-batch %zu",
                   batch, cuts, micro, most, s->exact ? "a smaller --batch" : "more --micro-batches", micro);
}

static gs_status check_workers(const gs_settings *s, const gs_dataset *set, int workers) {
    const gs_pipeline_schedule *schedule;
    gs_pipeline p = {.stages = s->pipeline};
    const int each = gs_replica_size(s);
    if (workers % each != 0)
        return gs_fail(GS_E_USAGE,
                       "--pipeline %d: there %s %d worker%s; wanted a multiple of %d, a worker for each "
                       "%sstage of each pipeline (--devices, or launch -n)",
                       s->pipeline, workers == 1 ? "is" : "are", workers, gs_s((unsigned)workers), each,
                       s->tensor > 1 ? "part of each " : "");
    const int pipelines = workers / each;
    if (s->exact && GS_EXACT_SHARDS % pipelines != 0)
        return gs_fail(GS_E_USAGE,
                       "--pipeline %d --exact: there are %d workers, in %d pipelines; wanted 1, 2, 4 or 8 "
                       "pipelines, so that the %d virtual shards of a batch divide evenly",
                       s->pipeline, workers, pipelines, GS_EXACT_SHARDS);
    if (s->exact && s->micro_batches > 0 && s->micro_batches != GS_EXACT_SHARDS / pipelines)
        return gs_fail(GS_E_USAGE,
                       "--micro-batches %d: with --exact the micro-batches of a pipeline are its part of the "
                       "%d virtual shards; wanted %d, or no --micro-batches",
                       s->micro_batches, GS_EXACT_SHARDS, GS_EXACT_SHARDS / pipelines);
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &p.chunks));
    p.micro_batches = s->exact ? GS_EXACT_SHARDS / pipelines : gs_passes(s);
    gs_model *plan;
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = set->shape}, &plan));
    gs_status status = gs_context(check_model(s, plan, &p), "--pipeline %d", s->pipeline);
    gs_model_free(plan);
    GS_TRY(status);
    GS_TRY(gs_context(gs_pipeline_check(schedule, &p), "--pipeline %d", s->pipeline));
    return check_sizes(s, set, workers);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    if (gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks) != GS_OK) return;
    const int used = snprintf(text, size, "pipelines of %d stages, %s", s->pipeline, schedule->title);
    if (used > 0 && (size_t)used < size && chunks > 1)
        snprintf(text + used, size - (size_t)used, " of %d runs in each", chunks);
}

/* ---- training ---- */

static gs_status create(gs_worker *w) {
    gs_pipeline_worker *p = w->strategy_state = calloc(1, sizeof *p);
    if (!p) return gs_fail(GS_E_MEMORY, "no memory for --pipeline");
    return gs_stage_create(w, p);
}

static void free_stage(gs_worker *w) {
    gs_pipeline_worker *p = w->strategy_state;
    if (p) gs_stage_free(w, p);
    free(p);
}

/* The last stage of the first pipeline has the counts, on each of its parts; the others add 0, so this sum is exact.
 * And everyone can ask to stop. */
static gs_status share_score(gs_worker *w, const gs_pipeline_worker *p, gs_score *score) {
    const bool has_counts =
        p->stage == p->shape.stages - 1 && p->own->replica == 0 && w->model->tensor.rank == 0;
    for (int i = 0; i < GS_STATS; i++) w->counts[i] = 0;
    if (has_counts)
        GS_TRY(w->device->ops->read(w->device, w->counts, gs_model_stats(w->model), sizeof w->counts));
    w->counts[GS_STAT_STOP] = gs_wishes(w, w->step + 1);
    GS_TRY(gs_comm_all_reduce(w->comm, w->counts, GS_STATS, GS_F32, GS_SUM));
    *score = gs_score_of(w->counts);
    return GS_OK;
}

static gs_status step(gs_worker *w, gs_score *score) {
    gs_pipeline_worker *p = w->strategy_state;
    GS_TRY(gs_stage_run(w, p)); /* load, forward, loss, backward: this stage's part of them */
    GS_TRY(gs_comm_barrier(w->groups.comm[GS_PP]));
    gs_stage_record_step(p);
    GS_TRY(w->reducer->finish(w)); /* dw of all pipelines, and their counts */
    GS_TRY(share_score(w, p, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    GS_TRY(gs_spread(w));
    return gs_stage_run_after(w, p);
}

/* One of each chunk. */
static gs_model *model_of(const gs_worker *w, int i) {
    const gs_pipeline_worker *p = w->strategy_state;
    return i < p->shape.chunks ? p->chunk[i].slot[0].model : NULL;
}

/* ---- the test set ---- */

/* Blocks follow each other as micro-batches do, so stages that have different blocks work at the same time. */

/* Messages go round the stages, as often as a stage has chunks. */
static gs_status receive(gs_worker *w, const gs_pipeline_worker *p, gs_mem x, size_t numbers) {
    const int before = (p->stage + p->shape.stages - 1) % p->shape.stages;
    const gs_call call = {GS_RECV, gs_bytes_of(numbers, x.half), GS_U8, GS_SUM, before};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, GS_NONE, x);
}

static gs_status send(gs_worker *w, const gs_pipeline_worker *p, gs_mem y, size_t numbers) {
    const int after = (p->stage + 1) % p->shape.stages;
    const gs_call call = {GS_SEND, gs_bytes_of(numbers, y.half), GS_U8, GS_SUM, after};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, y, GS_NONE);
}

static gs_status score(gs_worker *w, const gs_pass *pass, bool *scored) {
    const gs_pipeline_worker *p = w->strategy_state;
    *scored = p->stage == p->shape.stages - 1;
    for (int c = 0; c < p->shape.chunks; c++) {
        const gs_stage_slot *s = &p->chunk[c].slot[0];
        const bool first = p->chunk[c].run == 0, last = p->chunk[c].run == p->runs - 1;
        gs_mem y;
        if (!first) GS_TRY(receive(w, p, s->x, pass->n * gs_shape_size(s->model->in)));
        GS_TRY(gs_model_forward(s->model, pass, first ? w->input.x : s->x, &y));
        if (!last) GS_TRY(send(w, p, y, pass->n * gs_shape_size(s->model->out)));
        if (!last) continue;
        GS_TRY(gs_model_clear_stats(w->model));
        GS_TRY(gs_model_loss(s->model, pass, y, w->input.answers));
    }
    return GS_OK;
}

const gs_strategy gs_strategy_pipeline = {
    .name = "pipeline",
    .option = "--pipeline",
    .check = check,
    .check_workers = check_workers,
    .describe = describe,
    .create = create,
    .step = step,
    .score = score,
    .model = model_of,
    .report = gs_stage_report,
    .free = free_stage,
};
