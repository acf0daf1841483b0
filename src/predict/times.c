#include "predict/times.h"

#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/median.h"
#include "core/philox.h"
#include "layer/watch.h"

enum { LEAST = 5, MOST = 50 };
static const double ENOUGH = 5e-3; /* seconds for each layer */

typedef struct bench {
    const gs_layer_bench *asked;
    gs_device *device;
    gs_model *model;
    gs_optimizer *optimizer; /* NULL: no updates */
    gs_mem x, targets;
    int layers; /* children of the outermost sequence */
    int *child; /* [layers, by number]: the layer's index among these children; -1: not one of them */
    gs_layer_watcher watcher;
    bool backward;
    double mark;
    /* [turns][numbers]: seconds of each layer's forward, of each backward, and of the update; turn: the current turn */
    double *turns, *turn;
    size_t numbers;
} bench;

static gs_status make_input(bench *b) {
    const gs_dataset *data = b->asked->data;
    const size_t n = b->asked->samples, floats = n * gs_shape_size(data->shape),
                 targets = n * gs_dataset_target_bytes(data);
    float *host;
    GS_TRY(GS_NEW(host, floats, "%zu samples", n));
    for (size_t i = 0; i < floats; i++) {
        uint32_t word[4];
        gs_philox(b->asked->settings->seed, gs_stream_hi(GS_STREAM_WEIGHTS, 0), i, word);
        host[i] = data->text ? 0 : gs_uniform(word[0]);
    }
    gs_status status = gs_alloc(b->device, GS_MEMORY_DATA, floats * sizeof *host, &b->x);
    if (status == GS_OK) status = b->device->ops->write(b->device, b->x, host, floats * sizeof *host);
    free(host);
    GS_TRY(status);
    GS_TRY(gs_alloc(b->device, GS_MEMORY_DATA, targets, &b->targets));
    return b->device->ops->fill(b->device, b->targets, 0, targets / sizeof(float));
}

/* ---- a turn ---- */

/* Add the time since the last mark to layer `child`, in the current direction. */
static gs_status lap(bench *b, int child) {
    GS_TRY(b->device->ops->finish(b->device));
    const double now = gs_seconds();
    b->turn[(b->backward ? b->layers : 0) + child] += now - b->mark;
    b->mark = now;
    return GS_OK;
}

/* All threads begin the layer together. */
static gs_status before(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                        gs_mem in) {
    bench *b = context;
    (void)direction, (void)pass, (void)in;
    if (b->child[l->number] < 0) return GS_OK;
    GS_TRY(lap(b, b->child[l->number]));
    if (b->asked->peers) GS_TRY(gs_comm_barrier(b->asked->peers));
    b->mark = gs_seconds();
    return GS_OK;
}

static gs_status after(void *context, const gs_layer *l, gs_direction direction, const gs_pass *pass,
                       gs_mem out) {
    bench *b = context;
    (void)direction, (void)pass, (void)out;
    return b->child[l->number] < 0 ? GS_OK : lap(b, b->child[l->number]);
}

/* The last layer's time includes the loss. */
static gs_status make_turn(bench *b) {
    const gs_settings *s = b->asked->settings;
    const gs_pass pass = {.n = b->asked->samples,
                          .training = true,
                          .fresh = true,
                          .seed = s->seed,
                          .group = s->batch_norm.group};
    gs_mem y;
    memset(b->turn, 0, b->numbers * sizeof *b->turn);
    b->backward = false;
    GS_TRY(gs_model_clear_stats(b->model));
    b->mark = gs_seconds();
    GS_TRY(gs_model_forward(b->model, &pass, b->x, &y));
    GS_TRY(gs_model_loss(b->model, &pass, y, b->targets));
    GS_TRY(lap(b, b->layers - 1));
    b->backward = true;
    GS_TRY(gs_model_backward(b->model, &pass, y, b->targets));
    GS_TRY(b->device->ops->finish(b->device));
    b->mark = gs_seconds();
    if (b->optimizer) GS_TRY(gs_optimizer_update(b->optimizer, (double)pass.n));
    return lap(b, b->layers);
}

/* *count: turns after the first one, equal in all threads. */
static gs_status make_turns(bench *b, int *count) {
    double one = 0;
    b->turn = b->turns;
    GS_TRY(make_turn(b));
    for (size_t i = 0; i < b->numbers; i++) one += b->turn[i];
    double turns = fmin(fmax(ceil(ENOUGH * b->layers / fmax(one, 1e-9)), LEAST), MOST);
    if (b->asked->peers) GS_TRY(gs_comm_broadcast(b->asked->peers, &turns, 1, GS_F64, 0));
    *count = (int)turns;
    for (int i = 0; i < *count; i++, b->turn += b->numbers) GS_TRY(make_turn(b));
    return GS_OK;
}

/* ---- medians ---- */

static double median_of(const bench *b, const double *turns, int count, int number) {
    double x[MOST] = {0};
    for (int i = 0; i < count; i++) x[i] = turns[(size_t)i * b->numbers + (size_t)number];
    return gs_median(x, count);
}

static gs_status summarise(const bench *b, int count, double *sum, double *most, gs_layer_times *out) {
    gs_comm *peers = b->asked->peers;
    const size_t all = (size_t)count * b->numbers;
    const int ranks = peers ? peers->size : 1, p = b->layers;
    double own = 0, largest;
    memcpy(sum, b->turns, all * sizeof *sum);
    memcpy(most, b->turns, all * sizeof *most);
    if (peers) GS_TRY(gs_comm_all_reduce(peers, sum, all, GS_F64, GS_SUM));
    if (peers) GS_TRY(gs_comm_all_reduce(peers, most, all, GS_F64, GS_MAX));
    for (int i = 0; i < p; i++) {
        out->forward[i] = median_of(b, sum, count, i) / ranks;
        out->backward[i] = median_of(b, sum, count, p + i) / ranks;
        out->both[i] = out->forward[i] + out->backward[i];
        out->slowest[i] = median_of(b, most, count, i) + median_of(b, most, count, p + i);
        own += median_of(b, b->turns, count, i) + median_of(b, b->turns, count, p + i);
    }
    out->update = b->optimizer ? median_of(b, sum, count, 2 * p) / ranks : 0;
    out->uneven = 1;
    if (!peers) return GS_OK;
    largest = own;
    GS_TRY(gs_comm_all_reduce(peers, &own, 1, GS_F64, GS_SUM));
    GS_TRY(gs_comm_all_reduce(peers, &largest, 1, GS_F64, GS_MAX));
    if (own > 0) out->uneven = largest * ranks / own;
    return GS_OK;
}

/* ---- the whole measurement ---- */

/* A tensor group's shard is measured without messages. */
static gs_status sum_nothing(void *context, gs_device *d, gs_mem x, size_t count) {
    (void)context, (void)d, (void)x, (void)count;
    return GS_OK;
}

static gs_status send_nothing(void *context, gs_device *d, gs_mem whole, gs_mem part, size_t n, size_t each) {
    (void)context, (void)d, (void)whole, (void)part, (void)n, (void)each;
    return GS_OK;
}

static gs_status make_model(bench *b) {
    const gs_layer_bench *q = b->asked;
    const gs_settings *s = q->settings;
    gs_model_config w = {.text = s->model,
                         .in = q->data->shape,
                         .max_batch = q->samples,
                         .loss = s->loss,
                         .recompute = s->recompute};
    if (q->group) w.tensor = *q->group;
    w.tensor.sum = sum_nothing;
    w.tensor.gather = w.tensor.reduce = send_nothing;
    GS_TRY(gs_device_open(q->device, q->threads, &b->device));
    b->device->precision = s->precision;
    GS_TRY(gs_model_create(b->device, &w, &b->model));
    b->model->knows_labels = true; /* all labels are 0 */
    const gs_hyperparameters n = gs_settings_numbers(s);
    if (!q->updates) return GS_OK;
    GS_TRY(gs_optimizer_create(s->optimizer, b->model, 0, n.momentum, n.weight_decay, &b->optimizer));
    b->optimizer->clip = s->clip;
    return GS_OK;
}

static gs_status find_children(bench *b) {
    const gs_layer *net = b->model->net;
    const size_t all = gs_layer_count(net);
    GS_TRY(GS_NEW(b->child, all, "%zu layers", all));
    for (size_t i = 0; i < all; i++) b->child[i] = -1;
    for (int i = 0; i < net->children; i++) b->child[net->child[i]->number] = i;
    b->layers = net->children;
    b->numbers = 2 * (size_t)b->layers + 1;
    return GS_NEW(b->turns, MOST * b->numbers, "the times of %d layers", b->layers);
}

static gs_status measure(bench *b, gs_layer_times *out) {
    int count;
    GS_TRY(make_model(b));
    GS_TRY(gs_layer_times_create(b->model->net->children, out));
    out->samples = b->asked->samples;
    GS_TRY(find_children(b));
    GS_TRY(make_input(b));
    b->watcher = (gs_layer_watcher){b, before, after, NULL};
    gs_layer_watch_begin(b->model->net, &b->watcher);
    GS_TRY(make_turns(b, &count));
    double *room;
    GS_TRY(GS_NEW(room, 2 * (size_t)count * b->numbers, "the times of %d layers", out->layers));
    const gs_status status = summarise(b, count, room, room + (size_t)count * b->numbers, out);
    free(room);
    return status;
}

gs_status gs_layer_times_of(const gs_layer_bench *q, gs_layer_times *out) {
    bench b = {.asked = q};
    *out = (gs_layer_times){0};
    const gs_status status = measure(&b, out);
    if (b.device) b.device->ops->free(b.device, b.x);
    if (b.device) b.device->ops->free(b.device, b.targets);
    gs_optimizer_free(b.optimizer);
    gs_model_free(b.model);
    gs_device_close(b.device);
    free(b.child);
    free(b.turns);
    return status;
}

gs_status gs_layer_times_create(int layers, gs_layer_times *out) {
    double *all;
    GS_TRY(GS_NEW(all, 4 * layers, "the times of %d layers", layers));
    *out = (gs_layer_times){.layers = layers,
                            .forward = all,
                            .backward = all + layers,
                            .both = all + 2 * layers,
                            .slowest = all + 3 * layers,
                            .uneven = 1};
    return GS_OK;
}

void gs_layer_times_free(gs_layer_times *t) {
    free(t->forward);
    *t = (gs_layer_times){0};
}
