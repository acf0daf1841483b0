/* Lab 19, as given: `train` computes attention, the mean gradient and --clip with lab.c, on the device "cpu".
 *
 * Attention reads the keys in tiles of TILE. A step hands the student's functions the mean gradient of this worker's
 * own tokens, and, to clip, a piece of each tensor, as with ZeRO. */
#include "tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/cpu.h"

/* ---- attention ---- */

enum { TILE = 16 };

/* One head of one sample: its queries, keys and values, without the other heads between them. */
typedef struct head {
    size_t d, length;
    bool causal;
    float *q, *k, *v;
} head;

static void read_head(const head *h, const float *x, size_t width) {
    for (size_t i = 0; i < h->length; i++, x += 3 * width) {
        memcpy(h->q + i * h->d, x, h->d * sizeof *x);
        memcpy(h->k + i * h->d, x + width, h->d * sizeof *x);
        memcpy(h->v + i * h->d, x + 2 * width, h->d * sizeof *x);
    }
}

/* The library keeps the largest score m and the sum of exp(s - m). The lab's log sum exp and 1 stand for the two. */
static void attend(const head *h, float *y, size_t width, float *softmax) {
    for (size_t i = 0; i < h->length; i++) {
        lab_running r = {-INFINITY, 0, y + i * width};
        memset(r.y, 0, h->d * sizeof *r.y);
        for (size_t j = 0; j < h->length; j += TILE) {
            const size_t count = h->length - j < TILE ? h->length - j : TILE;
            lab_attend(&r, h->d, h->q + i * h->d, h->causal ? i : h->length - 1, h->k + j * h->d,
                       h->v + j * h->d, j, count);
        }
        softmax[i] = lab_attend_end(&r, h->d);
        softmax[h->length + i] = 1;
    }
}

/* x (n, length, 3, heads, d); y (n, length, heads, d); softmax (n, heads, 2, length) */
static gs_status attention_forward(gs_device *device, gs_mem y_, gs_mem softmax_, gs_mem x_, size_t n,
                                   const gs_attention_sizes *s) {
    if (device->precision != GS_PRECISION_F32)
        return gs_fail(GS_E_USAGE, "lab 19 computes in f32; wanted no --precision");
    const size_t width = (size_t)s->width, heads = (size_t)s->heads, length = (size_t)s->length,
                 d = width / heads;
    const float *x = gs_cpu_floats(x_);
    float *y = gs_cpu_floats(y_), *softmax = gs_cpu_floats(softmax_);
    float *room = malloc(3 * length * d * sizeof *room);
    if (!room) return gs_fail(GS_E_MEMORY, "attention: no memory for a head of %zu tokens", length);
    const head h = {d, length, s->causal, room, room + length * d, room + 2 * length * d};
    for (size_t a = 0; a < n * heads; a++) {
        const size_t sample = a / heads, first = a % heads * d;
        read_head(&h, x + sample * length * 3 * width + first, width);
        attend(&h, y + sample * length * width + first, width, softmax + a * 2 * length);
    }
    free(room);
    return GS_OK;
}

/* ---- a step ---- */

typedef struct lab_state {
    float *own;       /* the mean gradient of this worker's tokens */
    lab_piece *piece; /* this worker's piece of each tensor, while the norm is computed */
} lab_state;

static gs_status create(gs_worker *w) {
    lab_state *l = w->strategy_state = calloc(1, sizeof *l);
    if (!l) return gs_fail(GS_E_MEMORY, "no memory for lab 19");
    if (!w->device->ops->host_memory) return gs_fail(GS_E_USAGE, "lab 19 trains on the CPU: --device cpu");
    w->optimizer->clip = 0; /* lab_clip clips */
    l->own = malloc(w->model->params * sizeof *l->own + 1);
    l->piece = calloc((size_t)w->model->param_count + 1, sizeof *l->piece);
    return l->own && l->piece ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for lab 19");
}

static void free_state(gs_worker *w) {
    lab_state *l = w->strategy_state;
    if (l) free(l->own), free(l->piece);
    free(l);
}

/* Divides this worker's sums by its tokens; the student's function turns these means into the mean of all workers. */
static gs_status mean_of_all(gs_worker *w, float *gradient, const float *stats) {
    const lab_state *l = w->strategy_state;
    const size_t params = w->model->params;
    const double tokens = stats[GS_STAT_SAMPLES];
    for (size_t i = 0; i < params; i++) l->own[i] = (float)(gradient[i] / tokens); /* 0 / 0 without a token */
    const lab_part part = {(size_t)tokens, stats[GS_STAT_LOSS] / tokens, l->own};
    double loss;
    return lab_mean_gradient(w->comm, 1, &part, params, gradient, &loss);
}

static gs_status clip(gs_worker *w, float *gradient) {
    const lab_state *l = w->strategy_state;
    const gs_model *m = w->model;
    double norm, factor;
    for (int t = 0; t < m->param_count; t++) {
        const gs_shard mine = gs_shard_of(m->param[t]->count, w->comm->rank, w->comm->size);
        l->piece[t] = (lab_piece){gradient + m->param[t]->at + mine.first, mine.count, 1};
    }
    GS_TRY(lab_clip(w->comm, (size_t)m->param_count, l->piece, (double)w->settings->clip, &norm, &factor));
    for (size_t i = 0; i < m->params; i++) gradient[i] *= (float)factor;
    w->optimizer->norm = norm;
    return GS_OK;
}

static gs_status step(gs_worker *w, gs_score *score) {
    gs_model *m = w->model;
    const gs_backend *ops = w->device->ops;
    const size_t bytes = (m->saved + GS_STATS) * sizeof(float);
    void *mapped;
    GS_TRY(gs_gradient(w));
    GS_TRY(gs_tell_wish_to_stop(w));
    GS_TRY(ops->map(w->device, m->gradients, bytes, &mapped));
    float *gradient = mapped, *stats = gradient + m->saved;
    GS_TRY(mean_of_all(w, gradient, stats));
    GS_TRY(gs_comm_all_reduce(w->comm, stats, GS_STATS, GS_F32, GS_SUM));
    *score = gs_score_of(stats);
    if (w->settings->clip > 0) GS_TRY(clip(w, gradient));
    GS_TRY(ops->unmap(w->device, m->gradients, mapped));
    GS_TRY(gs_phase_ends(w, GS_PHASE_SYNC));
    GS_TRY(gs_update(w, 1)); /* the gradient is a mean already */
    return gs_phase_ends(w, GS_PHASE_UPDATE);
}

static void describe(const gs_settings *s, char *text, size_t size) {
    (void)s;
    snprintf(text, size, "the mean gradient made by lab 19");
}

static gs_status check(const gs_settings *s) {
    if (s->bucket || s->wire != GS_WIRE_F32)
        return gs_fail(GS_E_USAGE, "lab 19 sums after backward, in f32: without --bucket and --wire");
    return GS_OK;
}

static const gs_strategy of_lab = {.name = "synchronous",
                                   .option = "--sync SCHEME",
                                   .check = check,
                                   .describe = describe,
                                   .create = create,
                                   .step = step,
                                   .free = free_state};

static void edit(gs_backend *table) {
    table->attention_forward = attention_forward;
}

void lab_install(void) {
    gs_backend_replace(edit);
    (void)gs_strategy_replace(of_lab.name, &of_lab);
}
