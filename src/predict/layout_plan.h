/* What a layout costs: which worker holds what, and the time of a step, computed from measured parts.
 *
 * For a global batch of B samples, D replicas, T shards and P stages on N = D x T x P workers of t threads, and C
 * cores. A worker computes its B / D samples in m passes, which in a pipeline are its micro-batches:
 *
 *     step      m (c f + g)                                   without stages
 *               max(V(f + g), D T m (f_0 + f_1 + ...) c / N + m g)   P stages
 *               + sums + c (update + data)
 *
 *     f         seconds of a pass: forward and backward of the worker's layers, each measured at the pass's exact size
 *               (predict/times.h), while as many workers measure as would compute at once. In a tensor group the shard
 *               is measured: half of a convolution's channels take more than half the time, and an undivided layer
 *               takes the full time. If workers meet in each layer (T > 1, or batch_norm with global statistics), f is
 *               that of the slowest worker. Replicas that meet only in the sum, each on its own core, take as long as
 *               the one on the slowest core. If passes differ in size, f is their mean
 *     c         the larger of threads per core, N t / C, and workers per OpenCL device, which take turns; at least 1
 *     g         seconds of a pass: sums and gathers of a tensor group, batch_norm's sums over replicas, and messages
 *               between stages, whose sender and receiver each count half of an exchange. A dry run lists these calls
 *               (predict/dry_run.h); each is measured at its size, by all N workers at once (layout_measure.c)
 *     V         virtual time of the schedule's instructions (parallel/virtual_time.h), with each stage's own f + g
 *     f_s       f of stage s: with fewer cores than workers, the work of all stages bounds the step
 *     sums      seconds of the layout's sums of gradients over replicas: an all-reduce, or reduce-scatters and
 *               all-gathers of ZeRO's units; measured like g. --zero 2 reduce-scatters in each pass, --zero 3 also
 *               gathers, in a thread beside the worker. If this thread has a core (N (t + 1) <= C), only its time
 *               beyond m f counts; else all of it, because it takes a core from a worker. Workers without a thread
 *               (on OpenCL, in a group, with global statistics) make these calls themselves, so all their time counts
 *     update    seconds per parameter, measured, times the worker's parameters; with ZeRO, 1/D of them
 *     data      B / D times the seconds to transfer a sample to the device and, if the loader's thread has no core of
 *               its own, to load it
 *
 *     sent      maximum number of bytes that a worker sends, counted in the dry run as in a run
 *     memory    maximum device memory that a worker needs, found by a dry run of each layout (predict/memory.h)
 *
 * Not counted: barriers; waiting for a worker that is late once in a step; copies between the host and devices with
 * their own memory. `gradsum layout --run` shows how far the formulas are from measured steps.
 */
#pragma once

#include "predict/memory.h"
#include "predict/times.h"

/* What a worker of a run holds, not counting ZeRO. */
typedef struct gs_layout_share {
    char layers[40]; /* children of the outermost sequence: "all", "0-2", "0-1,4-5" */
    size_t params;   /* in these layers */
} gs_layout_share;

/* Find a rank's share, for resolved settings and the model `plan`. GS_E_USAGE: the cut is impossible; GS_E_MEMORY. */
gs_status gs_layout_share_of(const gs_settings *, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out);

/* Create the shard of the model `plan` for rank `rank` of a tensor group; must be freed. GS_E_USAGE, GS_E_MEMORY. */
gs_status gs_layout_tp_model(const gs_settings *, const gs_model *plan, int rank, gs_model **part);

/* Resolve the settings for `workers` workers, store them in memory->settings, and open the data, without a run. *plan
 * is the model. *memory must be freed even after an error. Fails as gs_train does. */
gs_status gs_layout_settled(const gs_settings *, int workers, gs_memory_plan *memory, gs_model **plan);

/* The cost of one layout. */
typedef struct gs_layout_cost {
    gs_layout layout;
    bool sequence;                /* its groups divide tokens: --sequence */
    double seconds, sent, memory; /* as above: seconds of a step; bytes sent; bytes of memory */
    double bubble;                /* by the formula, as a fraction of the time; 0: no pipeline */
    char cut[GS_CUT_TEXT];        /* for --pipeline-cut; "": none, or the settings' own */
} gs_layout_cost;

/* ---- the measured parts: layout_measure.c ---- */

typedef struct gs_layout_call {
    const gs_sync_scheme *scheme; /* an all-reduce by this scheme; NULL: a collective of comm.h */
    /* GS_ALL_REDUCE, GS_REDUCE_SCATTER or GS_ALL_GATHER; GS_SEND: to the next rank and from the previous one. */
    gs_operation operation;
    int ranks;       /* in its group; the other workers make the same call in their groups */
    bool whole;      /* on the comm of all workers; otherwise on a subset (comm/split.h) */
    size_t floats;   /* in the array of all ranks, or in the message */
    size_t samples;  /* with --sequence: samples, each with a rank's tokens contiguous; else 0 */
    bool background; /* made by a thread beside the worker, which takes longer */
} gs_layout_call;

typedef struct gs_layout_measured gs_layout_measured;

/* Measures the parts of a step. A test may supply invented times. */
typedef struct gs_layout_source {
    /* Measure a worker's model with these settings, for `samples` samples at once. The callee owns *out. */
    gs_status (*layers)(gs_layout_measured *, const gs_settings *, size_t samples,
                        const gs_layer_times **out);
    gs_status (*call)(gs_layout_measured *, const gs_layout_call *, double *seconds);
} gs_layout_source;

/* The times of measured layers. */
typedef struct gs_layout_times {
    size_t samples; /* at once */
    int parts;      /* number of shards, as with --tensor; 1: the whole model */
    bool sequence;
    gs_layer_times times;
    struct gs_layout_times *next;
} gs_layout_times;

/* The time of a measured call. */
typedef struct gs_layout_call_time {
    gs_layout_call call;
    double seconds;
} gs_layout_call_time;

struct gs_layout_measured {
    const gs_layout_source *source;
    const gs_settings *settings; /* for one worker, with data and model, but with all workers' devices */
    int workers, threads, cores; /* threads: of each worker */
    double samples_per_s;        /* of one worker with the whole model, while the other cores are busy */
    double update;               /* seconds of the update, per parameter */
    double data, loader;         /* seconds per sample: transfer to the device; loading, in its own thread */
    double bandwidth;            /* bytes/s of long messages between two workers; 0: there is one worker */
    gs_layout_times *times;      /* a list */
    gs_layout_call_time *known;  /* [calls_known] */
    size_t calls_known, calls_room;
};

/* Fill in the other members; settings, workers, threads and cores must be set. Later, `source` measures layers and
 * calls on first use. Takes about 1 s. Fails as gs_train does with one worker. Free the result even after an error. */
gs_status gs_layout_measure(gs_layout_measured *, size_t batch);
void gs_layout_measured_free(gs_layout_measured *);

/* Given resolved settings, the plan of a model and a global batch, fill in *out except its `memory`. If measured times
 * determine the cut, it is stored in out->cut. */
gs_status gs_layout_predict(gs_layout_measured *, const gs_settings *, const gs_model *, size_t batch,
                            gs_layout_cost *out);

/* ---- all layouts ---- */

typedef void (*gs_layout_tell)(void *context, int done, int of);

typedef struct gs_layout_plan {
    gs_memory_plan memory; /* for one worker, but memory.settings.devices lists all workers' devices */
    int workers;
    gs_layout_measured *measured;
    gs_layout_cost *cost; /* layouts that can run and fit, fastest first */
    int costs;
    int too_large;       /* layouts that need more than settings->max_memory */
    double least;        /* bytes that the smallest of these layouts needs */
    gs_layout_tell tell; /* may be NULL */
    void *context;
    int layouts; /* number of layouts tried */
    int refused; /* layouts that cannot run; `why` is the first one's reason */
    char why[400];
} gs_layout_plan;

/* Predict all layouts of `workers` workers, one on each of `devices` (not copied: keep it valid), for these settings,
 * whose layout, pipeline, tensor and zero are ignored. With settings->sequence, layouts with groups appear twice:
 * without and with --sequence. Measuring takes some seconds: `tell` (may be NULL) is called before each layout. Fails
 * as gs_train does with one worker. Free the result even after an error. */
gs_status gs_layout_plan_create(const gs_settings *, const char *devices, int workers, gs_layout_tell tell,
                                void *context, gs_layout_plan *);
void gs_layout_plan_free(gs_layout_plan *);

/* Run `steps` steps of one of the layouts. */
gs_status gs_layout_plan_run(const gs_layout_plan *, const gs_layout_cost *, int steps, const gs_observer *,
                             gs_result *);
