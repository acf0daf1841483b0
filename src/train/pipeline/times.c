#include "train/pipeline/times.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/philox.h"
#include "train/internal.h"

enum { LEAST = 3, MOST = 50 };
static const double ENOUGH = 5e-3; /* seconds for each piece */

typedef struct bench {
    const gs_settings *settings;
    gs_device *device;
    gs_model *whole; /* its weights */
    size_t samples;
    gs_mem x, answers, dw;
    int *place, pieces;
} bench;

/* ---- what goes in ---- */

static gs_status make_input(bench *b, const gs_dataset *data) {
    const size_t floats = b->samples * gs_shape_size(data->shape);
    const size_t answers = b->samples * gs_dataset_answer_bytes(data);
    float *host = malloc(floats * sizeof *host);
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for %zu samples", b->samples);
    for (size_t i = 0; i < floats; i++) {
        uint32_t word[4];
        gs_philox(b->settings->seed, gs_stream_hi(GS_STREAM_WEIGHTS, 0), i, word);
        host[i] = data->text ? 0 : gs_uniform(word[0]);
    }
    gs_status status = gs_alloc(b->device, GS_MEMORY_DATA, floats * sizeof *host, &b->x);
    if (status == GS_OK) status = b->device->ops->write(b->device, b->x, host, floats * sizeof *host);
    free(host);
    GS_TRY(status);
    GS_TRY(gs_alloc(b->device, GS_MEMORY_DATA, answers, &b->answers));
    return b->device->ops->fill(b->device, b->answers, 0, answers / sizeof(float));
}

/* ---- a piece ---- */

typedef struct counted {
    size_t own, borrowed; /* floats */
    gs_mem dw;
} counted;

static gs_status add_params(gs_layer *l, void *context) {
    counted *c = context;
    for (int i = 0; i < l->params; i++) {
        l->param[i].dw = gs_at(c->dw, c->own);
        c->own += l->param[i].count;
    }
    if (l->borrowed) c->borrowed = l->borrowed->count;
    return GS_OK;
}

/* The gradients of its layers, behind them that of a table that one of them has borrowed (layer/tied.c), and the counts
 * of the loss. */
static gs_status bind_gradients(bench *b, gs_model *m, int first, int last) {
    counted c = {0};
    for (int i = first; i < last; i++) (void)gs_layer_walk(m->net->child[i], add_params, &c);
    const size_t own = c.own, all = c.own + c.borrowed;
    GS_TRY(gs_alloc(b->device, GS_MEMORY_GRADIENTS, (all + GS_STATS) * sizeof(float), &b->dw));
    for (int i = 0; i < m->param_count; i++) m->param[i]->dw = gs_at(b->dw, own);
    m->gradients = gs_at(b->dw, all);
    m->gradients.at -= m->saved; /* gs_model_stats finds the counts; size_t counts around its end */
    c = (counted){0, 0, b->dw};
    for (int i = first; i < last; i++) (void)gs_layer_walk(m->net->child[i], add_params, &c);
    return gs_model_clear_stats(m);
}

static double least(double a, double b) {
    return a > 0 && a < b ? a : b;
}

/* Forward and backward; *forward, *backward: the least so far. */
static gs_status turn(bench *b, gs_model *m, gs_mem dy, gs_mem *y, double *forward, double *backward) {
    const gs_backend *ops = b->device->ops;
    const gs_pass pass = {.n = b->samples,
                          .training = true,
                          .fresh = true,
                          .seed = b->settings->seed,
                          .group = b->settings->batch_norm.group};
    gs_mem dx;
    const double start = gs_seconds();
    GS_TRY(gs_model_forward(m, &pass, b->x, y));
    if (m->has_loss) GS_TRY(gs_model_loss(m, &pass, *y, b->answers));
    GS_TRY(ops->finish(b->device));
    const double middle = gs_seconds();
    GS_TRY(gs_model_backward_stage(m, &pass, *y, b->answers, dy, &dx));
    GS_TRY(ops->finish(b->device));
    *forward = least(*forward, middle - start);
    *backward = least(*backward, gs_seconds() - middle);
    return GS_OK;
}

static gs_status time_piece(bench *b, gs_model *m, gs_mem dy, gs_mem *y, double *forward, double *backward) {
    double unused[2] = {0, 0};
    GS_TRY(turn(b, m, dy, y, &unused[0], &unused[1]));
    const double start = gs_seconds();
    for (int i = 0; i < MOST && (i < LEAST || gs_seconds() - start < ENOUGH); i++)
        GS_TRY(turn(b, m, dy, y, forward, backward));
    return GS_OK;
}

/* Then its output is the next one's input. */
static gs_status measure_piece(bench *b, int first, int last, double *forward, double *backward) {
    const gs_backend *ops = b->device->ops;
    gs_model *m;
    gs_mem dy = GS_NONE, y, next = GS_NONE;
    GS_TRY(gs_model_create_stage(b->whole, b->settings->model, b->samples, first, last, &m));
    const size_t out = b->samples * gs_shape_size(m->out);
    gs_status status = bind_gradients(b, m, first, last);
    if (status == GS_OK) status = gs_alloc(b->device, GS_MEMORY_ACTIVATIONS, out * sizeof(float), &dy);
    if (status == GS_OK) status = ops->fill(b->device, dy, 1e-3f, out);
    if (status == GS_OK) status = time_piece(b, m, dy, &y, forward, backward);
    if (status == GS_OK) status = gs_alloc(b->device, GS_MEMORY_ACTIVATIONS, out * sizeof(float), &next);
    if (status == GS_OK) status = ops->copy(b->device, next, y, out);
    if (status == GS_OK) status = ops->finish(b->device);
    gs_model_free(m);
    ops->free(b->device, dy);
    ops->free(b->device, b->x);
    ops->free(b->device, b->dw);
    b->x = next;
    b->dw = GS_NONE;
    return status;
}

/* ---- all of them ---- */

static gs_status measure(bench *b, const gs_dataset *data, const char *device, int threads,
                         gs_layer_times *out) {
    const gs_settings *s = b->settings;
    GS_TRY(gs_device_open(device, threads, &b->device));
    b->device->precision = s->precision;
    GS_TRY(gs_model_create_weights(b->device, s->model, data->shape, s->loss, s->seed, s->recompute, NULL,
                                   &b->whole));
    const size_t layers = (size_t)b->whole->net->children;
    out->layers = (int)layers;
    out->samples = b->samples;
    out->forward = calloc(layers, sizeof *out->forward);
    out->backward = calloc(layers, sizeof *out->backward);
    out->both = calloc(layers, sizeof *out->both);
    b->place = calloc(layers + 2, sizeof *b->place);
    if (!out->forward || !out->backward || !out->both || !b->place)
        return gs_fail(GS_E_MEMORY, "no memory for the times of %zu layers", layers);
    GS_TRY(make_input(b, data));
    b->pieces = gs_pipeline_places(b->whole, b->place);
    for (int i = 0; i < b->pieces; i++) {
        const int at = b->place[i];
        GS_TRY(measure_piece(b, at, b->place[i + 1], &out->forward[at], &out->backward[at]));
        out->both[at] = out->forward[at] + out->backward[at];
    }
    return GS_OK;
}

gs_status gs_layer_times_measure(const gs_settings *s, const gs_dataset *data, const char *device,
                                 int threads, size_t samples, gs_layer_times *out) {
    bench b = {.settings = s, .samples = samples};
    *out = (gs_layer_times){0};
    const gs_status status = measure(&b, data, device, threads, out);
    if (b.device) {
        b.device->ops->free(b.device, b.x);
        b.device->ops->free(b.device, b.answers);
        b.device->ops->free(b.device, b.dw);
    }
    gs_model_free(b.whole);
    gs_device_close(b.device);
    free(b.place);
    return status;
}

void gs_layer_times_free(gs_layer_times *t) {
    free(t->forward);
    free(t->backward);
    free(t->both);
    *t = (gs_layer_times){0};
}
