#include "train/train.h"

#include "core/clock.h"
#include "core/cores.h"
#include "io/file.h"
#include "model/safetensors.h"
#include "train/internal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum gs_job { JOB_TRAIN, JOB_EVAL, JOB_PREDICT } gs_job;

/* A run of this process: one thread for each of its workers. */
typedef struct gs_run {
    gs_job job;
    gs_settings settings; /* a copy, with the model of settings.load filled in */
    gs_saved saved;       /* what the file settings.load says of itself */
    gs_scaling scaling;   /* of the training set, or of the one that the loaded weights were trained on */
    const gs_observer *observer;
    gs_dataset *loaded[2]; /* from files; NULL where they came from memory */
    const gs_dataset *train_set, *test_set;
    int local;     /* workers in this process, and */
    int threads;   /* what each has of the CPU's */
    float *logits; /* of the whole test set: JOB_PREDICT */
    struct gs_run_worker *worker;
} gs_run;

typedef struct gs_run_worker {
    gs_run *run;
    pthread_t thread;
    gs_comm *comm;
    char device[48];
    cpu_set_t share; /* CPUs to which it is bound, */
    int cpus;        /* how many; 0: it is not bound */
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
                       "--accumulate %d: more passes than the %zu sample%s in a worker's part of the batch",
                       run->settings.accumulate, share, gs_s(share));
    return GS_OK;
}

static gs_status check_by_channel(const gs_run *run, const char *name, const gs_by_channel *given,
                                  const gs_by_channel *used) {
    const gs_dataset *set = run->test_set;
    const char *where = given->count ? "" : run->settings.load;
    if (gs_by_channel_fits(used, set->shape.c)) return GS_OK;
    return gs_fail(given->count ? GS_E_USAGE : GS_E_SHAPE,
                   "%s%s%s has %d numbers, one for each channel, but the images of %s have %d channel%s",
                   where, given->count ? "--" : ": ", name, used->count, set->name, set->shape.c,
                   gs_s((unsigned)set->shape.c));
}

static gs_status check_scaling(const gs_run *run) {
    const gs_settings *s = &run->settings;
    const gs_dataset *set = run->train_set ? run->train_set : run->test_set;
    if (!set->images && (s->mean.count || s->std.count))
        return gs_fail(GS_E_USAGE,
                       "%s holds floats, which are taken as they are: --mean and --std are for bytes",
                       set->name);
    if (!set->images) return GS_OK;
    GS_TRY(check_by_channel(run, "mean", &run->settings.mean, &run->scaling.mean));
    return check_by_channel(run, "std", &run->settings.std, &run->scaling.std);
}

/* The model with the names that the file is to have. */
static gs_status plan_to_save(const gs_run *run, gs_model **plan) {
    const gs_settings *s = &run->settings;
    GS_TRY(gs_model_plan(s->model, run->train_set->shape, plan));
    gs_status status = gs_context(gs_names_rename(*plan, s->names), "--names");
    if (status != GS_OK) gs_model_free(*plan);
    return status;
}

static gs_status prepare(gs_run *run) {
    gs_settings *s = &run->settings;
    if (s->train_set) s->data = s->train_set->name; /* for messages and logs */
    GS_TRY(gs_check_each_setting(s));
    if (run->job == JOB_TRAIN) GS_TRY(gs_check_settings(s));
    if (s->load) GS_TRY(gs_read_saved(s, &run->saved));
    if (!s->model) s->model = "mlp";
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_open_set(s, GS_TRAIN, &run->loaded[GS_TRAIN], &run->train_set));
        run->scaling = s->load ? run->saved.scaling : gs_dataset_scaling(run->train_set);
    } else {
        run->scaling = run->saved.scaling;
    }
    if (s->mean.count) run->scaling.mean = s->mean;
    if (s->std.count) run->scaling.std = s->std;
    GS_TRY(gs_open_set(s, GS_TEST, &run->loaded[GS_TEST], &run->test_set));
    if (s->load) GS_TRY(gs_check_saved(s, &run->saved, run->test_set));
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_check_sets_alike(s, run->train_set, run->test_set));
        GS_TRY(gs_check_set(s, run->train_set));
        GS_TRY(gs_augment_check(&s->augment, run->train_set));
    }
    GS_TRY(gs_check_set(s, run->test_set));
    GS_TRY(check_scaling(run));
    run->local = gs_devices_count(s->devices);
    run->threads = gs_worker_threads(s, run->local);
    run->worker = calloc((size_t)run->local, sizeof *run->worker);
    if (!run->worker) return gs_fail(GS_E_MEMORY, "no memory for %d workers", run->local);
    for (int i = 0; i < run->local; i++) {
        run->worker[i].run = run;
        GS_TRY(gs_devices_name(s->devices, i, run->worker[i].device));
        run->worker[i].cpus = gs_worker_share(s, i, run->local, &run->worker[i].share);
    }
    if (run->job == JOB_TRAIN) {
        GS_TRY(check_sizes(run, run->local));
        GS_TRY(gs_check_rates(s, run->train_set->count));
    }
    if (s->save) GS_TRY(gs_file_check_target(s->save));
    if (!s->save) return GS_OK;
    gs_model *plan; /* have all its tensors the names that are wanted? */
    GS_TRY(plan_to_save(run, &plan));
    gs_model_free(plan);
    return GS_OK;
}

/* ---- the workers ---- */

static gs_status make_confusion(gs_run_worker *me) {
    size_t classes = (size_t)me->worker.model->out.c;
    me->result.classes = (int)classes;
    me->result.confusion = calloc(classes * classes, sizeof *me->result.confusion);
    if (me->result.confusion) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory for a confusion matrix (%zu,%zu)", classes, classes);
}

static gs_status evaluate(gs_run_worker *me) {
    gs_score score;
    GS_TRY(gs_comm_barrier(me->comm));
    double start = gs_seconds();
    if (me->run->settings.confusion) GS_TRY(make_confusion(me));
    const bool ranks = me->run->test_set->labels && me->worker.model->out.c > GS_TOP;
    gs_ranking ranking = {me->result.confusion, 0};
    GS_TRY(gs_evaluate_classes(&me->worker, me->run->test_set, &score,
                               ranks || me->result.confusion ? &ranking : NULL));
    me->result.classes = me->worker.model->out.c;
    me->result.top_accuracy = ranks ? ranking.top / score.samples : NAN;
    me->result.samples_per_s = score.samples / gs_model_answers(me->worker.model) / (gs_seconds() - start);
    me->result.test_loss = score.loss / score.samples;
    me->result.test_accuracy = score.correct / score.samples;
    return gs_check_inferred_loss(&me->worker, me->result.test_loss);
}

static gs_status work(gs_run_worker *me) {
    gs_run *run = me->run;
    if (run->job == JOB_TRAIN) {
        GS_TRY(gs_check_workers(&run->settings, me->comm->size));
        GS_TRY(gs_check_batch_norm(&run->settings, run->train_set, me->comm->size));
    }
    GS_TRY(gs_worker_create(&me->worker, &run->settings, me->device, me->comm, run->threads, run->scaling,
                            run->train_set, run->test_set));
    me->worker.cpus = me->result.cpus = me->cpus;
    if (run->job == JOB_PREDICT) return gs_predict(&me->worker, run->test_set, run->logits);
    GS_TRY(gs_agree(&me->worker, &me->found_by_all));
    if (run->job == JOB_TRAIN) GS_TRY(check_sizes(run, me->comm->size));
    me->found_by_all = false;
    if (run->job == JOB_EVAL) return evaluate(me);
    return gs_train_epochs(&me->worker, run->observer, &me->result);
}

/* A worker that fails tells the others, or they would wait for it. Not so if all find the same mistake in the same
 * facts: a worker that is told of it before it has looked would take it for the loss of a worker, and end with another
 * exit status. Nor after divergence, of which all know (diverged.c). */
static void *worker_main(void *argument) {
    gs_run_worker *me = argument;
    me->result.workers = me->comm->size;
    me->result.rank = me->comm->rank;
    if (me->cpus > 0 && !gs_cores_bind(&me->share)) me->cpus = 0; /* it works without, as before */
    me->status = work(me);
    if (me->status != GS_OK) {
        me->result.steps = me->status == GS_E_DIVERGED ? me->worker.diverged.step : me->worker.step;
        snprintf(me->message, sizeof me->message, "%s", gs_message());
        if (!me->found_by_all && !me->worker.diverged.together) gs_comm_abort(me->comm, me->message);
    }
    gs_worker_free(&me->worker);
    return NULL;
}

/* --sync gloo is Gloo's own all-reduce, so the processes must talk over Gloo. */
static gs_status connect_processes(const gs_settings *s, gs_job job, gs_comm **out) {
    gs_rendezvous r = *s->processes;
    if (!r.purpose) r.purpose = job == JOB_TRAIN ? "train" : job == JOB_EVAL ? "eval" : "predict";
    r.stop = &gs_stop_requested;
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

/* On what must be the same before the first message. */
static gs_status agree(gs_comm *processes, const gs_link *link) {
    GS_TRY(gs_comm_agree_on_check(processes));
    return gs_comm_agree_on_link(processes, link);
}

static gs_status connect_workers(gs_run *run) {
    const gs_settings *s = &run->settings;
    gs_comm *processes = NULL, **comms = calloc((size_t)run->local, sizeof *comms);
    if (!comms) return gs_fail(GS_E_MEMORY, "no memory for %d workers", run->local);
    gs_status status = GS_OK;
    if (s->processes && s->processes->size > 1) status = connect_processes(s, run->job, &processes);
    if (status == GS_OK && processes && (status = agree(processes, &s->link)) != GS_OK)
        gs_comm_free(processes);
    if (status == GS_OK) status = gs_comm_world_create(run->local, processes, s->timeout, comms);
    for (int i = 0; i < run->local && status == GS_OK; i++)
        status = gs_comm_linked_create(comms[i], &s->link, &comms[i]);
    if (status == GS_OK) status = gs_comm_check_if_wanted(run->local, comms);
    for (int i = 0; i < run->local; i++) run->worker[i].comm = comms[i];
    free(comms);
    return status;
}

/* Of several failures report the one that began it, not that of a worker that merely lost another one. */
static gs_status first_failure(const gs_run *run) {
    const gs_run_worker *told = NULL;
    for (int i = 0; i < run->local; i++) {
        const gs_run_worker *w = &run->worker[i];
        if (w->status != GS_OK && (!told || (told->status == GS_E_PEER && w->status != GS_E_PEER))) told = w;
    }
    if (!told) return GS_OK;
    if (told->result.workers == 1 || told->status == GS_E_PEER || told->status == GS_E_USAGE ||
        told->status == GS_E_DIFFER || told->status == GS_E_DIVERGED)
        return gs_fail(told->status, "%s", told->message);
    return gs_fail(told->status, "worker %d (%s): %s", told->result.rank, told->device, told->message);
}

static gs_status run_workers(gs_run *run) {
    GS_TRY(connect_workers(run));
    for (int i = 0; i < run->local; i++) {
        gs_run_worker *w = &run->worker[i];
        if (pthread_create(&w->thread, NULL, worker_main, w) == 0) continue;
        gs_comm_abort(w->comm, "cannot start a thread");
        for (int j = 0; j < i; j++) pthread_join(run->worker[j].thread, NULL);
        return gs_fail(GS_E_MEMORY, "cannot start a thread for worker %d of %d", i, run->local);
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
    GS_TRY(plan_to_save(run, &plan));
    plan->scaling = run->scaling;
    gs_status status = gs_safetensors_save(s->save, plan, first->weights);
    gs_model_free(plan);
    return status;
}

/* The file is left as it was, unless there is a good epoch to be saved. The failure's message says which. */
static gs_status after_divergence(gs_run *run) {
    char message[1024];
    const gs_result *first = &run->worker[0].result;
    snprintf(message, sizeof message, "%s", gs_message());
    if (first->rank != 0) return GS_E_DIVERGED;
    if (first->kept_epoch == 0)
        return gs_fail(GS_E_DIVERGED, "%s (nothing is written to %s)", message, run->settings.save);
    GS_TRY(gs_context(save_weights(run), "%s", message));
    return gs_fail(GS_E_DIVERGED, "%s (the weights of epoch %d are in %s)", message, first->kept_epoch,
                   run->settings.save);
}

static void free_run(gs_run *run) {
    for (int i = 0; i < run->local && run->worker; i++) {
        gs_comm_free(run->worker[i].comm);
        gs_result_free(&run->worker[i].result);
    }
    free(run->worker);
    gs_dataset_free(run->loaded[GS_TRAIN]);
    gs_dataset_free(run->loaded[GS_TEST]);
    gs_saved_free(&run->saved);
}

void gs_result_free(gs_result *r) {
    free(r->weights);
    r->weights = NULL;
    free(r->worker);
    r->worker = NULL;
    gs_staleness_free(&r->staleness);
    free(r->confusion);
    r->confusion = NULL;
}

/* Worker 0's result, with the times of all workers of this process averaged. */
static void take_result(gs_run *run, gs_result *result) {
    *result = run->worker[0].result;
    result->threads = run->threads;
    run->worker[0].result.weights = NULL;
    run->worker[0].result.worker = NULL;
    run->worker[0].result.staleness = (gs_staleness){0};
    run->worker[0].result.confusion = NULL;
    result->overlap.summed = result->overlap.waited = result->waited = 0;
    for (int p = 0; p < GS_PHASES; p++) result->phase[p] = 0;
    for (int i = 0; i < run->local; i++) {
        const gs_result *r = &run->worker[i].result;
        for (int p = 0; p < GS_PHASES; p++) result->phase[p] += r->phase[p] / run->local;
        result->overlap.summed += r->overlap.summed / run->local;
        result->overlap.waited += r->overlap.waited / run->local;
        result->waited += r->waited / run->local;
    }
}

gs_status gs_train(const gs_settings *settings, const gs_observer *observer, gs_result *result) {
    gs_run run = {.job = JOB_TRAIN, .settings = *settings, .observer = observer};
    *result = (gs_result){0};
    gs_status status = prepare(&run);
    if (status == GS_OK) status = run_workers(&run);
    bool trained = status == GS_OK;
    if (trained) status = save_weights(&run);
    if (status == GS_E_DIVERGED && settings->save) status = after_divergence(&run);
    if (trained)
        take_result(&run, result);
    else if (run.worker)
        result->steps = run.worker[0].result.steps;
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
