/* The memory of a run, predicted by a dry run: the calls of a run, on devices that record allocations but allocate and
 * compute nothing (gs_device_set_dry). No second formula can drift from training.
 *
 * A ledger holds what a worker allocates on its device, and on the host for its samples and for messages. Not counted:
 * the data set, which a process holds once; the program and its libraries; OpenCL's own memory; a transport's copies of
 * messages under way. The latter depend on which messages meet, so a plan cannot predict them; a run reports its
 * threads' copies (gs_result.message_copies). To each other worker at most two long messages are under way, and two
 * more that are shards of sums; in a ring, or between two workers, one.
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
    size_t micro_batch;                  /* samples that it computes at once, at most: in training */
    size_t eval_block;                   /* and in a test */
} gs_memory_worker;

typedef struct gs_memory_plan {
    struct gs_run *run; /* owns the data sets; freed with the plan if owns_run */
    bool owns_run;
    gs_settings settings;     /* with data sets and the model's text, for another plan with changes */
    gs_memory_worker *worker; /* [workers] */
    int workers;
    gs_memory_layer *layer; /* of worker 0 */
    size_t layers;
    double shared;    /* bytes of worker 0's activations that no single layer owns */
    double again;     /* with --recompute: share of forward's operations that backward repeats */
    size_t params;    /* of the whole model, */
    size_t own;       /* and of worker 0: with --tensor a part of them */
    int vectors;      /* of the optimiser, per parameter */
    int all_workers;  /* of all processes */
    gs_layout layout; /* of all workers; zero is 0 with one worker */
    size_t batch;     /* the global batch */
    double set_bytes; /* of both data sets in the host's memory, once per process; 0: pictures in files */
} gs_memory_plan;

/* The plan of a run with these settings. Fails as gs_train does before its first step. With settings->processes, all
 * processes are assumed to have the same devices. *plan must be freed even after an error. */
gs_status gs_memory_plan_create(const gs_settings *, gs_memory_plan *plan);

/* Make *s those of one worker on the first device, whose name is written to `device`: without a layout, and without
 * what makes sense for several workers only. GS_E_USAGE: there is no such device. */
gs_status gs_settings_alone(gs_settings *s, char device[48]);
void gs_memory_plan_free(gs_memory_plan *);

/* The plan of this process's workers, or of `all` on the assumption that all processes have the same devices. The
 * settings may differ from the run's own. GS_E_USAGE: they do not go together. *plan must be freed even after an error;
 * the run must live as long. */
gs_status gs_run_dry(struct gs_run *, const gs_settings *, bool all, gs_memory_plan *plan);

/* The largest need of a device among the workers; *worker, which may be NULL: that worker. */
double gs_memory_most(const gs_memory_plan *, int *worker);

/* ---- which settings take less ---- */

/* What one change of the settings would save, in bytes on the worker that needs most. */
typedef struct gs_memory_option {
    char option[64];    /* "--zero 1" */
    char formula[100];  /* of what is saved */
    const char *costs;  /* what it costs in time; NULL: not shown */
    double saves, peak; /* peak: what that worker then takes */
} gs_memory_option;

enum { GS_MEMORY_OPTIONS = 24 };
typedef struct gs_memory_options {
    gs_memory_option of[GS_MEMORY_OPTIONS];
    int count;
} gs_memory_options;

/* A dry run with each option alone: first those that change training at most by rounding, cheapest in time first; then
 * another optimiser. */
void gs_memory_options_find(const gs_memory_plan *, gs_memory_options *);

/* Bytes that a worker holds per parameter, all f32, and the sum as text: "8 + 4/2". With K vectors of the optimiser:
 * 4 (2 + K). With ZeRO (Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter
 * models", SC 2020) each of N workers holds 1/N of the vectors (stage 1), also of the gradients (2), also of the
 * weights (3): 8 + 4 K/N; 4 + 4 (1 + K)/N; 4 (2 + K)/N. */
double gs_memory_bytes_each(const gs_memory_plan *, char *text, size_t size);

/* With settings->fit and workers on cpu, max_memory becomes a worker's share of what this process may use
 * (core/usable.h), unless it is less already. Other devices' memory is unknown: GS_E_USAGE without max_memory. */
gs_status gs_memory_limit(gs_settings *);

/* GS_E_MEMORY: a worker needs more than settings->max_memory. The message names the largest kinds, and the options that
 * would make it fit, cheapest first. With settings->fit, the cheapest ones are set in *settings instead, *plan becomes
 * the plan with them, and `why` says what was chosen and why; else `why` is "". size: GS_FIT_TEXT. */
gs_status gs_memory_check(gs_settings *, gs_memory_plan *plan, char *why, size_t size);
