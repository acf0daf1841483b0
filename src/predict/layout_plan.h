/* What a layout costs: who holds what, and the time of a step, computed from measured parts.
 *
 * A global batch of B samples; D replicas, T parts and P stages on N = D x T x P workers of t threads, C cores. A
 * worker computes its B / D samples in m passes, which in a pipeline are its micro-batches:
 *
 *     step      m (c f + g)                                   without stages
 *               max(V(f + g), D T m (f_0 + f_1 + ...) c / N + m g)   P stages
 *               + sums + c (update + data)
 *
 *     f         seconds of a pass: forward and backward of the worker's layers, each measured at the pass's exact size
 *               (predict/times.h), while as many workers measure as would compute at once. In a tensor group a worker's
 *               part is measured: half of a convolution's channels take more than half the time, and an undivided layer
 *               takes all of it. If workers meet in each layer (T > 1, or batch_norm with global statistics), f is the
 *               slowest worker's. Replicas that meet only in the sum, each on its own core, take as long as the one on
 *               the slowest core. If passes differ in size, f is their mean
 *     c         how many threads take turns on a core: N t / C; or workers on an OpenCL device, if that is more; or 1
 *     g         seconds of a pass: sums and gathers of a tensor group, batch_norm's sums over replicas, and messages
 *               between stages: sender and receiver each count half an exchange. A dry run of the step lists these
 *               calls (predict/dry_run.h); each is measured at its size, by all N workers at once (layout_measure.c)
 *     V         the instructions of the schedule in virtual time (parallel/virtual_time.h), with each stage's own f + g
 *     f_s       of stage s: with fewer cores than workers, the work of all stages bounds the step
 *     sums      of gradients over the replicas, as the layout makes them: an all-reduce; or reduce-scatters and
 *               all-gathers of ZeRO's units. Measured as g is. --zero 2 reduce-scatters in each pass, --zero 3 does
 *               both, in a thread beside the worker as it computes. If that thread has a core (N (t + 1) <= C), only
 *               what is longer than m f counts; else all of it, since it takes a core from a worker. A worker without
 *               one (on OpenCL, in a group, with global statistics) runs them itself: all of it counts
 *     update    seconds per parameter, measured, times the worker's parameters, with ZeRO a D-th of them
 *     data      B / D times the seconds to bring a sample to the device and, if the loader's thread has no core of its
 *               own, to load it
 *
 *     sent      bytes of the worker that sends most, counted in the dry run as in a run
 *     memory    of the worker that needs most, on its device: a dry run of each layout (predict/memory.h)
 *
 * Not counted: barriers; the wait for a worker that is late once in a step; copies to the host from devices with their
 * own memory. `gradsum layout --run` shows how far the formulas are from measured steps.
 */
#pragma once

#include "sync/sync.h"
#include "predict/memory.h"
#include "parallel/cut.h"
#include "predict/times.h"

/* What a worker of a run holds, without ZeRO. */
typedef struct gs_layout_share {
    char layers[40]; /* of the model's outermost sequence: "all", "0-2", "0-1,4-5" */
    size_t params;   /* of these layers */
} gs_layout_share;

/* For settled settings and the model `plan`. GS_E_USAGE: an impossible cut; GS_E_MEMORY. */
gs_status gs_layout_share_of(const gs_settings *, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out);

/* The part of the model `plan` on worker `rank` of a tensor group; to be freed. GS_E_USAGE, GS_E_MEMORY. */
gs_status gs_layout_tp_model(const gs_settings *, const gs_model *plan, int rank, gs_model **part);

/* Settle the settings for `workers` workers into memory->settings, with open data, without a run. *plan is the model.
 * *memory must be freed even after an error. Fails as gs_train does. */
gs_status gs_layout_settled(const gs_settings *, int workers, gs_memory_plan *memory, gs_model **plan);

/* Of one layout. */
typedef struct gs_layout_cost {
    gs_layout layout;
    bool sequence;                /* its groups divide tokens: --sequence */
    double seconds, sent, memory; /* as above: of a step; bytes; bytes */
    double bubble;                /* by the formula, a share of the time; 0: no pipeline */
    char cut[GS_CUT_TEXT];        /* for --pipeline-cut; "": none, or that of the settings */
} gs_layout_cost;

/* ---- the measured parts: layout_measure.c ---- */

typedef struct gs_layout_call {
    const gs_sync_scheme *scheme; /* an all-reduce by this scheme; NULL: a collective of comm.h */
    /* GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_ALL_GATHER; GS_SEND: to the next rank, and from the previous one. */
    gs_operation operation;
    int ranks;       /* of its group; the other workers make the same call in their groups */
    bool whole;      /* on the comm of all workers; else on a part of it (comm/split.h) */
    size_t floats;   /* of the array of all ranks, or of the message */
    size_t samples;  /* with --sequence: samples, each with a rank's tokens contiguous; else 0 */
    bool background; /* made by a thread beside the worker, which takes longer */
} gs_layout_call;

typedef struct gs_layout_measured gs_layout_measured;

/* Measures the parts; a test may make them up. */
typedef struct gs_layout_source {
    /* Time a worker's model with these settings, `samples` at once. *out is borrowed. */
    gs_status (*layers)(gs_layout_measured *, const gs_settings *, size_t samples,
                        const gs_layer_times **out);
    gs_status (*call)(gs_layout_measured *, const gs_layout_call *, double *seconds);
} gs_layout_source;

/* Measured layers. */
typedef struct gs_layout_times {
    size_t samples; /* at once */
    int parts;      /* of --tensor; 1: the whole model */
    bool sequence;
    gs_layer_times times;
    struct gs_layout_times *next;
} gs_layout_times;

/* A measured call. */
typedef struct gs_layout_call_time {
    gs_layout_call call;
    double seconds;
} gs_layout_call_time;

struct gs_layout_measured {
    const gs_layout_source *source;
    const gs_settings *settings; /* of a worker, with data and model; devices: of all workers */
    int workers, threads, cores; /* threads: of each worker */
    double samples_per_s;        /* of a worker with the whole model, while the other cores are busy */
    double update;               /* seconds of the update, per parameter */
    double data, loader;         /* seconds per sample, each alone: transfer to the device; loader's thread */
    double bandwidth;            /* bytes/s of long messages between two workers; 0: there is one worker */
    gs_layout_times *times;      /* a list */
    gs_layout_call_time *known;  /* [calls_known] */
    size_t calls_known, calls_room;
};

/* Fill in the other parts; settings, workers, threads and cores are set. source then measures layers and calls
 * on first use. Takes about a second. Fails as gs_train does with one worker. To be freed even after an error. */
gs_status gs_layout_measure(gs_layout_measured *, size_t batch);
void gs_layout_measured_free(gs_layout_measured *);

/* Fill in *out, except memory, for settled settings, the plan of a model, and a global batch. If measured times decide
 * the cut, it is out->cut. */
gs_status gs_layout_predict(gs_layout_measured *, const gs_settings *, const gs_model *, size_t batch,
                            gs_layout_cost *out);

/* ---- all layouts ---- */

typedef void (*gs_layout_tell)(void *context, int done, int of);

typedef struct gs_layout_plan {
    gs_memory_plan memory; /* of one worker; but memory.settings.devices: of all workers */
    int workers;
    gs_layout_measured *measured;
    gs_layout_cost *cost; /* layouts that can run and fit, fastest first */
    int costs;
    int too_large;       /* layouts that need more than settings->max_memory, */
    double least;        /* and the bytes of the smallest of them */
    gs_layout_tell tell; /* may be NULL */
    void *context;
    int layouts; /* all of them */
    int refused; /* layouts that cannot run, and why the first of them cannot */
    char why[400];
} gs_layout_plan;

/* All layouts of `workers` workers, one on each of `devices` (which the plan borrows), for these settings; their
 * layout, pipeline, tensor and zero are ignored. With settings->sequence, layouts with groups come twice: without and
 * with it. Measuring takes some seconds: `tell` (may be NULL) is called before each layout. Fails as gs_train does with
 * one worker. To be freed even after an error. */
gs_status gs_layout_plan_create(const gs_settings *, const char *devices, int workers, gs_layout_tell tell,
                                void *context, gs_layout_plan *);
void gs_layout_plan_free(gs_layout_plan *);

/* Run `steps` steps of one of them. */
gs_status gs_layout_plan_run(const gs_layout_plan *, const gs_layout_cost *, int steps, const gs_observer *,
                             gs_result *);
