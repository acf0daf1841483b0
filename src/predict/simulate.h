/* A cluster in virtual time: what a training step takes on workers that are not there (`gradsum simulate`).
 *
 * What takes time is this, and nothing else:
 *
 *     compute          each layer's forward and backward, and the update: measured here with a few steps of one worker
 *                      on one core, or FLOPs / --flops (the update then takes no time)
 *     messages         training's own: a step is run dry (predict/dry_run.h), once for each stage and part, which
 *                      says what is summed and sent, and when. The code of each scheme and collective is run for each
 *                      rank, with a comm that writes down its messages (comm/virtual/list.h); where all ranks do the
 *                      same, for at least 64 of them (message_lists.c). The lists are executed in virtual time over the
 *                      links of --link and --inside (comm/virtual/play.h)
 *     additions        gamma a byte: measured here, or given
 *     pauses           --jitter, of the same workers in the same steps as in `train`
 *
 * A step is a run's own, with --bucket and --layout. The replicas of a part do what the first one does, which has as
 * many samples as any. Statistics of batch_norm are local.
 *
 * Batches grow with the workers: each computes the same number of samples, however many workers there are.
 *
 * Each worker has a core of its own. Not counted: what a core needs for a message, loading, memory, and the switches
 * between hosts, which carry any number of messages between different pairs.
 *
 * Steps are executed until two in turn take equally long: after a parameter server has answered its workers one after
 * the other, they begin the next step one after the other. With --jitter, GS_SIMULATED_STEPS are executed.
 */
#pragma once

#include "comm/virtual/play.h"
#include "parallel/layout.h"
#include "predict/times.h"
#include "train/train.h"

enum { GS_SIMULATED_STEPS = 50, GS_SIMULATED_WORKERS = 65536 };

typedef struct gs_simulation {
    /* Model, data, sync, bucket, wire, layout, link, jitter and seed; steps: how many, 0: as above; batch: the global
     * one, 0: GS_SIMULATED_BATCH for each worker. */
    gs_settings settings;
    int workers, hosts;
    gs_link inside; /* between workers of one host; settings.link is between hosts */
    double flops;   /* a worker's FLOP/s; 0: measure */
    gs_shape input; /* with flops: of a sample; c 0: what the model usually takes */
    double gamma;   /* seconds to add a byte; below 0: measure it, or with flops take none */
    /* Called now and then: so much of this step, which counts from 1, has been simulated, 0 to 1. NULL: nobody asks */
    void (*progress)(void *context, int workers, int step, double share);
    void *context; /* of progress */
} gs_simulation;

enum { GS_SIMULATED_BATCH = 32 };

/* GS_E_USAGE: numbers that make no sense, or what is not simulated. Fills in what is left open. */
gs_status gs_simulation_settle(gs_simulation *);

/* ---- what a worker computes ---- */

typedef struct gs_simulated_work {
    gs_model *plan;
    gs_layer_times times; /* forward, backward and update, of a worker's part of the batch */
    double gamma;
    double samples; /* of a worker: a number that need not be whole */
    bool measured;
} gs_simulated_work;

/* *out is to be freed in any case. As gs_train fails with one worker. */
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
    double step;    /* seconds: the median of the steps of worker 0; without --jitter but for the first */
    double mean;    /* the mean of them */
    double compute; /* of the worker with most, without pauses */
    double communication;        /* seconds in sums and messages, waits included, of the worker with most */
    double exposed;              /* step - compute, at least 0 */
    double speed_up, efficiency; /* N compute of a whole model / step; that / N */
    double sent_most;            /* bytes of the worker that sends most */
    double between, inside;      /* bytes of all workers, to other hosts and inside their own */
    double formula; /* seconds of the sums by the scheme's own formula; NAN: it has none, or layout */
    int buckets;
    int busiest;     /* the host with the busiest line, */
    bool busiest_in; /* which leads into it, or out of it */
    /* How long that line is busy, as a share of the time from the first sum's begin to the last one's end; or of a
     * step, if that is shorter, since the sums of two steps may overlap. */
    double busy;
    char bottleneck[200]; /* a sentence */
    gs_simulated_span *span;
    int spans;
} gs_simulated;

/* hidden: the share of communication that a worker does not wait for. */
static inline double gs_simulated_hidden(const gs_simulated *s) {
    if (!(s->communication > 0)) return 1;
    return s->exposed < s->communication ? 1 - s->exposed / s->communication : 0;
}

/* *out is to be freed in any case. */
gs_status gs_simulate(const gs_simulation *, const gs_simulated_work *, gs_simulated *out);
void gs_simulated_free(gs_simulated *);
