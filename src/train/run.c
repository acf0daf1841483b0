/* A run in this process: its devices and connections, its workers as threads, and what happens before and after. */
#include "comm/inject/inject.h"
#include "core/usable.h"
#include "data/text_set.h"
#include "persist/snapshots.h"
#include "persist/checkpoint.h"
#include "persist/folder.h"
#include "train/evaluate.h"
#include "train/settings.h"
#include "predict/measured_cut.h"
#include "predict/memory.h"
#include "train/run.h"
#include "persist/state_file.h"

#include <stdlib.h>

/* ---- connections ---- */

/* --sync gloo is Gloo's own all-reduce, so Gloo must connect the processes. All processes must agree on injected
 * faults, checks and links before the first message. */
gs_status gs_connect_processes(const gs_settings *s, const char *purpose, int64_t *step, gs_comm **out) {
    gs_rendezvous r = *s->processes;
    *out = NULL;
    gs_inject_before_rendezvous(r.rank);
    if (!r.purpose) r.purpose = purpose;
    r.stop = &gs_stop_requested;
    if (strcmp(s->sync, gs_sync_gloo.name) == 0) {
        if (r.transport && strcmp(r.transport, "auto") != 0 && strcmp(r.transport, "gloo") != 0)
            return gs_fail(GS_E_USAGE,
                           "--sync gloo sums over Gloo, but the processes talk over '%s'; wanted "
                           "--transport gloo or auto",
                           r.transport);
        r.transport = "gloo";
        r.gloo_all_reduce = true;
    }
    GS_TRY(gs_comm_processes_create(&r, out));
    gs_status status = gs_comm_agree(*out, &s->link);
    if (status == GS_OK) status = gs_comm_broadcast(*out, step, 1, GS_I64, 0);
    if (status == GS_OK) return GS_OK;
    gs_comm_free(*out);
    *out = NULL;
    return status;
}

/* Add injected faults, slow links and checks. After a failure the caller still frees the comms. */
static gs_status wrap_if_wanted(const gs_settings *s, int local, gs_comm **comms) {
    GS_TRY(gs_comm_inject_if_wanted(local, comms));
    for (int i = 0; i < local; i++) GS_TRY(gs_comm_linked_create(comms[i], &s->link, &comms[i]));
    return gs_comm_check_if_wanted(local, comms);
}

/* ---- the workers ---- */

gs_status gs_run_open_worker(gs_run_worker *me) {
    gs_run *run = me->run;
    me->result.workers = me->comm->size;
    me->result.rank = me->comm->rank;
    if (me->cpus > 0 && !gs_cores_bind(&me->share)) me->cpus = 0; /* the worker runs unbound */
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
    if (run->kind == GS_RUN_PREDICT) return GS_OK; /* workers are independent */
    GS_TRY(gs_agree(&me->worker, &me->found_by_all));
    if (run->kind == GS_RUN_TRAIN) GS_TRY(gs_run_check_sizes(run, &run->settings, me->comm->size));
    me->found_by_all = false;
    gs_checkpoint_let_go(); /* all workers have loaded the checkpoint of --resume */
    return GS_OK;
}

static gs_status work(gs_run_worker *me) {
    gs_run *run = me->run;
    GS_TRY(gs_run_open_worker(me));
    if (run->kind == GS_RUN_PREDICT) return gs_predict(&me->worker, run->test_set, run->logits);
    if (run->kind == GS_RUN_EVAL)
        GS_TRY(gs_evaluate_alone(&me->worker, &me->result));
    else
        GS_TRY(gs_train_epochs(&me->worker, &me->result));
    GS_TRY(gs_count_skipped(me->comm, run->train_set, &me->result));
    return gs_count_skipped(me->comm, run->test_set, &me->result);
}

/* A failing worker notifies its peers so that they do not wait. If every worker detects the error by itself, as with
 * divergence (diverged.c), none is notified: a worker notified before its own check would report a lost peer, with
 * another exit status. The job itself succeeds, so that the thread accepts do_free. */
static gs_status do_work(void *context, const gs_job *job) {
    gs_run_worker *me = context;
    (void)job;
    if (gs_error_keep(&me->error, me->run->work(me)) == GS_OK) return GS_OK; /* `work` above, for gs_train */
    me->result.steps = me->error.status == GS_E_DIVERGED ? me->worker.diverged.step : me->worker.step;
    if (!me->found_by_all && !me->worker.diverged.together) gs_comm_abort(me->comm, me->error.message);
    /* Set after the message is stored, so that a thread that sees the flag finds the message. */
    __atomic_store_n(&me->run->process.failed, true, __ATOMIC_SEQ_CST);
    return GS_OK;
}

/* Runs in the thread that used the device. */
static gs_status do_free(void *context, const gs_job *job) {
    (void)job;
    gs_worker_free(&((gs_run_worker *)context)->worker);
    return GS_OK;
}

/* *processes: the comm between processes; NULL: this process is the only one. */
static gs_status connect_processes(gs_run *run, gs_comm **processes) {
    static const char *const purposes[] = {"train", "eval", "predict"};
    gs_settings *s = &run->settings;
    int64_t step = -1;
    *processes = s->connected ? *s->connected : NULL;
    if (*processes)
        *s->connected = NULL;
    else if (s->processes && s->processes->size > 1)
        GS_TRY(gs_connect_processes(s, purposes[run->kind], &step, processes));
    gs_status status = gs_snapshots_settle(s->snapshots, *processes, &s->begin);
    if (status == GS_OK) status = gs_cut_settle(run, *processes);
    if (status != GS_OK) gs_comm_free(*processes);
    return status;
}

static gs_status connect_workers(gs_run *run) {
    const double timeout = run->settings.timeout;
    gs_comm *processes, **comms;
    GS_TRY(GS_NEW(comms, run->local, "%d workers", run->local));
    gs_status status = connect_processes(run, &processes);
    if (status == GS_OK)
        status = processes ? gs_comm_workers_create(run->local, processes, timeout, comms)
                           : gs_comm_threads_create(run->local, timeout, comms);
    if (status == GS_OK) status = wrap_if_wanted(&run->settings, run->local, comms);
    for (int i = 0; i < run->local; i++) run->worker[i].comm = comms[i];
    free(comms);
    return status;
}

/* Return the original failure, not that of a worker that merely lost a peer. */
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

/* Give the job to all workers, and return when all are done. */
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

/* ---- after the run ---- */

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

/* The file stays unchanged, unless --keep best has an epoch to save. The message says which is the case. */
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

/* Take worker 0's result. */
static void take_result(gs_run *run, gs_result *result) {
    *result = run->worker[0].result;
    result->threads = run->threads;
    result->message_copies = (double)gs_threads_copied();
    if (run->loaded[GS_TEST]) { /* the caller frees the names */
        result->names = run->loaded[GS_TEST]->names;
        run->loaded[GS_TEST]->names = (gs_class_names){0};
    }
    if (run->test_set->text && result->confusion)
        result->names = gs_class_names_of_tokens(&run->test_set->text->vocabulary);
    if (run->test_set->folder) result->folder_size = run->test_set->shape.h;
    if (run->test_set->text) result->tokens = run->test_set->text->context;
    if (run->test_set->text) result->token = run->test_set->text->vocabulary.kind;
    run->worker[0].result = (gs_result){0}; /* the caller now owns what the result points to */
}

/* ---- before the run ---- */

/* Called before anything is allocated. A failing dry run is an error only if there is a memory limit; otherwise the run
 * itself will report what is wrong with its settings. */
static gs_status plan_memory(gs_run *run) {
    const gs_settings *s = &run->settings;
    const int before = s->processes && s->processes->size > 1 ? s->processes->rank * run->local : 0;
    const bool limited = s->max_memory > 0;
    gs_memory_plan plan = {0};
    if (!limited && !s->plans) return GS_OK;
    if (gs_cut_is_open(run)) GS_TRY(connect_workers(run)); /* memory depends on where a pipeline is cut */
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

/* Rank 0 writes the checkpoints. */
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
