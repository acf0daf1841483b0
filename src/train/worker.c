#include "train/train.h"

#include "io/safetensors.h"
#include "train/modes.h"
#include "train/overlap.h"
#include "train/timeline.h"

#include <stdlib.h>

/* The CPU threads of one worker, if the user did not say: all cores, divided among all workers of the
 * machine. */
static int threads_for(const gs_settings *s, int local) {
    if (s->exact) return 1;
    if (s->threads > 0) return s->threads;
    int processes = s->processes && s->processes->size > 0 ? s->processes->size : 1;
    int threads = gs_cpu_cores() / (local * processes);
    return threads > 0 ? threads : 1;
}

static gs_status load_weights(gs_worker *w) {
    float *host = malloc(w->model->params * sizeof(float) + 1);
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for %zu weights", w->model->params);
    gs_status status = gs_safetensors_load(w->settings->load, w->model, host);
    if (status == GS_OK) status = gs_model_write_weights(w->model, host);
    free(host);
    return status;
}

static gs_status make_buffers(gs_worker *w, size_t features) {
    const gs_backend *ops = w->device->ops;
    size_t m = w->micro_batch;
    if (!ops->host_memory) GS_TRY(ops->alloc(w->device, m * features, &w->bytes));
    GS_TRY(ops->alloc(w->device, m * features * sizeof(float), &w->x));
    GS_TRY(ops->alloc(w->device, m * sizeof(int32_t), &w->labels));
    w->host_bytes = malloc(m * features);
    w->host_labels = malloc(m * sizeof(int32_t));
    w->checksums = calloc((size_t)w->comm->size, sizeof *w->checksums);
    if (!w->host_bytes || !w->host_labels || !w->checksums)
        return gs_fail(GS_E_MEMORY, "no memory for the batches of a worker");
    return GS_OK;
}

gs_schedule gs_worker_schedule(const gs_worker *w) {
    const gs_settings *s = w->settings;
    int parts = s->exact ? GS_EXACT_SHARDS : w->comm->size, mine = parts / w->comm->size;
    return (gs_schedule){.count = w->train_set->count,
                         .batch = w->batch,
                         .parts = parts,
                         .first_part = w->comm->rank * mine,
                         .mine = mine,
                         .passes = gs_passes(s),
                         .most = w->piece,
                         .epochs = (uint64_t)s->epochs,
                         .steps = s->steps};
}

static gs_status make_loader(gs_worker *w) {
    gs_schedule schedule = gs_worker_schedule(w);
    return gs_loader_create(w->train_set, &schedule, w->settings->seed, 1e6 * w->settings->throttle,
                            &w->loader);
}

static gs_status create(gs_worker *w, const char *device, int local) {
    const gs_settings *s = w->settings;
    const gs_dataset *data = w->train_set ? w->train_set : w->test_set;
    if (w->train_set) {
        w->batch = s->batch ? s->batch : w->train_set->count;
        size_t parts = s->exact ? GS_EXACT_SHARDS : (size_t)w->comm->size;
        parts *= (size_t)gs_passes(s);
        size_t share = (w->batch + parts - 1) / parts;
        size_t most = s->micro_batch ? s->micro_batch : GS_MICRO_BATCH;
        w->piece = w->micro_batch = share < most ? share : most;
    }
    if (w->micro_batch < GS_EVAL_BLOCK) w->micro_batch = GS_EVAL_BLOCK;
    GS_TRY(gs_find_scheme(s, &w->scheme));
    GS_TRY(gs_device_open(device, threads_for(s, local), &w->device));
    GS_TRY(gs_model_create(w->device, s->model, data->shape, w->micro_batch, s->loss, s->seed, &w->model));
    GS_TRY(make_buffers(w, gs_shape_size(data->shape)));
    if (s->load) GS_TRY(load_weights(w));
    if (w->train_set) GS_TRY(gs_sgd_create(w->model, s->lr, s->momentum, s->weight_decay, &w->sgd));
    if (w->train_set) w->rates = gs_rates_of(s, w->batch, w->train_set->count);
    w->sharded = gs_is_sharded(s);
    if (w->train_set && s->exact) GS_TRY(gs_exact_create(w, &w->exact));
    if (w->train_set && gs_is_local(s)) GS_TRY(gs_local_create(&w->local));
    if (w->train_set && gs_is_async(s)) GS_TRY(gs_async_create(w, &w->async));
    return w->train_set ? make_loader(w) : GS_OK;
}

gs_status gs_worker_create(gs_worker *w, const gs_settings *settings, const char *device, gs_comm *comm,
                           int local, gs_scaling scaling, const gs_dataset *train_set,
                           const gs_dataset *test_set) {
    *w = (gs_worker){.settings = settings, .comm = comm, .train_set = train_set, .test_set = test_set};
    gs_status status = create(w, device, local);
    if (status == GS_OK) w->model->scaling = scaling;
    if (status != GS_OK) gs_worker_free(w);
    return status;
}

void gs_worker_free(gs_worker *w) {
    gs_overlap_free(w->overlap);
    gs_async_free(w->async); /* its threads tell the timeline */
    gs_timeline_free(w->timeline);
    gs_loader_free(w->loader);
    gs_sync_free(w->sync);
    gs_exact_free(w->exact);
    gs_local_free(w->local);
    gs_sgd_free(w->sgd);
    gs_model_free(w->model);
    if (w->device) {
        w->device->ops->free(w->device, w->bytes);
        w->device->ops->free(w->device, w->x);
        w->device->ops->free(w->device, w->labels);
    }
    gs_device_close(w->device);
    free(w->host_bytes);
    free(w->host_labels);
    free(w->checksums);
    *w = (gs_worker){0};
}

gs_status gs_worker_write(gs_worker *w, const unsigned char *images, const int32_t *labels, size_t n) {
    const gs_backend *ops = w->device->ops;
    size_t bytes = n * gs_shape_size(w->model->in);
    if (n > w->micro_batch) gs_bug("gs_worker_write: %zu samples, room for %zu", n, w->micro_batch);
    gs_mem from = ops->host_memory ? ops->host_memory(images) : w->bytes;
    if (!ops->host_memory) GS_TRY(ops->write(w->device, from, images, bytes));
    GS_TRY(ops->write(w->device, w->labels, labels, n * sizeof *labels));
    gs_scaling s = w->model->scaling; /* (byte / 255 - mean) / std, as one multiply and add */
    return ops->bytes_to_float(w->device, w->x, from, 1.0f / (255.0f * s.std), -s.mean / s.std, bytes);
}

gs_status gs_worker_load(gs_worker *w, const gs_dataset *set, size_t first, size_t n) {
    if (n > w->micro_batch) gs_bug("gs_worker_load: %zu samples, room for %zu", n, w->micro_batch);
    gs_dataset_gather(set, NULL, first, n, w->host_bytes, w->host_labels);
    return gs_worker_write(w, w->host_bytes, w->host_labels, n);
}

gs_status gs_worker_next(gs_worker *w, size_t first, size_t *n) {
    const gs_loaded *next = gs_loader_next(w->loader);
    if (next->piece.first != first)
        gs_bug("gs_worker_next: the loader has come to sample %zu, the step to %zu", next->piece.first,
               first);
    *n = next->piece.n;
    return gs_worker_write(w, next->images, next->labels, *n);
}
