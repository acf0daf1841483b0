/* What step.c shares with the other ways to make a step. Only for src/train/.
 *
 *     exact.c       the same bits for any number of workers
 *     local_sgd.c   each worker goes its own way, and the weights are averaged now and then
 *     async.c       nobody waits for everybody
 *     verify.c      are the weights of all workers still the same?
 */
#ifndef GS_TRAIN_MODES_H
#define GS_TRAIN_MODES_H

#include "data/shard.h"
#include "train/train.h"

/* ---- step.c ---- */

/* Adds to the gradients that of samples part.first .. of the global batch, which begins at batch_first of the
 * order: in the pieces that the loader brings (data/schedule.h). */
gs_status gs_part_gradient(gs_worker *, size_t batch_first, gs_shard part);

/* The same, in place of what the gradients and their counts were: the beginning of a step. */
gs_status gs_fresh_gradient(gs_worker *, size_t batch_first, gs_shard part);

/* The phase that just ended took the time since the last one ended. */
gs_status gs_phase_ends(gs_worker *, gs_phase);

/* In how many passes a worker goes through its part of a batch, by --accumulate. */
static inline int gs_passes(const gs_settings *s) {
    return s->accumulate > 1 ? s->accumulate : 1;
}

static inline gs_score gs_score_of(const float stats[GS_STATS]) {
    return (gs_score){stats[GS_STAT_LOSS], stats[GS_STAT_CORRECT], stats[GS_STAT_SAMPLES],
                      stats[GS_STAT_STOP] > 0};
}

/* ---- worker.c ---- */

/* The pieces that the worker computes. With --exact: its virtual shards, one after the other; else its part of each
 * batch. */
gs_schedule gs_worker_schedule(const gs_worker *);

/* ---- settings.c ---- */

bool gs_is_local(const gs_settings *);   /* --sync local */
bool gs_is_async(const gs_settings *);   /* --sync async */
bool gs_is_sharded(const gs_settings *); /* --sync sharded-update */

/* The scheme that sums whatever is to be summed. GS_E_USAGE: the message lists what --sync takes. */
gs_status gs_find_scheme(const gs_settings *, const gs_sync_scheme **out);

/* GS_E_USAGE: settings that do not go together. What can be known before the workers have met... */
gs_status gs_check_settings(const gs_settings *);

/* ... and what depends on how many there are. */
gs_status gs_check_workers(const gs_settings *, int workers);

/* The learning rates of a run over `samples` samples in batches of `batch`. */
gs_lr_plan gs_rates_of(const gs_settings *, size_t batch, size_t samples);

/* ---- worker_report.c ---- */

/* How many samples of a global batch this worker computes. */
size_t gs_own_samples(const gs_worker *, size_t batch);

/* What a worker has done at some moment: all zero before the first step. */
typedef struct gs_work_done {
    double samples, phase[GS_PHASES];
} gs_work_done;
gs_work_done gs_work_done_by(const gs_worker *);

/* What each worker has done since then, in `seconds` of training: one report for each, to be freed with free(). All
 * workers call it. */
gs_status gs_report_workers(gs_worker *, const gs_work_done *since, double seconds, gs_worker_report **out);

/* The devices of all workers, in the same way. */
gs_status gs_report_devices(gs_worker *, gs_device_report **out);

/* ---- record.c: what settings->record tells the observer; nothing without it. All workers call all of them. ---- */

/* After the barrier before the first step. */
gs_status gs_record_start(gs_worker *, const gs_observer *);

/* After an epoch that took `seconds` and began with what `since` says. last: the run ends here. */
gs_status gs_record_epoch(gs_worker *, const gs_observer *, int epoch, const gs_work_done *since,
                          double seconds, bool last);

/* ---- verify.c ---- */

/* After a step, every --verify steps: GS_E_DIFFER naming step, worker and layer if not all workers have the
 * same weights. */
gs_status gs_verify(gs_worker *);

/* ---- exact.c ---- */

enum { GS_EXACT_SHARDS = 8 /* virtual shards of the global batch */ };

/* Buffers for the partial sums; gs_exact_free(NULL) is allowed. */
gs_status gs_exact_create(gs_worker *, gs_exact **out);
void gs_exact_free(gs_exact *);

/* gradients = the sum over this worker's virtual shards, by its part of the tree */
gs_status gs_exact_gradient(gs_worker *, size_t batch_first, size_t batch);

/* gradients = the sum over all workers, by the rest of the tree */
gs_status gs_exact_sum(gs_worker *);

/* ---- sharded_update.c ---- */

/* In the place of the sum of the gradients and of the update; *score as of the sum. */
gs_status gs_sharded_sum_and_update(gs_worker *, gs_score *);

/* ---- local_sgd.c ---- */

gs_status gs_local_create(gs_local **out);
void gs_local_free(gs_local *); /* NULL is allowed */

/* *score is of this worker's part alone; `stop` is the same on all workers. */
gs_status gs_local_step(gs_worker *, size_t batch_first, size_t batch, gs_score *);

/* Average the weights; *total is of the epoch, over all workers. */
gs_status gs_local_end_epoch(gs_worker *, gs_score *total);

/* ---- async.c ---- */

gs_status gs_async_create(gs_worker *, gs_async **out);
void gs_async_free(gs_async *); /* NULL is allowed; after a failure when the comm has failed too */

gs_status gs_async_begin_epoch(gs_worker *, size_t steps);
/* *score is of this worker's part alone; stop: this worker must make no more steps. */
gs_status gs_async_step(gs_worker *, size_t batch_first, size_t batch, gs_score *);
/* All have the same weights. *total is of the epoch, over all workers. */
gs_status gs_async_end_epoch(gs_worker *, gs_score *total);

/* On rank 0; nothing elsewhere. */
gs_status gs_async_staleness(gs_worker *, gs_staleness *out);

#endif
