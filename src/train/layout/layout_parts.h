/* The parts of which the time of a layout's step is made (layout_plan.h), each measured here: what layers take, and
 * what one call between workers takes.
 *
 *     layout_measure.c   how long each takes, and how long layers take
 *     layout_predict.c   what that comes to: which layers and calls a step has a rehearsal says (train/rehearsal.h)
 *
 * Everything is measured while as many cores are busy as in a run: layers by min(N, C / t) of the N workers at once
 * (t threads each, on C cores), calls by all N of them, in as many groups as the run has, with its schemes, its --link,
 * and its threads on their cores. So it contains what workers on one machine cost each other: they share its memory, a
 * call waits for the last one who comes, and where threads outnumber cores they take turns. A call beside layers is
 * given to a thread, as in a run (core/jobs.h): waking that thread and waiting for it takes longer than a short
 * call. The median of rounds and turns counts: a step is made of such ones, and a few that were disturbed have no
 * effect.
 */
#pragma once

#include "sync/sync.h"
#include "train/memory/memory.h"
#include "train/profile/times.h"
#include "train/strategies/pipeline.h"

/* ---- calls between workers ---- */

typedef struct gs_layout_call {
    const gs_sync_scheme *scheme; /* an all-reduce by this scheme; NULL: a collective of comm.h */
    /* That collective: GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_ALL_GATHER; GS_SEND: a message to the next rank, and one
     * from the rank before. */
    gs_operation operation;
    int ranks;     /* how many make it; the other workers make the same in groups of their own */
    bool whole;    /* on the comm of all workers; else on a part of that (comm/split.h) */
    size_t floats; /* of the array of all ranks, or of the message */
    size_t pieces; /* with --sequence: samples, in each of which a rank's tokens are one run; else 0 */
    bool beside;   /* made by a thread beside the worker, which takes longer */
} gs_layout_call;

/* ---- the parts ---- */

typedef struct gs_layout_parts gs_layout_parts;

/* Where they come from. A test may have made them up. */
typedef struct gs_layout_source {
    /* Of the model that such settings give a worker, `samples` at once. *out belongs to the parts. */
    gs_status (*layers)(gs_layout_parts *, const gs_settings *, size_t samples, const gs_layer_times **out);
    gs_status (*call)(gs_layout_parts *, const gs_layout_call *, double *seconds);
} gs_layout_source;

/* What layers take, as it was measured. */
typedef struct gs_layout_times {
    size_t samples; /* at once */
    int parts;      /* of --tensor; 1: the whole model */
    bool sequence;
    gs_layer_times times;
} gs_layout_times;

/* What a call takes. */
typedef struct gs_layout_known {
    gs_layout_call call;
    double seconds;
} gs_layout_known;

struct gs_layout_parts {
    const gs_layout_source *source;
    const gs_settings *settings; /* of one worker, with data and model */
    const char *devices;         /* of all workers */
    int workers, threads, cores; /* threads: of each worker */
    double samples_per_s;        /* of a worker with the whole model, while the other cores are busy */
    double update;               /* seconds of the update, for each parameter */
    double data, loader; /* seconds of a sample, alone: to bring it to the device; in the loader's thread */
    double bandwidth;    /* bytes/s, of long messages between two workers; 0: there is one worker */
    gs_layout_times **times; /* [times_known]: pointers, since the source gives them away */
    size_t times_known, times_room;
    gs_layout_known *known; /* [calls_known] */
    size_t calls_known, calls_room;
};

/* Fill in the rest of the parts; settings, devices, workers, threads and cores are there already. source then measures
 * layers and calls when they are first asked for. Takes about a second. Fails as gs_train would with one worker. To be
 * freed in any case. */
gs_status gs_layout_parts_measure(gs_layout_parts *, size_t batch);
void gs_layout_parts_free(gs_layout_parts *);

/* ---- layout_predict.c ---- */

/* Fill in *out, all but memory, for settled settings, the plan of a model, and a global batch. If the model is cut by
 * measured times, out->cut says where. */
struct gs_layout_cost;
gs_status gs_layout_predict(gs_layout_parts *, const gs_settings *, const gs_model *, size_t batch,
                            struct gs_layout_cost *out);
