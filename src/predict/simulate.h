/* A training step on a cluster in virtual time (`gradsum simulate`).
 *
 * Only these take time:
 *
 *     compute          each layer's forward and backward, and the update: measured here in a few steps of one worker on
 *                      one core, or FLOPs / --flops (the update then takes no time)
 *     messages         those of `train`: a dry run of a step (predict/dry_run.h), once for each stage and shard,
 *                      records what is summed and sent, and when. The code of each scheme and collective determines
 *                      each rank's messages (predict/message_lists.h), which are executed over the links of --link and
 *                      --inside (comm/virtual/play.h)
 *     additions        gamma per byte: measured here, or given
 *     pauses           --jitter: the same workers pause in the same steps as in `train`
 *
 * The step is the one that `train` performs with the same --bucket and --layout. All replicas of a shard act like its
 * first one, and none has more samples than another. batch_norm's statistics are local. The batch grows with the
 * workers: each computes the same number of samples.
 *
 * Each worker has its own core. Not counted: the time a core spends on messages; loading; memory; the switches between
 * hosts, which carry any number of messages between different pairs.
 *
 * Steps are executed until two consecutive ones take equally long: a parameter server answers its workers sequentially,
 * so they begin the next step at different times. With --jitter, GS_SIMULATED_STEPS are executed.
 */
#pragma once

#include "comm/virtual/play.h"
#include "predict/times.h"

enum { GS_SIMULATED_STEPS = 50, GS_SIMULATED_WORKERS = 65536 };

typedef struct gs_simulation {
    /* Used: model, data, sync, bucket, wire, layout, link, jitter and seed; steps (0: the number above); and the global
     * batch (0: GS_SIMULATED_BATCH per worker). */
    gs_settings settings;
    int workers, hosts;
    gs_link inside; /* between workers on one host; settings.link connects hosts */
    double flops;   /* a worker's FLOP/s; 0: measure */
    gs_shape input; /* with flops: the shape of a sample; c 0: the model's default */
    double gamma;   /* seconds to add a byte; below 0: measure it, or take 0 if flops is given */
    /* Callback on the fraction, 0 to 1, of step `step` (from 1) that has been simulated; may be NULL. */
    void (*progress)(void *context, int workers, int step, double share);
    void *context; /* of progress */
} gs_simulation;

enum { GS_SIMULATED_BATCH = 32 };

/* Check the numbers, and fill in the unset ones. There are 1 to GS_SIMULATED_WORKERS workers. GS_E_USAGE. */
gs_status gs_simulation_settle(gs_simulation *);

/* ---- a worker's computation ---- */

typedef struct gs_simulated_work {
    gs_model *plan;
    gs_layer_times times; /* forward, backward and update, for a worker's share of the batch */
    double gamma;
    double samples; /* per worker; need not be an integer */
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

/* A span in the timeline of the last step, in seconds since its first worker began. */
typedef struct gs_simulated_span {
    int rank;
    gs_simulated_kind kind;
    double from, to;
} gs_simulated_span;

enum { GS_SIM_SHOWN = 8 /* workers in the timeline */ };

typedef struct gs_simulated {
    int workers, hosts, steps;
    double step;    /* seconds: the median of worker 0's steps; without --jitter, of all but the first */
    double mean;    /* of the same steps */
    double compute; /* of the worker that computes longest, without pauses */
    double communication; /* seconds in sums and messages, including waits: the maximum over all workers */
    double exposed;       /* step - compute, at least 0 */
    double speed_up, efficiency; /* N x compute of a whole model / step; speed_up / N */
    double sent_most;            /* maximum number of bytes that a worker sends */
    double between, inside;      /* bytes from all workers, to other hosts and within their own */
    double formula; /* seconds of the sums by the scheme's formula; NAN: no formula, or a layout */
    int buckets;
    int busiest;     /* the host with the busiest line */
    bool busiest_in; /* whether this line leads into the host */
    /* The fraction of time for which this line is busy, measured from the start of the first sum to the end of the last
     * one or over a step, whichever is shorter, because the sums of two steps may overlap. */
    double busy;
    char bottleneck[200]; /* a sentence */
    gs_simulated_span *span;
    int spans;
} gs_simulated;

/* The fraction of communication for which a worker does not wait. */
static inline double gs_simulated_hidden(const gs_simulated *s) {
    if (!(s->communication > 0)) return 1;
    return s->exposed < s->communication ? 1 - s->exposed / s->communication : 0;
}

/* *out must be freed even after an error. */
gs_status gs_simulate(const gs_simulation *, const gs_simulated_work *, gs_simulated *out);
void gs_simulated_free(gs_simulated *);
