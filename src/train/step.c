/* One training step, as in theory: synchronous data parallelism, the default strategy.
 *
 *     worker 0   load, forward, loss, backward: dw_0 \                             / update
 *     worker 1   load, forward, loss, backward: dw_1 -- dw = dw_0 + dw_1 + dw_2 --- update     the same on all workers
 *     worker 2   load, forward, loss, backward: dw_2 /                             \ update
 */
#include "optim/norm.h"
#include "train/hooks.h"
#include "train/reducer.h"
#include "train/strategy.h"

#include <stdio.h>

static gs_status begin_to_read_score(gs_worker *);

static gs_status synchronous_step(gs_worker *w, gs_score *score) {
    const gs_reducer *sum = w->reducer;
    for (int k = 0; k < gs_ordered_sums_parts(&w->ordered_sums); k++) {
        GS_TRY(gs_gradient(w)); /* dw of this worker's samples; with --exact perhaps in several parts */
        GS_TRY(sum->add(w, k)); /* with several parts: add this one to those before it */
    }
    GS_TRY(sum->finish(w));          /* sums dw, and the counts, over all workers: reducers/all_reduce.c */
    GS_TRY(gs_read_score(w, score)); /* loss, correct predictions and samples */
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples)); /* divides dw by the number of samples on all workers */
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    return gs_gather_new_weights(w); /* with --zero: so far each worker has updated only its part */
}

/* Compute this worker's part of the global batch, in micro-batches that fit in the device's memory. */
gs_status gs_gradient(gs_worker *w) {
    gs_model *m = w->model;
    gs_mem logits;
    gs_pass pass = {.fresh = true}; /* backward overwrites dw; from the second micro-batch on, it adds */
    GS_TRY(gs_model_clear_stats(m));
    do {
        GS_TRY(gs_worker_next(w, &pass));
        if (pass.n == 0 && !pass.sum_over_workers) return gs_model_clear_gradients(m); /* no samples */
        GS_TRY(gs_phase_ends(w, GS_PHASE_DATA));

        GS_TRY(gs_model_forward(m, &pass, w->input.x, &logits));
        GS_TRY(gs_model_loss(m, &pass, logits, w->input.targets));
        if (w->scores_early && w->micro_batch.last) GS_TRY(begin_to_read_score(w));
        GS_TRY(gs_phase_ends(w, GS_PHASE_FORWARD));

        GS_TRY(gs_model_backward(m, &pass, logits, w->input.targets));
        GS_TRY(gs_phase_ends(w, GS_PHASE_BACKWARD));
        pass.fresh = false;
    } while (!w->micro_batch.last);
    return GS_OK;
}

/* Update what this worker holds: everything (gs_updates_all), or a part with ZeRO, stages or tensor groups. */
gs_status gs_update(gs_worker *w, double samples) {
    gs_optimizer *o = w->optimizer;
    const gs_held *own = &w->partition.update;
    bool may_update;
    if (w->device->dry) samples = 1;                               /* no samples were counted */
    if (gs_updates_all(w)) return gs_optimizer_update(o, samples); /* by default */
    GS_TRY(gs_optimizer_clip_held(o, samples, own, &may_update));
    if (!may_update) return GS_OK;
    if (gs_updates_are_divided(w) || o->ops->whole)
        GS_TRY(gs_optimizer_update_held(o, samples, own));
    else /* a tensor group's shards, in one piece */
        GS_TRY(gs_optimizer_update_part(o, samples, 0, w->model->params));
    return gs_partition_end_update(w, samples);
}

/* Perform one step of the chosen strategy, including its timing. */
gs_status gs_step(gs_worker *w, gs_score *score) {
    GS_TRY(gs_step_begins(w));
    w->optimizer->lr = gs_lr_of_step(&w->rates, w->step); /* --lr, unless --warmup or --schedule changes it */
    w->in_step = true;
    GS_TRY(w->strategy->step(w, score)); /* by default synchronous_step, above */
    w->in_step = false;
    w->measured.norms += w->optimizer->norm;
    score->loss_scale = w->optimizer->loss_scale.used;
    score->skipped = w->optimizer->loss_scale.skipped;
    gs_step_ends(w);
    w->step++;
    return GS_OK;
}

/* ---- the score, and the requests sent with it ---- */

float gs_wishes(const gs_worker *w, uint64_t done) {
    float all = 0;
    if (gs_stop_requested) return GS_ASKS_TO_STOP; /* the run ends with a checkpoint anyway */
    for (const gs_hook *const *hook = gs_hooks; *hook; hook++)
        if ((*hook)->wish) all += (*hook)->wish(w, done);
    return all;
}

static gs_status write_wish(gs_worker *w, float wish) {
    const gs_mem place = gs_at(gs_model_stats(w->model), GS_STAT_STOP);
    return wish > 0 ? w->device->ops->write(w->device, place, &wish, sizeof wish) : GS_OK;
}

gs_status gs_tell_wish_to_stop(gs_worker *w) {
    float wish = gs_wishes(w, w->step + 1), all[GS_LAYOUT_PARTS] = {0};
    const int parts = w->groups.layout.tp;
    if (parts > 1) GS_TRY(gs_comm_all_gather(w->groups.comm[GS_TP], &wish, all, 1, GS_F32));
    for (int i = 0; i < parts && parts > 1; i++)
        if (all[i] > wish) wish = all[i];
    return write_wish(w, wish);
}

/* A single worker's counts are final after the loss. If they are requested at that point, they arrive while the device
 * is still computing backward, and the host can prepare the next step. */
static gs_status begin_to_read_score(gs_worker *w) {
    GS_TRY(write_wish(w, gs_wishes(w, w->step + 1)));
    return w->device->ops->read_begin(w->device, w->counts, gs_model_stats(w->model), sizeof w->counts);
}

gs_status gs_read_score(gs_worker *w, gs_score *score) {
    const gs_backend *ops = w->device->ops;
    if (w->scores_early)
        GS_TRY(ops->read_end(w->device));
    else
        GS_TRY(ops->read(w->device, w->counts, gs_model_stats(w->model), sizeof w->counts));
    *score = gs_score_of(w->counts);
    return GS_OK;
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "gradients summed by %s", s->sync);
}

const gs_strategy gs_strategy_synchronous = {
    .name = "synchronous", .option = "--sync SCHEME", .describe = describe, .step = synchronous_step};
