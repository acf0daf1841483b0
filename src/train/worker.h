/* A worker: its part of a run, with its device and its replica of the model; and how samples reach it. */
#pragma once

#include "core/busy.h"
#include "core/jobs.h"
#include "data/loader.h"
#include "optim/lr_schedule.h"
#include "sync/sync.h"
#include "train/partition.h"
#include "parallel/layout.h"
#include "train/ordered_sums.h"
#include "train/result.h"

typedef struct gs_settings gs_settings; /* train.h */
typedef struct gs_timeline gs_timeline;

/* Buffers for samples, on the host and on the device. */
typedef struct gs_input {
    size_t most;                      /* maximum number of samples in them */
    gs_mem bytes, x, targets;         /* inputs (most, c, h, w), as uint8 and as f32; labels or targets */
    void *host_inputs, *host_targets; /* inputs and targets on the host, for inference */
    size_t target_bytes;              /* per sample */
    bool scales;                      /* the inputs are bytes, which the device scales to floats */
} gs_input;

/* A worker's work so far, and its time. */
typedef struct gs_measured {
    double samples;          /* computed in all its steps */
    double sent;             /* bytes of the messages that it sent in all its steps */
    double phase[GS_PHASES]; /* seconds in the measured steps */
    uint64_t steps;          /* number of measured steps */
    double norms;            /* with settings->clip: sum of gs_optimizer.norm over all its steps */
    double phase_start;
    gs_step_times times; /* of its steps */
} gs_measured;

/* Non-finite values, as seen by a worker (diverged.c). */
typedef struct gs_divergence {
    bool loaded_bad;           /* the file settings->load holds one: */
    char loaded_bad_value[80]; /* "nan in 1.bias" */
    uint64_t step;             /* the first step with a non-finite loss, from 1; 0: none */
    double loss;               /* this loss */
    bool together;             /* all workers know of the divergence */
} gs_divergence;

/* Shared by the workers of this process. */
typedef struct gs_process {
    int processes_here; /* processes of this run on this machine that use the same CPUs; at least 1 */
    gs_busy busy;       /* how the workers of these processes use the CPUs; `waited` is unset */
    bool failed;        /* a worker of this process failed; set and read atomically */
} gs_process;

/* One worker's part of a run. */
typedef struct gs_worker {
    /* On rank 0 the run's observer; on other ranks one that does nothing; never NULL. */
    const struct gs_observer *observer;
    const gs_settings *settings;
    const gs_dataset *train_set, *test_set; /* shared by the workers of a process, read-only; may be NULL */
    int cpus;                               /* number of CPUs to which it is bound; 0: not bound */
    const gs_process *process;              /* NULL: created without a run */
    size_t batch;                           /* the global batch, never 0 */
    size_t eval_block;                      /* samples that inference computes at once */
    gs_comm *comm;                          /* with all workers */
    gs_groups groups;                       /* comms with workers that share something with it */
    gs_partition partition;                 /* its part of the model; in training only */
    gs_ordered_sums ordered_sums;           /* with --exact: the order of its gradients' sums */
    bool in_step;                           /* false: it may be testing */
    struct gs_tensor_worker *tensor;        /* with --tensor (train/tensor.c); otherwise NULL */
    const struct gs_strategy *strategy;     /* how it performs a step (strategy.h) */
    void *strategy_state;                   /* the strategy's own data, from create to free */
    const struct gs_reducer *reducer;       /* how gradients are summed (reducer.h); NULL: by the strategy */
    void *reducer_state;                    /* the reducer's own data, from create to free */
    gs_device *device;
    gs_model *model;
    gs_input input;
    gs_optimizer *optimizer;      /* NULL without training */
    gs_lr_rates rates;            /* for its steps */
    const gs_sync_scheme *scheme; /* from the settings; sync->scheme is what `auto` chose */
    gs_sync *sync;                /* NULL until training begins */
    size_t sync_most;             /* floats in its largest sum */
    /* gs_pass.final for the last backward of a step: called when gradients become final; may be NULL. */
    gs_status (*final)(void *final_context, size_t first);
    void *final_context;
    bool scores_early;      /* true: it begins to read a step's score before backward, for gs_read_score */
    float counts[GS_STATS]; /* this score */
    gs_schedule schedule;   /* its samples; all zero without training */
    gs_loader *loader;      /* of the training set's samples; NULL without training, and in a dry run */
    /* gs_loader_next and gs_jobs_create, or a dry run's replacements (predict/dry_run.c). */
    gs_status (*next)(struct gs_worker *, const struct gs_loaded **);
    gs_status (*jobs)(const struct gs_worker *, int room, gs_jobs **);
    gs_micro_batch micro_batch; /* the current samples, or the last ones */
    uint64_t step;              /* number of steps done */
    uint64_t begun_at;          /* how many of these were done by earlier runs (settings->resume) */
    gs_timeline *timeline;      /* for settings->trace; otherwise NULL */
    bool recorded; /* true in the steps of this timeline: each phase waits for the device and is recorded */
    struct gs_digest *digest;        /* with settings->digest; otherwise NULL */
    uint32_t *checksums;             /* with --verify: one per tensor of each worker (verify.c) */
    const gs_memory_use *planned;    /* [GS_MEMORY_PLACES]: from the dry run; all zero: there was none */
    const struct gs_cut_report *cut; /* how a pipeline's stages were measured; NULL: they were not */
    const char *fit;                 /* what --fit chose for the run, and why; "": nothing */
    gs_measured measured;
    gs_offload_times offload_before; /* device->offload_times before its first step */
    gs_divergence diverged;
    struct gs_checkpoints *checkpoints; /* with settings->checkpoint, during training; otherwise NULL */
    struct gs_device_report *devices;   /* of all workers, if they differ or settings->record; else NULL */
} gs_worker;

/* CPU threads for each of this process's `local` workers: settings->threads or, if that is 0, the calling thread's CPUs
 * divided by the number of workers that share them. */
int gs_worker_threads(const gs_settings *, int local);

/* Open the device with `threads` CPU threads, create the replica and its buffers, and load settings->load. Without a
 * training set, skips what only training needs. gs_scaling: mean and standard deviation of the images' bytes. */
gs_status gs_worker_create(gs_worker *, const gs_settings *, const char *device, gs_comm *, int threads,
                           gs_scaling, const gs_dataset *train_set, const gs_dataset *test_set);
void gs_worker_free(gs_worker *);

/* Copy n samples and their targets, as gathered by gs_dataset_gather, to the device. The device scales byte inputs. */
gs_status gs_worker_write(gs_worker *, const void *inputs, const void *targets, size_t n);

/* Copy samples first .. first + n - 1 of a data set to the device, in this order: for evaluation. */
gs_status gs_worker_load_range(gs_worker *, const gs_dataset *, size_t first, size_t n);

/* Copy the next samples of this worker's schedule (worker->micro_batch) to the device. *pass becomes their pass;
 * only its `fresh` must be set before the call. */
gs_status gs_worker_next(gs_worker *, gs_pass *);

/* The training pass of a micro-batch. */
gs_pass gs_worker_pass(gs_worker *, const gs_micro_batch *, bool fresh);

/* Compute a step on zeros, without an update, so that kernels are compiled before timing begins. */
gs_status gs_warm_up(gs_worker *);

/* Create what steps need: the state of strategy, reducer and tensor group, and worker->sync. */
gs_status gs_prepare_steps(gs_worker *);

/* Call this once, before the first step: warm up, restore a resumed state, prepare the steps, and begin the hooks. */
gs_status gs_begin_training(gs_worker *);

/* ---- a worker's host memory ---- */

/* Record host memory in the ledger of the worker's device; on cpu it counts as the device's memory. */
gs_status gs_book_host(gs_worker *, gs_memory_kind, void *memory, size_t bytes);
/* Like gs_host_malloc, but recorded; release it with free(). memory: the address of the pointer to set. GS_E_MEMORY. */
gs_status gs_host_alloc(gs_worker *, gs_memory_kind, size_t bytes, void *memory);
