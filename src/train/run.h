/* What the files run.c, prepare.c and dry_run_calls.c share: a run of this process. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "core/busy.h"
#include "model/safetensors.h"
#include "persist/folder.h"
#include "predict/memory.h"
#include "predict/cut.h"
#include "persist/state.h"

typedef enum gs_run_kind { GS_RUN_TRAIN, GS_RUN_EVAL, GS_RUN_PREDICT } gs_run_kind;

/* A run of this process: one thread for each of its workers. */
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
    int processes_here;         /* processes of the run on this machine that use the same CPUs; at least 1 */
    gs_busy busy;               /* what they all take of these, without `waited` */
    float *logits;              /* of the whole test set: GS_RUN_PREDICT */
    atomic_bool failed;         /* a worker of this process has */
    struct gs_run_worker *worker;
} gs_run;

typedef struct gs_run_worker {
    gs_run *run;
    pthread_t thread;
    gs_comm *comm;
    char device[48];
    cpu_set_t share;          /* CPUs to which it is bound, */
    int cpus;                 /* how many; 0: it is not bound */
    gs_memory_worker planned; /* all zero: nothing is */
    gs_worker worker;
    gs_result result;
    gs_error error;
    bool found_by_all; /* what is wrong all workers find by themselves: see worker_main */
} gs_run_worker;

/* ---- prepare.c: before there are workers ---- */

/* Settings, files and data sets of a run, all checked. *run is to be freed in any case. */
gs_status gs_run_prepare(gs_run *);
void gs_run_free(gs_run *);

/* GS_E_USAGE: the training set is too small for these settings with so many workers. */
gs_status gs_run_check_sizes(const gs_run *, const gs_settings *, int workers);

/* The model with the names that the file settings.save is to have. */
gs_status gs_run_plan_to_save(const gs_run *, gs_model **plan);

/* ---- dry_run_calls.c ---- */

/* How many workers the run has in all its processes: each has as many as this one. */
int gs_run_all_workers(const gs_run *);

/* plan->worker = what each worker takes with these settings, which may be others than the run's own: those of this
 * process, or `all`, where the other processes are taken to have the same devices as this one. GS_E_USAGE: the settings
 * do not go together. *plan is to be freed in any case; the run must live as long. */
gs_status gs_run_dry(gs_run *, const gs_settings *, bool all, gs_memory_plan *plan);

/* ---- predict/cut.c ---- */

/* Is this a run whose cut is to be measured, and which has no other mistake that would be found first? */
bool gs_cut_is_open(const gs_run *);

/* Settle run->settings.pipeline_cut, if it is open on all processes; else what differs is told later, with all other
 * options (options/agreement.c). processes NULL: there is this one alone. */
gs_status gs_cut_settle(gs_run *, gs_comm *processes);
