/* --sync sharded-update: the same algorithm, but each worker makes only its part of the update.
 *
 * After an all-reduce all N workers make the same update of all weights, N times the same work. But an all-reduce is a
 * reduce-scatter and an all-gather, and the update fits in between:
 *
 *                 gradients       reduce-scatter     update          all-gather
 *     worker 0    | a0 | b0 |     | a |   |          | A |   |       | A | B |      a = a0 + a1
 *     worker 1    | a1 | b1 |     |   | b |          |   | B |       | A | B |      A = weights after the update by a
 *
 * The same bytes travel, half of them as weights. Each worker reads and writes 1/N of weights and velocity, instead of
 * all. (So only this part of its velocity is ever used. In what is called sharded optimiser state, a worker holds no
 * more of it than that.) Every weight is computed from the same numbers as after `allreduce`, so between threads of one
 * process it has the same bits.
 *
 * The weights left over after division by N, fewer than N, are summed on all workers and updated by all. The layers'
 * state, loss, correct answers and samples are summed with them.
 *
 * Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter models"
 * (SC 2020): its first stage.
 */
#include "optim/norm.h"
#include "train/ways/way.h"

/* Of the parameters, which lie in one array: this worker's part, and what is everybody's. */
typedef struct parts {
    size_t own_first, own, common_first, common;
} parts;

static parts parts_of(const gs_worker *w) {
    size_t params = w->model->params, workers = (size_t)w->comm->size, own = params / workers;
    return (parts){own * (size_t)w->comm->rank, own, own * workers, params - own * workers};
}

static gs_status sum_gradients(gs_worker *w, const parts *p) {
    const gs_backend *ops = w->device->ops;
    gs_mem gradients = w->model->gradients;
    gs_comm *c = w->comm;
    void *host;
    GS_TRY(ops->map(w->device, gradients, (w->model->saved + GS_STATS) * sizeof(float), &host));
    float *dw = host;
    gs_status status = gs_comm_reduce_scatter(c, dw, dw + p->own_first, p->common_first, GS_F32, GS_SUM);
    if (status == GS_OK)
        status =
            gs_comm_all_reduce(c, dw + p->common_first, p->common + gs_model_tail(w->model), GS_F32, GS_SUM);
    gs_status unmapped = ops->unmap(w->device, gradients, host);
    return status == GS_OK ? unmapped : status;
}

/* The norm of all gradients, of which each worker has its own part and what is common to all. The units that suit the
 * largest of them all make the parts' sums whole numbers that can be added. */
static gs_status clip(gs_worker *w, const parts *p, double samples) {
    const gs_backend *ops = w->device->ops;
    const gs_mem mine = gs_at(w->model->gradients, p->own_first),
                 rest = gs_at(w->model->gradients, p->common_first);
    gs_squares own, common;
    if (!(w->optimizer->clip > 0)) return GS_OK;
    GS_TRY(ops->squares(w->device, mine, p->own, 0, &own));
    GS_TRY(ops->squares(w->device, rest, p->common, own.top, &common));
    int64_t largest = own.largest > common.largest ? own.largest : common.largest;
    GS_TRY(gs_comm_all_reduce(w->comm, &largest, 1, GS_I64, GS_MAX));
    const uint32_t top = (uint32_t)(largest >> 23);
    GS_TRY(ops->squares(w->device, mine, p->own, top, &own));
    GS_TRY(ops->squares(w->device, rest, p->common, top, &common));
    int64_t sums[2] = {(int64_t)own.high, (int64_t)own.low};
    GS_TRY(gs_comm_all_reduce(w->comm, sums, 2, GS_I64, GS_SUM));
    const gs_squares all = {(uint32_t)largest, common.top, (uint64_t)sums[0] + common.high,
                            (uint64_t)sums[1] + common.low};
    gs_optimizer_clip(w->optimizer, gs_norm_of(&all), samples);
    return GS_OK;
}

static gs_status gather_weights(gs_worker *w, const parts *p) {
    const gs_backend *ops = w->device->ops;
    gs_comm *c = w->comm;
    void *host;
    GS_TRY(ops->map(w->device, w->model->weights, p->common_first * sizeof(float), &host));
    float *weights = host;
    gs_status status = gs_comm_all_gather(c, weights + p->own_first, weights, p->own, GS_F32);
    gs_status unmapped = ops->unmap(w->device, w->model->weights, host);
    return status == GS_OK ? unmapped : status;
}

static gs_status step(gs_worker *w, gs_score *score) {
    const parts p = parts_of(w);
    GS_TRY(gs_gradient(w));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(sum_gradients(w, &p));
    GS_TRY(gs_read_score(w, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(clip(w, &p, score->samples));
    GS_TRY(gs_optimizer_update_part(w->optimizer, score->samples, p.own_first, p.own));
    GS_TRY(gs_optimizer_update_part(w->optimizer, score->samples, p.common_first, p.common));
    GS_TRY(gs_optimizer_end_update(w->optimizer, score->samples));
    GS_TRY(gs_phase_ends(w, GS_PHASE_UPDATE));

    if (p.own > 0) GS_TRY(gather_weights(w, &p));
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

static gs_status check(const gs_settings *s, bool chosen) {
    if (!chosen || !s->optimizer->whole) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "--sync sharded-update gives each worker a part of the weights that begins and ends within a "
        "layer, and %s needs the norms of whole tensors; wanted another --sync or another --optimizer",
        s->optimizer->name);
}

const gs_way gs_way_sharded_update = {
    .name = "sharded-update",
    .option = "--sync sharded-update",
    .no_bucket = "splits the gradients among the workers, not by layers",
    .no_wire = "sends weights too, which must not be rounded",
    .check = check,
    .summary = "each updates its part of the weights",
    .no_gradient = true, /* but its part */
    .step = step,
};
