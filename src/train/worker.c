#include "train/worker.h"

#include "layer/leaves.h"
#include "model/safetensors.h"
#include "train/hooks.h"
#include "train/diverged.h"
#include "train/evaluate.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "train/reducer.h"
#include "train/state.h"
#include "train/timeline.h"
#include "train/tensor.h"

#include <stdlib.h>

int gs_worker_threads(const gs_settings *s, int local) {
    if (s->threads > 0) return s->threads;
    const gs_rendezvous *p = s->processes;
    int threads = gs_cpu_cores() / (local * (p && p->size > 0 && !p->own_cpus ? p->size : 1));
    return threads > 0 ? threads : 1;
}

/* ---- host memory ---- */

gs_status gs_book_host(gs_worker *w, gs_memory_kind kind, void *memory, size_t bytes) {
    const gs_memory_place place = w->device->ops->host_memory ? GS_ON_DEVICE : GS_ON_HOST;
    return gs_ledger_add(&w->device->memory, place, kind, memory, bytes);
}

gs_status gs_host_alloc(gs_worker *w, gs_memory_kind kind, size_t bytes, void *memory) {
    void *made = gs_host_malloc(w->device, bytes);
    memcpy(memory, &made, sizeof made);
    if (made) return gs_book_host(w, kind, made, bytes);
    return gs_fail(GS_E_MEMORY, "no memory for %zu bytes of %s", bytes, gs_memory_word(kind));
}

/* ---- a worker's loader, and threads for its jobs ---- */

static gs_status next_loaded(gs_worker *w, const gs_loaded **next) {
    return gs_loader_next(w->loader, next);
}

static gs_status jobs(const gs_worker *w, int room, gs_jobs **out) {
    (void)w;
    return gs_jobs_create(room, out);
}

/* ---- creation ---- */

static gs_status load_weights(gs_worker *w) {
    const gs_model *whole = gs_model_whole(w->model);
    const gs_state *begin = w->settings->begin;
    if (begin && begin->weights) return gs_model_write_weights(w->model, begin->weights);
    if (!w->settings->load) return GS_OK;
    float *host;
    GS_TRY(GS_NEW(host, whole->saved, "%zu weights", whole->params));
    gs_status status = gs_safetensors_load(w->settings->load, whole, host);
    if (status == GS_OK) gs_look_at_loaded(w, host);
    if (status == GS_OK) status = gs_model_write_weights(w->model, host);
    free(host);
    return status;
}

static gs_status make_buffers(gs_worker *w, const gs_dataset *data) {
    const gs_backend *ops = w->device->ops;
    size_t m = w->input.most, features = gs_shape_size(data->shape);
    w->input.target_bytes = gs_dataset_target_bytes(data);
    w->input.scales = !gs_dataset_is_numbers(data);
    const size_t input_bytes = m * gs_dataset_input_bytes(data), target_bytes = m * w->input.target_bytes;
    if (w->input.scales && !ops->host_memory)
        GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, m * features, &w->input.bytes));
    GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, m * features * sizeof(float), &w->input.x));
    GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, target_bytes, &w->input.targets));
    GS_TRY(gs_host_alloc(w, GS_MEMORY_DATA, input_bytes, &w->input.host_inputs));
    return gs_host_alloc(w, GS_MEMORY_DATA, target_bytes, &w->input.host_targets);
}

/* How many leaves of --exact a pass computes: as many as it may hold, in as many passes as are asked for. A digest
 * records the dw of each leaf, unless statistics of the global batch need all leaves at once. */
static int leaves_at_once(const gs_worker *w, gs_schedule schedule, bool together) {
    const gs_settings *s = w->settings;
    schedule.leaves = s->exact && !w->strategy->leaf_by_leaf && (!s->digest || together) ? schedule.mine : 1;
    while (schedule.leaves > 1 && (schedule.mine / schedule.leaves < s->accumulate ||
                                   gs_schedule_part(&schedule, schedule.batch, 0).count > schedule.most))
        schedule.leaves /= 2;
    return schedule.leaves;
}

/* The worker's part of each batch (the same for all stages of its pipeline); with --exact its leaves, in order. */
static gs_schedule schedule_of(const gs_worker *w, size_t most, bool has_batch_norm) {
    const gs_settings *s = w->settings;
    const bool together = has_batch_norm && s->batch_norm.over == GS_BATCH_NORM_GLOBAL;
    const int parts = gs_batch_shards(s, w->comm->size), mine = parts / w->groups.layout.dp;
    gs_schedule schedule = {.count = w->train_set->count,
                            .batch = w->batch,
                            .parts = parts,
                            .first_part = w->groups.coordinates.dp * mine,
                            .mine = mine,
                            .passes = gs_passes(s),
                            .most = most,
                            .together = gs_together(&s->batch_norm), /* 1, except with ghost batches */
                            .epochs = (uint64_t)s->epochs,
                            .steps = s->steps};
    schedule.leaves = leaves_at_once(w, schedule, together);
    schedule.most = gs_schedule_largest(&schedule);
    return schedule;
}

/* Create what only training needs. */
static gs_status create_for_training(gs_worker *w) {
    const gs_settings *s = w->settings;
    w->rates = gs_rates_of(s, w->batch, w->train_set->count);
    w->sync_most = w->model->saved + GS_STATS; /* a strategy that sums less lowers this */
    const gs_hyperparameters n = gs_settings_numbers(s);
    GS_TRY(gs_partition_plan(w, w->comm->rank, &w->partition)); /* by default a worker updates everything */
    const size_t held = w->partition.own + w->partition.rest;
    GS_TRY(gs_optimizer_create_held(s->optimizer, w->model, held, n.lr, n.momentum, n.weight_decay,
                                    &w->optimizer));
    w->optimizer->beta1 = n.beta1;
    w->optimizer->beta2 = n.beta2;
    w->optimizer->epsilon = n.epsilon;
    w->optimizer->clip = s->clip;
    if (s->precision == GS_PRECISION_F16) w->optimizer->loss_scale.scale = GS_LOSS_SCALE_FIRST;
    if (s->begin) gs_state_begin(w);
    const size_t loader = gs_loader_bytes(w->train_set, w->schedule.most);
    GS_TRY(gs_book_host(w, GS_MEMORY_DATA, &w->loader, loader));
    if (w->device->dry) return GS_OK;
    return gs_loader_create(w->train_set, &w->schedule, &s->augment, s->seed, 1e6 * s->throttle, &w->loader);
}

static gs_status create_model(gs_worker *w, gs_shape in) {
    const gs_settings *s = w->settings;
    gs_model_config config = {.text = s->model, .in = in, .loss = s->loss, .seed = s->seed};
    config.recompute = s->recompute;
    config.unset = w->device->dry;
    config.tensor = gs_tensor_group_here(w);
    if (!w->train_set || !gs_has_stages(w))
        config.max_batch = w->input.most; /* otherwise only the models of its stage compute */
    return gs_model_create(w->device, &config, &w->model);
}

static gs_status create(gs_worker *w, const char *device, int threads) {
    const gs_settings *s = w->settings;
    const gs_dataset *data = w->train_set ? w->train_set : w->test_set;
    const gs_layout alike = {.dp = w->comm->size, .tp = 1, .pp = 1};
    size_t most;
    bool has_batch_norm;
    GS_TRY(gs_groups_create(w->comm, w->train_set ? gs_layout_of(s, w->comm->size) : alike, &w->groups));
    GS_TRY(gs_eval_block(s->model, data->shape, &w->eval_block));
    if (w->train_set) {
        w->batch = s->batch ? s->batch : w->train_set->count;
        GS_TRY(gs_largest_micro_batch(s, data->shape, &most));
        GS_TRY(gs_has_batch_norm(s, data->shape, &has_batch_norm));
        w->schedule = schedule_of(w, most, has_batch_norm);
    }
    w->input.most = w->schedule.most > w->eval_block ? w->schedule.most : w->eval_block;
    if (!w->train_set && w->test_set->count < w->input.most) w->input.most = w->test_set->count;
    GS_TRY(gs_find_scheme(s, &w->scheme)); /* gs_sync_allreduce by default */
    GS_TRY(gs_device_open(device, threads, &w->device));
    if (s->dry_run) gs_device_set_dry(w->device);
    if (s->exact) GS_TRY(gs_device_set_exact(w->device));
    w->device->precision = s->precision;
    w->device->no_fusion = s->digest != NULL;
    w->device->offload = w->train_set ? s->offload : 0;
    w->device->offload_folder = s->offload_dir;
    GS_TRY(create_model(w, data->shape));
    if (w->schedule.leaves > 1) GS_TRY(gs_layer_make_leaves(w->model->net, w->schedule.leaves));
    w->model->label_smoothing = s->label_smoothing;
    w->model->knows_labels = true; /* checked by gs_check_set */
    GS_TRY(make_buffers(w, data));
    GS_TRY(load_weights(w));
    return w->train_set ? create_for_training(w) : GS_OK;
}

gs_status gs_worker_create(gs_worker *w, const gs_settings *settings, const char *device, gs_comm *comm,
                           int threads, gs_scaling scaling, const gs_dataset *train_set,
                           const gs_dataset *test_set) {
    static const gs_observer nobody;
    *w = (gs_worker){.settings = settings,
                     .next = next_loaded,
                     .jobs = jobs,
                     .observer = &nobody,
                     .strategy = gs_strategy_of(settings), /* synchronous (step.c) by default */
                     .reducer = gs_reducer_of(settings),   /* all_reduce.c by default */
                     .comm = comm,
                     .train_set = train_set,
                     .test_set = test_set};
    gs_status status = create(w, device, threads);
    if (status == GS_OK) w->model->scaling = scaling;
    if (status != GS_OK) gs_worker_free(w);
    return status;
}

void gs_worker_free(gs_worker *w) {
    if (w->reducer) w->reducer->free(w); /* first, because the reducer's threads may use the rest */
    if (w->strategy && w->strategy->free) w->strategy->free(w);
    gs_tensor_free(w);
    gs_timeline_free(w->timeline);
    gs_loader_free(w->loader);
    gs_sync_free(w->sync);
    gs_optimizer_free(w->optimizer);
    gs_model_free(w->model);
    if (w->device) {
        w->device->ops->free(w->device, w->input.bytes);
        w->device->ops->free(w->device, w->input.x);
        w->device->ops->free(w->device, w->input.targets);
    }
    gs_device_close(w->device);
    free(w->input.host_inputs);
    free(w->input.host_targets);
    free(w->devices);
    /* after the model, because layers point to their observers */
    for (const gs_hook *const *hook = gs_hooks; *hook; hook++)
        if ((*hook)->free) (*hook)->free(w);
    gs_ordered_sums_free(&w->ordered_sums);
    gs_partition_free(&w->partition);
    gs_groups_free(&w->groups);
    *w = (gs_worker){0};
}

/* (byte / 255 - mean) / std, as one multiplication and one addition */
static gs_byte_scale scale_of(const gs_model *m) {
    const gs_scaling *s = &m->scaling;
    gs_byte_scale out = {.channels = s->mean.count > s->std.count ? s->mean.count : s->std.count,
                         .plane = (size_t)m->in.h * (size_t)m->in.w};
    for (int c = 0; c < out.channels; c++) {
        const float mean = gs_of_channel(&s->mean, c), std = gs_of_channel(&s->std, c);
        out.scale[c] = 1.0f / (255.0f * std);
        out.shift[c] = -mean / std;
    }
    return out;
}

gs_status gs_worker_write(gs_worker *w, const void *inputs, const void *targets, size_t n) {
    const gs_backend *ops = w->device->ops;
    size_t count = n * gs_shape_size(w->model->in);
    if (n > w->input.most) gs_bug("gs_worker_write: %zu samples, room for %zu", n, w->input.most);
    if (w->input.targets.base)
        GS_TRY(ops->write(w->device, w->input.targets, targets, n * w->input.target_bytes));
    if (!w->input.x.base) return GS_OK;
    if (!w->input.scales) return ops->write(w->device, w->input.x, inputs, count * sizeof(float));
    gs_mem from = ops->host_memory ? ops->host_memory(inputs) : w->input.bytes;
    if (!ops->host_memory) GS_TRY(ops->write(w->device, from, inputs, count));
    const gs_byte_scale scale = scale_of(w->model);
    return ops->bytes_to_float(w->device, w->input.x, from, &scale, count);
}

gs_status gs_worker_load_range(gs_worker *w, const gs_dataset *set, size_t first, size_t n) {
    if (n > w->input.most) gs_bug("gs_worker_load_range: %zu samples, room for %zu", n, w->input.most);
    if (!w->device->dry)
        GS_TRY(gs_dataset_gather(set, NULL, first, n, w->input.host_inputs, w->input.host_targets));
    return gs_worker_write(w, w->input.host_inputs, w->input.host_targets, n);
}

gs_pass gs_worker_pass(gs_worker *w, const gs_micro_batch *p, bool fresh) {
    gs_pass pass = {.n = p->n,
                    .training = true,
                    .fresh = fresh,
                    .seed = w->settings->seed,
                    .step = w->step,
                    .first = p->offset,
                    .loss_scale = w->optimizer->loss_scale.scale,
                    .leaves = p->leaves,
                    .final = p->last ? w->final : NULL,
                    .final_context = w->final_context};
    gs_batch_norm_begin(w, &pass); /* does nothing without batch_norm */
    return pass;
}

gs_status gs_worker_next(gs_worker *w, gs_pass *pass) {
    const gs_loaded *next;
    GS_TRY(w->next(w, &next)); /* next_loaded, above */
    const gs_micro_batch *p = &next->micro_batch;
    w->micro_batch = *p;
    w->measured.samples += (double)p->n;
    *pass = gs_worker_pass(w, p, pass->fresh);
    GS_HOOKS(loaded, w, next);
    return p->n > 0 ? gs_worker_write(w, next->inputs, next->targets, p->n) : GS_OK;
}

gs_status gs_prepare_steps(gs_worker *w) {
    gs_comm *replicas = w->groups.comm[GS_DP]; /* in plain data parallelism: all workers */
    w->groups.met = true;
    GS_TRY(gs_partition_divide(w)); /* it and gs_partition_list: for ZeRO, stages and tensor groups */
    if (w->reducer) GS_TRY(w->reducer->create(w));
    if (w->strategy->create) GS_TRY(w->strategy->create(w));
    if (w->groups.layout.tp > 1) GS_TRY(gs_tensor_create(w));
    GS_TRY(gs_partition_list(w));
    const gs_sync_array sums = {w->sync_most, w->settings->wire, gs_model_tail(w->model)};
    GS_TRY(gs_sync_create_wire(w->scheme, replicas, sums, &w->sync));
    GS_TRY(gs_book_host(w, GS_MEMORY_COMMUNICATION, &w->sync, gs_sync_bytes(w->sync)));
    if (w->device->offload) GS_TRY(w->device->ops->settle(w->device));
    w->offload_before = w->device->offload_times;
    return GS_OK;
}

/* Forward and backward over as many samples as this worker computes at once; the gradients are discarded. The smaller
 * last batch needs no warm-up: on OpenCL CPU devices it uses no other kernels; elsewhere programs are built whole. */
gs_status gs_warm_up(gs_worker *w) {
    gs_pass pass = {.n = w->schedule.most, .training = true, .loss_scale = w->optimizer->loss_scale.scale};
    gs_mem logits;
    GS_TRY(gs_model_forward(w->model, &pass, w->input.x, &logits));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->input.targets));
    GS_TRY(gs_model_backward(w->model, &pass, logits, w->input.targets));
    GS_TRY(gs_model_clear_gradients(w->model));
    GS_TRY(gs_optimizer_warm_up(w->optimizer));
    return w->device->ops->finish(w->device);
}

gs_status gs_begin_training(gs_worker *w) {
    if (!gs_has_stages(w)) GS_TRY(gs_warm_up(w)); /* a stage's first step is its warm-up */
    if (w->settings->begin) GS_TRY(gs_state_restore(w));
    GS_HOOKS(create, w);
    GS_TRY(gs_prepare_steps(w));
    GS_HOOKS(book, w);
    GS_TRY(gs_comm_barrier(w->comm));
    GS_HOOKS(begin, w);
    return GS_OK;
}
