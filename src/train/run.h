/* A run of this process: its settings, its data sets and its workers. prepare.c prepares it, run.c starts it. */
#pragma once

#include <sched.h>
#include <stdio.h>
#include "model/safetensors.h"
#include "parallel/cut.h"
#include "train/state.h"

typedef enum gs_run_kind { GS_RUN_TRAIN, GS_RUN_EVAL, GS_RUN_PREDICT } gs_run_kind;

typedef struct gs_run {
    gs_run_kind kind;
    gs_settings settings;  /* a copy, with the model of settings.load filled in */
    char *model;           /* its text, where it was made to fit the data; else NULL */
    gs_weights_info saved; /* what the file settings.load says of itself */
    gs_state *state;       /* what is in settings.resume */
    FILE *lock;            /* on the folder settings.checkpoint; NULL: there is none, or rank 0 has it */
    char *resume;          /* that file, where settings.resume was a folder; else NULL */
    gs_scaling scaling;    /* of the training set, or of the one that the loaded weights were trained on */
    const gs_observer *observer;
    gs_dataset *loaded[2]; /* from files; NULL where they came from memory */
    const gs_dataset *train_set, *test_set;
    gs_cut_report cut;          /* of a pipeline whose layers were measured; runs 0: none were, */
    char cut_text[GS_CUT_TEXT]; /* and what that makes of settings.pipeline_cut */
    char fit[GS_FIT_TEXT];      /* what --fit chose, and why; "": nothing */
    int local;                  /* workers in this process, and */
    int threads;                /* what each has of the CPU's */
    gs_process process;         /* what its workers share */
    float *logits;              /* of the whole test set: GS_RUN_PREDICT */
    struct gs_run_worker *worker;
    gs_status (*work)(struct gs_run_worker *); /* what they do now (gs_run_do) */
} gs_run;

typedef struct gs_run_worker {
    gs_run *run;
    gs_jobs *jobs; /* its thread */
    gs_comm *comm;
    char device[48];
    cpu_set_t share;                         /* CPUs to which it is bound, */
    int cpus;                                /* how many; 0: it is not bound */
    gs_memory_use planned[GS_MEMORY_PLACES]; /* all zero: nothing is */
    gs_worker worker;
    gs_result result;
    gs_error error;
    bool found_by_all; /* what is wrong all workers find by themselves (do_work in run.c) */
} gs_run_worker;

/* ---- prepare.c: before there are workers ---- */

/* Settings, files and data sets of a run, all checked. *run is to be freed in any case. */
gs_status gs_run_prepare(gs_run *);
void gs_run_free(gs_run *);

/* How many workers the run has in all its processes: each has as many as this one. */
int gs_run_all_workers(const gs_run *);

/* GS_E_USAGE: the training set is too small for these settings with so many workers. */
gs_status gs_run_check_sizes(const gs_run *, const gs_settings *, int workers);

/* GS_E_FORMAT, GS_E_USAGE: a worker cannot take samples of both. */
gs_status gs_check_sets_alike(const gs_settings *, const gs_dataset *train, const gs_dataset *test);

/* The model with the names that the file settings.save is to have. */
gs_status gs_run_plan_to_save(const gs_run *, gs_model **plan);

/* ---- run.c: with workers ---- */

/* Connect them, and start a thread for each. To be stopped in any case. */
gs_status gs_run_start(gs_run *);

/* Each does `work` in its thread. Returns when all have done it, with the failure that began it, if one has failed.
 * After that nothing is done any more, and all calls fail so. */
gs_status gs_run_do(gs_run *, gs_status (*work)(gs_run_worker *));

/* As the first work: open a worker's device and make its replica; have all the same settings? */
gs_status gs_run_open_worker(gs_run_worker *);

/* Free the workers, each in its thread, and end the threads. */
void gs_run_stop(gs_run *);

/* To settings.save, where there is one: the weights and the state that are in the first worker's result. */
gs_status gs_run_save_weights(gs_run *);

/* ---- prepare.c: data sets and weights in files ---- */

/* *set: the caller's, or what was read from files into *loaded, which the caller frees. GS_E_USAGE, or as
 * gs_dataset_load. */
gs_status gs_open_set(const gs_settings *, gs_split, gs_dataset **loaded, const gs_dataset **set);

/* "gpt" -> "gpt 65", where the data are a text of 65 different tokens: settings->model becomes *made, which the caller
 * frees; NULL: it stays as it was. */
gs_status gs_settle_model(gs_settings *, const gs_dataset *, char **made);

/* Do the targets of the set suit the outputs of settings->model and the loss? GS_E_USAGE, GS_E_FORMAT, GS_E_SHAPE. */
gs_status gs_check_set(const gs_settings *, const gs_dataset *);

/* What the file settings->load says of itself, and its model where settings->model does not name one (it lives as
 * long as *saved); of an image folder, the size that the model takes. GS_E_FORMAT: neither names a model, or the file's
 * is not a model text; GS_E_USAGE: settings->folder.size is another one. */
gs_status gs_read_saved(gs_settings *, gs_weights_info *);

/* Add to *r the files of the set that some rank could not decode, and whose place others took. All workers call it:
 * each process knows its own. */
gs_status gs_count_skipped(gs_comm *, const gs_dataset *, gs_result *r);
