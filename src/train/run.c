#include "train/train.h"

#include "core/clock.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "train/modes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum gs_job { JOB_TRAIN, JOB_EVAL, JOB_PREDICT } gs_job;

/* A run of this process: one thread for each of its workers. */
typedef struct gs_run {
    gs_job job;
    gs_settings settings; /* a copy, with the model of settings.load filled in */
    char *loaded_model;
    gs_scaling scaling; /* of the training set, or of the one that the loaded weights were trained on */
    const gs_observer *observer;
    gs_dataset *train_set, *test_set;
    int local;     /* workers in this process */
    float *logits; /* of the whole test set: JOB_PREDICT */
    struct gs_run_worker *worker;
} gs_run;

typedef struct gs_run_worker {
    gs_run *run;
    pthread_t thread;
    gs_comm *comm;
    char device[48];
    gs_worker worker;
    gs_result result;
    gs_status status;
    bool found_by_all;  /* what is wrong all workers find by themselves: see worker_main */
    char message[1024]; /* errors belong to a thread; this carries one out of it */
} gs_run_worker;

int gs_devices_count(const char *list) {
    int count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

gs_status gs_devices_name(const char *list, int i, char name[48]) {
    const char *from = list;
    for (; i > 0 && from; i--) from = strchr(from, ',') ? strchr(from, ',') + 1 : NULL;
    if (!from) gs_bug("gs_devices_name: '%s' has fewer names", list);
    from += strspn(from, " ");
    size_t length = strcspn(from, ",");
    while (length > 0 && from[length - 1] == ' ') length--;
    if (length == 0) return gs_fail(GS_E_USAGE, "the list of devices '%s' has an empty name", list);
    if (length >= 48) return gs_fail(GS_E_USAGE, "device '%.40s...': the name is too long", from);
    memcpy(name, from, length);
    name[length] = 0;
    return GS_OK;
}

/* ---- before: what can be checked without a worker ---- */

static gs_status check_labels(const gs_dataset *set, const gs_settings *s) {
    gs_model *plan;
    GS_TRY(gs_model_plan(s->model, set->shape, &plan));
    int classes = (int)gs_shape_size(plan->out);
    gs_model_free(plan);
    return gs_dataset_check_labels(set, classes);
}

/* What can be known before the workers have met. */
static gs_status check_sizes(const gs_run *run, int workers) {
    size_t count = run->train_set->count, batch = run->settings.batch;
    if (batch > count)
        return gs_fail(GS_E_USAGE,
                       "--batch %zu is larger than the training set, which has %zu sample%s (--batch all)",
                       batch, count, gs_s(count));
    if ((size_t)workers > count)
        return gs_fail(GS_E_USAGE, "there are %d workers, but only %zu sample%s to train on", workers, count,
                       gs_s(count));
    if (batch && (size_t)workers > batch)
        return gs_fail(GS_E_USAGE, "--batch %zu is the global batch: it cannot be divided among %d workers",
                       batch, workers);
    size_t share = (batch ? batch : count) / (size_t)workers;
    if ((size_t)gs_passes(&run->settings) > share)
        return gs_fail(GS_E_USAGE,
                       "--accumulate %d: more passes than the %zu sample%s of a worker's part of the batch",
                       run->settings.accumulate, share, gs_s(share));
    return GS_OK;
}

/* A target that cannot be written is known before the training and not after it. */
static gs_status check_target(const char *path) {
    gs_file_writer w;
    GS_TRY(gs_file_writer_open(path, &w));
    gs_file_writer_discard(&w);
    return GS_OK;
}

static gs_status prepare(gs_run *run) {
    gs_settings *s = &run->settings;
    if (run->job == JOB_TRAIN) GS_TRY(gs_check_settings(s));
    if (s->load) {
        gs_shape in;
        GS_TRY(gs_safetensors_model(s->load, s->model ? NULL : &run->loaded_model, &in, &run->scaling));
        if (!s->model) s->model = run->loaded_model;
    }
    if (!s->model) s->model = "mlp";
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_dataset_load(s->data, GS_TRAIN, &run->train_set));
        if (!s->load) run->scaling = gs_dataset_scaling(run->train_set);
    }
    GS_TRY(gs_dataset_load(s->data, GS_TEST, &run->test_set));
    if (run->job == JOB_TRAIN) {
        gs_shape a = run->train_set->shape, b = run->test_set->shape;
        if (a.c != b.c || a.h != b.h || a.w != b.w)
            return gs_fail(GS_E_FORMAT, "%s: training images are (%d,%d,%d), test images (%d,%d,%d)", s->data,
                           a.c, a.h, a.w, b.c, b.h, b.w);
        GS_TRY(check_labels(run->train_set, s));
    }
    GS_TRY(check_labels(run->test_set, s));
    run->local = gs_devices_count(s->devices);
    run->worker = calloc((size_t)run->local, sizeof *run->worker);
    if (!run->worker) return gs_fail(GS_E_MEMORY, "no memory for %d workers", run->local);
    for (int i = 0; i < run->local; i++) {
        run->worker[i].run = run;
        GS_TRY(gs_devices_name(s->devices, i, run->worker[i].device));
    }
    if (run->job == JOB_TRAIN) GS_TRY(check_sizes(run, run->local));
    if (s->save) GS_TRY(check_target(s->save));
    return GS_OK;
}

/* ---- the workers ---- */

static gs_status evaluate(gs_run_worker *me) {
    gs_score score;
    GS_TRY(me->comm->ops->barrier(me->comm));
    double start = gs_seconds();
    GS_TRY(gs_evaluate(&me->worker, me->run->test_set, &score));
    me->result.samples_per_s = score.samples / (gs_seconds() - start);
    me->result.test_loss = score.loss / score.samples;
    me->result.test_accuracy = score.correct / score.samples;
    return GS_OK;
}

static gs_status work(gs_run_worker *me) {
    gs_run *run = me->run;
    if (run->job == JOB_TRAIN) GS_TRY(gs_check_workers(&run->settings, me->comm->size));
    GS_TRY(gs_worker_create(&me->worker, &run->settings, me->device, me->comm, run->local, run->scaling,
                            run->train_set, run->test_set));
    if (run->job == JOB_PREDICT) return gs_predict(&me->worker, run->test_set, run->logits);
    GS_TRY(gs_agree(&me->worker, &me->found_by_all));
    if (run->job == JOB_TRAIN) GS_TRY(check_sizes(run, me->comm->size));
    me->found_by_all = false;
    if (run->job == JOB_EVAL) return evaluate(me);
    return gs_train_epochs(&me->worker, run->observer, &me->result);
}

/* A worker that fails tells the others, or they would wait for it. But where each finds the same mistake in the same facts,
 * one that is told before it has looked would take it for the loss of a worker, and end with another exit status. */
static void *worker_main(void *argument) {
    gs_run_worker *me = argument;
    me->result.workers = me->comm->size;
    me->result.rank = me->comm->rank;
    me->status = work(me);
    if (me->status != GS_OK) {
        snprintf(me->message, sizeof me->message, "%s", gs_message());
        if (!me->found_by_all) me->comm->ops->abort(me->comm, me->message);
    }
    gs_worker_free(&me->worker);
    return NULL;
}

/* --sync gloo is Gloo's own all-reduce, so the processes must talk over Gloo. */
static gs_status connect_processes(const gs_settings *s, gs_comm **out) {
    gs_rendezvous r = *s->processes;
    if (strcmp(s->sync, gs_sync_gloo.name) == 0) {
        if (r.transport && strcmp(r.transport, "auto") != 0 && strcmp(r.transport, "gloo") != 0)
            return gs_fail(GS_E_USAGE,
                           "--sync gloo sums over Gloo, but the processes talk over '%s'; wanted "
                           "--transport gloo or auto",
                           r.transport);
        r.transport = "gloo";
        r.library = true;
    }
    return gs_comm_processes_create(&r, out);
}

static gs_status connect_workers(gs_run *run) {
    const gs_settings *s = &run->settings;
    gs_comm *processes = NULL, **comms = calloc((size_t)run->local, sizeof *comms);
    if (!comms) return gs_fail(GS_E_MEMORY, "no memory for %d workers", run->local);
    gs_status status = GS_OK;
    if (s->processes && s->processes->size > 1) status = connect_processes(s, &processes);
    if (status == GS_OK && processes && (status = gs_comm_agree_on_check(processes)) != GS_OK)
        gs_comm_free(processes);
    if (status == GS_OK) status = gs_comm_world_create(run->local, processes, s->timeout, comms);
    if (status == GS_OK) status = gs_comm_check_if_wanted(run->local, comms);
    for (int i = 0; i < run->local; i++) run->worker[i].comm = comms[i];
    free(comms);
    return status;
}

/* Of several failures tell the one that began it: a worker that only lost another one is not that. */
static gs_status first_failure(const gs_run *run) {
    const gs_run_worker *told = NULL;
    for (int i = 0; i < run->local; i++) {
        const gs_run_worker *w = &run->worker[i];
        if (w->status != GS_OK && (!told || (told->status == GS_E_PEER && w->status != GS_E_PEER))) told = w;
    }
    if (!told) return GS_OK;
    if (told->result.workers == 1 || told->status == GS_E_PEER || told->status == GS_E_USAGE ||
        told->status == GS_E_DIFFER)
        return gs_fail(told->status, "%s", told->message);
    return gs_fail(told->status, "worker %d (%s): %s", told->result.rank, told->device, told->message);
}

static gs_status run_workers(gs_run *run) {
    GS_TRY(connect_workers(run));
    for (int i = 0; i < run->local; i++) {
        gs_run_worker *w = &run->worker[i];
        if (pthread_create(&w->thread, NULL, worker_main, w) == 0) continue;
        w->comm->ops->abort(w->comm, "no thread could be started");
        for (int j = 0; j < i; j++) pthread_join(run->worker[j].thread, NULL);
        return gs_fail(GS_E_MEMORY, "no thread could be started for worker %d of %d", i, run->local);
    }
    for (int i = 0; i < run->local; i++) pthread_join(run->worker[i].thread, NULL);
    return first_failure(run);
}

/* ---- after ---- */

static gs_status save_weights(gs_run *run) {
    const gs_settings *s = &run->settings;
    const gs_result *first = &run->worker[0].result;
    if (!s->save || first->rank != 0) return GS_OK;
    gs_model *plan;
    GS_TRY(gs_model_plan(s->model, run->train_set->shape, &plan));
    plan->scaling = run->scaling;
    gs_status status = gs_safetensors_save(s->save, plan, first->weights);
    gs_model_free(plan);
    return status;
}

static void free_run(gs_run *run) {
    for (int i = 0; i < run->local && run->worker; i++) {
        gs_comm_free(run->worker[i].comm);
        gs_result_free(&run->worker[i].result);
    }
    free(run->worker);
    gs_dataset_free(run->train_set);
    gs_dataset_free(run->test_set);
    free(run->loaded_model);
}

void gs_result_free(gs_result *r) {
    free(r->weights);
    r->weights = NULL;
    free(r->worker);
    r->worker = NULL;
    gs_staleness_free(&r->staleness);
}

/* Worker 0's result, with the times of all workers of this process averaged. */
static void take_result(gs_run *run, gs_result *result) {
    *result = run->worker[0].result;
    run->worker[0].result.weights = NULL;
    run->worker[0].result.worker = NULL;
    run->worker[0].result.staleness = (gs_staleness){0};
    for (int p = 0; p < GS_PHASES; p++) {
        double sum = 0;
        for (int i = 0; i < run->local; i++) sum += run->worker[i].result.phase[p];
        result->phase[p] = sum / run->local;
    }
    result->overlap.summed = result->overlap.waited = 0;
    for (int i = 0; i < run->local; i++) {
        result->overlap.summed += run->worker[i].result.overlap.summed / run->local;
        result->overlap.waited += run->worker[i].result.overlap.waited / run->local;
    }
    result->waited = 0;
    for (int i = 0; i < run->local; i++) result->waited += run->worker[i].result.waited / run->local;
}

gs_status gs_train(const gs_settings *settings, const gs_observer *observer, gs_result *result) {
    gs_run run = {.job = JOB_TRAIN, .settings = *settings, .observer = observer};
    *result = (gs_result){0};
    gs_status status = prepare(&run);
    if (status == GS_OK) status = run_workers(&run);
    if (status == GS_OK) status = save_weights(&run);
    if (status == GS_OK) take_result(&run, result);
    free_run(&run);
    return status;
}

gs_status gs_eval(const gs_settings *settings, gs_result *result) {
    gs_run run = {.job = JOB_EVAL, .settings = *settings};
    *result = (gs_result){0};
    gs_status status = prepare(&run);
    if (status == GS_OK) status = run_workers(&run);
    if (status == GS_OK) take_result(&run, result);
    free_run(&run);
    return status;
}

gs_status gs_predict_all(const gs_settings *settings, float **logits, size_t *rows, int *columns) {
    gs_run run = {.job = JOB_PREDICT, .settings = *settings};
    gs_model *plan = NULL;
    gs_status status = prepare(&run);
    if (status == GS_OK) status = gs_model_plan(run.settings.model, run.test_set->shape, &plan);
    if (status == GS_OK) {
        *rows = run.test_set->count;
        *columns = (int)gs_shape_size(plan->out);
        run.logits = malloc(*rows * (size_t)*columns * sizeof(float));
        if (!run.logits) status = gs_fail(GS_E_MEMORY, "no memory for logits (%zu,%d)", *rows, *columns);
    }
    if (status == GS_OK) status = run_workers(&run);
    if (status == GS_OK)
        *logits = run.logits;
    else
        free(run.logits);
    gs_model_free(plan);
    free_run(&run);
    return status;
}
