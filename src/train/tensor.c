/* --tensor T: T workers share the work of each pair of linear layers (parallel/tensor.h), and see the same samples.
 *
 *     group 0    worker 0: shard 0, worker 1: shard 1        samples in part 0 of the batch
 *     group 1    worker 2: shard 0, worker 3: shard 1        samples in part 1
 *
 * Worker r holds shard r % T in group r / T (parallel/layout.h). The T workers of a group, GS_TP, sum y in forward and
 * dx in backward. The workers that hold the same shard, GS_DP, sum gradients, counts, and everything else that data
 * parallelism sums. A group does not sum the gradients of tensors that all its ranks hold, because these are equal.
 * Only the norm of the gradients needs sums over both: divided tensors count once for each shard, all others once.
 *
 * A worker holds its shards of weights, gradients and optimiser vectors. A file holds whole tensors: the group
 * assembles them for writing, and divides them after reading (partition.c). With --pipeline and --zero a step works on
 * shards: rank i of a stage sends its result to rank i of the next stage, and the replicas of a shard divide its
 * vectors, gradients and weights. A stage may even end inside a pair; its messages are then shards too.
 *
 * With --exact the sums that a group divides are trees of 8 leaves, and a worker adds a subtree of each. The levels
 * above are rounds of recursive doubling, as in ordered_sums.h, so T workers give the bits of one. Without --exact a
 * group's sums, and the sums of gradients, use a ring (sync/ring.c), which sends the least: 2 (T - 1) / T of an array.
 * If shards differ in size and there are more than two replicas, a ring would add tensors that all ranks hold, but in
 * an order that differs between ranks (gs_tensor_needs_order); gradients are then also added by recursive doubling.
 */
#include "train/tensor.h"

#include <stdlib.h>

#include "comm/device.h"
#include "core/clock.h"
#include "parallel/tensor.h"
#include "train/strategy.h"
#include "train/timeline.h"

struct gs_tensor_worker {
    gs_sync *sync;            /* for the group */
    double sums, floats;      /* number of all-reduces in this run's steps, and of floats that they summed */
    double gathers, gathered; /* with --sequence: number of all-gathers, and of floats in their results */
    float *ordered;           /* room for one result */
};

/* ---- a group's tokens ---- */

/* If sequences are divided (parallel/sequence.h), a rank's tokens of each sample lie between those of other ranks, but
 * a message is contiguous. Tokens are therefore put in rank order before sending, and back after receiving:
 *
 *     whole     sample 0: rank 0, rank 1     sample 1: rank 0, rank 1
 *     in order  rank 0: sample 0, sample 1   rank 1: sample 0, sample 1
 */

/* Reorder a whole array's tokens by rank, or back. */
static void reorder(const gs_token_shards *t, const gs_device *d, float *whole, bool back) {
    const size_t ranks = (size_t)t->tp->size;
    for (size_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < t->n; i++) {
            float *in_order = t->ordered + (r * t->n + i) * t->each,
                  *in_whole = whole + (i * ranks + r) * t->each;
            gs_host_copy(d, back ? in_whole : in_order, back ? in_order : in_whole, t->each * sizeof *whole);
        }
}

static size_t whole_bytes(const gs_token_shards *t) {
    return (size_t)t->tp->size * t->n * t->each * sizeof(float);
}

/* With n = 1 the parts are already in order, and this rank's part may lie in `whole`. */
static gs_status gather_here(const gs_token_shards *t, const gs_device *d, const float *part, float *whole) {
    const size_t count = t->n * t->each;
    if (t->n == 1) return gs_comm_all_gather(t->tp, part, whole, count, GS_F32);
    GS_TRY(gs_comm_all_gather(t->tp, part, t->ordered, count, GS_F32));
    reorder(t, d, whole, true);
    return GS_OK;
}

gs_status gs_token_shards_gather(const gs_token_shards *t, gs_device *d, gs_mem whole, gs_mem part) {
    void *all, *own = NULL;
    const bool inside = part.base == whole.base;
    GS_TRY(d->ops->map(d, whole, whole_bytes(t), &all));
    gs_status status = inside ? GS_OK : d->ops->map(d, part, t->n * t->each * sizeof(float), &own);
    if (inside) own = (float *)all + (size_t)t->tp->rank * t->each;
    if (status == GS_OK) status = gather_here(t, d, own, all);
    if (!inside) status = gs_device_unmap_after(d, part, own, status);
    return gs_device_unmap_after(d, whole, all, status);
}

gs_status gs_token_shards_reduce(const gs_token_shards *t, gs_device *d, gs_mem part, gs_mem whole) {
    const size_t count = t->n * t->each;
    void *all, *own = NULL;
    GS_TRY(d->ops->map(d, whole, whole_bytes(t), &all));
    gs_status status = d->ops->map(d, part, count * sizeof(float), &own);
    if (status == GS_OK) {
        reorder(t, d, all, false);
        status = gs_comm_reduce_scatter(t->tp, t->ordered, own, (size_t)t->tp->size * count, GS_F32, GS_SUM);
    }
    status = gs_device_unmap_after(d, part, own, status);
    return gs_device_unmap_after(d, whole, all, status);
}

/* ---- sums in a group ---- */

bool gs_tensor_needs_order(const gs_worker *w) {
    const gs_model *m = w->model;
    bool equal = true;
    for (int i = 0; i < m->param_count && m->undivided; i++)
        for (int r = 0; r < m->tensor.size; r++)
            equal &= gs_tensor_count(m->param[i], r, m->tensor.size) == m->param[i]->count;
    return !equal && w->groups.layout.dp > 2;
}

/* A ring sends the least; recursive doubling adds neighbours first, and adds all elements in the same order. */
static const gs_sync_scheme *scheme_of(const gs_worker *w, bool ordered) {
    return w->settings->exact || ordered ? &gs_sync_recursive_doubling : &gs_sync_ring;
}

/* Count a completed collective of the group. */
static void count_call(gs_worker *w, gs_tensor_collective call, size_t bytes, size_t floats, double start) {
    struct gs_tensor_worker *t = w->tensor;
    const bool gathers = call == GS_TENSOR_ALL_GATHER;
    if (!w->in_step) return;
    gs_timeline_span(w, &(gs_span){.start = start,
                                   .end = gs_seconds(),
                                   .bytes = bytes,
                                   .count = floats,
                                   .kind = GS_SPAN_TP_CALL,
                                   .index = (int32_t)call});
    *(gathers ? &t->gathers : &t->sums) += 1;
    *(gathers ? &t->gathered : &t->floats) += (double)floats;
    w->measured.sent += (double)bytes;
}

/* A warm-up sums nothing, because the workers have not met yet. */
static gs_status sum(void *worker, gs_device *d, gs_mem x, size_t count) {
    gs_worker *w = worker;
    if (!w->groups.met) return GS_OK;
    gs_sync *s = w->tensor->sync;
    const double start = gs_seconds();
    GS_TRY(gs_sync_sum(s, d, x, count));
    count_call(w, GS_TENSOR_ALL_REDUCE, s->counted.bytes, count, start);
    return GS_OK;
}

/* With --sequence: all-gather the ranks' parts, or reduce-scatter to them (with --exact by an all-reduce). */
static gs_status send_tokens(gs_worker *w, gs_device *d, gs_mem part, gs_mem whole, size_t n, size_t each,
                             bool gathers) {
    if (!w->groups.met) return GS_OK;
    gs_comm *group = w->groups.comm[GS_TP];
    const gs_token_shards tokens = {group, w->tensor->ordered, n, each};
    const size_t ranks = (size_t)group->size, rank = (size_t)group->rank, others = (ranks - 1) * n * each;
    const double start = gs_seconds();
    if (!gathers && w->settings->exact) {
        GS_TRY(sum(w, d, whole, ranks * n * each));
        for (size_t i = 0; i < n; i++)
            GS_TRY(d->ops->copy(d, gs_at(part, i * each), gs_at(whole, (i * ranks + rank) * each), each));
        return GS_OK;
    }
    GS_TRY(gathers ? gs_token_shards_gather(&tokens, d, whole, part)
                   : gs_token_shards_reduce(&tokens, d, part, whole));
    count_call(w, gathers ? GS_TENSOR_ALL_GATHER : GS_TENSOR_REDUCE_SCATTER, others * sizeof(float),
               ranks * n * each, start);
    return GS_OK;
}

static gs_status gather_tokens(void *worker, gs_device *d, gs_mem whole, gs_mem part, size_t n, size_t each) {
    return send_tokens(worker, d, part, whole, n, each, true);
}

static gs_status reduce_tokens(void *worker, gs_device *d, gs_mem part, gs_mem whole, size_t n, size_t each) {
    return send_tokens(worker, d, part, whole, n, each, false);
}

gs_tensor_group gs_tensor_group_here(gs_worker *w) {
    gs_tensor_group group = gs_tensor_group_of(w->settings, w->comm->rank);
    group.sum = sum;
    group.gather = gather_tokens;
    group.reduce = reduce_tokens;
    group.context = w;
    return group;
}

/* ---- creation and release ---- */

/* Find the maximum number of floats per sample in any layer's sum, or in the loss's (model/forward_backward.c). */
static gs_status find_largest(gs_layer *l, void *most) {
    size_t floats = gs_tensor_floats(l, false), loss = 0,
           ranks = l->shard ? (size_t)l->shard->group->size : 0;
    if (gs_tensor_role_of(l) == GS_TENSOR_OUTPUTS && !l->other_stage)
        loss = (size_t)gs_shape_tokens(l->out) * (ranks > 3 ? ranks : 3);
    if (loss > floats) floats = loss;
    if (floats > *(size_t *)most) *(size_t *)most = floats;
    return GS_OK;
}

gs_status gs_tensor_create(gs_worker *w) {
    gs_model *m;
    size_t most = 0;
    GS_TRY(GS_NEW(w->tensor, 1, "--tensor"));
    struct gs_tensor_worker *t = w->tensor;
    w->scheme = scheme_of(w, gs_tensor_needs_order(w));
    for (int i = 0; (m = gs_worker_model(w, i)); i++) GS_TRY(gs_layer_walk(m->net, find_largest, &most));
    most *= w->input.most;
    if (w->settings->sequence && most > 0)
        GS_TRY(gs_context(gs_host_alloc(w, GS_MEMORY_COMMUNICATION, most * sizeof(float), &t->ordered),
                          "--tensor"));
    GS_TRY(gs_sync_create(scheme_of(w, false), w->groups.comm[GS_TP], most, &t->sync));
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, t->sync, gs_sync_bytes(t->sync));
}

void gs_tensor_free(gs_worker *w) {
    if (!w->tensor) return;
    gs_sync_free(w->tensor->sync);
    free(w->tensor->ordered);
    free(w->tensor);
}

void gs_tensor_tell(const gs_worker *w, gs_result *result) {
    const struct gs_tensor_worker *t = w->tensor;
    if (!t) return;
    const gs_model *m = w->model;
    const double steps = w->step > w->begun_at ? (double)(w->step - w->begun_at) : 1;
    result->tensor = (gs_tensor_report){.workers = m->tensor.size,
                                        .held = (double)w->partition.params * sizeof(float),
                                        .model = (double)m->undivided->params * sizeof(float),
                                        .gathers = t->gathers / steps,
                                        .gathered = t->gathered / steps * sizeof(float),
                                        .sums = t->sums / steps,
                                        .bytes = t->floats / steps * sizeof(float)};
}

/* ---- checks ---- */

/* Work that is not divided must give the same bits on all workers of a group: on any devices with --exact. */
gs_status gs_tensor_check(const gs_settings *s) {
    char first[48], name[48];
    if (s->tensor < 2 || s->exact) return GS_OK;
    GS_TRY(gs_devices_name(s->devices, 0, first));
    for (int i = 1; i < gs_devices_count(s->devices); i++) {
        GS_TRY(gs_devices_name(s->devices, i, name));
        if ((strcmp(name, "cpu") == 0) != (strcmp(first, "cpu") == 0))
            return gs_fail(GS_E_USAGE,
                           "--tensor %d: the workers of a group repeat what they do not divide, with the "
                           "same bits: wanted devices of one kind, not %s and %s; or --exact",
                           s->tensor, first, name);
    }
    return GS_OK;
}

static gs_status check_model(const gs_settings *s, gs_shape in) {
    gs_model *plan;
    const gs_status status = gs_model_create(
        NULL, &(gs_model_config){.text = s->model, .in = in, .tensor = gs_tensor_group_of(s, 0)}, &plan);
    if (status != GS_OK) return gs_fail(status == GS_E_SHAPE ? GS_E_USAGE : status, "%s", gs_message());
    const int divided = gs_tensor_divided(plan->net);
    const bool has_tokens = gs_layer_vocabulary(plan->net) > 0;
    gs_model_free(plan);
    if (s->sequence && !has_tokens)
        return gs_fail(GS_E_USAGE,
                       "--sequence: the model takes no sequences; wanted one that begins with embedding");
    if (divided > 0) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "the model has nothing to divide: wanted two linear layers in one sequence, with only element-wise "
        "layers or an attention between them%s",
        s->exact ? "; convolutions are not divided with --exact"
                 : ", or two convolutions with only element-wise layers, poolings and batch_norm between");
}

gs_status gs_tensor_check_workers(const gs_settings *s, gs_shape in) {
    if (s->tensor < 2) return GS_OK;
    if (s->exact && GS_EXACT_SHARDS % s->tensor != 0)
        return gs_fail(GS_E_USAGE,
                       "--tensor %d --exact: wanted 2, 4 or 8 workers in a group, so that the %d parts of "
                       "sums divide evenly",
                       s->tensor, GS_EXACT_SHARDS);
    return gs_context(check_model(s, in), "--tensor %d", s->tensor);
}
