/* The memory of a run, predicted by a dry run: the calls of a run, on devices that record allocations but neither
 * allocate nor compute (gs_device_set_dry). There is no second formula that could drift from training.
 *
 * A ledger records what a worker allocates: on its device, and on the host for its samples and messages. Not counted:
 * the data set, which a process holds once; the program and its libraries; OpenCL's own memory; a transport's copies of
 * messages under way. These copies depend on which messages coincide, so a plan cannot predict them; a run reports its
 * threads' copies (gs_result.message_copies). At most two long messages to each other worker are under way, plus two
 * that carry shards of sums; in a ring or between two workers, only one message.
 */
#pragma once

#include "train/train.h"

/* One layer's memory. Its gradients are as large as its weights. */
typedef struct gs_memory_layer {
    char name[48], what[96];
    double weights, optimizer, state, activations; /* bytes */
} gs_memory_layer;

typedef struct gs_memory_worker {
    char device[48];
    int rank;
    gs_memory_use use[GS_MEMORY_PLACES]; /* at its peak */
    size_t micro_batch;                  /* maximum number of samples computed at once in training */
    size_t eval_block;                   /* maximum number of samples computed at once in a test */
} gs_memory_worker;

typedef struct gs_memory_plan {
    struct gs_run *run; /* owns the data sets; freed with the plan if owns_run */
    bool owns_run;
    gs_settings settings;     /* with data sets and the model's text, from which further plans can be made */
    gs_memory_worker *worker; /* [workers] */
    int workers;
    gs_memory_layer *layer; /* of worker 0 */
    size_t layers;
    double shared;    /* bytes of worker 0's activations that belong to no single layer */
    double again;     /* with --recompute: fraction of forward's operations that backward repeats */
    size_t params;    /* in the whole model */
    size_t own;       /* in worker 0: with --tensor, only some of them */
    int vectors;      /* optimiser vectors per parameter */
    int all_workers;  /* in all processes */
    gs_layout layout; /* of all workers; `zero` is 0 for one worker */
    size_t batch;     /* the global batch */
    double set_bytes; /* of both data sets in host memory, once per process; 0: pictures in files */
} gs_memory_plan;

/* Plan a run with these settings. Fails as gs_train does before its first step. With settings->processes, all processes
 * are assumed to have the same devices. *plan must be freed even after an error. */
gs_status gs_memory_plan_create(const gs_settings *, gs_memory_plan *plan);

/* Change *s to settings for one worker on the first device, whose name is written to `device`: no layout, and nothing
 * that makes sense only for several workers. GS_E_USAGE: there is no such device. */
gs_status gs_settings_alone(gs_settings *s, char device[48]);
void gs_memory_plan_free(gs_memory_plan *);

/* Plan the memory of this process's workers or, with `all`, of all workers, assuming that all processes have the same
 * devices. The settings may differ from the run's own. GS_E_USAGE: the settings conflict. *plan must be freed even
 * after an error, and before the run. */
gs_status gs_run_dry(struct gs_run *, const gs_settings *, bool all, gs_memory_plan *plan);

/* The maximum device memory that any worker needs. *worker is set to that worker; `worker` may be NULL. */
double gs_memory_most(const gs_memory_plan *, int *worker);

/* ---- which settings need less memory ---- */

/* What one change of the settings would save, in bytes on the worker that needs most. */
typedef struct gs_memory_option {
    char option[64];    /* "--zero 1" */
    char formula[100];  /* of the saving */
    const char *costs;  /* what it costs in time; NULL: not shown */
    double saves, peak; /* peak: the most that a worker needs after the change */
} gs_memory_option;

enum { GS_MEMORY_OPTIONS = 24 };
typedef struct gs_memory_options {
    gs_memory_option of[GS_MEMORY_OPTIONS];
    int count;
} gs_memory_options;

/* Make a dry run with each option alone. List the options that change training at most by rounding, in increasing order
 * of the time they cost, then other optimisers. */
void gs_memory_options_find(const gs_memory_plan *, gs_memory_options *);

/* The bytes that a worker holds per parameter, all f32, also as a text: "8 + 4/2". With K optimiser vectors: 4 (2 + K).
 * With ZeRO (Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter models",
 * SC 2020) each of N workers holds 1/N of the vectors (stage 1), also of the gradients (2), also of the weights (3):
 * 8 + 4 K/N; 4 + 4 (1 + K)/N; 4 (2 + K)/N. */
double gs_memory_bytes_each(const gs_memory_plan *, char *text, size_t size);

/* With settings->fit and workers on CPUs, lower max_memory (or set it, if it is 0) to a worker's share of what this
 * process may use (core/usable.h). The memory of other devices is unknown: GS_E_USAGE if max_memory is 0. */
gs_status gs_memory_limit(gs_settings *);

/* GS_E_MEMORY: a worker needs more than settings->max_memory. The message names the largest kinds of memory, and
 * options that would suffice, cheapest first. With settings->fit, the cheapest of these are set in *settings instead,
 * *plan becomes the plan with them, and `why` gives the choice and its reason; else `why` is "". size: GS_FIT_TEXT. */
gs_status gs_memory_check(gs_settings *, gs_memory_plan *plan, char *why, size_t size);
