/* What memory a run will take, found out by a dry run: the calls of a run, on devices that book what is allocated but
 * allocate nothing and compute nothing (gs_device_set_dry). So no second formula can drift from what training does.
 *
 * A ledger holds what a worker allocates on its device, and on the host for its samples and for messages. Not in it:
 * the data set, which a process has once; the program and its libraries; what OpenCL keeps for itself; what a transport
 * keeps of messages under way. How much that is depends on which messages meet, so a plan cannot say it; a run reports
 * what its threads kept (gs_result.message_copies). To each other worker at most two long messages are under way, and
 * two more that are shards of sums; in a ring, or between two workers, one.
 */
#pragma once

#include "train/train.h"

/* One layer's share. Its gradients are as large as its weights. */
typedef struct gs_memory_layer {
    char name[48], what[96];
    double weights, optimizer, state, activations; /* bytes */
} gs_memory_layer;

typedef struct gs_memory_worker {
    char device[48];
    int rank;
    gs_memory_use use[GS_MEMORY_PLACES]; /* at its peak */
    size_t micro_batch;                  /* samples that it computes at once, at most; in training, */
    size_t eval_block;                   /* and in a test */
} gs_memory_worker;

typedef struct gs_memory_plan {
    struct gs_run *run; /* whose data sets it uses; freed with the plan if owns_run */
    bool owns_run;
    gs_settings settings;     /* with the data sets and the model's text: to plan again with changes */
    gs_memory_worker *worker; /* [workers] */
    int workers;
    gs_memory_layer *layer; /* of worker 0 */
    size_t layers;
    double shared;    /* bytes of worker 0's activations that no single layer owns */
    double again;     /* with --recompute: share of forward's operations that its backward repeats */
    size_t params;    /* trained numbers, */
    size_t own;       /* and those of worker 0: with --tensor a part of them */
    int vectors;      /* that its optimiser keeps for each of them */
    int all_workers;  /* of all processes */
    gs_layout layout; /* of these; zero is 0 where there is one worker */
    size_t batch;     /* the global batch */
    double set_bytes; /* of both data sets in the host's memory, once for the process; 0: pictures in files */
} gs_memory_plan;

/* Of a run with these settings. Fails as gs_train would before its first step. With settings->processes the others are
 * taken to have the same devices as this one. *plan is to be freed in any case. */
gs_status gs_memory_plan_create(const gs_settings *, gs_memory_plan *plan);
void gs_memory_plan_free(gs_memory_plan *);

/* plan->worker = what each worker takes with these settings, which may be others than the run's own: those of this
 * process, or `all`, where the other processes are taken to have the same devices as this one. GS_E_USAGE: the settings
 * do not go together. *plan is to be freed in any case; the run must live as long. */
gs_status gs_run_dry(struct gs_run *, const gs_settings *, bool all, gs_memory_plan *plan);

/* The largest need of a device among the workers, and which worker's it is (NULL: nobody asks). */
double gs_memory_most(const gs_memory_plan *, int *worker);

/* ---- which settings take less ---- */

/* What one change of the settings would save, in bytes on the worker that needs most. */
typedef struct gs_memory_option {
    char option[64];    /* "--zero 1" */
    char formula[100];  /* of what is saved */
    const char *costs;  /* what it costs in time; NULL: nothing, or that is not what matters */
    double saves, peak; /* peak: what that worker then takes */
} gs_memory_option;

enum { GS_MEMORY_OPTIONS = 24 };
typedef struct gs_memory_options {
    gs_memory_option of[GS_MEMORY_OPTIONS];
    int count;
} gs_memory_options;

/* Each alone, in a dry run: those that change the training by rounding at most, cheapest in time first; then another
 * optimiser. */
void gs_memory_options_find(const gs_memory_plan *, gs_memory_options *);

/* The bytes that a worker holds for each parameter, all of them f32, and the sum as text: "8 + 4/2". With K vectors of
 * the optimiser these are 4 (2 + K). With ZeRO (Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward
 * training trillion parameter models", SC 2020) N workers hold 1/N each of the vectors (stage 1), also of the gradients
 * (2), also of the weights (3): 8 + 4 K/N; 4 + 4 (1 + K)/N; 4 (2 + K)/N. */
double gs_memory_bytes_each(const gs_memory_plan *, char *text, size_t size);

/* With settings->fit and workers on cpu, max_memory becomes the part of a worker of what this process may use
 * (core/usable.h), unless it is less. The memory of other devices is not known: GS_E_USAGE without max_memory. */
gs_status gs_memory_limit(gs_settings *);

/* GS_E_MEMORY: settings->max_memory is set and less than a worker would need. The message has the largest kinds, and
 * what would make it fit, cheapest first. With settings->fit, the cheapest of it is put into *settings instead, *plan
 * becomes the plan with it, and `why` says what was chosen and why; else that is "". size: GS_FIT_TEXT. */
gs_status gs_memory_check(gs_settings *, gs_memory_plan *plan, char *why, size_t size);
