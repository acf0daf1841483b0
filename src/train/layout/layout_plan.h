/* What a layout costs, before anything runs: who holds what, and what a step takes by formula.
 *
 * A global batch of B samples, D replicas and P stages on N = D x P workers, C cores; T_s: seconds of forward and
 * backward of one micro-batch in stage s, out of the times of its layers, which are measured for just so many samples
 * (pipeline/times.h); m: micro-batches of a pipeline, v: runs of layers in each stage; W_s: bytes of a stage's weights:
 *
 *     step      max(m T_s x (1 + (P - 1) / (v m)),  D m (T_0 + T_1 + ...) / C)  +  update  +  sent / bandwidth  +  data
 *                   the slowest stage, and the bubble     all work, on all cores
 *
 *     update    seconds a parameter, measured, times the stage's, with --zero a D-th of them
 *     data      seconds a sample to the device and to numbers, measured, times B / D
 *
 *     sent      of the worker that sends most, bytes: 2 (D - 1) / D W_s for gradients (with --zero 3 three halves of
 *               that, with --exact and no --zero log2(D) W_s), and B / D samples of activations to the next stage and
 *               of their gradients to the one before
 *
 *     memory    of the worker that needs most, on its device: each layout is rehearsed (memory/memory.h)
 *
 * Update, data and messages take N / C times as long where that is more than 1. With tensor parallelism of T on N = D x
 * P x T workers T_s is that of whole layers times the share of FLOPs that a worker has, which has 1/T of the pairs of
 * linear layers and all else; W_s is that of its part. It sends besides 2 (T - 1) / T times (with --exact log2(T)
 * times) the arrays that a group sums: of each pair y, and dx if a layer before it learns; and what gs_tensor_calls
 * lists besides, with --sequence above all. A table that two stages share goes to and fro.
 *
 * Not in it: waits for slower workers, latencies, several passes of --zero 2 and 3. `gradsum layout --run` shows how
 * far the formulas are from what runs take.
 */
#pragma once

#include "train/memory/memory.h"
#include "train/pipeline/times.h"

/* What a worker of a run holds. */
typedef struct gs_layout_share {
    gs_place place;
    char layers[40];                 /* of the model's outermost sequence: "0-2", "0-1,4-5" */
    size_t params;                   /* of these */
    int weights, gradients, vectors; /* 1: it holds those of all these parameters; n: of a n-th */
} gs_layout_share;

/* Settings: settled. plan: the model. GS_E_USAGE: it cannot be cut so; GS_E_MEMORY. */
gs_status gs_layout_share_of(const gs_settings *, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out);

/* What settings come to for so many workers, without a run: the data are open in *memory, which is to be freed in any
 * case; memory->settings are settled; *plan is the model. Fails as gs_train would. */
gs_status gs_layout_settled(const gs_settings *, int workers, gs_memory_plan *memory, gs_model **plan);

/* Of one layout. */
typedef struct gs_layout_cost {
    gs_layout layout;
    bool sequence;                /* its groups divide tokens: --sequence */
    double seconds, sent, memory; /* as above: of a step; bytes; bytes */
    double bubble;                /* by the formula, a share of the time; 0: no pipeline */
    char cut[GS_CUT_TEXT]; /* as --pipeline-cut has it; "": there is none, or it is that of the settings */
} gs_layout_cost;

enum { GS_LAYOUT_TIMES = 32 };

typedef struct gs_layout_plan {
    gs_memory_plan memory; /* of one worker: settings with data and model, as gs_train takes them */
    const char *devices;   /* of all workers */
    int workers;
    double samples_per_s, bandwidth; /* measured: of one worker; bytes a second from one worker to another */
    double update, data;             /* measured: seconds a parameter, a sample */
    gs_layer_times times[GS_LAYOUT_TIMES];
    int times_known;
    gs_layout_cost *cost; /* those that can run and fit, fastest first */
    int costs;
    int too_large; /* how many need more than settings->max_memory */
    int refused;   /* how many cannot run, and why the first of them cannot */
    char why[400];
} gs_layout_plan;

/* All layouts of so many workers, one on each of `devices`, for these settings, whose --layout, --pipeline, --tensor
 * and --zero are not looked at; with settings->sequence those with groups twice, without and with it. `devices` must
 * live as long. Takes about a second, to measure. Fails as gs_train would with one worker. To be freed in any case. */
gs_status gs_layout_plan_create(const gs_settings *, const char *devices, int workers, gs_layout_plan *);
void gs_layout_plan_free(gs_layout_plan *);

/* Make a run of one of them: `steps` steps of settings->devices, as many as there are workers. */
gs_status gs_layout_plan_run(const gs_layout_plan *, const gs_layout_cost *, const char *devices, int steps,
                             gs_result *);
