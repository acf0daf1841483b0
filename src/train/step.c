#include "train/modes.h"

#include "core/clock.h"
#include "train/overlap.h"
#include "train/timeline.h"

volatile sig_atomic_t gs_stop_requested;

/* Every so many steps one is measured: a measured step waits after each phase, which costs a little. */
enum { MEASURE_EVERY = 8 };

static bool is_measured(const gs_worker *w) {
    bool sample = w->local || w->step % MEASURE_EVERY == 1; /* local SGD synchronises in few steps */
    return w->settings->measure && sample;
}

gs_status gs_phase_ends(gs_worker *w, gs_phase phase) {
    bool measured = is_measured(w);
    if (!measured && !gs_timeline_records(w)) return GS_OK;
    GS_TRY(w->device->ops->finish(w->device));
    double now = gs_seconds();
    if (measured) w->phase[phase] += now - w->phase_start;
    gs_timeline_phase(w, phase, w->phase_start, now);
    w->phase_start = now;
    return GS_OK;
}

static gs_status tell_wish_to_stop(gs_worker *w) {
    float one = 1;
    if (!gs_stop_requested) return GS_OK;
    return w->device->ops->write(w->device, gs_at(gs_model_stats(w->model), GS_STAT_STOP), &one, sizeof one);
}

/* Nothing is summed over workers, and each step updates. */
static bool is_alone(const gs_worker *w) {
    return w->comm->size == 1 && !w->exact && !w->local && !w->async && !w->sharded;
}

/* One worker alone has its counts when the loss is done, before backward. Asked for here they are there while the device has
 * work left, in which the host makes the next step ready. Asked for just before the update they came too late: where the device
 * computes on the host's own cores (PoCL), the host got none until the update was over. */
static gs_status begin_to_read_counts(gs_worker *w) {
    GS_TRY(tell_wish_to_stop(w));
    return w->device->ops->read_begin(w->device, w->counts, gs_model_stats(w->model), sizeof w->counts);
}

/* Forward and backward over the next n samples, as many as the loader brings, from place `first` of the global batch on:
 * adds to the gradients, or, if they are `fresh`, writes them. `left` samples are still to come; in the last pass of a step the gradients are final, layer by
 * layer, and can be summed. */
static gs_status local_gradient(gs_worker *w, size_t batch_first, size_t first, size_t left, bool fresh,
                                size_t *n) {
    gs_pass pass = {
        .training = true, .fresh = fresh, .seed = w->settings->seed, .step = w->step, .first = first};
    gs_mem logits;

    GS_TRY(gs_worker_next(w, batch_first + first, &pass.n));
    *n = pass.n;
    if (pass.n == left && w->overlap) {
        pass.final = gs_overlap_release;
        pass.final_context = w->overlap;
    }
    GS_TRY(gs_phase_ends(w, GS_PHASE_DATA));

    GS_TRY(gs_model_forward(w->model, &pass, w->x, &logits));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->labels));
    if (pass.n == left && is_alone(w)) GS_TRY(begin_to_read_counts(w));
    GS_TRY(gs_phase_ends(w, GS_PHASE_FORWARD));

    GS_TRY(gs_model_backward(w->model, &pass, logits, w->labels));
    return gs_phase_ends(w, GS_PHASE_BACKWARD);
}

static gs_status part_gradient(gs_worker *w, size_t batch_first, gs_shard part, bool fresh) {
    for (size_t done = 0, n = 0; done < part.count; done += n, fresh = false)
        GS_TRY(local_gradient(w, batch_first, part.first + done, part.count - done, fresh, &n));
    return GS_OK;
}

gs_status gs_part_gradient(gs_worker *w, size_t batch_first, gs_shard part) {
    return part_gradient(w, batch_first, part, false);
}

gs_status gs_fresh_gradient(gs_worker *w, size_t batch_first, gs_shard part) {
    /* without samples there is no backward that would write them */
    GS_TRY((part.count > 0 ? gs_model_clear_stats : gs_model_clear_gradients)(w->model));
    if (w->overlap) GS_TRY(tell_wish_to_stop(w)); /* what backward releases first has the counts in it */
    return part_gradient(w, batch_first, part, true);
}

/* The sum over all workers of the gradients, and with them of loss, correct answers, samples and wishes to
 * stop. */
static gs_status sum_gradients(gs_worker *w, gs_score *score) {
    gs_mem stats = gs_model_stats(w->model);
    if (!w->overlap) GS_TRY(tell_wish_to_stop(w));
    if (w->exact)
        GS_TRY(gs_exact_sum(w));
    else if (w->overlap)
        GS_TRY(gs_overlap_finish(w->overlap));
    else
        GS_TRY(gs_sync_sum(w->sync, w->device, w->model->gradients, w->model->params + GS_STATS));
    if (!w->overlap) w->sent += (double)w->sync->counted.bytes;
    float sum[GS_STATS];
    GS_TRY(w->device->ops->read(w->device, sum, stats, sizeof sum));
    *score = gs_score_of(sum);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* One worker alone has summed everything when backward is done, and knows of how many samples without asking the device. */
static gs_status update_alone(gs_worker *w, size_t batch, gs_score *score) {
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));
    GS_TRY(gs_sgd_update(w->sgd, (double)batch));
    GS_TRY(w->device->ops->read_end(w->device));
    *score = gs_score_of(w->counts);
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

/* --slow: as if this worker's machine were slower. Ctrl-C ends the sleep. */
static void sleep_if_slow(const gs_worker *w) {
    gs_slow slow = w->settings->slow;
    if (!(slow.ms > 0) || slow.rank != w->comm->rank) return;
    time_t seconds = (time_t)(slow.ms / 1000);
    long rest = (long)((slow.ms - 1000 * (double)seconds) * 1e6);
    nanosleep(&(struct timespec){.tv_sec = seconds, .tv_nsec = rest}, NULL);
}

static gs_status synchronous_step(gs_worker *w, size_t batch_first, size_t batch, gs_score *score) {
    gs_shard mine = gs_shard_of(batch, w->comm->rank, w->comm->size);

    /* dW_r: this worker's gradient, in micro-batches that fit its memory */
    if (w->exact)
        GS_TRY(gs_exact_gradient(w, batch_first, batch));
    else
        GS_TRY(gs_fresh_gradient(w, batch_first, mine));

    if (w->sharded) {
        GS_TRY(tell_wish_to_stop(w));
        return gs_sharded_sum_and_update(w, score);
    }

    if (is_alone(w)) return update_alone(w, batch, score);

    /* dW = dW_1 + ... + dW_N, on every worker; with --bucket most of it has been done during backward */
    GS_TRY(sum_gradients(w, score));

    /* the same update on every worker; the division by the global number of samples is inside */
    GS_TRY(gs_sgd_update(w->sgd, score->samples));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

gs_status gs_step(gs_worker *w, size_t batch_first, size_t batch, gs_score *score) {
    GS_TRY(gs_timeline_step_begins(w));
    w->phase_start = gs_seconds();
    sleep_if_slow(w); /* counts as a part of loading */
    w->sgd->lr = gs_lr_at(&w->rates, w->step);
    if (w->local)
        GS_TRY(gs_local_step(w, batch_first, batch, score));
    else if (w->async)
        GS_TRY(gs_async_step(w, batch_first, batch, score));
    else
        GS_TRY(synchronous_step(w, batch_first, batch, score));
    gs_timeline_step_ends(w);
    if (is_measured(w)) w->measured++;
    w->step++;
    return GS_OK;
}

/* Forward and backward over as many samples as this worker gets of a batch; the gradients are thrown away. The ragged last
 * batch is not gone through: on OpenCL's CPU devices it needs no other kernels, and elsewhere programs are built whole. */
gs_status gs_warm_up(gs_worker *w) {
    size_t share = gs_shard_of(w->batch, w->comm->rank, w->comm->size).count;
    share = gs_shard_of(share, 0, gs_passes(w->settings)).count;
    gs_pass pass = {.n = share < w->micro_batch ? share : w->micro_batch, .training = true};
    gs_mem logits;
    GS_TRY(gs_model_forward(w->model, &pass, w->x, &logits));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->labels));
    GS_TRY(gs_model_backward(w->model, &pass, logits, w->labels));
    GS_TRY(gs_model_clear_gradients(w->model));
    /* an update by 0 from gradients of 0 and a velocity of 0 leaves the weights as they are */
    const gs_backend *ops = w->device->ops;
    GS_TRY(ops->sgd_update(w->device, w->model->weights, w->sgd->velocity, w->model->gradients,
                           w->model->params, 0, 0, w->sgd->momentum, 0));
    return ops->finish(w->device);
}
