#include "model/generate.h"

#include <stdlib.h>
#include "core/functions.h"
#include "core/philox.h"
#include "layer/make.h"

struct gs_generator {
    gs_model *model;
    gs_sampling sampling;
    size_t texts, context;
    int vocabulary; /* the number of different tokens, and of logits */
    int known;      /* tokens 0 .. known - 1 may be drawn */
    int *window;    /* (texts, context): the tokens that the model sees */
    size_t count;   /* tokens per text in the window ... */
    size_t past;    /* ... and how many of them are already processed */
    uint64_t drawn; /* tokens drawn for each text so far */
    float *x;       /* (texts, tokens), the input of a pass */
    float *logits;
    gs_mem input; /* x on the device */
};

static gs_status cache_one(gs_layer *l, void *max_batch) {
    if (l->fused) return GS_OK;
    if (l->ops->cache) return l->ops->cache(l, *(const size_t *)max_batch);
    if (l->ops->incremental) return GS_OK;
    return gs_layer_refuse(l, "it cannot take the tokens of a sequence one at a time: what it gives for "
                              "one of them may depend on those that come later");
}

gs_status gs_model_cache(gs_model *m) {
    return gs_layer_walk(m->net, cache_one, &m->max_batch);
}

/* ---- create ---- */

gs_status gs_generator_check(const gs_model *m) {
    const int rows = gs_layer_vocabulary(m->net);
    if (rows == 0)
        return gs_fail(GS_E_SHAPE,
                       "the model takes %s, not tokens: wanted a language model, which begins "
                       "with an embedding",
                       gs_shape_tuple(m->in).text);
    if ((size_t)gs_shape_tokens(m->out) != gs_shape_size(m->in))
        return gs_fail(GS_E_SHAPE,
                       "the model gives %s for %zu tokens: wanted a language model, which says for each "
                       "token what comes next",
                       gs_shape_tuple(m->out).text, gs_shape_size(m->in));
    if (m->out.c != rows)
        return gs_fail(GS_E_SHAPE,
                       "the model takes tokens from 0 to %d, but gives %d numbers for each: wanted a "
                       "language model, which gives one for each token that may come next",
                       rows - 1, m->out.c);
    return GS_OK;
}

static gs_status check_sampling(const gs_sampling *s) {
    if (!(s->temperature >= 0 && s->temperature <= GS_TEMPERATURE_MOST))
        return gs_fail(GS_E_USAGE, "the temperature is %g; wanted a number from 0 to %g",
                       (double)s->temperature, (double)GS_TEMPERATURE_MOST);
    if (s->top_k < 0)
        return gs_fail(GS_E_USAGE, "top-k is %d; wanted at least 1, or 0 for all tokens", s->top_k);
    return GS_OK;
}

static gs_status allocate(gs_generator *g) {
    const size_t tokens = g->texts * g->context, logits = g->texts * (size_t)g->vocabulary;
    GS_TRY(GS_NEW(g->window, tokens, "%zu tokens", tokens));
    GS_TRY(GS_NEW(g->x, tokens, "%zu tokens", tokens));
    GS_TRY(GS_NEW(g->logits, logits, "%zu logits", logits));
    GS_TRY(g->model->device->ops->alloc(g->model->device, tokens * sizeof *g->x, &g->input));
    return gs_model_cache(g->model);
}

gs_status gs_generator_create(gs_model *m, const gs_sampling *sampling, gs_generator **out) {
    *out = NULL;
    GS_TRY(gs_generator_check(m));
    GS_TRY(check_sampling(sampling));
    gs_generator *g;
    GS_TRY(GS_NEW(g, 1, "a generator"));
    *g = (gs_generator){.model = m,
                        .sampling = *sampling,
                        .texts = m->max_batch,
                        .context = (size_t)gs_model_targets(m),
                        .vocabulary = m->out.c,
                        .known = m->out.c};
    gs_status status = allocate(g);
    if (status == GS_OK)
        *out = g;
    else
        gs_generator_free(g);
    return status;
}

void gs_generator_free(gs_generator *g) {
    if (!g) return;
    g->model->device->ops->free(g->model->device, g->input);
    free(g->window);
    free(g->x);
    free(g->logits);
    free(g);
}

/* ---- the draw ---- */

/* Map a finite float to an integer above 0, preserving the order. Adding 0 makes -0 equal to 0. */
static uint32_t order_of(float x) {
    uint32_t bits;
    memcpy(&bits, &(float){x + 0.0F}, sizeof bits);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

static int count_from(const float *x, int count, uint32_t least) {
    int found = 0;
    for (int i = 0; i < count; i++) found += order_of(x[i]) >= least;
    return found;
}

/* The limit at or above which tokens may be drawn: order_of() of the top_k-th largest x, found bit by bit. */
static uint32_t limit_of(const float *x, int count, int top_k) {
    uint32_t limit = 0;
    for (uint32_t bit = 1u << 31; bit && top_k > 0 && top_k < count; bit >>= 1)
        if (count_from(x, count, limit | bit) >= top_k) limit |= bit;
    return limit;
}

static int largest_of(const float *x, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* A number in [0, 1) with 53 random bits. */
static double uniform(uint64_t seed, uint64_t text, uint64_t token) {
    uint32_t word[4];
    gs_philox(seed, gs_stream_hi(GS_STREAM_GENERATE, text), token, word);
    return (double)((uint64_t)word[0] << 21 | word[1] >> 11) * 0x1p-53;
}

int gs_sample(const gs_sampling *s, const float *x, int count, uint64_t text, uint64_t token) {
    const int best = largest_of(x, count);
    if (!(s->temperature > 0)) return best;
    const uint32_t limit = limit_of(x, count, s->top_k);
    double all = 0, sum = 0;
    for (int round = 0; round < 2; round++) {
        const double target = all * (round ? uniform(s->seed, text, token) : 0);
        int equal = s->top_k - count_from(x, count, limit + 1); /* how many at the limit may be drawn */
        for (int i = 0; i < count; i++) {
            const uint32_t order = order_of(x[i]);
            if (order < limit || (order == limit && --equal < 0)) continue;
            const double weight = (double)gs_exp((x[i] - x[best]) / s->temperature);
            if (round == 0)
                all += weight;
            else if ((sum += weight) > target)
                return i;
        }
    }
    return best; /* not reached, because u < 1 and both rounds compute the same sum */
}

/* ---- use ---- */

gs_status gs_generator_feed(gs_generator *g, const int *tokens, size_t count) {
    if (count > g->context - g->count)
        return gs_fail(GS_E_USAGE, "%zu token%s %sare more than the model's context, which is %zu", count,
                       gs_s(count), g->count ? "and those before " : "", g->context);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= g->vocabulary)
            return gs_fail(GS_E_USAGE, "token %zu is %d; the model takes 0 to %d", i, tokens[i],
                           g->vocabulary - 1);
    for (size_t t = 0; t < g->texts; t++)
        memcpy(g->window + t * g->context + g->count, tokens, count * sizeof *tokens);
    g->count += count;
    return GS_OK;
}

void gs_generator_know(gs_generator *g, int known) {
    if (known < 1 || known > g->vocabulary)
        gs_bug("gs_generator_know: %d of %d tokens", known, g->vocabulary);
    g->known = known;
}

/* Process the new tokens, and compute the logits after the last token of each text. */
static gs_status run(gs_generator *g) {
    gs_device *d = g->model->device;
    const size_t tokens = g->count - g->past, outputs = (size_t)g->vocabulary;
    const gs_pass pass = {.n = g->texts, .tokens = tokens, .past = g->past};
    gs_mem y;
    for (size_t t = 0; t < g->texts; t++)
        for (size_t i = 0; i < tokens; i++)
            g->x[t * tokens + i] = (float)g->window[t * g->context + g->past + i];
    GS_TRY(d->ops->write(d, g->input, g->x, g->texts * tokens * sizeof *g->x));
    const bool fixed_order = d->fixed_order;
    d->fixed_order = true;
    const gs_status status = gs_model_forward(g->model, &pass, g->input, &y);
    d->fixed_order = fixed_order;
    GS_TRY(status);
    for (size_t t = 0; t < g->texts; t++)
        GS_TRY(d->ops->read(d, g->logits + t * outputs, gs_at(y, ((t + 1) * tokens - 1) * outputs),
                            outputs * sizeof *g->logits));
    g->past = g->count;
    return GS_OK;
}

static gs_status check_logits(const gs_generator *g) {
    for (size_t i = 0; i < g->texts * (size_t)g->vocabulary; i++)
        if (!isfinite(g->logits[i]))
            return gs_fail(GS_E_DIVERGED, "the logit of token %zu is %g; wanted a finite number",
                           i % (size_t)g->vocabulary,
                           isnan(g->logits[i]) ? fabs((double)g->logits[i]) : (double)g->logits[i]);
    return GS_OK;
}

/* If the window is full, move its last half to its beginning. */
static void move_window(gs_generator *g) {
    const size_t kept = g->context / 2;
    if (g->count < g->context) return;
    for (size_t t = 0; t < g->texts; t++) {
        int *window = g->window + t * g->context;
        memmove(window, window + g->count - kept, kept * sizeof *window);
    }
    g->count = kept;
    g->past = 0;
}

gs_status gs_generator_next(gs_generator *g, int *tokens) {
    if (g->count == g->past) gs_bug("gs_generator_next: no token has been fed");
    GS_TRY(run(g));
    GS_TRY(check_logits(g));
    move_window(g);
    for (size_t t = 0; t < g->texts; t++) {
        tokens[t] = gs_sample(&g->sampling, g->logits + t * (size_t)g->vocabulary, g->known, t, g->drawn);
        g->window[t * g->context + g->count] = tokens[t];
    }
    g->count++;
    g->drawn++;
    return GS_OK;
}

const float *gs_generator_logits(const gs_generator *g) {
    return g->logits;
}
