/* The parts of which the time of a layout's step is made (layout_plan.h), each measured here: what layers take, and
 * what one call between workers takes.
 *
 *     layout_calls.c     which calls a step makes, with their sizes
 *     layout_measure.c   how long each takes, and how long layers take
 *     layout_predict.c   what that comes to
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
#include "train/pipeline/times.h"
#include "train/strategies/pipeline.h"

/* ---- calls between workers ---- */

/* When a step makes it. */
typedef enum gs_call_when {
    GS_CALL_FORWARD,  /* in each pass, within forward */
    GS_CALL_BACKWARD, /* in each pass, within backward */
    GS_CALL_BESIDE,   /* while layers compute, by a thread beside the worker */
    GS_CALL_AFTER,    /* after backward */
    GS_CALL_WHENS
} gs_call_when;

typedef struct gs_layout_call {
    const gs_sync_scheme *scheme; /* an all-reduce by this scheme; NULL: a collective of comm.h */
    /* That collective: GS_ALL_REDUCE, GS_REDUCE_SCATTER, GS_ALL_GATHER; GS_SEND: a message to the next rank, and one
     * from the rank before. */
    gs_operation operation;
    int ranks;     /* how many make it; the other workers make the same in groups of their own */
    bool whole;    /* on the comm of all workers; else on a part of that (comm/split.h) */
    size_t floats; /* of the array of all ranks, or of the message */
    size_t pieces; /* with --sequence: samples, in each of which a rank's tokens are one run; else 0 */
    gs_call_when when;
    double times; /* how often: in a pass, if within forward or backward; else in a step */
} gs_layout_call;

typedef struct gs_layout_calls {
    gs_layout_call *call;
    size_t count, room;
} gs_layout_calls;

void gs_layout_calls_free(gs_layout_calls *);

/* What the calls depend on. */
typedef struct gs_layout_step {
    const gs_settings *settings; /* settled */
    const char *devices;         /* of all workers */
    gs_layout layout;
    const gs_model *part; /* the plan of what a worker of a tensor group has; without one, of the model */
    size_t samples;       /* in a pass */
    int passes;           /* that a worker makes in a step */
    bool halves;          /* stages send 16 bits, where layers have them (layer/memory/halves.h) */
} gs_layout_step;

/* Bytes between a run of a pipeline and the next one, of so many samples. */
size_t gs_layout_between(const gs_layout_step *, const gs_pipeline_worker *stage, int run, size_t samples);

/* Add those of a layer and of the layers in it, in a pass. GS_E_MEMORY. */
gs_status gs_layout_calls_of_layer(const gs_layout_step *, gs_layer *, gs_layout_calls *);

/* Add those of a run of layers: messages to and from its neighbours, in a pass. GS_E_MEMORY. */
gs_status gs_layout_calls_of_run(const gs_layout_step *, const gs_pipeline_worker *stage, int run,
                                 gs_layout_calls *);

/* Add those of a step besides. stage: of a pipeline; else NULL. GS_E_MEMORY. */
gs_status gs_layout_calls_of_step(const gs_layout_step *, const gs_pipeline_worker *stage, gs_layout_calls *);

/* Do workers meet in each layer, so that all wait for the slowest there? */
bool gs_layout_meets_in_layers(const gs_layout_step *);

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

/* What a call takes, however often it is made. `when` matters only in that a call by a thread beside the worker takes
 * longer. */
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
    double data, loader;         /* seconds of a sample: to bring it to the device; in the loader's thread */
    double bandwidth;            /* bytes/s, of long messages between two workers; 0: there is one worker */
    gs_layout_times **times;     /* [times_known]: pointers, since the source gives them away */
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
