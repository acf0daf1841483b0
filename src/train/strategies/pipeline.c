/* --pipeline P: each worker computes one stage of the model, and micro-batches follow each other through the stages.
 *
 *     worker 0   layers 0-2    F0 F1 F2 F3 .  .  B0 B1 B2 B3  update     F: forward, sends its y to the next stage
 *     worker 1   layers 3-11   .  F0 F1 F2 F3 B0 B1 B2 B3 .   update     B: backward, sends its dx to the previous one
 *
 * A schedule (parallel/schedule.h) is a list of instructions for each stage. The stage's worker executes its list in
 * order, and never asks how far another stage is. The model is cut so that the slowest stage is as fast as possible
 * (parallel/cut.h). From its forward to its backward, each micro-batch needs its own activations (gs_model_config).
 *
 * With N times as many workers as stages there are N pipelines: worker r is stage r / N of pipeline r % N
 * (parallel/layout.h), and each pipeline computes its part of the batch:
 *
 *     pipeline 0    worker 0  ->  worker 2        gradients are summed over the same stage
 *     pipeline 1    worker 1  ->  worker 3        in all pipelines: 0 + 1, 2 + 3
 *
 * The weights after a step equal those of one worker with --accumulate M, up to rounding. With --exact the
 * micro-batches are the virtual shards: each gradient is computed alone and added in their tree (../ordered_sums.h),
 * which gives the bits of one worker. A stage's layers compute the same as in a whole model; messages change no bit.
 *
 * A `tied` layer (layer/tied.c) is in the last stage, and its table in the first. The last stage holds a copy of the
 * table, and sends its part of the gradient to the first. The first adds its part, updates, and sends the table back.
 * With --exact the last stage sends its part after each micro-batch, because the embedding's backward adds row by row,
 * in a fixed order.
 *
 * A worker holds the weights, gradients and optimiser vectors of its own stage only (../partition.h). It holds all
 * weights only briefly, at the start of a run; for saving, they are assembled on the host. The test set also passes
 * through the stages.
 *
 * With --zero the replicas of a stage, one in each pipeline, divide its vectors (../reducers/zero.h): gradients are
 * reduce-scattered among them, each updates its part, and the weights are all-gathered. --zero 2 and 3 do this unit by
 * unit in each micro-batch: they hold less memory, but send these bytes once per micro-batch.
 *
 * Sources: see parallel/schedule.h.
 */
#include "train/strategies/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "comm/device.h"
#include "comm/split.h"
#include "core/clock.h"
#include "core/text.h"
#include "layer/watch.h"
#include "parallel/virtual_time.h"
#include "train/hooks.h"
#include "train/reducer.h"
#include "train/settings.h"
#include "train/stages.h"
#include "train/strategy.h"
#include "train/timeline.h"

/* ---- settings ---- */

static gs_status check(const gs_settings *s) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    return gs_pipeline_cut_check(s->pipeline_cut);
}

static gs_status check_workers(const gs_settings *s, const gs_dataset *set, int workers) {
    gs_stages cut;
    const size_t batch = s->batch ? s->batch : set->count, micro = gs_pipeline_micro_batch(s, batch, workers);
    const int pipelines = workers / gs_model_parallel_size(s);
    if (s->exact && s->micro_batches > 0 && s->micro_batches != GS_EXACT_SHARDS / pipelines)
        return gs_fail(GS_E_USAGE,
                       "--micro-batches %d: with --exact the micro-batches of a pipeline are its part of the "
                       "%d virtual shards; wanted %d, or no --micro-batches",
                       s->micro_batches, GS_EXACT_SHARDS, GS_EXACT_SHARDS / pipelines);
    const int micro_batches = s->exact ? GS_EXACT_SHARDS / pipelines : gs_passes(s);
    gs_model *plan;
    size_t most;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = set->shape}, &plan));
    gs_status status = gs_context(gs_stages_cut(s, plan, micro_batches, &cut), "--pipeline %d", s->pipeline);
    gs_model_free(plan);
    GS_TRY(status);
    GS_TRY(gs_context(gs_pipeline_check(cut.schedule, &cut.shape), "--pipeline %d", s->pipeline));
    GS_TRY(gs_largest_micro_batch(s, set->shape, &most));
    if (micro <= most) return GS_OK; /* each micro-batch is computed in one piece */
    return gs_fail(GS_E_USAGE,
                   "--batch %zu in %d micro-batches, of all pipelines together: one of them has %zu samples, "
                   "and at most %zu are computed at once; wanted %s, or --micro-batch %zu",
                   batch, pipelines * micro_batches, micro, most,
                   s->exact ? "a smaller --batch" : "more --micro-batches", micro);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    if (gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks) != GS_OK) return;
    *text = '\0';
    gs_append(text, size, "pipelines of %d stages, %s", s->pipeline, schedule->title);
    if (chunks > 1) gs_append(text, size, " of %d runs in each", chunks);
}

/* ---- a worker ---- */

/* A micro-batch on its way through a chunk: the chunk's layers as a model with its own activations, the received input,
 * and the received gradient of the output. Weights and gradients belong to the worker. */
typedef struct slot {
    gs_model *model;
    gs_mem x, dy; /* received; GS_NONE at the ends of the pipeline */
    gs_mem y, dx; /* results of forward and backward, in the model's buffers */
} slot;

/* Adjacent layers of the model on this worker. Micro-batch k is in slot k % slots; evaluations use slot 0. */
typedef struct chunk {
    int run;                     /* number in the whole model: chunk x p + stage */
    const gs_partition_run *own; /* its ranges of the worker's arrays */
    int slots;
    slot *slot;
    bool has_dw, has_state; /* a pass in this step has written dw (state), so the next pass adds to it */
} chunk;

/* A message that arrived before it was wanted. */
typedef struct kept_message {
    gs_instruction sent;
    struct kept_message *next;
    unsigned char data[];
} kept_message;

/* For the report on how long the stages waited. */
typedef struct record {
    gs_stage_times all, last; /* all: all steps but the first, or the only one; last: the last step */
    size_t steps;
    double began; /* when the step of `last` began; 0: its first pass has not ended */
} record;

typedef struct pipeline_worker {
    gs_stages cut;
    int stage;
    gs_instructions *list; /* [p]: the lists of all stages; this worker executes list[stage] */
    size_t *sent;          /* [p]: number of each list's instructions that messages show to be done */
    kept_message *kept;
    chunk *chunk;            /* [v] */
    const gs_partition *own; /* the worker's partition */
    gs_input *input;         /* [inputs]: samples and targets of micro-batch k are in [k % inputs] */
    int inputs;
    gs_micro_batch *micro_batch; /* [m]: for this step; n 0: empty */
    int filled;                  /* how many of these the loader delivers */
    record record;
} pipeline_worker;

/* ---- the layers of a micro-batch ---- */

/* The shared table among the parameters of a model. */
static gs_param *table_of(const pipeline_worker *p, const gs_model *m) {
    int i = 0;
    while (m->param[i]->at != p->cut.tied.table->at) i++;
    return m->param[i];
}

/* The table that two runs share, in this worker's layers. */
static const gs_param *stage_table(const pipeline_worker *p) {
    return table_of(p, p->chunk[p->stage == 0 ? 0 : p->cut.shape.chunks - 1].slot[0].model);
}

/* Make a chunk's layers point to this worker's arrays, and to its copy of a table that they borrow. */
static gs_status bind_slot(const gs_worker *w, const pipeline_worker *p, const chunk *c, gs_model *m) {
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

/* most: maximum number of samples in the slot. Slot 0 may hold more than a micro-batch: evaluations also use it. */
static gs_status make_slot(const gs_worker *w, const pipeline_worker *p, const chunk *c, size_t most,
                           slot *s) {
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

static gs_status make_chunk(gs_worker *w, pipeline_worker *p, int number) {
    chunk *c = &p->chunk[number];
    const int slots = gs_instructions_alive(&p->list[p->stage], number);
    *c = (chunk){.run = number * p->cut.shape.stages + p->stage, .own = &p->own->run[number]};
    GS_TRY(GS_NEW(c->slot, slots, "%d micro-batches (--pipeline)", slots));
    while (c->slots < slots) {
        const size_t most = c->slots == 0 ? w->input.most : w->schedule.most;
        GS_TRY(make_slot(w, p, c, most, &c->slot[c->slots++]));
    }
    return GS_OK;
}

/* The first stage needs samples, and the last one targets. */
static gs_status make_inputs(gs_worker *w, pipeline_worker *p) {
    const size_t most = w->schedule.most;
    const int inputs = p->chunk[0].slots;
    GS_TRY(GS_NEW(p->input, inputs, "%d micro-batches (--pipeline)", inputs));
    if (p->stage > 0 && p->stage < p->cut.shape.stages - 1) return GS_OK;
    for (p->inputs = 0; p->inputs < inputs;) {
        gs_input *input = &p->input[p->inputs++];
        *input = w->input; /* but with its own buffers: */
        input->most = most;
        input->x = input->targets = GS_NONE;
        const size_t x = most * gs_shape_size(w->model->in) * sizeof(float);
        if (p->stage == 0) GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, x, &input->x));
        if (p->stage == p->cut.shape.stages - 1)
            GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, most * w->input.target_bytes, &input->targets));
    }
    return GS_OK;
}

static gs_status make_lists(pipeline_worker *p) {
    const int stages = p->cut.shape.stages, batches = p->cut.shape.micro_batches;
    GS_TRY(GS_NEW(p->list, stages, "the schedules of %d stages", stages));
    GS_TRY(GS_NEW(p->sent, stages, "the messages of %d stages", stages));
    GS_TRY(GS_NEW(p->micro_batch, batches, "%d micro-batches (--pipeline)", batches));
    for (int s = 0; s < stages; s++)
        GS_TRY(gs_instructions_create(p->cut.schedule, &p->cut.shape, s, &p->list[s]));
    return GS_OK;
}

static size_t largest_chunk(const pipeline_worker *p) {
    size_t most = p->own->counts - p->own->params + GS_STATS; /* the table's copy, the state and the counts */
    for (int c = 0; c < p->cut.shape.chunks && !p->own->gradients_cut; c++)
        if (p->own->run[c].params.count > most) most = p->own->run[c].params.count;
    return most;
}

/* For --exact: see ../ordered_sums.h. */
static gs_status make_sums(gs_worker *w, pipeline_worker *p) {
    const gs_settings *s = w->settings;
    w->sync_most = GS_STATS;
    if (!s->exact) return GS_OK;
    w->scheme = &gs_sync_recursive_doubling;
    w->sync_most = largest_chunk(p);
    return gs_ordered_sums_create(w, p->own->counts + GS_STATS);
}

/* Messages are 16-bit if all devices of the pipeline store 16-bit activations. In a dry run there is no other worker to
 * ask, so the names of the devices decide. */
static gs_status ask_for_halves(gs_worker *w) {
    const char *devices = w->settings->devices;
    const int pipelines = w->groups.layout.dp * w->groups.layout.tp, count = gs_devices_count(devices);
    int64_t all = w->device->ops->narrow ? 1 : 0;
    char name[48];
    for (int r = w->comm->rank % pipelines; w->device->dry && r < w->comm->size; r += pipelines) {
        GS_TRY(gs_devices_name(devices, r % count, name));
        all &= strcmp(name, "cpu") != 0;
    }
    GS_TRY(gs_comm_all_reduce(w->groups.comm[GS_PP], &all, 1, GS_I64, GS_MIN));
    w->model->net->half_ends = all != 0;
    return GS_OK;
}

static gs_status create(gs_worker *w) {
    pipeline_worker *p;
    GS_TRY(GS_NEW(p, 1, "--pipeline"));
    w->strategy_state = p;
    p->stage = w->groups.coordinates.pp;
    p->own = &w->partition;
    GS_TRY(gs_stages_of(w, &p->cut));
    if (w->device->precision != GS_PRECISION_F32) GS_TRY(ask_for_halves(w));
    GS_TRY(make_lists(p));
    GS_TRY(GS_NEW(p->chunk, p->cut.shape.chunks, "%d chunks (--pipeline)", p->cut.shape.chunks));
    for (int c = 0; c < p->cut.shape.chunks; c++) GS_TRY(make_chunk(w, p, c));
    GS_TRY(make_inputs(w, p));
    return make_sums(w, p);
}

static void free_chunk(const gs_worker *w, chunk *c) {
    for (int i = 0; i < c->slots; i++) {
        gs_model_free(c->slot[i].model);
        w->device->ops->free(w->device, c->slot[i].x);
        w->device->ops->free(w->device, c->slot[i].dy);
    }
    free(c->slot);
}

static void free_stage(gs_worker *w) {
    pipeline_worker *p = w->strategy_state;
    if (!p) return;
    for (int c = 0; p->chunk && c < p->cut.shape.chunks; c++) free_chunk(w, &p->chunk[c]);
    for (int i = 0; i < p->inputs; i++) {
        w->device->ops->free(w->device, p->input[i].x);
        w->device->ops->free(w->device, p->input[i].targets);
    }
    for (int s = 0; p->list && s < p->cut.shape.stages; s++) gs_instructions_free(&p->list[s]);
    while (p->kept) {
        kept_message *next = p->kept->next;
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

/* What each worker records, and how it is reported at the end of a run.
 *
 * T is the time from a step's first forward to its last backward, both on stage 0. The p stages together have the time
 * p T. They compute for `busy`, the sum of all passes, and wait for the rest of that time. The same instructions are
 * executed in virtual time (parallel/virtual_time.h), with messages that take no time: this takes T_0 if each pass
 * takes its direction's mean time over all stages, and T_1 if it takes its direction's mean time in its stage. Exactly,
 *
 *     p T - busy  =  (p T_0 - busy)       fill and drain: by formula (p - 1) / (m + p - 1) of p T_0
 *                  + (p T_1 - p T_0)      stages with unequal times
 *                  + (p T - p T_1)        the rest: messages, wake-ups and loads, and passes whose times vary
 *
 * A schedule with unnecessary waits has more fill and drain than the formula. */
static void record_pass(pipeline_worker *p, const gs_instruction *i, double start) {
    record *r = &p->record;
    const double end = gs_seconds();
    const int run = i->chunk * p->cut.shape.stages + p->stage;
    if (r->began == 0) r->began = start;
    r->last.seconds[i->action == GS_DO_BACKWARD][run] += end - start;
    if (p->stage == 0) r->last.span = end - r->began;
}

/* The first step touches memory for the first time and starts threads, so it counts only if it is the only one. */
static void record_step(pipeline_worker *p) {
    record *r = &p->record;
    if (r->steps++ < 2) memset(&r->all, 0, sizeof r->all);
    r->all.span += r->last.span;
    for (int k = 0; k < 2; k++)
        for (int run = 0; run < p->cut.runs; run++) r->all.seconds[k][run] += r->last.seconds[k][run];
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
    /* fractions of p T */
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

/* Computed from sums over all workers, so that all obtain the same result. */
static gs_status report(gs_worker *w, gs_result *result) {
    const pipeline_worker *p = w->strategy_state;
    gs_stage_times sum[] = {p->record.all, p->record.last};
    GS_TRY(gs_comm_all_reduce(w->comm, sum, sizeof sum / (sizeof(double)), GS_F64, GS_SUM));
    GS_TRY(gs_bubble_of(&p->cut.shape, p->list, &sum[0], &result->bubble));
    return gs_bubble_of(&p->cut.shape, p->list, &sum[1], &result->bubble_last);
}

/* ---- the micro-batches of a step ---- */

/* All stages know the sizes of all micro-batches in advance. The last micro-batches of a small batch may be empty; the
 * loader does not deliver empty ones. */
static void next_micro_batches(gs_worker *w, pipeline_worker *p) {
    gs_schedule from = w->schedule;
    from.done = w->step;
    gs_schedule_position at = gs_schedule_begin(&from);
    int parts = 0;
    for (p->filled = 0; parts < w->schedule.mine && p->filled < p->cut.shape.micro_batches; p->filled++) {
        gs_micro_batch *micro_batch = &p->micro_batch[p->filled];
        if (!gs_schedule_next(&from, &at, micro_batch)) gs_bug("a step beyond the end of the run");
        parts += micro_batch->last;
    }
    if (parts < w->schedule.mine) gs_bug("a micro-batch is more than can be computed at once");
    w->micro_batch = p->micro_batch[0];
    for (int k = p->filled; k < p->cut.shape.micro_batches; k++) p->micro_batch[k] = (gs_micro_batch){.n = 0};
}

static gs_status load(gs_worker *w, pipeline_worker *p, int k) {
    gs_pass unused = {0};
    if (k >= p->filled) return GS_OK;
    if (p->inputs == 0) { /* middle stages need neither samples nor targets */
        w->measured.samples += (double)p->micro_batch[k].n;
        return GS_OK;
    }
    const gs_input own = w->input;
    w->input = p->input[k % p->inputs];
    gs_status status = gs_worker_next(w, &unused);
    w->input = own;
    return status;
}

/* ---- forward and backward ---- */

static slot *slot_of(const pipeline_worker *p, const gs_instruction *i) {
    const chunk *c = &p->chunk[i->chunk];
    return &c->slot[i->micro_batch % c->slots];
}

/* Ranges of this worker's array of gradients. */
static gs_shard state_of(const chunk *c) {
    return (gs_shard){c->own->at, c->own->count};
}
static gs_shard counts_of(const pipeline_worker *p) {
    return (gs_shard){p->own->counts, GS_STATS};
}

static gs_status fill_if_empty(const gs_worker *w, const pipeline_worker *p, bool has, gs_shard r) {
    const gs_mem here = gs_partition_tail(p->own, p->own->gradients, p->own->gradients_cut, r.first);
    return has || r.count == 0 ? GS_OK : w->device->ops->fill(w->device, here, 0, r.count);
}

/* With --exact: add leaf k of a range to the tree; after the last leaf the range holds the sum. */
static gs_status add_leaf(gs_worker *w, const pipeline_worker *p, gs_shard r, int k) {
    const gs_mem here = gs_partition_tail(p->own, p->own->gradients, p->own->gradients_cut, r.first);
    GS_TRY(fill_if_empty(w, p, p->micro_batch[k].n > 0, r));
    return gs_ordered_sums_add_here(w, here, r.first, r.count, k);
}

/* For an empty micro-batch: let this replica take part in the collectives of the other replicas' passes. */
static gs_status join(gs_worker *w, const gs_instruction *i, gs_pass pass) {
    pass.fresh = false;
    return w->reducer->join ? w->reducer->join(w, i->chunk, &pass, i->action == GS_DO_BACKWARD) : GS_OK;
}

static gs_status forward(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    chunk *c = &p->chunk[i->chunk];
    slot *s = slot_of(p, i);
    const gs_pass pass =
        gs_worker_pass(w, &p->micro_batch[i->micro_batch], w->settings->exact || !c->has_state);
    const bool has_loss = c->run == p->cut.runs - 1;
    const gs_input *input = p->inputs ? &p->input[i->micro_batch % p->inputs] : NULL;
    if (w->settings->exact && has_loss) GS_TRY(gs_model_clear_stats(w->model));
    if (pass.n > 0) {
        GS_TRY(gs_model_forward(s->model, &pass, c->run > 0 ? s->x : input->x, &s->y));
        if (has_loss) GS_TRY(gs_model_loss(s->model, &pass, s->y, input->targets));
        c->has_state = true;
    } else {
        GS_TRY(join(w, i, pass));
    }
    if (!w->settings->exact) return GS_OK;
    if (has_loss) GS_TRY(add_leaf(w, p, counts_of(p), i->micro_batch));
    return add_leaf(w, p, state_of(c), i->micro_batch);
}

static gs_status backward(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    chunk *c = &p->chunk[i->chunk];
    slot *s = slot_of(p, i);
    const gs_pass pass = gs_worker_pass(w, &p->micro_batch[i->micro_batch], w->settings->exact || !c->has_dw);
    const gs_mem targets =
        c->run == p->cut.runs - 1 && p->inputs ? p->input[i->micro_batch % p->inputs].targets : GS_NONE;
    if (pass.n > 0) {
        GS_TRY(gs_model_backward_stage(s->model, &pass, s->y, targets, s->dy, &s->dx));
        c->has_dw = true;
    } else {
        GS_TRY(join(w, i, pass));
    }
    const bool adds = w->settings->exact && !p->own->gradients_cut; /* if they are cut, the reducer adds */
    return adds ? add_leaf(w, p, c->own->params, i->micro_batch) : GS_OK;
}

static gs_status add_bytes(gs_layer *l, void *sum) {
    *(size_t *)sum += l->bytes;
    return GS_OK;
}

/* For the timeline: the bytes that the layers keep for a micro-batch of n samples. (Slot 0 may have room for more.) */
static size_t activations_of(const slot *s, size_t n) {
    size_t bytes = 0;
    (void)gs_layer_walk(s->model->net, add_bytes, &bytes);
    return bytes / s->model->max_batch * n;
}

static gs_status compute(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    const bool goes_forward = i->action == GS_DO_FORWARD;
    const double start = gs_seconds();
    GS_TRY(goes_forward ? forward(w, p, i) : backward(w, p, i));
    GS_TRY(w->device->ops->finish(w->device));
    record_pass(p, i, start);
    if (w->recorded)
        gs_timeline_stage(w, !goes_forward, i->micro_batch, i->chunk,
                          activations_of(slot_of(p, i), p->micro_batch[i->micro_batch].n), start);
    return gs_phase_ends(w, goes_forward ? GS_PHASE_FORWARD : GS_PHASE_BACKWARD);
}

/* ---- messages ---- */

/* The memory from which a message is sent, or into which it is received. */
static gs_mem memory_of(const pipeline_worker *p, const gs_instruction *i) {
    switch (i->action) {
    case GS_DO_SEND_ACTIVATION:
        return slot_of(p, i)->y;
    case GS_DO_RECV_ACTIVATION:
        return slot_of(p, i)->x;
    case GS_DO_SEND_GRADIENT:
        return slot_of(p, i)->dx;
    case GS_DO_RECV_GRADIENT:
        return slot_of(p, i)->dy;
    case GS_DO_SEND_TABLE:
    case GS_DO_RECV_TABLE:
        return stage_table(p)->w;
    default:
        return stage_table(p)->dw;
    }
}

/* The size in bytes of the message that instruction `sent` sends from stage `from`. Neighbouring runs store the
 * activations and gradients that they exchange with the same number of bits (memory/half_storage.h). */
static size_t bytes_in(const pipeline_worker *p, const gs_instruction *sent, int from) {
    const int run = sent->chunk * p->cut.shape.stages + from;
    const bool forward = sent->action == GS_DO_SEND_ACTIVATION;
    if (!forward && sent->action != GS_DO_SEND_GRADIENT) return p->cut.tied.table->count * sizeof(float);
    const gs_layer *after = p->chunk[0].slot[0].model->net->child[p->cut.first[forward ? run + 1 : run]];
    return gs_bytes_of(p->micro_batch[sent->micro_batch].n * gs_shape_size(after->in), after->memory.x_half);
}

static gs_status send(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    const size_t bytes = bytes_in(p, i, p->stage);
    const double start = gs_seconds();
    const gs_mem from = bytes ? memory_of(p, i) : GS_NONE;
    gs_comm *stages = w->groups.comm[GS_PP];
    GS_TRY(gs_call_run_on_device(stages, w->device, &(gs_call){GS_SEND, bytes, GS_U8, GS_SUM, i->peer}, from,
                                 GS_NONE));
    w->measured.sent += (double)bytes;
    gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, false, gs_comm_rank_in_parent(stages, i->peer), bytes,
                        start);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* A tied gradient is added to the memory; any other message overwrites the memory. */
static gs_status deliver(gs_worker *w, const pipeline_worker *p, const gs_instruction *i, const void *data,
                         size_t bytes) {
    void *host;
    const gs_mem to = memory_of(p, i);
    if (bytes == 0) return GS_OK;
    if (i->action != GS_DO_RECV_TIED || w->settings->exact)
        return w->device->ops->write(w->device, to, data, bytes);
    GS_TRY(w->device->ops->map(w->device, to, bytes, &host));
    gs_host_add(w->device, host, data, bytes / sizeof(float));
    return w->device->ops->unmap(w->device, to, host);
}

static gs_status keep(gs_worker *w, pipeline_worker *p, const gs_instruction *sent, size_t bytes,
                      kept_message **out) {
    kept_message *m = *out = malloc(sizeof *m + bytes);
    if (!m) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for a message of %zu bytes", bytes);
    *m = (kept_message){.sent = *sent, .next = p->kept};
    p->kept = m;
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, m, bytes);
}

static kept_message *take_kept(pipeline_worker *p, const gs_instruction *wanted) {
    kept_message **at = &p->kept;
    while (*at && !gs_instruction_is(&(*at)->sent, wanted)) at = &(*at)->next;
    kept_message *found = *at;
    if (found) *at = found->next;
    return found;
}

/* The next message from stage `from` to this one, in the order of that stage's list. */
static const gs_instruction *next_message(pipeline_worker *p, int from) {
    const gs_instructions *l = &p->list[from];
    const gs_instruction *i;
    do {
        if (p->sent[from] == l->count)
            gs_bug("stage %d waits for a message that stage %d does not send", p->stage, from);
        i = &l->list[p->sent[from]++];
    } while (!gs_action_sends(i->action) || i->peer != p->stage);
    return i;
}

/* Receive into `device`, or if it is NULL, into `host`. */
static gs_status receive_message(gs_worker *w, int from, size_t bytes, const gs_mem *device, void *host) {
    gs_comm *stages = w->groups.comm[GS_PP];
    const double start = gs_seconds();
    const gs_call call = {GS_RECV, bytes, GS_U8, GS_SUM, from};
    GS_TRY(device ? gs_call_run_on_device(stages, w->device, &call, GS_NONE, *device)
                  : gs_comm_recv(stages, host, bytes, from));
    gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, true, gs_comm_rank_in_parent(stages, from), bytes,
                        start);
    return GS_OK;
}

/* Messages that arrive before the wanted one are kept, and a message that will be added goes through a buffer. Any
 * other message arrives directly in its destination, which saves a copy. Kept messages cannot be confused: in a step
 * each message of a stage has a different instruction, and messages of two stages differ too, because activations come
 * from the previous stage and gradients from the next one. */
static gs_status receive(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    const gs_instruction wanted = gs_instruction_sent(&p->cut.shape, i, p->stage);
    const bool adds = i->action == GS_DO_RECV_TIED && !w->settings->exact;
    kept_message *m;
    while (!(m = take_kept(p, &wanted))) {
        const gs_instruction *next = next_message(p, i->peer);
        const size_t bytes = bytes_in(p, next, i->peer);
        if (!adds && gs_instruction_is(next, &wanted)) {
            const gs_mem to = bytes ? memory_of(p, i) : GS_NONE;
            GS_TRY(receive_message(w, i->peer, bytes, &to, NULL));
            return gs_phase_ends(w, GS_PHASE_SYNC);
        }
        GS_TRY(keep(w, p, next, bytes, &m));
        GS_TRY(receive_message(w, i->peer, bytes, NULL, m->data));
    }
    gs_status status = deliver(w, p, i, m->data, bytes_in(p, &m->sent, i->peer));
    gs_ledger_remove(&w->device->memory, m);
    free(m);
    return status == GS_OK ? gs_phase_ends(w, GS_PHASE_SYNC) : status;
}

/* ---- a step ---- */

/* Execute a load, a forward, a backward, or a message. */
static gs_status execute(gs_worker *w, pipeline_worker *p, const gs_instruction *i) {
    if (gs_action_sends(i->action)) return send(w, p, i);
    if (gs_action_receives(i->action)) return receive(w, p, i);
    if (i->action != GS_DO_LOAD) return compute(w, p, i);
    GS_TRY(load(w, p, i->micro_batch));
    return gs_phase_ends(w, GS_PHASE_DATA);
}

/* Clear a shared table's gradient: both its stages add to it, even in a fresh pass, and a stage may get no samples. */
static gs_status begin(gs_worker *w, pipeline_worker *p) {
    const gs_backend *ops = w->device->ops;
    GS_TRY(gs_model_clear_stats(w->model));
    if (p->cut.tied.table && (p->stage == 0 || p->stage == p->cut.shape.stages - 1))
        GS_TRY(ops->fill(w->device, stage_table(p)->dw, 0, p->cut.tied.table->count));
    for (int c = 0; c < p->cut.shape.chunks; c++) p->chunk[c].has_dw = p->chunk[c].has_state = false;
    memset(&p->record.last, 0, sizeof p->record.last);
    p->record.began = 0;
    memset(p->sent, 0, (size_t)p->cut.shape.stages * sizeof *p->sent);
    next_micro_batches(w, p);
    return GS_OK;
}

/* Execute this stage's list up to the sum. Its layers' dw is then complete for this pipeline's micro-batches. */
static gs_status run_to_sum(gs_worker *w, pipeline_worker *p) {
    const gs_instruction *i = p->list[p->stage].list;
    GS_TRY(begin(w, p));
    for (; i->action != GS_DO_SUM; i++) GS_TRY(execute(w, p, i));
    for (int c = 0; c < p->cut.shape.chunks; c++) {
        const chunk *k = &p->chunk[c];
        GS_TRY(fill_if_empty(w, p, k->has_dw || p->own->gradients_cut, k->own->params));
        GS_TRY(fill_if_empty(w, p, k->has_state, state_of(k)));
    }
    return GS_OK;
}

/* Execute the messages after the update. */
static gs_status run_after_update(gs_worker *w, pipeline_worker *p) {
    const gs_instructions *mine = &p->list[p->stage];
    size_t i = 0;
    while (mine->list[i].action != GS_DO_UPDATE) i++;
    for (i++; i < mine->count; i++) GS_TRY(execute(w, p, &mine->list[i]));
    return GS_OK;
}

/* ---- training ---- */

/* The first replica (and first shard) of the last stage contributes the counts. All others add 0, so this sum is exact.
 * Any worker can add a request to stop. */
static gs_status share_score(gs_worker *w, const pipeline_worker *p, gs_score *score) {
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
    pipeline_worker *p = w->strategy_state;
    GS_TRY(run_to_sum(w, p)); /* this stage's part of load, forward, loss and backward */
    GS_TRY(gs_comm_barrier(w->groups.comm[GS_PP]));
    record_step(p);
    GS_TRY(w->reducer->finish(w)); /* sums dw and counts over all pipelines */
    GS_TRY(share_score(w, p, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    GS_TRY(gs_gather_new_weights(w));
    return run_after_update(w, p);
}

static gs_model *model_of(const gs_worker *w, int i) {
    const pipeline_worker *p = w->strategy_state;
    return i < p->cut.shape.chunks ? p->chunk[i].slot[0].model : NULL;
}

/* ---- the test set ---- */

/* Receive x from the previous stage, or send it to the next one. (A block passes through all stages once per chunk.) */
static gs_status pass_on(gs_worker *w, const pipeline_worker *p, gs_operation operation, gs_mem x,
                         size_t numbers) {
    const bool sends = operation == GS_SEND;
    const int peer = (p->stage + (sends ? 1 : p->cut.shape.stages - 1)) % p->cut.shape.stages;
    const gs_call call = {operation, gs_bytes_of(numbers, x.half), GS_U8, GS_SUM, peer};
    return gs_call_run_on_device(w->groups.comm[GS_PP], w->device, &call, sends ? x : GS_NONE,
                                 sends ? GS_NONE : x);
}

/* Blocks follow each other like micro-batches, so that stages work on different blocks at the same time. */
static gs_status score(gs_worker *w, const gs_pass *pass, bool *scored) {
    const pipeline_worker *p = w->strategy_state;
    *scored = p->stage == p->cut.shape.stages - 1;
    for (int c = 0; c < p->cut.shape.chunks; c++) {
        const slot *s = &p->chunk[c].slot[0];
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
    .leaf_by_leaf = true,
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
