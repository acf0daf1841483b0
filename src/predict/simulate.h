/* A training step on a cluster in virtual time (`gradsum simulate`).
 *
 * Only this takes time:
 *
 *     compute          each layer's forward and backward, and the update: measured here with a few steps of one worker
 *                      on one core, or FLOPs / --flops (the update then takes no time)
 *     messages         those of `train`: a dry run of a step (predict/dry_run.h), once for each stage and part, records
 *                      what is summed and sent, and when. The code of each scheme and collective gives the messages of
 *                      each rank (predict/message_lists.h), which are executed over the links of --link and --inside
 *                      (comm/virtual/play.h)
 *     additions        gamma per byte: measured here, or given
 *     pauses           --jitter: the same workers pause in the same steps as in `train`
 *
 * The step is that of `train`, with --bucket and --layout. All replicas of a part do what the first one does; no
 * replica has more samples. Statistics of batch_norm are local. The batch grows with the workers: each computes the
 * same number of samples.
 *
 * Each worker has its own core. Not counted: a core's time for a message, loading, memory, and the switches between
 * hosts, which carry any number of messages between different pairs.
 *
 * Steps are executed until two consecutive steps take equally long: a parameter server answers its workers
 * sequentially, so they begin the next step at different moments. With --jitter, GS_SIMULATED_STEPS are executed.
 */
#pragma once

#include "comm/virtual/play.h"
#include "parallel/layout.h"
#include "predict/times.h"
#include "train/train.h"

enum { GS_SIMULATED_STEPS = 50, GS_SIMULATED_WORKERS = 65536 };

typedef struct gs_simulation {
    /* Model, data, sync, bucket, wire, layout, link, jitter and seed; steps, 0: as above; batch: the global batch, 0:
     * GS_SIMULATED_BATCH for each worker. */
    gs_settings settings;
    int workers, hosts;
    gs_link inside; /* between workers of a host; settings.link is between hosts */
    double flops;   /* a worker's FLOP/s; 0: measure */
    gs_shape input; /* with flops: the shape of a sample; c 0: the model's usual one */
    double gamma;   /* seconds to add a byte; below 0: measure it, or with flops take 0 */
    /* Which share of this step, counted from 1, has been simulated, 0 to 1; may be NULL */
    void (*progress)(void *context, int workers, int step, double share);
    void *context; /* of progress */
} gs_simulation;

enum { GS_SIMULATED_BATCH = 32 };

/* Check the numbers, and fill in those that are open. There are 1 to GS_SIMULATED_WORKERS workers. GS_E_USAGE. */
gs_status gs_simulation_settle(gs_simulation *);

/* ---- what a worker computes ---- */

typedef struct gs_simulated_work {
    gs_model *plan;
    gs_layer_times times; /* forward, backward and update, of a worker's part of the batch */
    double gamma;
    double samples; /* of a worker; need not be whole */
    bool measured;
} gs_simulated_work;

/* *out must be freed even after an error. Fails as gs_train does with one worker. */
gs_status gs_simulated_work_create(const gs_simulation *, gs_simulated_work *out);
void gs_simulated_work_free(gs_simulated_work *);

/* ---- a step ---- */

typedef enum gs_simulated_kind {
    GS_SIM_PAUSE,
    GS_SIM_FORWARD,
    GS_SIM_BACKWARD,
    GS_SIM_SUM,
    GS_SIM_MESSAGE,
    GS_SIM_UPDATE,
    GS_SIM_KINDS
} gs_simulated_kind;

extern const char *const gs_simulated_kinds[GS_SIM_KINDS];

/* A span of the timeline of the last step, in seconds since its first worker began. */
typedef struct gs_simulated_span {
    int rank;
    gs_simulated_kind kind;
    double from, to;
} gs_simulated_span;

enum { GS_SIM_SHOWN = 8 /* workers in the timeline */ };

typedef struct gs_simulated {
    int workers, hosts, steps;
    double step;          /* seconds: the median of worker 0's steps; without --jitter except the first */
    double mean;          /* of the same steps */
    double compute;       /* of the worker with most, without pauses */
    double communication; /* seconds in sums and messages, with waits, of the worker with most */
    double exposed;       /* step - compute, at least 0 */
    double speed_up, efficiency; /* N compute of a whole model / step; that / N */
    double sent_most;            /* bytes of the worker that sends most */
    double between, inside;      /* bytes of all workers, to other hosts and inside their own */
    double formula;              /* seconds of the sums by the scheme's formula; NAN: none, or a layout */
    int buckets;
    int busiest;     /* the host with the busiest line, */
    bool busiest_in; /* and whether that leads into the host */
    /* The share of time that this line is busy, between the first sum's begin and the last sum's end; or in a step, if
     * that is shorter, since the sums of two steps may overlap. */
    double busy;
    char bottleneck[200]; /* a sentence */
    gs_simulated_span *span;
    int spans;
} gs_simulated;

/* The share of communication that a worker does not wait for. */
static inline double gs_simulated_hidden(const gs_simulated *s) {
    if (!(s->communication > 0)) return 1;
    return s->exposed < s->communication ? 1 - s->exposed / s->communication : 0;
}

/* *out must be freed even after an error. */
gs_status gs_simulate(const gs_simulation *, const gs_simulated_work *, gs_simulated *out);
void gs_simulated_free(gs_simulated *);
