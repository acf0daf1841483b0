/* A run in this process: its settings, its data sets and its workers. prepare.c prepares it, run.c starts it. */
#pragma once

#include <sched.h>
#include <stdio.h>
#include "model/safetensors.h"
#include "parallel/cut.h"
#include "train/hooks.h"
#include "train/state.h"

typedef enum gs_run_kind { GS_RUN_TRAIN, GS_RUN_EVAL, GS_RUN_PREDICT } gs_run_kind;

typedef struct gs_run {
    gs_run_kind kind;
    gs_settings settings;  /* a copy, completed with what settings.load and resume hold */
    char *model;           /* settings.model, if adapted to the data; otherwise NULL */
    gs_weights_info saved; /* metadata of the file settings.load */
    gs_state *state;       /* read from settings.resume */
    FILE *lock;            /* rank 0's lock on the folder settings.checkpoint; otherwise NULL */
    char *resume;          /* the file found, if settings.resume was a folder; otherwise NULL */
    gs_scaling scaling;    /* of the set on which the weights are (or were) trained */
    const gs_observer *observer;
    gs_dataset *loaded[2]; /* read from files; NULL: the caller's */
    const gs_dataset *train_set, *test_set;
    gs_cut_report cut;          /* for a pipeline whose layers were measured; otherwise runs is 0 */
    char cut_text[GS_CUT_TEXT]; /* in that case settings.pipeline_cut points here */
    char fit[GS_FIT_TEXT];      /* what --fit chose, and why; "": nothing */
    int local;                  /* workers in this process */
    int threads;                /* CPU threads per worker */
    gs_process process;         /* shared by its workers */
    float *logits;              /* for GS_RUN_PREDICT: of the whole test set */
    struct gs_run_worker *worker;
    gs_status (*work)(struct gs_run_worker *); /* of the current gs_run_do */
} gs_run;

typedef struct gs_run_worker {
    gs_run *run;
    gs_jobs *jobs; /* its thread */
    gs_comm *comm;
    char device[48];
    cpu_set_t share;                         /* CPUs to which it is bound */
    int cpus;                                /* their number; 0: not bound */
    gs_memory_use planned[GS_MEMORY_PLACES]; /* all zero: there was no dry run */
    gs_worker worker;
    gs_event event; /* in a trainer: the position in its epoch */
    gs_result result;
    gs_error error;
    bool found_by_all; /* every worker detects the error by itself (do_work in run.c) */
} gs_run_worker;

/* ---- prepare.c: before workers exist ---- */

/* Check a run's settings, files and data sets. Call gs_run_free afterwards, even after a failure. */
gs_status gs_run_prepare(gs_run *);
void gs_run_free(gs_run *);

/* The number of workers in all processes of the run, if each process has as many as this one. */
int gs_run_all_workers(const gs_run *);

/* GS_E_USAGE: the training set is too small for these settings with `workers` workers. */
gs_status gs_run_check_sizes(const gs_run *, const gs_settings *, int workers);

/* GS_E_FORMAT, GS_E_USAGE: the sets differ in shape or number type, so no model fits both. */
gs_status gs_check_sets_alike(const gs_settings *, const gs_dataset *train, const gs_dataset *test);

/* Make the model, with its tensors named as in the file settings.save. */
gs_status gs_run_plan_to_save(const gs_run *, gs_model **plan);

/* ---- run.c: with workers ---- */

/* Connect this process with the others in settings->processes (at least one). *step: the step at which this process
 * resumes (0: a new run; -1: without --resume); on return, rank 0's step. */
gs_status gs_connect_processes(const gs_settings *, const char *purpose, int64_t *step, gs_comm **out);

/* Connect the workers, and start a thread for each. Call gs_run_stop afterwards, even after a failure. */
gs_status gs_run_start(gs_run *);

/* Each worker runs `work` in its thread. Returns when all are done. If workers failed, gs_run_do returns the original
 * failure, and so do all later calls, at once. */
gs_status gs_run_do(gs_run *, gs_status (*work)(gs_run_worker *));

/* Each worker's first `work`: open its device, create its replica, and check that all ranks have the same settings. */
gs_status gs_run_open_worker(gs_run_worker *);

/* Free each worker in its thread, and end the threads. */
void gs_run_stop(gs_run *);

/* Write weights and state from the first worker's result to settings.save, if set. */
gs_status gs_run_save_weights(gs_run *);

/* ---- prepare.c: data sets and weights in files ---- */

/* *set: the settings' own, or *loaded from files, freed by the caller. GS_E_USAGE; also fails as gs_dataset_load. */
gs_status gs_open_set(const gs_settings *, gs_split, gs_dataset **loaded, const gs_dataset **set);

/* For a text of 65 different tokens, change "gpt" to "gpt 65": settings->model then points to *made, which the caller
 * frees. If *made is NULL, settings->model is unchanged. */
gs_status gs_settle_model(gs_settings *, const gs_dataset *, char **made);

/* GS_E_USAGE, GS_E_FORMAT, GS_E_SHAPE: the set's targets do not suit the outputs of settings->model, or the loss. */
gs_status gs_check_set(const gs_settings *, const gs_dataset *);

/* Read the metadata of the file settings->load, and fill in what the settings leave open: the model (valid as long as
 * *saved) and the size of a folder's images. GS_E_FORMAT: neither the file nor the settings name a model, or the file's
 * model text is invalid; GS_E_USAGE: settings->folder.size differs. */
gs_status gs_read_saved(gs_settings *, gs_weights_info *);

/* Add to *r the files in the set that some rank could not decode, and replaced. Call this on all workers: each process
 * knows only its own files. */
gs_status gs_count_skipped(gs_comm *, const gs_dataset *, gs_result *r);
