/* --tensor T: T workers share the work of each pair of linear layers (layer/tensor.h), and see the same samples.
 *
 *     group 0    worker 0: part 0, worker 1: part 1        samples of part 0 of the batch
 *     group 1    worker 2: part 0, worker 3: part 1        samples of part 1
 *
 * Worker r has part r % T in group r / T. Two kinds of sums, each over workers of its own:
 *
 *     w->group      the T workers of a group: y in forward, dx in backward
 *     w->replicas   the workers that have the same part, one of each group: gradients, counts, and what else data
 *                   parallelism sums. The gradients of what all hold alike are the same in a group, and are not summed
 *                   there: once is enough
 *
 * A step is that of step.c, or with --exact that of exact.c: both sum over w->replicas. Only the norm of the gradients
 * asks for both: what is divided counts once for each part, what all hold counts once.
 *
 * A worker holds its part of the weights, the gradients and the optimiser's vectors. A file holds whole tensors: they
 * are put together in the group when they are read, and cut when they are written.
 *
 * --exact: the sums that a group divides have 8 leaves in the model, of which a worker adds a subtree. The levels above
 * are rounds of recursive doubling, as in exact.c: T workers give the bits of one. Else a group's sums, and those of
 * gradients, are a ring's (sync/ring.c), which sends least: 2 (T - 1) / T of an array.
 */
#include "train/ways/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/split.h"
#include "core/clock.h"
#include "layer/tensor.h"
#include "optim/norm.h"
#include "train/internal.h"
#include "train/timeline/timeline.h"

struct gs_tensor_worker {
    gs_sync *sync;             /* of the group */
    double sums, floats, sent; /* all-reduces of this run's steps, and what they summed; bytes of this step */
    bool in_step;
    gs_held held;
    gs_held_part *part; /* one for each parameter */
    gs_comm alike;      /* in a rehearsal: the place and the number of w->replicas */
};

/* ---- the sum in a group ---- */

/* A ring sends least; recursive doubling adds neighbours first. */
static const gs_sync_scheme *scheme_of(const gs_settings *s) {
    return s->exact ? &gs_sync_recursive_doubling : &gs_sync_ring;
}

/* Before the workers have met, in a warm-up, nothing is summed. */
static gs_status sum(void *worker, gs_device *d, gs_mem x, size_t count) {
    gs_worker *w = worker;
    struct gs_tensor_worker *t = w->tensor;
    if (!w->group) return GS_OK;
    const double start = gs_seconds();
    GS_TRY(gs_sync_sum(t->sync, d, x, count));
    if (!t->in_step) return GS_OK;
    gs_timeline_group_sum(w, t->sync->counted.bytes, count, start);
    t->sums++;
    t->floats += (double)count;
    t->sent += (double)t->sync->counted.bytes;
    return GS_OK;
}

gs_tensor_group gs_tensor_place(gs_worker *w) {
    gs_tensor_group place = gs_tensor_group_of(w->settings, w->comm->rank);
    place.sum = sum;
    place.context = w;
    return place;
}

/* ---- making and freeing ---- */

static gs_status find_largest(gs_layer *l, void *most) {
    size_t floats[GS_TENSOR_SUMS];
    for (int i = gs_tensor_sums(l, floats) - 1; i >= 0; i--)
        if (floats[i] > *(size_t *)most) *(size_t *)most = floats[i];
    return GS_OK;
}

/* What the norms of whole tensors need (optim/tensors.h). */
static gs_status reduce_norms(void *worker, int64_t *x, size_t count, bool largest) {
    const gs_worker *w = worker;
    return gs_comm_all_reduce(w->group, x, count, GS_I64, largest ? GS_MAX : GS_SUM);
}

static gs_status list_parts(gs_worker *w) {
    const gs_model *m = w->model;
    struct gs_tensor_worker *t = w->tensor;
    t->part = calloc((size_t)m->param_count + 1, sizeof *t->part);
    if (!t->part) return gs_fail(GS_E_MEMORY, "--tensor: no memory for a list of %d tensors", m->param_count);
    for (int i = 0; i < m->param_count; i++) {
        const gs_param *p = m->param[i];
        t->part[i] = (gs_held_part){.first = p->at,
                                    .count = p->count,
                                    .weights = gs_at(m->weights, p->at),
                                    .gradients = gs_at(m->gradients, p->at),
                                    .vector_at = p->at,
                                    .common = p->cut == GS_UNCUT};
    }
    t->held = (gs_held){t->part, m->param_count, m->tensor.rank == 0, reduce_norms, w};
    return GS_OK;
}

/* A rehearsal has nobody to meet, and books what the sums would take. */
static gs_status meet(gs_worker *w) {
    const int size = w->settings->tensor, rank = w->comm->rank;
    size_t most = 0;
    GS_TRY(gs_layer_walk(w->model->net, find_largest, &most));
    most *= w->model->max_batch;
    if (w->settings->rehearses) {
        const gs_sync like = {.most = most};
        w->tensor->alike = (gs_comm){.rank = rank / size, .size = w->comm->size / size};
        w->replicas = &w->tensor->alike;
        return gs_book_host(w, GS_MEMORY_COMMUNICATION, &w->tensor->sync, gs_sync_bytes(&like));
    }
    gs_comm *replicas;
    GS_TRY(gs_comm_split(w->comm, rank % size, rank / size, &replicas));
    w->replicas = replicas;
    GS_TRY(gs_comm_split(w->comm, rank / size, rank % size, &w->group));
    w->scheme = scheme_of(w->settings);
    GS_TRY(gs_sync_create(scheme_of(w->settings), w->group, most, &w->tensor->sync));
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, w->tensor->sync, gs_sync_bytes(w->tensor->sync));
}

static gs_status create(gs_worker *w) {
    w->tensor = calloc(1, sizeof *w->tensor);
    if (!w->tensor) return gs_fail(GS_E_MEMORY, "no memory for --tensor");
    GS_TRY(list_parts(w));
    GS_TRY(meet(w));
    return w->settings->exact ? gs_way_exact.create(w) : GS_OK;
}

static void free_tensor(gs_worker *w) {
    if (w->settings->exact && gs_way_exact.free) gs_way_exact.free(w);
    if (w->replicas != w->comm && !w->settings->rehearses) gs_comm_free(w->replicas);
    gs_comm_free(w->group);
    if (!w->tensor) return;
    gs_sync_free(w->tensor->sync);
    free(w->tensor->part);
    free(w->tensor);
}

/* ---- a step ---- */

/* Gradients, loss, correct answers and samples: summed over the workers with the same part. */
static gs_status synchronous_step(gs_worker *w, gs_score *score) {
    GS_TRY(gs_gradient(w));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(gs_sync_sum(w->sync, w->device, w->model->gradients, w->model->saved + GS_STATS));
    w->measured.sent += (double)w->sync->counted.bytes;
    GS_TRY(gs_read_score(w, score));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));

    GS_TRY(gs_update(w, score->samples));
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

static gs_status step(gs_worker *w, gs_score *score) {
    w->tensor->sent = 0;
    w->tensor->in_step = true;
    GS_TRY(w->settings->exact ? gs_way_exact.step(w, score) : synchronous_step(w, score));
    w->tensor->in_step = false;
    w->measured.sent += w->tensor->sent;
    return GS_OK;
}

/* As reduce_norms, for at most two numbers: without memory for a moment, which a reduction by messages takes. */
static gs_status reduce_few(const gs_worker *w, int64_t *x, size_t count, bool largest) {
    int64_t all[2 * GS_TENSOR_MOST];
    GS_TRY(gs_comm_all_gather(w->group, x, all, count, GS_I64));
    for (size_t i = 0; i < count; i++) x[i] = all[i];
    for (size_t i = count; i < count * (size_t)w->group->size; i++) {
        int64_t *to = &x[i % count];
        *to = !largest ? *to + all[i] : all[i] > *to ? all[i] : *to;
    }
    return GS_OK;
}

/* The squares of all gradients, as whole numbers in units that suit the largest of them: the bits do not depend on who
 * holds what. Of what all hold the first worker of a group has its say. */
static gs_status add_squares(const gs_worker *w, gs_squares *all) {
    const gs_held *h = &w->tensor->held;
    const gs_backend *ops = w->device->ops;
    gs_squares one = {0};
    int64_t largest = 0, sums[2] = {0, 0};
    for (int i = 0; i < h->parts; i++) {
        GS_TRY(ops->squares(w->device, h->part[i].gradients, h->part[i].count, 0, &one));
        if (one.largest > largest) largest = one.largest;
    }
    GS_TRY(reduce_few(w, &largest, 1, true));
    const uint32_t exponent = (uint32_t)(largest >> 23), top = exponent > 0 ? exponent : 1;
    for (int i = 0; i < h->parts; i++) {
        if (h->part[i].common && !h->counts_common) continue;
        GS_TRY(ops->squares(w->device, h->part[i].gradients, h->part[i].count, top, &one));
        sums[0] += (int64_t)one.high;
        sums[1] += (int64_t)one.low;
    }
    GS_TRY(reduce_few(w, sums, 2, false));
    *all = (gs_squares){(uint32_t)largest, top, (uint64_t)sums[0], (uint64_t)sums[1]};
    return GS_OK;
}

static gs_status update(gs_worker *w, double samples) {
    gs_optimizer *o = w->optimizer;
    gs_squares all;
    if (o->clip > 0 || o->loss_scale.scale > 0) GS_TRY(add_squares(w, &all));
    if (o->loss_scale.scale > 0 && !gs_optimizer_may_update(o, all.largest)) return GS_OK;
    if (o->clip > 0) gs_optimizer_clip(o, gs_norm_of(&all), samples);
    if (o->ops->whole)
        GS_TRY(gs_optimizer_update_held(o, samples, &w->tensor->held));
    else
        GS_TRY(gs_optimizer_update_part(o, samples, 0, w->model->params));
    return gs_optimizer_end_update(o, samples);
}

/* ---- whole arrays ---- */

/* The floats of the first `count` tensors, of the rank that has most: the parts of a vocabulary differ. */
static size_t most_floats(const gs_model *m, int count) {
    size_t most = 0;
    for (int r = 0; r < m->tensor.size; r++) {
        size_t floats = 0;
        for (int i = 0; i < count; i++) floats += gs_tensor_count(m->param[i], r, m->tensor.size);
        if (floats > most) most = floats;
    }
    return most;
}

/* Rank r's part. Of what all hold it takes this worker's, so that --verify sees whether the others' is the same. */
static void put_part(const gs_model *m, int r, const float *from, int count, float *whole) {
    for (int i = 0; i < count; i++) {
        if (m->param[i]->cut != GS_UNCUT || r == m->tensor.rank)
            gs_tensor_put(m->param[i], r, m->tensor.size, from, whole + m->undivided->param[i]->at);
        from += gs_tensor_count(m->param[i], r, m->tensor.size);
    }
}

/* The first `count` tensors of the model, of which `mine` is this worker's part, in an array that `own` has made; whole
 * may be NULL. All of a group. */
static gs_status put_together(gs_worker *w, const float *mine, int count, float *whole) {
    const gs_model *m = w->model;
    const int size = w->group->size;
    const size_t floats = most_floats(m, count);
    float *all = malloc(floats * (size_t)size * sizeof *all + 1);
    gs_status status = all ? GS_OK : gs_fail(GS_E_MEMORY, "--tensor: no memory for whole tensors");
    if (status == GS_OK && floats > 0) status = gs_comm_all_gather(w->group, mine, all, floats, GS_F32);
    for (int r = 0; r < size && status == GS_OK && whole; r++)
        put_part(m, r, all + (size_t)r * floats, count, whole);
    free(all);
    return status;
}

static gs_status own(size_t floats, float **mine) {
    *mine = calloc(floats + 1, sizeof **mine);
    return *mine ? GS_OK : gs_fail(GS_E_MEMORY, "--tensor: no memory for %zu floats", floats);
}

static gs_status gather_vector(gs_worker *w, int i, float *whole) {
    const int tensors = w->model->param_count;
    float *mine;
    GS_TRY(own(most_floats(w->model, tensors), &mine));
    gs_status status = gs_optimizer_read_vector(w->optimizer, i, mine);
    if (status == GS_OK) status = put_together(w, mine, tensors, whole);
    free(mine);
    return status;
}

static gs_status read_weights(gs_worker *w, float *host) {
    const gs_model *m = w->model;
    float *mine;
    GS_TRY(own(most_floats(m, m->saved_count), &mine));
    gs_status status = gs_model_read_weights(w->model, mine);
    if (status == GS_OK) status = put_together(w, mine, m->saved_count, host);
    free(mine);
    return status;
}

/* Before create. */
static gs_status scatter_vector(gs_worker *w, int i, const float *whole) {
    const gs_model *m = w->model;
    float *mine;
    GS_TRY(own(m->params, &mine));
    for (int k = 0; k < m->param_count; k++)
        gs_tensor_take(m->param[k], m->tensor.rank, m->tensor.size, mine + m->param[k]->at,
                       whole + m->undivided->param[k]->at);
    const gs_status status = gs_optimizer_write_vector(w->optimizer, i, mine);
    free(mine);
    return status;
}

static gs_status report(gs_worker *w, gs_result *result) {
    const gs_model *m = w->model;
    const double steps = (double)(w->step - w->begun_at);
    result->tensor = (gs_tensor_report){.workers = m->tensor.size,
                                        .held = (double)m->params * sizeof(float),
                                        .model = (double)m->undivided->params * sizeof(float)};
    if (steps > 0) result->tensor.sums = w->tensor->sums / steps;
    if (steps > 0) result->tensor.bytes = w->tensor->floats / steps * sizeof(float);
    return GS_OK;
}

/* ---- what it goes with ---- */

static int stages(const gs_settings *s) {
    return s->tensor;
}

/* What all of a group compute must be the same on all of them. */
static gs_status check_devices(const gs_settings *s) {
    char first[48], name[48];
    GS_TRY(gs_devices_name(s->devices, 0, first));
    for (int i = 1; i < gs_devices_count(s->devices); i++) {
        GS_TRY(gs_devices_name(s->devices, i, name));
        if ((strcmp(name, "cpu") == 0) != (strcmp(first, "cpu") == 0))
            return gs_fail(
                GS_E_USAGE,
                "--tensor %d: the workers of a group repeat what they do not divide, with the same "
                "bits: wanted devices of one kind, not %s and %s",
                s->tensor, first, name);
    }
    return GS_OK;
}

static gs_status check(const gs_settings *s, bool chosen) {
    if (!chosen) return GS_OK;
    if (s->exact) GS_TRY(gs_way_exact.check(s, true));
    if (s->pipeline > 1 || s->zero)
        return gs_fail(
            GS_E_USAGE,
            "--tensor %d divides the layers among the workers, and so does --%s %d in another way; "
            "use only one of them",
            s->tensor, s->zero ? "zero" : "pipeline", s->zero ? s->zero : s->pipeline);
    if (strcmp(s->sync, gs_settings_default().sync) != 0)
        return gs_fail(
            GS_E_USAGE,
            "--tensor sums gradients among the workers that have the same part, in an order of its own: "
            "it does not work with --sync %s",
            s->sync);
    if (s->digest)
        return gs_fail(GS_E_USAGE,
                       "--digest has numbers of whole tensors: it does not work with --tensor, whose workers "
                       "hold parts of them");
    return check_devices(s);
}

static gs_status check_model(const gs_settings *s, gs_shape in) {
    const gs_tensor_group place = gs_tensor_group_of(s, 0);
    gs_model *plan;
    char wrong[512];
    const gs_status status = gs_model_plan_tensor(s->model, in, &place, &plan);
    snprintf(wrong, sizeof wrong, "%s", status == GS_OK ? "" : gs_message());
    if (status != GS_OK) return gs_fail(status == GS_E_SHAPE ? GS_E_USAGE : status, "%s", wrong);
    const int divided = gs_tensor_divided(plan->net);
    gs_model_free(plan);
    if (divided > 0) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "the model has nothing to divide: wanted two linear layers in one sequence, with only "
        "element-wise layers or an attention between them%s",
        s->exact ? "; convolutions are not divided with --exact"
                 : ", or two convolutions with only element-wise layers, poolings and batch_norm between");
}

static gs_status check_workers(const gs_settings *s, const gs_dataset *set, int workers) {
    if (workers % s->tensor != 0)
        return gs_fail(
            GS_E_USAGE,
            "--tensor %d: there %s %d worker%s; wanted a multiple of %d, a group of workers for each "
            "part of a batch (--devices, or launch -n)",
            s->tensor, workers == 1 ? "is" : "are", workers, gs_s((unsigned)workers), s->tensor);
    const int groups = workers / s->tensor;
    if (s->exact && (GS_EXACT_SHARDS % s->tensor != 0 || GS_EXACT_SHARDS % groups != 0))
        return gs_fail(
            GS_E_USAGE,
            "--tensor %d --exact: there are %d workers, in %d group%s; wanted 2, 4 or 8 workers in a "
            "group, and 1, 2, 4 or 8 groups, so that the %d parts of sums and of batches divide evenly",
            s->tensor, workers, groups, gs_s((unsigned)groups), GS_EXACT_SHARDS);
    if (s->exact) GS_TRY(gs_exact_check_passes(s, groups));
    return gs_context(check_model(s, set->shape), "--tensor %d", s->tensor);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    snprintf(text, size, "%sgroups of %d share each pair of linear layers",
             s->exact ? "one fixed tree; " : "", s->tensor);
}

#define SHARED                                                                                               \
    .option = "--tensor",                                                                                    \
    .no_bucket = "sums within a group during backward, and other sums would come in between",                \
    .no_wire = "sends activations too, which are not rounded", .stages = stages, .check = check,             \
    .check_workers = check_workers, .describe = describe, .no_gradient = true /* but a part */,              \
    .create = create, .free = free_tensor, .step = step, .update = update, .gather = gather_vector,          \
    .scatter = scatter_vector, .weights = read_weights, .report = report

const gs_way gs_way_tensor = {.name = "tensor", SHARED};

const gs_way gs_way_tensor_exact = {.name = "tensor, exact", .own_sums = true, SHARED};
