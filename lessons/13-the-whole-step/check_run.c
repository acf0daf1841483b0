#include "check_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/reducers/buckets.h"

/* Rows of drawn numbers (lab_number, lab_pick). */
enum { SHAPES_ROW, ORDER_ROW, WEIGHTS_ROW, SAYS_ROW, JUNK_ROW };

/* ---- cases ---- */

static const lab_case fixed[] = {
    {1, 2, 2, 1, {1}, 1, 0},
    {2, 2, 2, 1, {1}, 1, 0},
    {2, 4, 4, 3, {2, 0, 1}, 1, 0},
    {2, 3, 2, 3, {2, 0, 1}, 1, 0},       /* 1 sample is left for 2 ranks */
    {2, 7, 3, 4, {3, 0, 4, 2}, 5, 0.5f}, /* nothing divides */
    {4, 10, 4, 5, {0, 5, 0, 7, 2}, 8, 0.9f},
    {2, 4, 4, 3, {2, 1, 0}, 0, 0}, /* a bucket has only the counts, final after the last relu */
};
enum { FIXED = sizeof fixed / sizeof *fixed };

lab_case lab_case_of(size_t i) {
    if (i < FIXED) return fixed[i];
    const size_t at = 20 * i;
    lab_case c = {.ranks = 1 + (int)lab_pick(SHAPES_ROW, at, 5),
                  .batch = 1 + lab_pick(SHAPES_ROW, at + 1, 12),
                  .layers = 1 + (int)lab_pick(SHAPES_ROW, at + 2, MOST_LAYERS),
                  .least = 1 + lab_pick(SHAPES_ROW, at + 3, 20),
                  .momentum = 0.1f * (float)lab_pick(SHAPES_ROW, at + 4, 10)};
    c.samples = c.batch + lab_pick(SHAPES_ROW, at + 5, 3 * c.batch + 1);
    for (int l = 0; l < c.layers; l++) {
        size_t count = lab_pick(SHAPES_ROW, at + 6 + (size_t)l, 9);
        c.count[l] = count < 3 && l > 0 ? 0 : count + 1;
    }
    return c;
}

const char *lab_case_text(const lab_case *c) {
    static _Thread_local char text[300];
    snprintf(text, sizeof text, "%d rank%s, %zu sample%s in batches of %zu, layers of", c->ranks,
             gs_s((size_t)c->ranks), c->samples, gs_s(c->samples), c->batch);
    for (int l = 0; l < c->layers; l++) lab_append(text, sizeof text, " %zu", c->count[l]);
    lab_append(text, sizeof text, " parameters");
    return text;
}

size_t lab_steps_of(const lab_case *c) {
    return (c->samples + c->batch - 1) / c->batch;
}

gs_shard lab_batch_of(size_t samples, size_t batch, size_t number) {
    size_t first = number * batch, rest = samples - first;
    return (gs_shard){first, rest < batch ? rest : batch};
}

bool lab_near(double got, double wanted) {
    return fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted));
}

double lab_says(size_t sample, size_t i) {
    return (double)lab_number(SAYS_ROW, sample * MOST_PARAMS + i);
}

/* ---- the record of calls ---- */

static const char *const words[] = {"load", "forward", "loss", "backward", "hook", "sum", "wait"};

static void note(lab_sim *s, event_kind kind, int index) {
    if (s->events < MOST_EVENTS) s->event[s->events++] = (event){kind, index};
}

const char *lab_event_text(const event *e) {
    static _Thread_local char text[30];
    if (e->kind == LOADS || e->kind == LOSSES) return words[e->kind];
    snprintf(text, sizeof text, "%s %d", words[e->kind], e->index);
    return text;
}

const char *lab_sim_text(const lab_sim *s) {
    static _Thread_local char text[700];
    strcpy(text, s->events > 0 ? "" : "none");
    for (int i = 0; i < s->events; i++)
        lab_append(text, sizeof text, "%s%s", i > 0 ? ", " : "", lab_event_text(&s->event[i]));
    return text;
}

int lab_sim_find(const lab_sim *s, event_kind kind, int index) {
    for (int i = 0; i < s->events; i++)
        if (s->event[i].kind == kind && s->event[i].index == index) return i;
    return -1;
}

int lab_sim_last_layer(const lab_sim *s, int bucket) {
    int l = s->step.layers - 1;
    while (l > 0 && s->layer[l].first > s->bucket[bucket].first) l--;
    return l;
}

static gs_status fail(lab_sim *s, gs_status status) {
    if (status != GS_OK && s->failed == GS_OK) {
        s->failed = status;
        snprintf(s->message, sizeof s->message, "%s", gs_message());
    }
    return status;
}

#define RULE(s, condition, ...)                                                                              \
    do {                                                                                                     \
        if (!(condition)) return fail(s, gs_fail(GS_E_USAGE, __VA_ARGS__));                                  \
    } while (0)

/* Fails if this call is to fail. */
static gs_status works(lab_sim *s, event_kind kind, int index) {
    const bool first = s->breaks && !s->broken && s->breaks->kind == kind && s->breaks->index == index;
    s->broken = s->broken || first;
    return s->broken ? lab_broken(first) : GS_OK;
}

/* ---- load, forward, loss, backward ---- */

static gs_status load(lab_run *run, const size_t *sample, size_t count) {
    lab_sim *s = (lab_sim *)run;
    GS_TRY(works(s, LOADS, 0));
    RULE(s, s->events == 0, "lab_load comes after these calls: %s", lab_sim_text(s));
    RULE(s, count > 0 && count <= s->step.batch, "lab_load: %zu samples; wanted 1 to %zu", count,
         s->step.batch);
    for (size_t i = 0; i < count; i++)
        RULE(s, sample[i] < s->step.samples, "lab_load: sample %zu; there are 0 to %zu", sample[i],
             s->step.samples - 1);
    memcpy(s->loaded, sample, count * sizeof *sample);
    s->count = count;
    note(s, LOADS, 0);
    return GS_OK;
}

static gs_status forward(lab_run *run, int layer) {
    lab_sim *s = (lab_sim *)run;
    GS_TRY(works(s, FORWARD, layer));
    RULE(s, s->count > 0, "forward of layer %d: nothing is loaded", layer);
    RULE(s, layer == s->forwards, "forward of layer %d comes after these calls: %s", layer, lab_sim_text(s));
    s->forwards++;
    note(s, FORWARD, layer);
    return GS_OK;
}

static gs_status loss(lab_run *run, float *counts) {
    lab_sim *s = (lab_sim *)run;
    double sum = 0;
    GS_TRY(works(s, LOSSES, 0));
    RULE(s, s->forwards == s->step.layers && lab_sim_find(s, LOSSES, 0) < 0,
         "the loss comes after these calls: %s", lab_sim_text(s));
    for (size_t k = 0; k < s->count; k++)
        for (size_t i = 0; i < s->step.params; i++)
            sum += pow((double)s->weights[i] - lab_says(s->loaded[k], i), 2) / 2;
    const float all[GS_STATS] = {(float)sum, (float)(s->count / 2), (float)s->count, 0};
    memcpy(s->counts, all, sizeof all);
    memcpy(counts, all, sizeof all);
    note(s, LOSSES, 0);
    return GS_OK;
}

static gs_status backward(lab_run *run, int layer, float *gradients) {
    lab_sim *s = (lab_sim *)run;
    GS_TRY(works(s, BACKWARD, layer));
    RULE(s, lab_sim_find(s, LOSSES, 0) >= 0, "backward of layer %d comes before the loss", layer);
    RULE(s, layer == s->step.layers - 1 - s->backwards, "backward of layer %d comes after these calls: %s",
         layer, lab_sim_text(s));
    for (size_t i = 0; i < s->layer[layer].count; i++) {
        double sum = 0;
        size_t p = s->layer[layer].first + i;
        for (size_t k = 0; k < s->count; k++) sum += (double)s->weights[p] - lab_says(s->loaded[k], p);
        gradients[i] = (float)sum;
    }
    s->backwards++;
    note(s, BACKWARD, layer);
    return GS_OK;
}

static gs_status hook(lab_run *run, int layer) {
    lab_sim *s = (lab_sim *)run;
    GS_TRY(works(s, HOOK, layer));
    note(s, HOOK, layer);
    return GS_OK;
}

/* ---- sums: computed in begin, and copied in the wait ---- */

static gs_status begin(lab_run *run, int bucket, const float *data) {
    lab_sim *s = (lab_sim *)run;
    const gs_chunk *b = &s->bucket[bucket];
    GS_TRY(works(s, BEGINS, bucket));
    RULE(s, !s->begun[bucket], "the sum of bucket %d begins a second time; calls before this: %s", bucket,
         lab_sim_text(s));
    RULE(s, bucket == 0 || s->begun[bucket - 1],
         "the sum of bucket %d begins before that of bucket %d; calls before this: %s", bucket, bucket - 1,
         lab_sim_text(s));
    s->begun[bucket] = true;
    note(s, BEGINS, bucket);
    memcpy(s->sums + b->first, data, b->count * sizeof *data);
    if (!s->sync) return GS_OK;
    GS_TRY(fail(
        s, gs_context(gs_sync_run(s->sync, s->sums + b->first, b->count), "the sum of bucket %d", bucket)));
    s->sent.messages += s->sync->counted.messages;
    s->sent.bytes += s->sync->counted.bytes;
    return GS_OK;
}

static gs_status wait_for(lab_run *run, int bucket, float *data) {
    lab_sim *s = (lab_sim *)run;
    const gs_chunk *b = &s->bucket[bucket];
    GS_TRY(works(s, WAITS, bucket));
    RULE(s, s->begun[bucket], "the wait for bucket %d comes before its sum begins; calls before this: %s",
         bucket, lab_sim_text(s));
    s->waited[bucket] = true;
    note(s, WAITS, bucket);
    memcpy(data, s->sums + b->first, b->count * sizeof *data);
    return GS_OK;
}

gs_status lab_sim_summed(const lab_sim *s) {
    for (int b = 0; b < s->step.buckets; b++) {
        LAB_CHECK(s->begun[b], "bucket %d of %d is not summed; all calls: %s", b, s->step.buckets,
                  lab_sim_text(s));
        LAB_CHECK(s->waited[b], "the step does not wait for the sum of bucket %d of %d; all calls: %s", b,
                  s->step.buckets, lab_sim_text(s));
    }
    return GS_OK;
}

gs_sync_cost lab_sim_cost(const lab_sim *s) {
    gs_sync_cost sum = {0}, cost;
    for (int b = 0; b < s->step.buckets && s->step.ranks > 1; b++) {
        gs_sync_cost_of(&gs_sync_ring, s->step.ranks, s->step.rank,
                        (gs_sync_array){.count = s->bucket[b].count}, &cost);
        sum.rounds += cost.rounds;
        sum.messages += cost.messages;
        sum.bytes += cost.bytes;
    }
    return sum;
}

gs_status lab_sim_ended(lab_sim *s, gs_status status) {
    return s->failed != GS_OK ? gs_fail(s->failed, "%s", s->message) : status;
}

/* ---- before a step ---- */

static void shuffle(size_t *order, size_t n, const lab_case *c) {
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t i = n; i-- > 1;) {
        size_t j = lab_pick(ORDER_ROW + 100 * (unsigned)c->layers, i, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

void lab_sim_begin(lab_sim *s, const lab_case *c, int rank, bool buckets) {
    size_t first[MOST_LAYERS], params = 0;
    gs_bucket plan[MOST_LAYERS + 1];
    *s = (lab_sim){.run = {load, forward, loss, backward, begin, wait_for, hook}};
    for (int l = 0; l < c->layers; l++) {
        s->layer[l] = (gs_chunk){first[l] = params, c->count[l]};
        params += c->count[l];
    }
    if (params > MOST_PARAMS || c->samples > MOST_SAMPLES) gs_bug("a case that is too large");
    size_t count = params + GS_STATS;
    int cut = gs_buckets_plan(first, c->layers, count, buckets ? c->least + GS_STATS : count, plan);
    for (int b = 0; b < cut; b++) s->bucket[b] = (gs_chunk){plan[b].first, plan[b].count};
    shuffle(s->order, c->samples, c);
    for (size_t i = 0; i < params; i++) s->weights[i] = lab_number(WEIGHTS_ROW, i);
    s->step = (lab_step){.rank = rank,
                         .ranks = c->ranks,
                         .order = s->order,
                         .samples = c->samples,
                         .batch = c->batch,
                         .layers = c->layers,
                         .layer = s->layer,
                         .params = params,
                         .weights = s->weights,
                         .velocity = s->velocity,
                         .gradients = s->gradients,
                         .rate = 0.25f,
                         .momentum = c->momentum,
                         .buckets = cut,
                         .bucket = s->bucket,
                         .run = &s->run};
}

void lab_sim_next(lab_sim *s, size_t number) {
    s->step.number = number;
    s->count = 0;
    s->forwards = s->backwards = s->events = 0;
    s->sent = (gs_sync_cost){0};
    memset(s->counts, 0, sizeof s->counts);
    memset(s->begun, 0, sizeof s->begun);
    memset(s->waited, 0, sizeof s->waited);
    for (size_t i = 0; i < s->step.params + GS_STATS; i++) s->gradients[i] = 1000 * lab_number(JUNK_ROW, i);
}
