/* A run in this process: its workers as threads, what comes before them and after them. */
#include "core/clock.h"
#include "core/cores.h"
#include "data/text_set.h"
#include "persist/snapshots.h"
#include "persist/checkpoint.h"
#include "persist/folder.h"
#include "train/connect.h"
#include "train/diverged.h"
#include "train/settings.h"
#include "predict/measured_cut.h"
#include "predict/memory.h"
#include "train/run.h"
#include "persist/state_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the workers ---- */

static gs_status make_confusion(gs_run_worker *me) {
    size_t classes = (size_t)me->worker.model->out.c;
    me->result.classes = (int)classes;
    return GS_NEW(me->result.confusion, classes * classes, "a confusion matrix of %zu classes", classes);
}

static gs_status evaluate(gs_run_worker *me) {
    gs_score score;
    GS_TRY(gs_comm_barrier(me->comm));
    double start = gs_seconds();
    if (me->run->settings.confusion) GS_TRY(make_confusion(me));
    const bool ranks = !me->run->test_set->targets && me->worker.model->out.c > GS_TOP;
    gs_ranking ranking = {.confusion = me->result.confusion,
                          .worst = me->result.confusion ? &me->result.worst : NULL};
    GS_TRY(
        gs_evaluate(&me->worker, me->run->test_set, &score, ranks || me->result.confusion ? &ranking : NULL));
    me->result.classes = me->worker.model->out.c;
    me->result.top_accuracy = ranks ? ranking.top / score.samples : NAN;
    me->result.samples_per_s = score.samples / gs_model_targets(me->worker.model) / (gs_seconds() - start);
    me->result.test_loss = score.loss / score.samples;
    me->result.test_accuracy = score.correct / score.samples;
    return gs_check_inferred_loss(&me->worker, me->result.test_loss);
}

gs_status gs_run_open_worker(gs_run_worker *me) {
    gs_run *run = me->run;
    me->result.workers = me->comm->size;
    me->result.rank = me->comm->rank;
    if (me->cpus > 0 && !gs_cores_bind(&me->share)) me->cpus = 0; /* it works without, as before */
    if (run->kind == GS_RUN_TRAIN) {
        GS_TRY(gs_check_workers(&run->settings, run->train_set, me->comm->size));
        GS_TRY(gs_check_batch_norm(&run->settings, run->train_set, me->comm->size));
    }
    GS_TRY(gs_worker_create(&me->worker, &run->settings, me->device, me->comm, run->threads, run->scaling,
                            run->train_set, run->test_set));
    me->worker.cpus = me->result.cpus = me->cpus;
    me->worker.process = &run->process;
    if (me->comm->rank == 0 && run->observer) me->worker.observer = run->observer;
    me->worker.planned = me->planned;
    me->worker.fit = run->fit;
    me->worker.cut = run->cut.runs > 0 ? &run->cut : NULL;
    if (run->kind == GS_RUN_PREDICT) return GS_OK; /* workers need not meet */
    GS_TRY(gs_agree(&me->worker, &me->found_by_all));
    if (run->kind == GS_RUN_TRAIN) GS_TRY(gs_run_check_sizes(run, &run->settings, me->comm->size));
    me->found_by_all = false;
    gs_checkpoint_let_go(); /* all have loaded what --resume has found */
    return GS_OK;
}

static gs_status work(gs_run_worker *me) {
    gs_run *run = me->run;
    GS_TRY(gs_run_open_worker(me));
    if (run->kind == GS_RUN_PREDICT) return gs_predict(&me->worker, run->test_set, run->logits);
    if (run->kind == GS_RUN_EVAL)
        GS_TRY(evaluate(me));
    else
        GS_TRY(gs_train_epochs(&me->worker, &me->result));
    GS_TRY(gs_count_skipped(me->comm, run->train_set, &me->result));
    return gs_count_skipped(me->comm, run->test_set, &me->result);
}

/* A worker that fails tells the others, or they would wait for it. Not so if all find the same mistake in the same
 * facts: a worker that is told of it before it has looked would take it for the loss of a worker, and end with another
 * exit status. Nor after divergence, of which all know (diverged.c). To its thread it is no failure: a job for it is
 * still to come. */
static gs_status do_work(void *context, const gs_job *job) {
    gs_run_worker *me = context;
    (void)job;
    if (gs_error_keep(&me->error, me->run->work(me)) == GS_OK) return GS_OK;
    me->result.steps = me->error.status == GS_E_DIVERGED ? me->worker.diverged.step : me->worker.step;
    if (!me->found_by_all && !me->worker.diverged.together) gs_comm_abort(me->comm, me->error.message);
    /* After the reason: who sees it finds that. */
    __atomic_store_n(&me->run->process.failed, true, __ATOMIC_SEQ_CST);
    return GS_OK;
}

/* In the thread that has used its device. */
static gs_status do_free(void *context, const gs_job *job) {
    (void)job;
    gs_worker_free(&((gs_run_worker *)context)->worker);
    return GS_OK;
}

static gs_status agree_on_cut(void *run, gs_comm *processes) {
    gs_run *r = run;
    GS_TRY(gs_snapshots_settle(r->settings.snapshots, processes, &r->settings.begin));
    return gs_cut_settle(r, processes);
}

static gs_status connect_workers(gs_run *run) {
    static const char *const purposes[] = {"train", "eval", "predict"};
    gs_comm **comms;
    GS_TRY(GS_NEW(comms, run->local, "%d workers", run->local));
    gs_status status =
        gs_connect_workers(&run->settings, purposes[run->kind], run->local, agree_on_cut, run, comms);
    for (int i = 0; i < run->local; i++) run->worker[i].comm = comms[i];
    free(comms);
    return status;
}

/* Of several failures report the one that began it, not that of a worker that merely lost another one. */
static gs_status first_failure(const gs_run *run) {
    const gs_run_worker *told = run->worker;
    for (int i = 1; i < run->local; i++)
        if (gs_error_is_cause(&run->worker[i].error, &told->error)) told = &run->worker[i];
    const gs_status status = gs_error_again(&told->error);
    if (told->result.workers == 1 || status == GS_E_PEER || status == GS_E_USAGE || status == GS_E_DIFFER ||
        status == GS_E_DIVERGED)
        return status;
    return gs_context(status, "worker %d (%s)", told->result.rank, told->device);
}

/* All do the same job, and end it. */
static void give_to_all(gs_run *run, gs_status (*job)(void *context, const gs_job *)) {
    for (int i = 0; i < run->local; i++)
        if (run->worker[i].jobs)
            gs_jobs_give(run->worker[i].jobs, (gs_job){.run = job, .context = &run->worker[i]}, NULL);
    for (int i = 0; i < run->local; i++)
        if (run->worker[i].jobs) gs_jobs_wait_for_all(run->worker[i].jobs);
}

gs_status gs_run_start(gs_run *run) {
    if (!run->worker[0].comm) GS_TRY(connect_workers(run));
    for (int i = 0; i < run->local; i++) {
        gs_run_worker *w = &run->worker[i];
        if (gs_jobs_create(1, &w->jobs) == GS_OK) continue;
        gs_comm_abort(w->comm, "cannot start a thread");
        return gs_fail(GS_E_MEMORY, "cannot start a thread for worker %d of %d", i, run->local);
    }
    return GS_OK;
}

gs_status gs_run_do(gs_run *run, gs_status (*what)(gs_run_worker *)) {
    GS_TRY(first_failure(run));
    run->work = what;
    give_to_all(run, do_work);
    return first_failure(run);
}

void gs_run_stop(gs_run *run) {
    if (!run->worker) return;
    give_to_all(run, do_free);
    for (int i = 0; i < run->local; i++) gs_jobs_free(run->worker[i].jobs);
    for (int i = 0; i < run->local; i++) run->worker[i].jobs = NULL;
}

static gs_status run_workers(gs_run *run) {
    gs_status status = gs_run_start(run);
    if (status == GS_OK) status = gs_run_do(run, work);
    gs_run_stop(run);
    return status;
}

/* ---- after ---- */

gs_status gs_run_save_weights(gs_run *run) {
    const gs_settings *s = &run->settings;
    const gs_result *first = &run->worker[0].result;
    if (!s->save || first->rank != 0) return GS_OK;
    gs_model *plan;
    GS_TRY(gs_run_plan_to_save(run, &plan));
    plan->scaling = run->scaling;
    plan->vocabulary = run->train_set->text ? &run->train_set->text->vocabulary : NULL;
    gs_status status = first->state
                           ? gs_state_save(s->save, plan, s->optimizer, first->weights, first->state, NULL)
                           : gs_safetensors_save(s->save, plan, first->weights);
    gs_model_free(plan);
    return status;
}

/* The file is left as it was, unless there is a good epoch to be saved. The failure's message says which. */
static gs_status after_divergence(gs_run *run) {
    gs_error error = {0};
    const gs_result *first = &run->worker[0].result;
    gs_error_keep(&error, GS_E_DIVERGED);
    if (first->rank != 0) return GS_E_DIVERGED;
    if (first->kept_epoch == 0)
        return gs_fail(GS_E_DIVERGED, "%s (nothing is written to %s)", error.message, run->settings.save);
    GS_TRY(gs_context(gs_run_save_weights(run), "%s", error.message));
    return gs_fail(GS_E_DIVERGED, "%s (the weights of epoch %d are in %s)", error.message, first->kept_epoch,
                   run->settings.save);
}

void gs_result_free(gs_result *r) {
    free(r->weights);
    r->weights = NULL;
    free(r->worker);
    r->worker = NULL;
    gs_state_free(r->state);
    r->state = NULL;
    gs_staleness_free(&r->staleness);
    free(r->confusion);
    r->confusion = NULL;
    gs_class_names_free(&r->names);
}

static void add_offload(gs_offload_report *mean, const gs_offload_report *r, int of) {
    mean->on |= r->on;
    mean->bytes += r->bytes / of;
    mean->in_step.busy += r->in_step.busy / of;
    mean->in_step.waited += r->in_step.waited / of;
    mean->in_step.bytes += r->in_step.bytes / of;
}

/* Worker 0's result, with the times of all workers of this process averaged. */
static void take_result(gs_run *run, gs_result *result) {
    *result = run->worker[0].result;
    result->threads = run->threads;
    result->message_copies = (double)gs_threads_copied();
    if (run->loaded[GS_TEST]) { /* it is freed without them */
        result->names = run->loaded[GS_TEST]->names;
        run->loaded[GS_TEST]->names = (gs_class_names){0};
    }
    if (run->test_set->text && result->confusion)
        result->names = gs_class_names_of_tokens(&run->test_set->text->vocabulary);
    if (run->test_set->source) result->folder_size = run->test_set->shape.h;
    if (run->test_set->text) result->tokens = run->test_set->text->context;
    if (run->test_set->text) result->token = run->test_set->text->vocabulary.kind;
    result->overlap.summed = result->overlap.waited = result->waited = 0;
    result->offload = (gs_offload_report){0};
    for (int p = 0; p < GS_PHASES; p++) result->phase[p] = 0;
    for (int i = 0; i < run->local; i++) {
        const gs_result *r = &run->worker[i].result;
        for (int p = 0; p < GS_PHASES; p++) result->phase[p] += r->phase[p] / run->local;
        result->overlap.summed += r->overlap.summed / run->local;
        result->overlap.waited += r->overlap.waited / run->local;
        add_offload(&result->offload, &r->offload, run->local);
        result->waited += r->waited / run->local;
    }
    run->worker[0].result = (gs_result){0}; /* what it points to is the caller's now */
}

/* ---- before ---- */

/* Before anything is allocated. Only with a limit is it an error if the dry run fails: it will tell by itself
 * what is wrong with its settings. */
static gs_status plan_memory(gs_run *run) {
    const gs_settings *s = &run->settings;
    const int before = s->processes && s->processes->size > 1 ? s->processes->rank * run->local : 0;
    const bool limited = s->max_memory > 0;
    gs_memory_plan plan = {0};
    if (!limited && !s->plans) return GS_OK;
    if (gs_cut_is_open(run)) GS_TRY(connect_workers(run)); /* memory too depends on where a pipeline is cut */
    gs_status status = gs_run_dry(run, s, limited, &plan);
    if (status == GS_OK) status = gs_memory_check(&run->settings, &plan, run->fit, sizeof run->fit);
    for (int i = 0; i < plan.workers && status == GS_OK; i++)
        for (int k = 0; k < run->local; k++)
            if (plan.worker[i].rank == before + k)
                memcpy(run->worker[k].planned, plan.worker[i].use, sizeof plan.worker[i].use);
    gs_memory_plan_free(&plan);
    for (int i = 0; i < run->local && limited && status != GS_OK; i++)
        if (run->worker[i].comm) gs_comm_abort(run->worker[i].comm, gs_message());
    return limited ? status : GS_OK;
}

/* Rank 0 writes them. */
static gs_status prepare_checkpoints(gs_run *run) {
    const gs_settings *s = &run->settings;
    const bool first = !s->processes || s->processes->rank == 0;
    const gs_observer *o = run->observer;
    char note[GS_CHECKPOINT_NOTE];
    if (!s->checkpoint || !first) return GS_OK;
    GS_TRY(gs_checkpoint_prepare(s->checkpoint, s->resume, run->state ? run->state->step : 0,
                                 gs_checkpoints_kept(s), note, &run->lock));
    if (*note && o && o->note) o->note(o->context, note);
    return GS_OK;
}

gs_status gs_train_check(const gs_settings *settings) {
    gs_run run = {.kind = GS_RUN_TRAIN, .settings = *settings};
    gs_device *device;
    gs_status status = gs_run_prepare(&run);
    for (int i = 0; i < run.local && status == GS_OK; i++) {
        status = gs_device_open(run.worker[i].device, run.threads, &device);
        if (status == GS_OK) gs_device_close(device);
    }
    if (status == GS_OK) status = gs_check_workers(&run.settings, run.train_set, run.local);
    gs_run_free(&run);
    return status;
}

gs_status gs_train(const gs_settings *settings, const gs_observer *observer, gs_result *result) {
    gs_run run = {.kind = GS_RUN_TRAIN, .settings = *settings, .observer = observer};
    *result = (gs_result){0};
    gs_status status = gs_run_prepare(&run);
    if (status == GS_OK) status = prepare_checkpoints(&run);
    if (status == GS_OK) status = plan_memory(&run);
    if (status == GS_OK) status = run_workers(&run);
    bool trained = status == GS_OK;
    if (trained) status = gs_run_save_weights(&run);
    if (status == GS_E_DIVERGED && settings->save) status = after_divergence(&run);
    if (trained)
        take_result(&run, result);
    else if (run.worker)
        result->steps = run.worker[0].result.steps;
    gs_run_free(&run);
    return status;
}

gs_status gs_eval(const gs_settings *settings, const gs_observer *observer, gs_result *result) {
    gs_run run = {.kind = GS_RUN_EVAL, .settings = *settings, .observer = observer};
    *result = (gs_result){0};
    gs_status status = gs_run_prepare(&run);
    if (status == GS_OK) status = run_workers(&run);
    if (status == GS_OK) take_result(&run, result);
    gs_run_free(&run);
    return status;
}

gs_status gs_predict_all(const gs_settings *settings, const gs_observer *observer, float **logits,
                         size_t *rows, int *columns) {
    gs_run run = {.kind = GS_RUN_PREDICT, .settings = *settings, .observer = observer};
    gs_model *plan = NULL;
    gs_status status = gs_run_prepare(&run);
    if (status == GS_OK)
        status = gs_model_create(
            NULL, &(gs_model_config){.text = run.settings.model, .in = run.test_set->shape}, &plan);
    if (status == GS_OK) {
        *rows = run.test_set->count;
        *columns = (int)gs_shape_size(plan->out);
        status = GS_NEW(run.logits, *rows * (size_t)*columns, "logits (%zu,%d)", *rows, *columns);
    }
    if (status == GS_OK) status = run_workers(&run);
    if (status == GS_OK)
        *logits = run.logits;
    else
        free(run.logits);
    gs_model_free(plan);
    gs_run_free(&run);
    return status;
}
