#include "train/profile/profile_calls.h"

#include <math.h>
#include <stdlib.h>

const char *const gs_profile_act_names[GS_PROFILE_ACTS] = {
    "all-gathers of weights", "reduce-scatters of gradients", "calls of a tensor group", "messages",
    "other sums, and waits"};

/* ---- time in layers ---- */

static bool computes(const gs_span *s) {
    return s->kind == GS_SPAN_FORWARD_LAYER || s->kind == GS_SPAN_BACKWARD_LAYER ||
           s->kind == GS_SPAN_STAGE_FORWARD || s->kind == GS_SPAN_STAGE_BACKWARD;
}

typedef struct interval {
    double start, end;
} interval;

static int earlier(const void *a, const void *b) {
    const double x = ((const interval *)a)->start, y = ((const interval *)b)->start;
    return (x > y) - (x < y);
}

/* Layers lie in layers: their times, joined where they overlap. Returns how many. */
static size_t join(const gs_timeline_part *p, interval *to) {
    size_t all = 0, joined = 0;
    for (size_t i = 0; i < p->count; i++)
        if (computes(&p->span[i])) to[all++] = (interval){p->span[i].start, p->span[i].end};
    qsort(to, all, sizeof *to, earlier);
    for (size_t i = 0; i < all; i++) {
        if (joined > 0 && to[i].start <= to[joined - 1].end)
            to[joined - 1].end = fmax(to[joined - 1].end, to[i].end);
        else
            to[joined++] = to[i];
    }
    return joined;
}

static double overlap(const gs_span *s, const interval *with, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fmax(0, fmin(s->end, with[i].end) - fmax(s->start, with[i].start));
    return sum;
}

/* ---- calls ---- */

static int act_of(const gs_span *s) {
    switch (s->kind) {
    case GS_SPAN_UNIT_GATHER:
        return GS_PROFILE_GATHERS;
    case GS_SPAN_UNIT_REDUCE:
        return GS_PROFILE_SCATTERS;
    case GS_SPAN_GROUP_CALL:
        return GS_PROFILE_GROUP;
    case GS_SPAN_SEND:
    case GS_SPAN_RECEIVE:
        return GS_PROFILE_MESSAGES;
    default:
        return -1;
    }
}

static void add(gs_profile_calls *to, int act, const gs_span *s, double hidden, double share) {
    const bool sent = s->kind != GS_SPAN_RECEIVE && s->kind != GS_SPAN_PHASE;
    to->act[act].calls += share;
    to->act[act].seconds += share * (s->end - s->start);
    to->act[act].bytes += sent ? share * (double)s->bytes : 0;
    to->act[act].hidden += share * hidden;
}

/* What of a sum's phase no other span of the worker's own is about. */
static void add_others(const gs_timeline_part *p, const gs_span *phase, double share, gs_profile_calls *to) {
    double rest = phase->end - phase->start;
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *s = &p->span[i];
        if (act_of(s) >= 0 && s->row == GS_ROW_COMPUTE && s->start >= phase->start && s->end <= phase->end)
            rest -= s->end - s->start;
    }
    to->act[GS_PROFILE_OTHERS].calls += share;
    to->act[GS_PROFILE_OTHERS].seconds += share * fmax(rest, 0);
}

static void count_worker(const gs_timeline_part *p, double share, interval *room, gs_profile_calls *to) {
    const size_t layers = join(p, room);
    for (size_t i = 0; i < layers; i++) to->layers += share * (room[i].end - room[i].start);
    for (size_t i = 0; i < p->count; i++) {
        const gs_span *s = &p->span[i];
        const int act = act_of(s);
        if (act >= 0) add(to, act, s, s->row == GS_ROW_SYNC ? overlap(s, room, layers) : 0, share);
        if (s->kind == GS_SPAN_STEP) to->step += share * (s->end - s->start);
        if (s->kind == GS_SPAN_PHASE && s->index == GS_PHASE_SYNC) add_others(p, s, share, to);
    }
}

gs_status gs_profile_calls_count(const gs_timeline_part *parts, int workers, int steps,
                                 gs_profile_calls *out) {
    *out = (gs_profile_calls){.workers = workers, .steps = steps};
    for (int r = 0; r < workers; r++) {
        interval *room = parts[r].lost == 0 ? malloc((parts[r].count + 1) * sizeof *room) : NULL;
        if (!room) return gs_fail(GS_E_MEMORY, "no memory to count the calls of %d workers", workers);
        count_worker(&parts[r], 1.0 / workers / steps, room, out);
        free(room);
    }
    return GS_OK;
}

/* ---- a run ---- */

enum { FIRST = 3, STEPS = 4 /* traced: the first ones are slower */ };

typedef struct counted {
    gs_profile_calls *calls;
    gs_status status;
} counted;

static void on_timeline(void *context, const gs_timeline_part *parts, int workers) {
    counted *c = context;
    c->status = gs_profile_calls_count(parts, workers, STEPS, c->calls);
}

gs_status gs_profile_calls_run(const gs_settings *settings, gs_profile_calls *out) {
    gs_settings s = *settings;
    gs_result result;
    counted c = {out, GS_OK};
    const gs_observer observer = {.context = &c, .timeline = on_timeline};
    *out = (gs_profile_calls){0};
    s.epochs = s.steps = FIRST + STEPS - 1; /* an epoch may be a single step */
    s.record = true;
    s.trace = (gs_step_range){FIRST, FIRST + STEPS - 1};
    GS_TRY(gs_train(&s, &observer, &result));
    gs_result_free(&result);
    return c.status;
}
