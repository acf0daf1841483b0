/* What a layout's step takes, out of measured parts: the formulas of layout_plan.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer/memory/halves.h"
#include "layer/tensor.h"
#include "train/internal.h"
#include "train/layout/layout_cut.h"
#include "train/layout/layout_parts.h"
#include "train/layout/layout_plan.h"
#include "train/pipeline/virtual_time.h"

enum { FORWARD, BACKWARD, DIRECTIONS };

/* Passes of one size, a share of all. */
typedef struct passes {
    double share;
    size_t samples;
    const gs_layer_times *times;
} passes;

typedef struct prediction {
    gs_layout_parts *parts;
    gs_layout_step step;
    passes of[2]; /* the larger ones, and those with a sample less, or with a group less */
    double busy;  /* workers that take turns on a core, or on an OpenCL device; or 1 */
    double batch; /* samples that a worker sees in a step */
} prediction;

/* Of a worker; seconds. */
typedef struct stage {
    double layers[DIRECTIONS], calls[DIRECTIONS]; /* of a pass */
    double beside, after;                         /* calls of a step */
    double params, weights, sent; /* weights, sent: bytes; sent: but for the sums of gradients */
} stage;

/* ---- seconds ---- */

static gs_status add_calls(const prediction *p, const gs_layout_calls *list, double to[GS_CALL_WHENS]) {
    for (size_t i = 0; i < list->count; i++) {
        double seconds;
        GS_TRY(p->parts->source->call(p->parts, &list->call[i], &seconds));
        to[list->call[i].when] += list->call[i].times * seconds;
    }
    return GS_OK;
}

/* Where workers meet in each layer, all take as long as the slowest. Where they meet once, at the end of a step, all
 * wait for the one whose core is the slowest; more workers than cores are moved from core to core. */
static double slowed_by(const prediction *p, const gs_layer_times *t, int i) {
    const gs_layout_parts *m = p->parts;
    if (gs_layout_meets_in_layers(&p->step)) return t->both[i] > 0 ? t->slowest[i] / t->both[i] : 1;
    if (p->step.layout.dp == 1 || p->step.layout.pp > 1 || m->workers * m->threads > m->cores) return 1;
    return fmax(1, t->uneven);
}

static void add_in_layers(const double calls[GS_CALL_WHENS], double share, stage *to) {
    to->calls[FORWARD] += share * calls[GS_CALL_FORWARD];
    to->calls[BACKWARD] += share * calls[GS_CALL_BACKWARD];
}

/* Layers first .. last - 1, with their own calls. */
static gs_status add_layers_of(const prediction *p, const passes *of, int first, int last, stage *to) {
    gs_layout_step step = p->step;
    gs_layout_calls list = {0};
    double calls[GS_CALL_WHENS] = {0};
    gs_status status = GS_OK;
    step.samples = of->samples;
    for (int i = first; i < last && status == GS_OK; i++) {
        const double times = of->share * slowed_by(p, of->times, i);
        to->layers[FORWARD] += of->times->forward[i] * times;
        to->layers[BACKWARD] += of->times->backward[i] * times;
        status = gs_layout_calls_of_layer(&step, step.part->net->child[i], &list);
    }
    if (status == GS_OK) status = add_calls(p, &list, calls);
    gs_layout_calls_free(&list);
    add_in_layers(calls, of->share, to);
    return status;
}

static gs_status add_messages_of(const prediction *p, const passes *of, const gs_pipeline_worker *at, int run,
                                 stage *to) {
    gs_layout_step step = p->step;
    gs_layout_calls list = {0};
    double calls[GS_CALL_WHENS] = {0};
    step.samples = of->samples;
    gs_status status = gs_layout_calls_of_run(&step, at, run, &list);
    if (status == GS_OK) status = add_calls(p, &list, calls);
    gs_layout_calls_free(&list);
    add_in_layers(calls, of->share, to);
    return status;
}

/* The mean of all passes. */
static gs_status add_layers(const prediction *p, int first, int last, stage *to) {
    for (int k = 0; k < 2; k++)
        if (p->of[k].times) GS_TRY(add_layers_of(p, &p->of[k], first, last, to));
    return GS_OK;
}

static gs_status add_messages(const prediction *p, const gs_pipeline_worker *at, int run, stage *to) {
    for (int k = 0; k < 2; k++)
        if (p->of[k].times) GS_TRY(add_messages_of(p, &p->of[k], at, run, to));
    return GS_OK;
}

static gs_status add_step(const prediction *p, const gs_pipeline_worker *at, stage *to) {
    gs_layout_calls list = {0};
    double calls[GS_CALL_WHENS] = {0};
    gs_status status = gs_layout_calls_of_step(&p->step, at, &list);
    if (status == GS_OK) status = add_calls(p, &list, calls);
    gs_layout_calls_free(&list);
    to->beside = calls[GS_CALL_BESIDE];
    to->after = calls[GS_CALL_AFTER];
    return status;
}

static double both(const double x[DIRECTIONS]) {
    return x[FORWARD] + x[BACKWARD];
}

/* What comes after the layers, or beside them: a thread beside a worker takes a core from another one, unless there are
 * cores for all of them; and so does the loader. */
static double rest_of(const prediction *p, const stage *g) {
    const gs_layout_parts *m = p->parts;
    const gs_layout *l = &p->step.layout;
    const double layers = p->step.passes * both(g->layers), threads = m->workers * m->threads;
    const bool room = threads + m->workers <= m->cores;
    const double beside = room ? fmax(0, g->beside - layers) : g->beside;
    const double update = m->update * g->params / (l->zero > 0 ? l->dp : 1);
    return g->after + beside + p->busy * (update + p->batch * (m->data + (room ? 0 : m->loader)));
}

/* ---- bytes ---- */

static double gradients_sent(const prediction *p, double weights) {
    const gs_layout *l = &p->step.layout;
    const double d = l->dp;
    const bool ordered = p->step.settings->exact ||
                         (l->pp == 1 && l->tp > 1 && gs_tensor_part_needs_order(p->step.part, l->dp));
    if (ordered && !l->zero) return log2(d) * weights;
    return (l->zero > 2 ? 3 : 2) * (d - 1) / d * weights;
}

/* What a worker sends to its tensor group. */
typedef struct group_sends {
    bool exact;
    double samples, passes; /* of a worker in a step */
    double bytes;
} group_sends;

static gs_status add_sends(gs_layer *l, void *context) {
    group_sends *to = context;
    gs_tensor_call call[GS_TENSOR_CALLS];
    for (int i = gs_tensor_calls(l, call) - 1; i >= 0; i--)
        to->bytes += gs_tensor_times_sent(call[i].act, l->tensor->size, to->exact) * (double)call[i].floats *
                     sizeof(float) * (call[i].once ? to->passes : to->samples);
    return GS_OK;
}

static double sent_to_group(const prediction *p, gs_layer *l) {
    group_sends group = {p->step.settings->exact, p->batch, p->step.passes, 0};
    (void)gs_layer_walk(l, add_sends, &group);
    return group.bytes;
}

/* A table that is the weight of the first run and of the last one: the last stage sends its part of the gradient, the
 * first one the updated table. */
static double tied_sent(const prediction *p, const gs_pipeline_worker *at) {
    const bool last = at->stage == at->shape.stages - 1;
    if (!at->tied.table || (at->stage > 0 && !last)) return 0;
    return (double)at->tied.table->count * sizeof(float) *
           (last && at->shape.tied == GS_TIED_EACH ? p->step.passes : 1);
}

static double sent_to_stages(const prediction *p, const gs_pipeline_worker *at) {
    double bytes = 0; /* of a sample */
    for (int c = 0; c < at->shape.chunks; c++) {
        const int run = c * at->shape.stages + at->stage;
        if (run + 1 < at->runs) bytes += (double)gs_layout_between(&p->step, at, run, 1);
        if (run > 0) bytes += (double)gs_layout_between(&p->step, at, run - 1, 1);
    }
    return bytes * p->batch + tied_sent(p, at);
}

/* ---- without stages ---- */

static gs_status predict_whole(const prediction *p, gs_layout_cost *out) {
    const gs_model *m = p->step.part;
    stage g = {.params = (double)m->params,
               .weights = (double)(m->saved + GS_STATS) * sizeof(float),
               .sent = sent_to_group(p, m->net)};
    GS_TRY(add_layers(p, 0, p->of[0].times->layers, &g));
    GS_TRY(add_step(p, NULL, &g));
    out->sent = gradients_sent(p, g.weights) + g.sent;
    out->seconds = p->step.passes * (p->busy * both(g.layers) + both(g.calls)) + rest_of(p, &g);
    return GS_OK;
}

/* ---- in stages ---- */

/* The times of all runs, and over the stages: all work of layers, the most calls, the most that comes after. */
typedef struct pipeline {
    gs_pipeline shape;
    double forward[GS_RUNS], backward[GS_RUNS];
    double work, calls, rest;
} pipeline;

static gs_status add_runs(const prediction *p, const gs_pipeline_worker *at, pipeline *all, stage *g) {
    for (int c = 0; c < at->shape.chunks; c++) {
        const int run = c * at->shape.stages + at->stage;
        stage one = {.params = 0};
        GS_TRY(add_layers(p, at->first[run], at->first[run + 1], &one));
        GS_TRY(add_messages(p, at, run, &one));
        all->forward[run] = one.layers[FORWARD] + one.calls[FORWARD];
        all->backward[run] = one.layers[BACKWARD] + one.calls[BACKWARD];
        for (int k = 0; k < DIRECTIONS; k++) {
            g->layers[k] += one.layers[k];
            g->calls[k] += one.calls[k];
        }
        for (int i = at->first[run]; i < at->first[run + 1]; i++)
            g->sent += sent_to_group(p, p->step.part->net->child[i]);
    }
    return GS_OK;
}

static gs_status add_stage(const prediction *p, int number, pipeline *all, gs_layout_cost *out) {
    const gs_layout *l = &p->step.layout;
    stage g = {.params = 0};
    gs_layout_cut *cut;
    GS_TRY(gs_layout_cut_create(p->step.settings, p->step.part, p->parts->workers,
                                number * l->dp * l->tp + l->tp - 1, &cut));
    const gs_pipeline_worker *at = &cut->cut;
    gs_status status = add_runs(p, at, all, &g);
    if (status == GS_OK) status = add_step(p, at, &g);
    const bool counts = number == l->pp - 1; /* they go with the gradients, at the end */
    g.params = (double)at->own->params;
    g.weights = (double)(at->own->counts + (counts ? GS_STATS : 0)) * sizeof(float);
    out->sent = fmax(out->sent, gradients_sent(p, g.weights) + g.sent + sent_to_stages(p, at));
    all->shape = at->shape;
    all->work += p->step.passes * both(g.layers) * l->dp * l->tp;
    all->calls = fmax(all->calls, p->step.passes * both(g.calls));
    all->rest = fmax(all->rest, rest_of(p, &g));
    gs_layout_cut_free(cut);
    return status;
}

/* The instructions of all stages, in virtual time. */
static gs_status play(const prediction *p, const pipeline *all, double *seconds) {
    const gs_pipeline_schedule *schedule;
    const gs_pipeline_times times = {.forward = all->forward, .backward = all->backward};
    gs_pipeline_run run = {0};
    int chunks;
    GS_TRY(gs_pipeline_read(p->step.settings->pipeline_schedule, &schedule, &chunks));
    gs_instructions *list = calloc((size_t)all->shape.stages + 1, sizeof *list);
    if (!list) return gs_fail(GS_E_MEMORY, "no memory for the schedules of %d stages", all->shape.stages);
    gs_status status = GS_OK;
    for (int s = 0; s < all->shape.stages && status == GS_OK; s++)
        status = gs_instructions_create(schedule, &all->shape, s, &list[s]);
    if (status == GS_OK) status = gs_pipeline_in_virtual_time(&all->shape, list, &times, &run);
    for (int s = 0; s < all->shape.stages; s++) gs_instructions_free(&list[s]);
    free(list);
    *seconds = run.took;
    return status;
}

static gs_status predict_stages(const prediction *p, gs_layout_cost *out) {
    const gs_layout_parts *m = p->parts;
    pipeline *all = calloc(1, sizeof *all);
    double played = 0;
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the stages of a pipeline");
    gs_status status = GS_OK;
    for (int i = 0; i < p->step.layout.pp && status == GS_OK; i++) status = add_stage(p, i, all, out);
    if (status == GS_OK) status = play(p, all, &played);
    out->bubble = gs_pipeline_bubble(&all->shape);
    out->seconds = fmax(played, all->work * p->busy / m->workers + all->calls) + all->rest;
    free(all);
    return status;
}

/* ---- all ---- */

/* Workers may name one OpenCL device, and each is measured with the device for itself. */
static int most_on_a_device(const gs_layout_parts *m) {
    const int named = gs_devices_count(m->devices);
    char one[48], other[48];
    int most = 1;
    for (int i = 0; i < m->workers; i++) {
        int count = 0;
        if (gs_devices_name(m->devices, i % named, one) != GS_OK || strcmp(one, "cpu") == 0) continue;
        for (int k = 0; k < m->workers; k++)
            count += gs_devices_name(m->devices, k % named, other) == GS_OK && strcmp(one, other) == 0;
        if (count > most) most = count;
    }
    return most;
}

static double turns_taken(const gs_layout_parts *m) {
    return fmax(most_on_a_device(m), (double)m->workers * m->threads / m->cores);
}

/* What a worker computes at once of its part of the batch, and how often. */
static gs_status find_passes(prediction *p, size_t batch) {
    const gs_settings *s = p->step.settings;
    const gs_layout *l = &p->step.layout;
    const size_t together = gs_together(s), share = gs_schedule_cut(batch, 0, l->dp, together).count;
    size_t most;
    GS_TRY(gs_largest_piece(s, p->step.part->in, &most));
    size_t cuts = s->exact ? (size_t)gs_parts_of(s, p->parts->workers) / (size_t)l->dp : (size_t)gs_passes(s);
    if (l->pp == 1 && cuts < (share + most - 1) / most) cuts = (share + most - 1) / most;
    if (cuts < 1) cuts = 1;
    int larger = 0;
    p->of[0].samples = gs_schedule_cut(share, 0, (int)cuts, together).count;
    p->of[1].samples = gs_schedule_cut(share, (int)cuts - 1, (int)cuts, together).count;
    for (int i = 0; i < (int)cuts; i++)
        larger += gs_schedule_cut(share, i, (int)cuts, together).count == p->of[0].samples;
    p->of[0].share = (double)larger / (double)cuts;
    p->of[1].share = 1 - p->of[0].share;
    p->step.samples = p->of[0].samples;
    p->step.passes = (int)cuts;
    return GS_OK;
}

/* Passes without samples, of a small batch, take no time. */
static gs_status find_times(prediction *p) {
    gs_layout_parts *m = p->parts;
    for (int k = 0; k < 2; k++)
        if (p->of[k].share > 0 && p->of[k].samples > 0)
            GS_TRY(m->source->layers(m, p->step.settings, p->of[k].samples, &p->of[k].times));
    return GS_OK;
}

/* Where it is cut best. */
static gs_status cut_by_times(const gs_settings *s, const gs_model *m, const gs_layer_times *times,
                              char *text) {
    const gs_pipeline_schedule *schedule;
    int chunks, first[GS_RUNS + 1];
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    GS_TRY(gs_pipeline_cut_by(m, times->both, s->pipeline * chunks, first));
    gs_pipeline_cut_text(s->pipeline * chunks, first, text);
    return GS_OK;
}

/* As the stages would agree on it (strategies/pipeline_stage.c), where all pipelines have the same kinds of devices. */
static gs_status find_halves(prediction *p) {
    const char *devices = p->parts->devices;
    GS_TRY(gs_stage_would_halve(p->step.settings, devices, (gs_rank_range){0, gs_devices_count(devices), 1},
                                &p->step.halves));
    return p->step.halves ? gs_halves_find(p->step.part->net) : GS_OK;
}

static gs_status predict(gs_layout_parts *parts, const gs_settings *settings, const gs_model *m,
                         const gs_model *part, size_t batch, gs_layout_cost *out) {
    gs_settings s = *settings;
    const gs_layout l = gs_layout_of(&s, parts->workers);
    prediction p = {.parts = parts,
                    .step = {.settings = &s, .devices = parts->devices, .layout = l, .part = part},
                    .busy = turns_taken(parts),
                    .batch = (double)batch / l.dp};
    *out = (gs_layout_cost){.layout = l, .sequence = s.sequence};
    GS_TRY(find_passes(&p, batch));
    GS_TRY(find_times(&p));
    if (l.pp == 1) return predict_whole(&p, out);
    GS_TRY(find_halves(&p));
    if (gs_pipeline_is_measured(s.pipeline_cut)) {
        GS_TRY(cut_by_times(&s, m, p.of[0].times, out->cut));
        s.pipeline_cut = out->cut;
    }
    return predict_stages(&p, out);
}

gs_status gs_layout_predict(gs_layout_parts *parts, const gs_settings *s, const gs_model *m, size_t batch,
                            gs_layout_cost *out) {
    gs_model *part = NULL;
    if (s->tensor > 1)
        GS_TRY(gs_layout_part(s, m, s->tensor - 1, &part)); /* the last has most of a vocabulary */
    const gs_status status = predict(parts, s, m, part ? part : m, batch, out);
    gs_model_free(part);
    return status;
}
