/* Lab 13, as given: `train` steps with lab.c. The synchronous strategy becomes plain_step, or with --bucket
 * overlapped_step. The model's layers and a thread that sums execute a worker's step:
 *
 *     worker      ... | backward 3 | begin 0 | backward 2 | begin 1 | ... | wait 0 | wait 1 | update
 *     its thread                   | sum of bucket 0        | sum of bucket 1 |
 */
#include "check_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/clock.h"
#include "data/order.h"
#include "train/reducers/buckets.h"
#include "train/timeline.h"

typedef struct whole {
    lab_run run; /* first, so that a run is its whole */
    gs_worker *worker;
    lab_step step;
    gs_layer **layer;      /* the model's */
    uint64_t epoch, steps; /* epochs begun; steps done before this one */
    size_t *order;
    uint32_t *drawn, *mine;
    float *copy; /* of the gradients, while they are summed */
    gs_pass pass;
    gs_mem y, dy;            /* between two layers */
    int forwards, backwards; /* layers done in this step */
    bool scored;             /* the loss too */

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int begun, summed, waited; /* buckets of this step; the lock protects them and all below */
    bool end;
    gs_status failed;
    char message[1024];      /* gs_message() belongs to a thread; this carries it to the worker */
    double summing, waiting; /* seconds, of all steps */
} whole;

/* ---- what the student calls ---- */

gs_status lab_load(lab_step *s, const size_t *sample, size_t count) {
    return s->run->load(s->run, sample, count);
}

gs_status lab_forward(lab_step *s, int layer) {
    GS_TRY(lab_check_layer(s, layer));
    return s->run->forward(s->run, layer);
}

gs_status lab_loss(lab_step *s) {
    return s->run->loss(s->run, s->gradients + s->params);
}

gs_status lab_backward(lab_step *s, int layer) {
    GS_TRY(lab_check_layer(s, layer));
    return s->run->backward(s->run, layer, s->gradients + s->layer[layer].first);
}

gs_status lab_sum_begin(lab_step *s, int bucket) {
    GS_TRY(lab_check_bucket(s, bucket));
    return s->run->begin(s->run, bucket, s->gradients + s->bucket[bucket].first);
}

gs_status lab_sum_wait(lab_step *s, int bucket) {
    GS_TRY(lab_check_bucket(s, bucket));
    return s->run->wait(s->run, bucket, s->gradients + s->bucket[bucket].first);
}

gs_status lab_hook(lab_step *s, int layer) {
    GS_TRY(lab_check_layer(s, layer));
    return s->run->hook(s->run, layer);
}

/* ---- load, forward, backward: by the worker's model ---- */

static gs_status load(lab_run *run, const size_t *sample, size_t count) {
    whole *o = (whole *)run;
    gs_worker *w = o->worker;
    if (count == 0 || count > w->input.most)
        return gs_fail(GS_E_USAGE, "lab_load: %zu samples; wanted 1 to %zu, or more with --micro-batch",
                       count, w->input.most);
    for (size_t i = 0; i < count; i++) {
        if (sample[i] >= o->step.samples)
            return gs_fail(GS_E_USAGE, "lab_load: sample %zu of %zu", sample[i], o->step.samples);
        o->mine[i] = (uint32_t)sample[i];
    }
    o->pass.n = count;
    w->measured.samples += (double)count;
    if (!w->device->dry) /* there is no room for samples in a dry run */
        GS_TRY(gs_augment_gather(&w->settings->augment, w->train_set, w->settings->seed, o->epoch, o->mine,
                                 count, w->input.host_inputs, w->input.host_targets));
    GS_TRY(gs_worker_write(w, w->input.host_inputs, w->input.host_targets, count));
    o->y = w->input.x;
    return gs_phase_ends(w, GS_PHASE_DATA);
}

/* A fused layer is computed by the layer before it (layer/sequential.c). */
static gs_status forward(lab_run *run, int layer) {
    whole *o = (whole *)run;
    if (o->pass.n == 0) return gs_fail(GS_E_USAGE, "forward of layer %d: nothing is loaded", layer);
    if (layer != o->forwards)
        return gs_fail(GS_E_USAGE, "forward of layer %d; wanted layer %d", layer, o->forwards);
    o->forwards++;
    return o->layer[layer]->fused ? GS_OK : gs_layer_forward(o->layer[layer], &o->pass, o->y, &o->y);
}

/* The model writes into step.gradients; in a checker the student's gradients are elsewhere. */
static void bring(const whole *o, float *to, size_t first, size_t count) {
    const float *from = o->step.gradients + first;
    if (to != from) memcpy(to, from, count * sizeof *to);
}

static gs_status loss(lab_run *run, float *counts) {
    whole *o = (whole *)run;
    gs_model *m = o->worker->model;
    if (o->forwards != o->step.layers)
        return gs_fail(GS_E_USAGE, "lab_loss: forward of %d layers; wanted %d", o->forwards, o->step.layers);
    GS_TRY(gs_model_clear_stats(m));
    GS_TRY(gs_model_loss(m, &o->pass, o->y, o->worker->input.targets));
    bring(o, counts, m->saved, GS_STATS);
    o->scored = true;
    return gs_phase_ends(o->worker, GS_PHASE_FORWARD);
}

/* As gs_model_backward and sequential_backward do it, one layer at a time. */
static gs_status backward(lab_run *run, int layer, float *gradients) {
    whole *o = (whole *)run;
    gs_worker *w = o->worker;
    gs_model *m = w->model;
    const gs_layer *l = o->layer[layer];
    const gs_chunk *part = &o->step.layer[layer];
    size_t rows = o->pass.n * (size_t)gs_model_targets(m);
    int wanted = o->step.layers - 1 - o->backwards;
    if (!o->scored) return gs_fail(GS_E_USAGE, "backward of layer %d comes before the loss", layer);
    if (layer != wanted) return gs_fail(GS_E_USAGE, "backward of layer %d; wanted layer %d", layer, wanted);
    o->backwards++;
    if (layer == o->step.layers - 1) {
        o->dy = m->dlogits;
        GS_TRY(m->device->ops->softmax_cross_entropy_backward(
            m->device, o->dy, m->probability, w->input.targets, rows, m->out.c, m->label_smoothing));
    }
    bool needed = !l->fused && (layer == o->step.layers - 1 || o->layer[layer + 1]->needs_dx);
    if (needed) GS_TRY(gs_layer_backward(o->layer[layer], &o->pass, o->dy, &o->dy));
    bring(o, gradients, part->first, part->count);
    return layer == 0 ? gs_phase_ends(w, GS_PHASE_BACKWARD) : GS_OK;
}

/* ---- sums, in a thread ---- */

static gs_status sum_bucket(whole *o, int i) {
    gs_sync *s = o->worker->sync;
    const gs_chunk *b = &o->step.bucket[i];
    s->tail = i == 0 ? GS_STATS : 0;
    if (o->step.ranks > 1) GS_TRY(gs_sync_run(s, o->copy + b->first, b->count));
    o->worker->measured.sent += (double)s->counted.bytes;
    return GS_OK;
}

/* Sums the begun buckets in order, until a failure. */
static void *thread_main(void *argument) {
    whole *o = argument;
    pthread_mutex_lock(&o->lock);
    while (!o->end) {
        if (o->summed == o->begun) {
            pthread_cond_wait(&o->changed, &o->lock);
            continue;
        }
        if (o->failed == GS_OK) {
            int i = o->summed;
            pthread_mutex_unlock(&o->lock);
            double start = gs_seconds();
            gs_status status = sum_bucket(o, i);
            double end = gs_seconds();
            if (o->worker->settings->bucket) gs_timeline_bucket(o->worker, i, start, end);
            pthread_mutex_lock(&o->lock);
            o->summing += end - start;
            o->failed = status;
            if (status != GS_OK) snprintf(o->message, sizeof o->message, "%s", gs_message());
        }
        o->summed++;
        pthread_cond_broadcast(&o->changed);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

/* Only the worker changes `begun` and `waited`, so it may read them without the lock. */
static gs_status begin(lab_run *run, int bucket, const float *data) {
    whole *o = (whole *)run;
    const gs_chunk *b = &o->step.bucket[bucket];
    if (bucket != o->begun)
        return gs_fail(GS_E_USAGE, "lab_sum_begin: bucket %d; wanted %d, the next one", bucket, o->begun);
    memcpy(o->copy + b->first, data, b->count * sizeof *data);
    if (bucket == 0 && gs_stop_requested) o->copy[o->step.params + GS_STAT_STOP] = 1;
    pthread_mutex_lock(&o->lock);
    o->begun++;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    return GS_OK;
}

static gs_status wait_for(lab_run *run, int bucket, float *data) {
    whole *o = (whole *)run;
    const gs_chunk *b = &o->step.bucket[bucket];
    double start = gs_seconds();
    if (bucket >= o->begun)
        return gs_fail(GS_E_USAGE, "lab_sum_wait: the sum of bucket %d was not begun", bucket);
    pthread_mutex_lock(&o->lock);
    while (o->summed <= bucket) pthread_cond_wait(&o->changed, &o->lock);
    gs_status failed = o->failed;
    pthread_mutex_unlock(&o->lock);
    o->waiting += gs_seconds() - start;
    if (failed != GS_OK) return gs_fail(failed, "%s", o->message);
    memcpy(data, o->copy + b->first, b->count * sizeof *data);
    o->waited++;
    return o->waited == o->step.buckets ? gs_phase_ends(o->worker, GS_PHASE_SYNC) : GS_OK;
}

/* ---- making and freeing ---- */

static gs_status cut(whole *o, gs_chunk *layer, gs_chunk *bucket) {
    const gs_settings *s = o->worker->settings;
    size_t count = o->step.params + GS_STATS, end = o->step.params;
    int layers = o->step.layers;
    size_t *first = malloc((size_t)layers * sizeof *first);
    gs_bucket *plan = malloc(((size_t)layers + 1) * sizeof *plan);
    for (int l = layers - 1; l >= 0 && first; l--) {
        first[l] = o->layer[l]->at;
        layer[l] = (gs_chunk){first[l], end - first[l]};
        end = first[l];
    }
    size_t least = s->bucket ? (size_t)s->bucket * 1024 / sizeof(float) : count;
    if (first && plan) o->step.buckets = gs_buckets_plan(first, layers, count, least, plan);
    for (int b = 0; b < o->step.buckets; b++) bucket[b] = (gs_chunk){plan[b].first, plan[b].count};
    free(first);
    free(plan);
    return o->step.buckets > 0 ? GS_OK : gs_fail(GS_E_MEMORY, "lab 13: no memory for %d layers", layers);
}

static gs_status make(whole *o) {
    gs_worker *w = o->worker;
    gs_model *m = w->model;
    size_t samples = w->train_set->count, layers = (size_t)m->net->children;
    if (!w->device->ops->host_memory) return gs_fail(GS_E_USAGE, "lab 13 trains on the CPU: --device cpu");
    if (layers == 0 || m->saved != m->params)
        return gs_fail(GS_E_USAGE, "lab 13: wanted a model of several layers, without state");
    o->layer = m->net->child;
    gs_chunk *layer = calloc(layers, sizeof *layer), *bucket = calloc(layers + 1, sizeof *bucket);
    o->step = (lab_step){.rank = w->comm->rank,
                         .ranks = w->comm->size,
                         .samples = samples,
                         .batch = w->batch,
                         .layers = (int)layers,
                         .layer = layer,
                         .params = m->params,
                         .velocity = calloc(m->params + 1, sizeof(float)),
                         .momentum = w->optimizer->momentum,
                         .bucket = bucket,
                         .run = &o->run};
    o->step.order = o->order = calloc(samples, sizeof *o->order);
    o->drawn = malloc(samples * sizeof *o->drawn);
    o->mine = malloc(w->input.most * sizeof *o->mine);
    o->copy = malloc((m->params + GS_STATS) * sizeof *o->copy);
    if (!layer || !bucket || !o->step.velocity || !o->order || !o->drawn || !o->mine || !o->copy)
        return gs_fail(GS_E_MEMORY, "no memory for lab 13");
    GS_TRY(cut(o, layer, bucket));
    o->started = pthread_create(&o->thread, NULL, thread_main, o) == 0;
    return o->started ? GS_OK : gs_fail(GS_E_MEMORY, "lab 13: cannot start a thread");
}

/* A worker with this callback has a thread for its sums, and the timeline shows their messages there. */
static gs_status told(void *o, size_t first) {
    (void)o, (void)first;
    return GS_OK;
}

static gs_status create(gs_worker *w) {
    whole *o = w->strategy_state = calloc(1, sizeof *o);
    if (!o) return gs_fail(GS_E_MEMORY, "no memory for lab 13");
    o->worker = w;
    o->run = (lab_run){load, forward, loss, backward, begin, wait_for, NULL};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    if (w->settings->bucket) w->final = told;
    w->final_context = o;
    return make(o);
}

static void free_whole(gs_worker *w) {
    whole *o = w->strategy_state;
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    o->end = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (o->started) pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free((void *)o->step.layer);
    free((void *)o->step.bucket);
    free(o->step.velocity);
    free(o->order);
    free(o->drawn);
    free(o->mine);
    free(o->copy);
    free(o);
}

/* ---- a step ---- */

static gs_status begin_epoch(gs_worker *w, size_t steps) {
    whole *o = w->strategy_state;
    (void)steps;
    gs_epoch_order(w->settings->seed, ++o->epoch, o->step.samples, o->drawn);
    for (size_t i = 0; i < o->step.samples; i++) o->order[i] = o->drawn[i];
    o->steps = w->step;
    return GS_OK;
}

static gs_status ready(whole *o) {
    gs_worker *w = o->worker;
    lab_step *s = &o->step;
    void *weights, *gradients;
    GS_TRY(w->device->ops->map(w->device, w->model->weights, s->params * sizeof(float), &weights));
    GS_TRY(w->device->ops->map(w->device, w->model->gradients, (s->params + GS_STATS) * sizeof(float),
                               &gradients));
    s->weights = weights;
    s->gradients = gradients;
    s->number = (size_t)(w->step - o->steps);
    s->rate = w->optimizer->lr;
    gs_shard batch = lab_batch_of(s->samples, s->batch, s->number);
    gs_shard part = gs_shard_of(batch.count, s->rank, s->ranks);
    w->micro_batch = (gs_micro_batch){.epoch = o->epoch,
                                      .step = w->step + 1,
                                      .first = batch.first + part.first,
                                      .n = part.count,
                                      .offset = part.first,
                                      .batch = batch.count,
                                      .part = part.count,
                                      .last = true};
    o->pass = (gs_pass){
        .training = true, .fresh = true, .seed = w->settings->seed, .step = w->step, .first = part.first};
    o->forwards = o->backwards = 0;
    o->scored = false;
    pthread_mutex_lock(&o->lock);
    o->begun = o->summed = o->waited = 0; /* all sums are over */
    pthread_mutex_unlock(&o->lock);
    return GS_OK;
}

static gs_status step(gs_worker *w, gs_score *score) {
    whole *o = w->strategy_state;
    GS_TRY(ready(o));
    GS_TRY(w->settings->bucket ? overlapped_step(&o->step) : plain_step(&o->step));
    if (o->waited != o->step.buckets)
        return gs_fail(GS_E_USAGE, "the step waited for %d of %d sums", o->waited, o->step.buckets);
    *score = gs_score_of(o->step.gradients + o->step.params);
    GS_TRY(w->device->ops->unmap(w->device, w->model->gradients, o->step.gradients));
    GS_TRY(w->device->ops->unmap(w->device, w->model->weights, o->step.weights));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

static gs_status report(gs_worker *w, gs_result *result) {
    const whole *o = w->strategy_state;
    double steps = w->step > 0 ? (double)w->step : 1;
    if (w->settings->bucket)
        result->overlap = (gs_overlap_times){o->step.buckets, o->summing / steps, o->waiting / steps};
    return GS_OK;
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "lab 13: %s of lab.c, sums by %s", s->bucket ? "overlapped_step" : "plain_step",
             s->sync);
}

static gs_status check(const gs_settings *s) {
    if (s->optimizer != &gs_sgd)
        return gs_fail(GS_E_USAGE, "lab 13 updates with sgd, not with %s", s->optimizer->name);
    if (gs_settings_numbers(s).weight_decay != 0 || s->accumulate > 1 || s->wire != GS_WIRE_F32 ||
        s->loss != GS_SOFTMAX_CROSS_ENTROPY)
        return gs_fail(GS_E_USAGE, "lab 13 has no --weight-decay, --accumulate or --wire, and only the loss "
                                   "softmax cross-entropy");
    return GS_OK;
}

static const gs_strategy of_lab = {.name = "synchronous",
                                   .option = "--sync SCHEME",
                                   .check = check,
                                   .describe = describe,
                                   .create = create,
                                   .begin_epoch = begin_epoch,
                                   .step = step,
                                   .report = report,
                                   .free = free_whole};

void lab_install(void) {
    (void)gs_strategy_replace(of_lab.name, &of_lab);
}
