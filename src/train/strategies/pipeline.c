/* --pipeline P: each worker computes one stage of the model, and micro-batches follow each other through the stages.
 *
 *     worker 0   layers 0-2    F0 F1 F2 F3 .  .  B0 B1 B2 B3  update     F: forward, its y goes to the next stage
 *     worker 1   layers 3-11   .  F0 F1 F2 F3 B0 B1 B2 B3 .   update     B: backward, its dx goes to the previous one
 *
 * A schedule (parallel/schedule.h) is a list of instructions for each stage, which its worker executes in order
 * (pipeline_run.c): it never asks how far another stage is. The model is cut so that the slowest stage is as fast as
 * possible (parallel/cut.h). Each micro-batch between its forward and its backward needs its own activations of the
 * stage's layers: gs_model_config.
 *
 * With more workers than stages there are several pipelines. Of N pipelines worker r is stage r / N of pipeline r % N
 * (parallel/layout.h), and each pipeline computes its part of the batch:
 *
 *     pipeline 0    worker 0  ->  worker 2        gradients are summed over the same stage
 *     pipeline 1    worker 1  ->  worker 3        of all pipelines: 0 + 1, 2 + 3
 *
 * The weights after a step are those of one worker with --accumulate M, up to rounding. With --exact the micro-batches
 * are virtual shards: the gradient of each is computed alone and joins their tree (../ordered_sums.h), which gives the
 * bits of one worker. A stage computes what its layers compute in a whole model; messages change no bit.
 *
 * `tied` (layer/tied.c) is in the last stage, and its table in the first. The last stage holds a copy. It sends its
 * part of the gradient to the first stage, which adds its own, updates, and sends the table back. With --exact it sends
 * one part for each micro-batch, since the embedding's backward adds to it row by row, in a fixed order.
 *
 * A worker holds the weights, the gradients and the optimiser's vectors of its stage alone (../partition.h). Only at
 * the start of a run does it hold all weights for a moment; to be saved they are put together on the host. The test set
 * goes through the stages too.
 *
 * With --zero the replicas of a stage, one in each pipeline, divide its vectors (../reducers/zero.h): gradients are
 * reduce-scattered among them, each updates its part, and the weights are all-gathered. --zero 2 and 3 do that unit by
 * unit in each micro-batch: they hold less, and send the bytes once per micro-batch.
 *
 * Sources: see parallel/schedule.h.
 */
#include "train/strategies/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/device.h"
#include "core/clock.h"
#include "core/text.h"
#include "layer/watch.h"
#include "train/hooks.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "parallel/virtual_time.h"
#include "train/reducer.h"

/* ---- settings ---- */

static gs_status check(const gs_settings *s) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    return gs_pipeline_cut_check(s->pipeline_cut);
}

/* Each micro-batch must be computed at once. */
static gs_status check_sizes(const gs_settings *s, const gs_dataset *set, int workers) {
    const size_t batch = s->batch ? s->batch : set->count;
    size_t most;
    GS_TRY(gs_largest_micro_batch(s, set->shape, &most));
    const size_t cuts = (size_t)gs_batch_shards(s, workers) * (size_t)gs_passes(s),
                 micro = gs_pipeline_micro_batch(s, batch, workers);
    if (micro <= most) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "--batch %zu in %zu micro-batches, of all pipelines together: one of them has %zu "
                   "samples, and at most %zu are computed at once; wanted %s, or --micro-batch %zu",
                   batch, cuts, micro, most, s->exact ? "a smaller --batch" : "more --micro-batches", micro);
}

static gs_status check_workers(const gs_settings *s, const gs_dataset *set, int workers) {
    gs_stages cut;
    const int pipelines = workers / gs_model_parallel_size(s);
    if (s->exact && s->micro_batches > 0 && s->micro_batches != GS_EXACT_SHARDS / pipelines)
        return gs_fail(GS_E_USAGE,
                       "--micro-batches %d: with --exact the micro-batches of a pipeline are its part of the "
                       "%d virtual shards; wanted %d, or no --micro-batches",
                       s->micro_batches, GS_EXACT_SHARDS, GS_EXACT_SHARDS / pipelines);
    const int micro_batches = s->exact ? GS_EXACT_SHARDS / pipelines : gs_passes(s);
    gs_model *plan;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = set->shape}, &plan));
    gs_status status = gs_context(gs_stages_cut(s, plan, micro_batches, &cut), "--pipeline %d", s->pipeline);
    gs_model_free(plan);
    GS_TRY(status);
    GS_TRY(gs_context(gs_pipeline_check(cut.schedule, &cut.shape), "--pipeline %d", s->pipeline));
    return check_sizes(s, set, workers);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    if (gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks) != GS_OK) return;
    *text = '\0';
    gs_append(text, size, "pipelines of %d stages, %s", s->pipeline, schedule->title);
    if (chunks > 1) gs_append(text, size, " of %d runs in each", chunks);
}

/* ---- the layers of a micro-batch ---- */

/* The table among the parameters of a model. */
static gs_param *table_of(const gs_pipeline_worker *p, const gs_model *m) {
    int i = 0;
    while (m->param[i]->at != p->cut.tied.table->at) i++;
    return m->param[i];
}

const gs_param *gs_stage_table(const gs_pipeline_worker *p) {
    return table_of(p, p->chunk[p->stage == 0 ? 0 : p->cut.shape.chunks - 1].slot[0].model);
}

/* Point the layers of a chunk to this worker's arrays, and to its copy of the table that they borrow. */
static gs_status bind_slot(const gs_worker *w, const gs_pipeline_worker *p, const gs_stage_chunk *c,
                           gs_model *m) {
    const gs_partition *own = p->own;
    for (int i = p->cut.first[c->run]; i < p->cut.first[c->run + 1]; i++)
        GS_TRY(gs_partition_bind(own, m->net->child[i]));
    if (own->copy && c->run == p->cut.tied.borrower) {
        gs_param *table = table_of(p, m);
        table->w = gs_partition_tail(own, own->weights, own->weights_cut, own->params);
        table->dw = gs_partition_tail(own, own->gradients, own->gradients_cut, own->params);
    }
    if (w->model->net->hooks) gs_layer_add_hooks(m->net, w->model->net->hooks); /* the windows of --zero */
    return GS_OK;
}

/* most: an evaluation puts more samples into slot 0 than a micro-batch has. */
static gs_status make_slot(const gs_worker *w, const gs_pipeline_worker *p, const gs_stage_chunk *c,
                           size_t most, gs_stage_slot *s) {
    const int first = p->cut.first[c->run], last = p->cut.first[c->run + 1];
    const gs_model_config stage = {.of = w->model, .max_batch = most, .first = first, .last = last};
    GS_TRY(gs_model_create(w->device, &stage, &s->model));
    GS_TRY(bind_slot(w, p, c, s->model));
    s->model->scaling = w->model->scaling;
    GS_HOOKS(model, w, s->model->net);
    const gs_layer *net = s->model->net;
    const size_t in = gs_bytes_of(most * gs_shape_size(s->model->in), net->memory.x_half),
                 out = gs_bytes_of(w->schedule.most * gs_shape_size(s->model->out), net->memory.y_half);
    if (c->run > 0) GS_TRY(gs_alloc(w->device, GS_MEMORY_ACTIVATIONS, in, &s->x));
    if (c->run < p->cut.runs - 1) GS_TRY(gs_alloc(w->device, GS_MEMORY_ACTIVATIONS, out, &s->dy));
    s->x.half = net->memory.x_half;
    s->dy.half = net->memory.y_half;
    return GS_OK;
}

static gs_status make_chunks(const gs_worker *w, gs_pipeline_worker *p) {
    p->own = &w->partition;
    GS_TRY(GS_NEW(p->chunk, p->cut.shape.chunks, "%d chunks (--pipeline)", p->cut.shape.chunks));
    for (int c = 0; c < p->cut.shape.chunks; c++)
        p->chunk[c] = (gs_stage_chunk){.run = c * p->cut.shape.stages + p->stage, .state = &p->own->state[c]};
    for (int i = p->own->count - 1; i >= 0; i--) {
        gs_shard *params = &p->chunk[p->own->unit[i].run].params;
        *params = (gs_shard){p->own->unit[i].at, params->count + p->own->unit[i].count};
    }
    return GS_OK;
}

static gs_status make_slots(gs_worker *w, gs_pipeline_worker *p, int number) {
    gs_stage_chunk *c = &p->chunk[number];
    const int slots = gs_instructions_alive(&p->list[p->stage], number);
    GS_TRY(GS_NEW(c->slot, slots, "%d micro-batches (--pipeline)", slots));
    while (c->slots < slots) {
        const size_t most = c->slots == 0 ? w->input.most : w->schedule.most;
        GS_TRY(make_slot(w, p, c, most, &c->slot[c->slots++]));
    }
    return GS_OK;
}

/* The first stage needs samples, the last one targets. */
static gs_status make_inputs(gs_worker *w, gs_pipeline_worker *p) {
    const size_t most = w->schedule.most;
    const int inputs = p->chunk[0].slots;
    GS_TRY(GS_NEW(p->input, inputs, "%d micro-batches (--pipeline)", inputs));
    if (p->stage > 0 && p->stage < p->cut.shape.stages - 1) return GS_OK;
    for (p->inputs = 0; p->inputs < inputs;) {
        gs_input *input = &p->input[p->inputs++];
        *input = w->input; /* except the buffers of a micro-batch: */
        input->most = most;
        input->x = input->targets = GS_NONE;
        const size_t x = most * gs_shape_size(w->model->in) * sizeof(float);
        if (p->stage == 0) GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, x, &input->x));
        if (p->stage == p->cut.shape.stages - 1)
            GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, most * w->input.target_bytes, &input->targets));
    }
    return GS_OK;
}

static gs_status make_lists(gs_pipeline_worker *p) {
    const int stages = p->cut.shape.stages, batches = p->cut.shape.micro_batches;
    GS_TRY(GS_NEW(p->list, stages, "the schedules of %d stages", stages));
    GS_TRY(GS_NEW(p->sent, stages, "the messages of %d stages", stages));
    GS_TRY(GS_NEW(p->micro_batch, batches, "%d micro-batches (--pipeline)", batches));
    for (int s = 0; s < stages; s++)
        GS_TRY(gs_instructions_create(p->cut.schedule, &p->cut.shape, s, &p->list[s]));
    return GS_OK;
}

static size_t largest_chunk(const gs_pipeline_worker *p) {
    size_t most = p->own->counts - p->own->params + GS_STATS; /* the copy, the state and the counts */
    for (int c = 0; c < p->cut.shape.chunks && !p->own->gradients_cut; c++)
        if (p->chunk[c].params.count > most) most = p->chunk[c].params.count;
    return most;
}

/* For --exact: see ../ordered_sums.h. */
static gs_status make_sums(gs_worker *w, gs_pipeline_worker *p) {
    const gs_settings *s = w->settings;
    w->sync_most = GS_STATS;
    if (!s->exact) return GS_OK;
    w->scheme = &gs_sync_recursive_doubling;
    w->sync_most = largest_chunk(p);
    return gs_ordered_sums_create(w, p->own->counts + GS_STATS);
}

static gs_status make_stage(gs_worker *w, gs_pipeline_worker *p) {
    p->stage = w->groups.coordinates.pp;
    GS_TRY(gs_stages_of(w, &p->cut));
    GS_TRY(make_chunks(w, p));
    if (w->device->precision != GS_PRECISION_F32) /* messages have 16 bits if all activations do */
        GS_TRY(w->calls->halves(w, &w->model->net->half_ends));
    GS_TRY(make_lists(p));
    for (int c = 0; c < p->cut.shape.chunks; c++) GS_TRY(make_slots(w, p, c));
    GS_TRY(make_inputs(w, p));
    return make_sums(w, p);
}

static void free_chunk(const gs_worker *w, gs_stage_chunk *c) {
    for (int i = 0; i < c->slots; i++) {
        gs_model_free(c->slot[i].model);
        w->device->ops->free(w->device, c->slot[i].x);
        w->device->ops->free(w->device, c->slot[i].dy);
    }
    free(c->slot);
}

static void free_stage(gs_worker *w) {
    gs_pipeline_worker *p = w->strategy_state;
    if (!p) return;
    for (int c = 0; p->chunk && c < p->cut.shape.chunks; c++) free_chunk(w, &p->chunk[c]);
    for (int i = 0; i < p->inputs; i++) {
        w->device->ops->free(w->device, p->input[i].x);
        w->device->ops->free(w->device, p->input[i].targets);
    }
    for (int s = 0; p->list && s < p->cut.shape.stages; s++) gs_instructions_free(&p->list[s]);
    while (p->kept) {
        gs_kept_message *next = p->kept->next;
        free(p->kept);
        p->kept = next;
    }
    free(p->list);
    free(p->sent);
    free(p->chunk);
    free(p->input);
    free(p->micro_batch);
    free(p);
}

/* ---- how long the stages waited, and why ---- */

/* What each worker records, and the report at the end of a run.
 *
 * T is the time from the first forward of a step to its last backward, both on stage 0. The p stages have p T of it,
 * and compute for the sum of all passes, `busy`; they wait for the rest. The same instructions are played in virtual
 * time (parallel/virtual_time.h) with messages that take no time: T_0 if each pass takes the mean of its direction, T_1
 * if each takes the mean of its stage. Exactly,
 *
 *     p T - busy  =  (p T_0 - busy)       fill and drain: by formula (p - 1) / (m + p - 1) of p T_0
 *                  + (p T_1 - p T_0)      stages of unequal times
 *                  + (p T - p T_1)        the rest: messages, wake-ups and loads, and passes whose times vary
 *
 * A schedule with needless waits has more fill and drain than the formula. */
void gs_stage_record_pass(gs_pipeline_worker *p, const gs_instruction *i, double start) {
    gs_stage_record *r = &p->record;
    const double end = gs_seconds();
    const int run = i->chunk * p->cut.shape.stages + p->stage;
    if (!r->in_step) {
        memset(&r->last, 0, sizeof r->last);
        r->began = start;
    }
    r->in_step = true;
    r->last.seconds[i->action == GS_DO_BACKWARD][run] += end - start;
    if (p->stage == 0) r->last.span = end - r->began;
}

/* The first step touches memory first and starts threads: it counts only if there is no other. */
static void record_step(gs_pipeline_worker *p) {
    gs_stage_record *r = &p->record;
    const int chunks = p->cut.shape.chunks;
    r->in_step = false;
    if (r->steps++ < 2) memset(&r->all, 0, sizeof r->all);
    r->all.span += r->last.span;
    for (int k = 0; k < 2 * chunks; k++) {
        const int run = k / 2 * p->cut.shape.stages + p->stage;
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

/* From the sums over the workers of all pipelines, alike on all. */
static gs_status report(gs_worker *w, gs_result *result) {
    const gs_pipeline_worker *p = w->strategy_state;
    gs_stage_times sum[] = {p->record.all, p->record.last};
    GS_TRY(gs_comm_all_reduce(w->comm, sum, sizeof sum / (sizeof(double)), GS_F64, GS_SUM));
    GS_TRY(gs_bubble_of(&p->cut.shape, p->list, &sum[0], &result->bubble));
    return gs_bubble_of(&p->cut.shape, p->list, &sum[1], &result->bubble_last);
}

/* ---- training ---- */

static gs_status create(gs_worker *w) {
    gs_pipeline_worker *p;
    GS_TRY(GS_NEW(p, 1, "--pipeline"));
    w->strategy_state = p;
    return make_stage(w, p);
}

/* Rank 0 of the last stage of the first pipeline contributes the counts. The others add 0, so this sum is exact; and
 * any worker can ask to stop. */
static gs_status share_score(gs_worker *w, const gs_pipeline_worker *p, gs_score *score) {
    const bool has_counts =
        p->stage == p->cut.shape.stages - 1 && p->own->dp_rank == 0 && w->model->tensor.rank == 0;
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
    GS_TRY(gs_stage_run(w, p)); /* this stage's part of load, forward, loss, backward */
    GS_TRY(gs_comm_barrier(w->groups.comm[GS_PP]));
    record_step(p);
    GS_TRY(w->reducer->finish(w)); /* dw of all pipelines, and their counts */
    GS_TRY(share_score(w, p, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    GS_TRY(gs_gather_new_weights(w));
    return gs_stage_run_after(w, p);
}

/* One for each chunk. */
static gs_model *model_of(const gs_worker *w, int i) {
    const gs_pipeline_worker *p = w->strategy_state;
    return i < p->cut.shape.chunks ? p->chunk[i].slot[0].model : NULL;
}

/* ---- the test set ---- */

/* Receive x from the previous stage, or send it to the next: around the stages, once for each chunk of a stage. */
static gs_status pass_on(gs_worker *w, const gs_pipeline_worker *p, gs_operation operation, gs_mem x,
                         size_t numbers) {
    const bool sends = operation == GS_SEND;
    const int peer = (p->stage + (sends ? 1 : p->cut.shape.stages - 1)) % p->cut.shape.stages;
    const gs_call call = {operation, gs_bytes_of(numbers, x.half), GS_U8, GS_SUM, peer};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, sends ? x : GS_NONE,
                                 sends ? GS_NONE : x);
}

/* Blocks follow each other as micro-batches do, so that stages work on different blocks at the same time. */
static gs_status score(gs_worker *w, const gs_pass *pass, bool *scored) {
    const gs_pipeline_worker *p = w->strategy_state;
    *scored = p->stage == p->cut.shape.stages - 1;
    for (int c = 0; c < p->cut.shape.chunks; c++) {
        const gs_stage_slot *s = &p->chunk[c].slot[0];
        const bool first = p->chunk[c].run == 0, last = p->chunk[c].run == p->cut.runs - 1;
        gs_mem y;
        if (!first) GS_TRY(pass_on(w, p, GS_RECV, s->x, pass->n * gs_shape_size(s->model->in)));
        GS_TRY(gs_model_forward(s->model, pass, first ? w->input.x : s->x, &y));
        if (!last) GS_TRY(pass_on(w, p, GS_SEND, y, pass->n * gs_shape_size(s->model->out)));
        if (!last) continue;
        GS_TRY(gs_model_clear_stats(w->model));
        GS_TRY(gs_model_loss(s->model, pass, y, w->input.targets));
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
    .report = report,
    .free = free_stage,
};
