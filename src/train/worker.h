/* A worker: what it has of a run, its device and its replica of the model among it, and how samples come to it. */
#pragma once

#include <stdbool.h>
#include "core/busy.h"
#include "core/jobs.h"
#include "data/loader.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "sync/sync.h"
#include "train/partition.h"
#include "parallel/layout.h"
#include "train/ordered_sums.h"
#include "train/result.h"

typedef struct gs_settings gs_settings; /* train.h */
typedef struct gs_timeline gs_timeline;

/* Samples on their way to a worker's device, and there. */
typedef struct gs_input {
    size_t most;                      /* samples at once that there is room for */
    gs_mem bytes, x, targets;         /* (most, c, h, w) uint8, the same as f32, and labels or targets */
    void *host_inputs, *host_targets; /* the same on the host, for inference */
    size_t target_bytes;              /* of one sample */
    bool scales;                      /* the inputs are bytes, which the device turns into numbers */
} gs_input;

/* What a worker has done, and how long it took. */
typedef struct gs_measured {
    double samples;          /* that it has computed in all its steps */
    double sent;             /* bytes, by its own messages, in all its steps */
    double phase[GS_PHASES]; /* seconds in the steps that were measured */
    uint64_t steps;          /* how many steps those were */
    double norms;            /* with settings->clip: the sum of gs_optimizer.norm of all its steps */
    double phase_start;
    gs_step_times times; /* of its steps */
} gs_measured;

/* What a worker has seen that is not finite (diverged.c). */
typedef struct gs_divergence {
    bool loaded_bad;           /* the file settings->load holds such a value: */
    char loaded_bad_value[80]; /* "nan in 1.bias" */
    uint64_t step;             /* the first step with such a loss, from 1; 0: none */
    double loss;               /* that loss */
    bool together;             /* all workers know that the run has diverged */
} gs_divergence;

/* What the workers of this process share. */
typedef struct gs_process {
    int processes_here; /* processes of the run on this machine that use the same CPUs; at least 1 */
    gs_busy busy;       /* what they all take of these, without `waited` */
    bool failed;        /* a worker of this process has; set and read atomically */
} gs_process;

/* What a worker needs that is not its own: a device, samples, a thread, and answers of the others. A run has the real
 * ones (worker.c). Where nothing is computed, and the others are not there, a dry run takes their place
 * (predict/dry_run.c). */
typedef struct gs_worker_calls {
    gs_status (*open)(const char *device, int threads, gs_device **);  /* as gs_device_open */
    gs_status (*load)(struct gs_worker *);                             /* begins to load: worker->next */
    gs_status (*jobs)(const struct gs_worker *, int room, gs_jobs **); /* as gs_jobs_create */
    /* Have all devices of this worker's pipeline activations in 16 bits? */
    gs_status (*halves)(const struct gs_worker *, bool *all);
    /* As gs_dataset_gather: samples of a test. */
    gs_status (*gather)(const gs_dataset *, const uint32_t *order, size_t first, size_t n, void *inputs,
                        void *targets);
    bool unset;       /* the weights get no initial values */
    double uncounted; /* samples of a step that are not in its counts */
} gs_worker_calls;

/* One worker's part of a run. */
typedef struct gs_worker {
    const struct gs_observer *observer; /* who is told of the run: on rank 0 alone; never NULL */
    const gs_settings *settings;
    const gs_worker_calls *calls;           /* settings->calls, or those of a run */
    const gs_dataset *train_set, *test_set; /* shared by the workers of a process, read only; may be NULL */
    int cpus;                               /* that it is bound to; 0: it is not bound */
    const gs_process *process;              /* NULL: it was made without a run */
    size_t batch;                           /* the global batch, after 0 was replaced */
    size_t eval_block;                      /* samples that inference handles at once */
    gs_comm *comm;                          /* of all workers */
    gs_groups groups;                       /* and of those that share something with this one */
    gs_partition partition;                 /* what it has of the model; of training alone */
    gs_ordered_sums ordered_sums;           /* with --exact, of the sums of its gradients, */
    gs_virtual_shards *virtual_shards;      /* where leaves are computed together; else NULL */
    bool in_step;                           /* else its group may be testing */
    struct gs_tensor_worker *tensor;        /* with --tensor (train/tensor.c), else NULL */
    const struct gs_strategy *strategy;     /* how it makes a step (strategy.h), */
    void *strategy_state;                   /* and what that keeps: create, free */
    const struct gs_reducer *reducer;       /* how gradients are summed (reducer.h); NULL: by the strategy, */
    void *reducer_state;                    /* and what that keeps */
    gs_device *device;
    gs_model *model;
    gs_input input;
    gs_optimizer *optimizer;      /* NULL where nothing is trained */
    gs_lr_rates rates;            /* of its steps */
    const gs_sync_scheme *scheme; /* as asked for; sync->scheme is what `auto` made of it */
    gs_sync *sync;                /* NULL until training begins */
    size_t sync_most;             /* floats in the largest sum that it makes */
    /* Told where gradients become final in the last backward of a step: gs_pass.final. NULL: nobody is */
    gs_status (*final)(void *final_context, size_t first);
    void *final_context;
    bool scores_early;      /* it asks for the score of a step before backward: gs_read_score then has it */
    float counts[GS_STATS]; /* where that comes */
    gs_schedule schedule;   /* what it computes; all zero where nothing is trained */
    gs_loader *loader; /* of the training set's samples; NULL where nothing is trained, and in a dry run */
    gs_status (*next)(struct gs_worker *, const struct gs_loaded **); /* as gs_loader_next */
    gs_micro_batch micro_batch; /* the samples that it computes, or has computed last */
    uint64_t step;              /* steps done, */
    uint64_t begun_at;          /* of which so many by earlier runs (settings->resume) */
    gs_timeline *timeline;      /* of settings->trace, else NULL */
    bool recorded;              /* in a step of that timeline: each phase waits for the device, and is told */
    struct gs_digest *digest;   /* with settings->digest, else NULL */
    uint32_t *checksums;        /* one of each worker, for --verify */
    const gs_memory_use *planned; /* [GS_MEMORY_PLACES]: as in the dry run; all zero: there was no dry run */
    const struct gs_cut_report *cut; /* how a pipeline's stages were measured; NULL: they were not */
    const char *fit;                 /* what --fit chose for the run, and why; "": nothing */
    gs_measured measured;
    gs_offload_times offload_before; /* what of device->offload_times is not of its steps */
    gs_divergence diverged;
    struct gs_checkpoints *checkpoints; /* with settings->checkpoint, during training; else NULL */
    struct gs_device_report *devices;   /* of all workers, where these hold different parts; else NULL */
} gs_worker;

/* The CPU threads of one of `local` workers of this process: settings->threads, or the CPUs of the calling thread
 * divided among all workers that use them. */
int gs_worker_threads(const gs_settings *, int local);

/* Open the device with `threads` CPU threads, make the replica and its buffers, load settings->load. Without a
 * training set, nothing that only training needs is made. gs_scaling: mean and deviation of the images' bytes. */
gs_status gs_worker_create(gs_worker *, const gs_settings *, const char *device, gs_comm *, int threads,
                           gs_scaling, const gs_dataset *train_set, const gs_dataset *test_set);
void gs_worker_free(gs_worker *);

/* Copy n samples and their targets, as gs_dataset_gather wrote them, to the device; bytes are scaled. */
gs_status gs_worker_write(gs_worker *, const void *inputs, const void *targets, size_t n);

/* The same with samples first .. first + n - 1 of a set, in their order. */
gs_status gs_worker_load(gs_worker *, const gs_dataset *, size_t first, size_t n);

/* The same with the next samples of this worker's schedule, as worker->micro_batch says; *pass goes through them. */
gs_status gs_worker_next(gs_worker *, gs_pass *);

/* What goes through the samples of a micro-batch in training. */
gs_pass gs_worker_pass(gs_worker *, const gs_micro_batch *, bool fresh);

/* Go through a step on zeros without changing anything, so that kernels are compiled before the clock runs. */
gs_status gs_warm_up(gs_worker *);

/* What its steps need: what strategy, reducer and tensor group keep, and worker->sync. */
gs_status gs_prepare_steps(gs_worker *);

/* Once, before the first step: kernels are built, a resumed state is restored, strategy and hooks are created. */
gs_status gs_begin_training(gs_worker *);

/* ---- memory of the host, for a worker ---- */

/* Book in the ledger of the worker's device what lies on the host: on cpu that is the device's memory too. */
gs_status gs_book_host(gs_worker *, gs_memory_kind, void *memory, size_t bytes);
/* gs_host_malloc, and booked. It may be freed with free when the worker goes. `memory` is the address of the pointer to
 * it. GS_E_MEMORY. */
gs_status gs_host_alloc(gs_worker *, gs_memory_kind, size_t bytes, void *memory);
