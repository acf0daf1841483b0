#include "train/pipeline/times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/median.h"
#include "core/philox.h"
#include "train/internal.h"

enum { LEAST = 3, MOST = 50 };
static const double ENOUGH = 5e-3; /* seconds for each piece */

typedef struct bench {
    const gs_settings *settings;
    gs_comm *beside; /* NULL: nobody */
    gs_device *device;
    gs_model *whole; /* its weights */
    size_t samples;
    gs_mem x, answers, dw;
    size_t x_bytes;
    int *place, pieces;
    float *other; /* what a core's own caches hold after other layers; NULL: they are left as they are */
    size_t others;
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
    b->x_bytes = floats * sizeof *host;
    gs_status status = gs_alloc(b->device, GS_MEMORY_DATA, b->x_bytes, &b->x);
    if (status == GS_OK) status = b->device->ops->write(b->device, b->x, host, b->x_bytes);
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

/* Seconds of a forward and of a backward. */
typedef struct took {
    double forward, backward;
} took;

/* In a step all other layers come between two turns of one. What a layer finds in its core's own caches is what the one
 * before it has just written, and no weights. */
static gs_status cool(bench *b, gs_mem written, size_t bytes) {
    enum { LINE = 16 /* floats */ };
    void *host;
    float sum = 0;
    if (!b->other) return GS_OK;
    for (size_t i = 0; i < b->others; i += LINE) b->other[i] += 1;
    if (!written.base) return GS_OK;
    GS_TRY(b->device->ops->map(b->device, written, bytes, &host));
    for (size_t i = 0; i < bytes / sizeof(float); i += LINE) sum += ((const volatile float *)host)[i];
    b->other[0] = sum;
    return b->device->ops->unmap(b->device, written, host);
}

/* Where others measure beside this thread, all begin together. */
static gs_status meet(const bench *b, double *start) {
    if (b->beside) GS_TRY(gs_comm_barrier(b->beside));
    *start = gs_seconds();
    return GS_OK;
}

static gs_status turn(bench *b, gs_model *m, gs_mem dy, gs_mem *y, took *t) {
    const gs_backend *ops = b->device->ops;
    const gs_pass pass = {.n = b->samples,
                          .training = true,
                          .fresh = true,
                          .seed = b->settings->seed,
                          .group = b->settings->batch_norm.group};
    gs_mem dx;
    double start;
    GS_TRY(cool(b, b->x, b->x_bytes));
    GS_TRY(meet(b, &start));
    GS_TRY(gs_model_forward(m, &pass, b->x, y));
    if (m->has_loss) GS_TRY(gs_model_loss(m, &pass, *y, b->answers));
    GS_TRY(ops->finish(b->device));
    t->forward = gs_seconds() - start;
    GS_TRY(cool(b, dy, gs_bytes_of(b->samples * gs_shape_size(m->out), dy.half)));
    GS_TRY(meet(b, &start));
    GS_TRY(gs_model_backward_stage(m, &pass, *y, b->answers, dy, &dx));
    GS_TRY(ops->finish(b->device));
    t->backward = gs_seconds() - start;
    return GS_OK;
}

/* The turn that counts: its mean over all threads, and the slowest of them. Alone they are the same. */
typedef struct result {
    took typical, slowest;
    double own; /* seconds of this thread's median turn, both ways */
} result;

static took least_of(const took *turns, int count) {
    took t = turns[0];
    for (int i = 1; i < count; i++) {
        t.forward = fmin(t.forward, turns[i].forward);
        t.backward = fmin(t.backward, turns[i].backward);
    }
    return t;
}

static took median_of(const took *turns, int count) {
    double forward[MOST] = {0}, backward[MOST] = {0}; /* count >= 1 */
    for (int i = 0; i < count; i++) {
        forward[i] = turns[i].forward;
        backward[i] = turns[i].backward;
    }
    return (took){gs_median(forward, count), gs_median(backward, count)};
}

/* A step is made of one turn of each layer, whichever comes: on busy cores that is seldom the fastest. */
static gs_status median_beside(gs_comm *beside, const took *turns, int count, result *out) {
    took sum[MOST], most[MOST];
    const size_t numbers = 2 * (size_t)count;
    for (int i = 0; i < count; i++) sum[i] = most[i] = turns[i];
    GS_TRY(gs_comm_all_reduce(beside, sum, numbers, GS_F64, GS_SUM));
    GS_TRY(gs_comm_all_reduce(beside, most, numbers, GS_F64, GS_MAX));
    const took all = median_of(sum, count);
    out->typical = (took){all.forward / beside->size, all.backward / beside->size};
    out->slowest = median_of(most, count);
    const took own = median_of(turns, count);
    out->own = own.forward + own.backward;
    return GS_OK;
}

/* How many turns, after one that took t: all threads make as many. */
static gs_status count_turns(const bench *b, took t, int *count) {
    const double one = fmax(t.forward + t.backward, 1e-9);
    double turns = fmin(fmax(ceil(ENOUGH / one), LEAST), MOST);
    if (b->beside) GS_TRY(gs_comm_broadcast(b->beside, &turns, 1, GS_F64, 0));
    *count = (int)turns;
    return GS_OK;
}

static gs_status time_piece(bench *b, gs_model *m, gs_mem dy, gs_mem *y, result *out) {
    took turns[MOST];
    int count;
    GS_TRY(turn(b, m, dy, y, &turns[0]));
    GS_TRY(count_turns(b, turns[0], &count));
    for (int i = 0; i < count; i++) GS_TRY(turn(b, m, dy, y, &turns[i]));
    if (b->beside) return median_beside(b->beside, turns, count, out);
    out->typical = out->slowest = least_of(turns, count);
    return GS_OK;
}

/* Measures one piece; its output becomes the input of the next. Where dy lies in 16 bits, `fill` makes each number one
 * of two small ones. */
static gs_status measure_piece(bench *b, int first, int last, result *out) {
    const gs_backend *ops = b->device->ops;
    gs_model *m;
    gs_mem dy = GS_NONE, y, next = GS_NONE;
    const gs_model_wishes piece = {.of = b->whole, .max_batch = b->samples, .first = first, .last = last};
    GS_TRY(gs_model_create(b->device, &piece, &m));
    const bool half = m->net->memory.y_half;
    const size_t bytes = gs_bytes_of(b->samples * gs_shape_size(m->out), half),
                 floats = (bytes + sizeof(float) - 1) / sizeof(float);
    gs_status status = bind_gradients(b, m, first, last);
    if (status == GS_OK) status = gs_alloc(b->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), &dy);
    if (status == GS_OK) status = ops->fill(b->device, dy, 1e-3f, floats);
    dy.half = half;
    if (status == GS_OK) status = time_piece(b, m, dy, &y, out);
    if (status == GS_OK) status = gs_alloc(b->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), &next);
    if (status == GS_OK) status = ops->copy(b->device, next, y, floats);
    next.half = half;
    b->x_bytes = bytes;
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

static gs_status allocate(size_t layers, gs_layer_times *out) {
    double **const arrays[] = {&out->forward, &out->backward, &out->both, &out->slowest};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc(layers + 1, sizeof(double))))
            return gs_fail(GS_E_MEMORY, "no memory for the times of %zu layers", layers);
    out->layers = (int)layers;
    return GS_OK;
}

/* A part is measured without its group. */
static gs_status sum_nothing(void *context, gs_device *d, gs_mem x, size_t count) {
    (void)context, (void)d, (void)x, (void)count;
    return GS_OK;
}

static gs_status send_nothing(void *context, gs_device *d, gs_mem whole, gs_mem part, size_t n, size_t each) {
    (void)context, (void)d, (void)whole, (void)part, (void)n, (void)each;
    return GS_OK;
}

/* Twice a core's own caches. */
static gs_status make_other(bench *b) {
    enum { USUAL = 1 << 20 /* bytes, where the system does not say */ };
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    b->others = 2 * (bytes > 0 ? (size_t)bytes : USUAL) / sizeof *b->other;
    b->other = calloc(b->others, sizeof *b->other);
    return b->other ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for %zu floats", b->others);
}

/* own: this thread's seconds for all layers. */
static gs_status compare_threads(gs_comm *beside, double own, double *uneven) {
    double sum = own, most = own;
    *uneven = 1;
    if (!beside) return GS_OK;
    GS_TRY(gs_comm_all_reduce(beside, &sum, 1, GS_F64, GS_SUM));
    GS_TRY(gs_comm_all_reduce(beside, &most, 1, GS_F64, GS_MAX));
    if (sum > 0) *uneven = most * beside->size / sum;
    return GS_OK;
}

static gs_status measure(bench *b, const gs_layer_bench *q, gs_layer_times *out) {
    const gs_settings *s = b->settings;
    gs_model_wishes all = {
        .text = s->model, .in = q->data->shape, .loss = s->loss, .recompute = s->recompute};
    if (q->group) all.tensor = *q->group;
    all.tensor.sum = sum_nothing;
    all.tensor.gather = all.tensor.reduce = send_nothing;
    GS_TRY(gs_device_open(q->device, q->threads, &b->device));
    b->device->precision = s->precision;
    GS_TRY(gs_model_create(b->device, &all, &b->whole));
    b->whole->net->half_ends = true;
    const size_t layers = (size_t)b->whole->net->children;
    out->samples = b->samples;
    GS_TRY(allocate(layers, out));
    b->place = calloc(layers + 2, sizeof *b->place);
    if (!b->place) return gs_fail(GS_E_MEMORY, "no memory for the times of %zu layers", layers);
    if (q->beside && strcmp(q->device, "cpu") == 0) GS_TRY(make_other(b));
    GS_TRY(make_input(b, q->data));
    b->pieces = gs_pipeline_places(b->whole, b->place);
    double own = 0;
    for (int i = 0; i < b->pieces; i++) {
        const int at = b->place[i];
        result r = {.own = 0};
        GS_TRY(measure_piece(b, at, b->place[i + 1], &r));
        out->forward[at] = r.typical.forward;
        out->backward[at] = r.typical.backward;
        out->both[at] = r.typical.forward + r.typical.backward;
        out->slowest[at] = r.slowest.forward + r.slowest.backward;
        own += r.own;
    }
    return compare_threads(b->beside, own, &out->uneven);
}

gs_status gs_layer_times_of(const gs_layer_bench *q, gs_layer_times *out) {
    bench b = {.settings = q->settings, .beside = q->beside, .samples = q->samples};
    *out = (gs_layer_times){0};
    const gs_status status = measure(&b, q, out);
    if (b.device) {
        b.device->ops->free(b.device, b.x);
        b.device->ops->free(b.device, b.answers);
        b.device->ops->free(b.device, b.dw);
    }
    gs_model_free(b.whole);
    gs_device_close(b.device);
    free(b.place);
    free(b.other);
    return status;
}

void gs_layer_times_free(gs_layer_times *t) {
    free(t->forward);
    free(t->backward);
    free(t->both);
    free(t->slowest);
    *t = (gs_layer_times){0};
}
