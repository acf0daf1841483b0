/* What a layout costs, before anything runs: who holds what, and what a step takes, by formulas of measured parts.
 *
 * A global batch of B samples; D replicas, T parts and P stages on N = D x T x P workers of t threads, C cores. A
 * worker goes through its B / D samples in m passes, which in a pipeline are its micro-batches:
 *
 *     step      m (c f + g)                                   without stages
 *               max(V(f + g), D T m (f_0 + f_1 + ...) c / N + m g)   P stages
 *               + sums + c (update + data)
 *
 *     f         seconds of a pass: forward and backward of the layers that a worker has, each measured with exactly as
 *               many samples (predict/times.h). In a tensor group a worker's part is measured: half of a convolution's
 *               channels do not take half the time, and what is not divided takes all of it. As many workers measure
 *               at the same time as would compute. Where they meet in each layer, f is that of the slowest: with T > 1,
 *               and where batch_norm has statistics of all. Replicas that meet in the sum, each on a core of its own,
 *               take as long as the one whose core is the slowest. Where passes differ in size, f is their mean
 *     c         how many threads take turns on a core: N t / C; or workers on an OpenCL device, if they are more; or 1
 *     g         seconds of a pass: what a tensor group sums and gathers, batch_norm's sums over replicas, and messages
 *               between stages, of which sender and receiver each have half an exchange. Each call is measured, of that
 *               size, by all N workers at once (layout_measure.c). Which there are a dry run of the step says
 *               (predict/dry_run.h)
 *     V         the instructions of the schedule in virtual time (parallel/virtual_time.h), with each stage's own f + g
 *     f_s       of stage s: where cores are fewer than workers, the work of all stages bounds the step
 *     sums      of gradients over the replicas, in the way of the layout: an all-reduce; or reduce-scatters and
 *               all-gathers of ZeRO's units. Measured as g is. --zero 2 makes the former in each pass, --zero 3 both,
 *               by a thread beside the worker while layers compute. Where that thread has a core (N (t + 1) <= C),
 *               only what is longer than m f counts; else all of it, since it takes a core from a worker. A worker
 *               without that thread (on OpenCL, in a group, with statistics of all) makes them itself: all counts
 *     update    seconds a parameter, measured, times the worker's, with ZeRO a D-th of them
 *     data      B / D times the seconds that a sample takes to the device, and, where the loader's thread has no core
 *               of its own, to load
 *
 *     sent      of the worker that sends most, bytes: as the dry run counts them, and a run
 *     memory    of the worker that needs most, on its device: of a dry run of each layout (predict/memory.h)
 *
 * Not in it: barriers; the wait for a worker that is late once in a step; copies to the host from devices with memory
 * of their own. `gradsum layout --run` shows how far the formulas are from what runs take.
 */
#pragma once

#include "sync/sync.h"
#include "predict/memory.h"
#include "parallel/cut.h"
#include "predict/times.h"

/* What a worker of a run holds. */
typedef struct gs_layout_share {
    gs_coordinates coordinates;
    char layers[40];                 /* of the model's outermost sequence: "0-2", "0-1,4-5" */
    size_t params;                   /* of these */
    int weights, gradients, vectors; /* 1: it holds those of all these parameters; n: of an n-th of them */
} gs_layout_share;

/* Settings: settled. plan: the model. GS_E_USAGE: it cannot be cut so; GS_E_MEMORY. */
gs_status gs_layout_share_of(const gs_settings *, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out);

/* What worker `rank` of a tensor group has of the model `plan`; to be freed. GS_E_USAGE, GS_E_MEMORY. */
gs_status gs_layout_tp_model(const gs_settings *, const gs_model *plan, int rank, gs_model **part);

/* Settle the settings of a run of so many workers, without the run. memory->settings are the settled ones, with open
 * data; *memory is to be freed in any case. *plan is the model. Fails as gs_train would. */
gs_status gs_layout_settled(const gs_settings *, int workers, gs_memory_plan *memory, gs_model **plan);

/* Of one layout. */
typedef struct gs_layout_cost {
    gs_layout layout;
    bool sequence;                /* its groups divide tokens: --sequence */
    double seconds, sent, memory; /* as above: of a step; bytes; bytes */
    double bubble;                /* by the formula, a share of the time; 0: no pipeline */
    char cut[GS_CUT_TEXT]; /* as --pipeline-cut has it; "": there is none, or it is that of the settings */
} gs_layout_cost;

/* ---- the measured parts: layout_measure.c ---- */

typedef struct gs_layout_call {
    const gs_sync_scheme *scheme; /* an all-reduce by this scheme; NULL: a collective of comm.h */
    /* GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_ALL_GATHER; GS_SEND: to the next rank, and from the one before. */
    gs_operation operation;
    int ranks;       /* how many make it; the other workers make the same in groups of their own */
    bool whole;      /* on the comm of all workers; else on a part of that (comm/split.h) */
    size_t floats;   /* of the array of all ranks, or of the message */
    size_t samples;  /* with --sequence: samples, in each of which a rank's tokens are one run; else 0 */
    bool background; /* made by a thread beside the worker, which takes longer */
} gs_layout_call;

typedef struct gs_layout_measured gs_layout_measured;

/* Where they come from. A test may have made them up. */
typedef struct gs_layout_source {
    /* Of the model that such settings give a worker, `samples` at once. *out belongs to the parts. */
    gs_status (*layers)(gs_layout_measured *, const gs_settings *, size_t samples,
                        const gs_layer_times **out);
    gs_status (*call)(gs_layout_measured *, const gs_layout_call *, double *seconds);
} gs_layout_source;

/* What layers take, as it was measured. */
typedef struct gs_layout_times {
    size_t samples; /* at once */
    int parts;      /* of --tensor; 1: the whole model */
    bool sequence;
    gs_layer_times times;
    struct gs_layout_times *next;
} gs_layout_times;

/* What a call takes. */
typedef struct gs_layout_call_time {
    gs_layout_call call;
    double seconds;
} gs_layout_call_time;

struct gs_layout_measured {
    const gs_layout_source *source;
    const gs_settings *settings; /* of one worker, with data and model */
    const char *devices;         /* of all workers */
    int workers, threads, cores; /* threads: of each worker */
    double samples_per_s;        /* of a worker with the whole model, while the other cores are busy */
    double update;               /* seconds of the update, for each parameter */
    double data, loader; /* seconds of a sample, alone: to bring it to the device; in the loader's thread */
    double bandwidth;    /* bytes/s, of long messages between two workers; 0: there is one worker */
    gs_layout_times *times;     /* those that are known */
    gs_layout_call_time *known; /* [calls_known] */
    size_t calls_known, calls_room;
};

/* Fill in the rest of the parts; settings, devices, workers, threads and cores are there already. source then measures
 * layers and calls when they are first asked for. Takes about a second. Fails as gs_train would with one worker. To be
 * freed in any case. */
gs_status gs_layout_measure(gs_layout_measured *, size_t batch);
void gs_layout_measured_free(gs_layout_measured *);

/* Fill in *out, all but memory, for settled settings, the plan of a model, and a global batch. If the model is cut by
 * measured times, out->cut says where. */
gs_status gs_layout_predict(gs_layout_measured *, const gs_settings *, const gs_model *, size_t batch,
                            gs_layout_cost *out);

/* ---- all layouts ---- */

typedef void (*gs_layout_tell)(void *context, int done, int of);

typedef struct gs_layout_plan {
    gs_memory_plan memory; /* of one worker: settings with data and model, as gs_train takes them */
    const char *devices;   /* of all workers */
    int workers;
    gs_layout_measured *measured; /* what was measured */
    gs_layout_cost *cost;         /* those that can run and fit, fastest first */
    int costs;
    int too_large;       /* how many need more than settings->max_memory, */
    double least;        /* and the bytes of the smallest of them */
    gs_layout_tell tell; /* NULL: nobody asks */
    void *context;
    int layouts; /* how many there are */
    int refused; /* how many cannot run, and why the first of them cannot */
    char why[400];
} gs_layout_plan;

/* All layouts of so many workers, one on each of `devices`, for these settings, whose --layout, --pipeline, --tensor
 * and --zero are not looked at; with settings->sequence those with groups twice, without and with it. `devices` must
 * live as long. Takes some seconds, to measure: `tell` (may be NULL) is called before each one. Fails as gs_train would
 * with one worker. To be freed in any case. */
gs_status gs_layout_plan_create(const gs_settings *, const char *devices, int workers, gs_layout_tell tell,
                                void *context, gs_layout_plan *);
void gs_layout_plan_free(gs_layout_plan *);

/* Make a run of one of them, of `steps` steps. */
gs_status gs_layout_plan_run(const gs_layout_plan *, const gs_layout_cost *, int steps, const gs_observer *,
                             gs_result *);
