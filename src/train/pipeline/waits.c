#include "train/pipeline/waits.h"

#include <stdlib.h>

/* A pass of a stage's list. */
typedef struct pass {
    int run, micro_batch;
    bool backward;
} pass;

/* A pass, by its stage and its number in that stage's list. */
typedef struct place {
    int stage;
    size_t i; /* in the order of its list */
} place;

typedef struct trace {
    const gs_pipeline *pipeline;
    const gs_pass_time *time;
    size_t steps, step, passes;
    int runs;
    pass *pass;     /* [stage][passes] */
    size_t *number; /* [backward][run][micro-batch]: its place in its stage's list */
    double *seconds;
    double mean[2]; /* f and b */
} trace;

/* ---- who needs whose message ---- */

static size_t *number_of(const trace *t, bool backward, int run, int micro_batch) {
    const size_t r = (size_t)(backward ? t->runs : 0) + (size_t)run;
    return &t->number[r * (size_t)t->pipeline->micro_batches + (size_t)micro_batch];
}

static const pass *pass_at(const trace *t, place x) {
    return &t->pass[(size_t)x.stage * t->passes + x.i];
}

static const gs_pass_time *time_at(const trace *t, place x) {
    return &t->time[((size_t)x.stage * t->steps + t->step) * t->passes + x.i];
}

static void read_list(trace *t, const gs_instructions *l, int stage) {
    size_t n = 0;
    for (size_t i = 0; i < l->count && n < t->passes; i++) {
        const gs_instruction *a = &l->list[i];
        if (!gs_action_computes(a->action)) continue;
        const pass p = {a->chunk * t->pipeline->stages + stage, a->micro_batch, a->action == GS_DO_BACKWARD};
        t->pass[(size_t)stage * t->passes + n] = p;
        *number_of(t, p.backward, p.run, p.micro_batch) = n++;
    }
}

/* Forward needs the run before it, backward the one behind it. False: the samples, or its own forward pass. */
static bool sender_of(const trace *t, const pass *p, place *out) {
    const int run = p->run + (p->backward ? 1 : -1);
    if (run < 0 || run >= t->runs) return false;
    *out = (place){run % t->pipeline->stages, *number_of(t, p->backward, run, p->micro_batch)};
    return true;
}

/* ---- the critical path ---- */

/* What it waited for: of the two that had to end first, the later one. False: it is the first of all. */
static bool cause_of(const trace *t, place x, place *out) {
    place sender;
    const bool has_sender = sender_of(t, pass_at(t, x), &sender);
    if (x.i == 0 && !has_sender) return false;
    *out = (place){x.stage, x.i - 1};
    if (x.i == 0 || (has_sender && time_at(t, sender)->end > time_at(t, *out)->end)) *out = sender;
    return true;
}

static place last_pass(const trace *t) {
    place last = {0, t->passes - 1};
    for (int s = 1; s < t->pipeline->stages; s++) {
        const place x = {s, t->passes - 1};
        if (time_at(t, x)->end > time_at(t, last)->end) last = x;
    }
    return last;
}

static double mean_of(const trace *t, const pass *p) {
    const size_t r = (size_t)(p->backward ? t->runs : 0) + (size_t)p->run;
    return t->seconds[r] / ((double)t->steps * t->pipeline->micro_batches);
}

/* One step: all that lies on its path, times p. */
static void add_path(const trace *t, gs_pipeline_waits *out) {
    const double p = t->pipeline->stages;
    place x = last_pass(t), cause;
    const double end = time_at(t, x)->end;
    for (bool more = true; more; x = cause) {
        const pass *a = pass_at(t, x);
        const gs_pass_time *took = time_at(t, x);
        const double mean = mean_of(t, a), of_all = t->mean[a->backward];
        out->fill += p * of_all;
        out->unequal += p * (mean - of_all);
        out->uneven += p * (took->end - took->start - mean);
        more = cause_of(t, x, &cause);
        if (more)
            out->messages += p * (took->start - time_at(t, cause)->end);
        else
            out->all += p * (end - took->start);
    }
}

/* ---- all ---- */

static void add_seconds(trace *t) {
    for (int s = 0; s < t->pipeline->stages; s++)
        for (t->step = 0; t->step < t->steps; t->step++)
            for (size_t i = 0; i < t->passes; i++) {
                const pass *a = pass_at(t, (place){s, i});
                const gs_pass_time *took = time_at(t, (place){s, i});
                t->seconds[(a->backward ? t->runs : 0) + a->run] += took->end - took->start;
            }
}

static void analyse(trace *t, gs_pipeline_waits *out) {
    add_seconds(t);
    for (int r = 0; r < 2 * t->runs; r++) {
        t->mean[r >= t->runs] += t->seconds[r] / ((double)t->steps * t->pipeline->micro_batches * t->runs);
        out->busy += t->seconds[r];
    }
    for (t->step = 0; t->step < t->steps; t->step++) add_path(t, out);
    out->fill -= out->busy; /* p (m v f + m v b), summed over the steps */
}

gs_status gs_pipeline_waits_of(const gs_pipeline *p, const gs_instructions *lists, const gs_pass_time *time,
                               size_t steps, gs_pipeline_waits *out, double *seconds) {
    trace t = {.pipeline = p,
               .time = time,
               .steps = steps,
               .passes = gs_passes_of_stage(p),
               .runs = p->stages * p->chunks};
    const size_t runs = (size_t)t.runs, stages = (size_t)p->stages;
    *out = (gs_pipeline_waits){0};
    t.pass = calloc(stages * t.passes, sizeof *t.pass);
    t.number = calloc(2 * runs * (size_t)p->micro_batches, sizeof *t.number);
    t.seconds = calloc(2 * runs, sizeof *t.seconds);
    const bool made = t.pass && t.number && t.seconds;
    for (int s = 0; made && s < p->stages; s++) read_list(&t, &lists[s], s);
    if (made) analyse(&t, out);
    for (size_t r = 0; made && seconds && r < 2 * runs; r++) seconds[r] = t.seconds[r];
    free(t.pass);
    free(t.number);
    free(t.seconds);
    return made ? GS_OK
                : gs_fail(GS_E_MEMORY, "no memory for the passes of a pipeline of %zu stages", stages);
}
