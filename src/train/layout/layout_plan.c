#include "train/layout/layout_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/cores.h"
#include "core/memory.h"
#include "core/text.h"
#include "layer/tensor.h"
#include "train/internal.h"
#include "train/layout/layout_cut.h"
#include "train/profile/profile.h"

/* ---- the formulas ---- */

typedef struct stage {
    double seconds;       /* of a micro-batch, forward and backward */
    double weights, sent; /* bytes; sent: in a step, but for the sums of gradients */
    double params;
} stage;

/* What a part has of the work of child i. */
static double share_of_work(const gs_model *part, int i) {
    if (!part->undivided) return 1;
    const gs_layer_flops here = gs_layer_flops_of(part->net->child[i]),
                         whole = gs_layer_flops_of(part->undivided->net->child[i]);
    const double all = whole.forward + whole.backward;
    return all > 0 ? (here.forward + here.backward) / all : 1;
}

/* What a worker sends to its tensor group. */
typedef struct group_sends {
    bool exact;
    double samples, passes; /* of a worker in a step */
    double bytes;
} group_sends;

static gs_status add_calls(gs_layer *l, void *context) {
    group_sends *to = context;
    gs_tensor_call call[GS_TENSOR_CALLS];
    for (int i = gs_tensor_calls(l, call) - 1; i >= 0; i--)
        to->bytes += gs_tensor_times_sent(call[i].act, l->tensor->size, to->exact) * (double)call[i].floats *
                     sizeof(float) * (call[i].once ? to->passes : to->samples);
    return GS_OK;
}

/* What a worker does in a step. */
typedef struct turns {
    double samples, passes;
} turns;

/* A table that is the weight of the first run and of the last one: the last stage sends its part of the gradient, the
 * first one the updated table. */
static double tied_sent(const gs_pipeline_worker *p, turns t) {
    const bool last = p->stage == p->shape.stages - 1;
    if (!p->tied.table || (p->stage > 0 && !last)) return 0;
    return (double)p->tied.table->count * sizeof(float) *
           (last && p->shape.tied == GS_TIED_EACH ? t.passes : 1);
}

/* Of each stage; m: of the worker's part. *shape: of the pipeline. */
static gs_status describe_stage(const gs_settings *s, const gs_model *m, int workers, int number,
                                const gs_layer_times *times, turns t, gs_pipeline *shape, stage *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_layout_cut *in;
    GS_TRY(gs_layout_cut_create(s, m, workers, number * l.dp * l.tp + l.tp - 1, &in));
    const gs_pipeline_worker *p = &in->cut;
    group_sends group = {s->exact, t.samples, t.passes, 0};
    double between = 0; /* stages, of a sample */
    *out = (stage){0};
    for (int c = 0; c < p->shape.chunks; c++) {
        const int run = p->chunk[c].run, first = p->first[run], last = p->first[run + 1];
        for (int i = first; i < last; i++) {
            out->seconds += times->both[i] * share_of_work(m, i);
            (void)gs_layer_walk(m->net->child[i], add_calls, &group);
        }
        if (run + 1 < p->runs) between += sizeof(float) * (double)gs_shape_size(m->net->child[last - 1]->out);
        if (run > 0) between += sizeof(float) * (double)gs_shape_size(m->net->child[first]->in);
    }
    out->sent = between * t.samples + tied_sent(p, t) + group.bytes;
    out->weights = (double)p->own.counts * sizeof(float);
    out->params = (double)p->own.params;
    *shape = p->shape;
    gs_layout_cut_free(in);
    return GS_OK;
}

/* Of each worker of a tensor group. seconds: of the whole model. */
static gs_status describe_part(const gs_settings *s, const gs_model *part, double seconds, turns t,
                               stage *out) {
    const gs_model *m = part->undivided;
    group_sends group = {s->exact, t.samples, t.passes, 0};
    *out = (stage){.seconds = seconds * (part->flops_forward + part->flops_backward) /
                              (m->flops_forward + m->flops_backward),
                   .weights = (double)part->saved * sizeof(float),
                   .params = (double)part->params};
    GS_TRY(gs_layer_walk(part->net, add_calls, &group));
    out->sent = group.bytes;
    return GS_OK;
}

/* Of the worker that needs most, as rehearsed. */
static gs_status memory_of(const gs_layout_plan *p, const gs_settings *s, double *bytes) {
    gs_memory_plan plan;
    gs_settings run = *s;
    run.devices = p->devices;
    const gs_status status = gs_memory_plan_create(&run, &plan);
    if (status == GS_OK) *bytes = gs_memory_most(&plan, NULL);
    gs_memory_plan_free(&plan);
    return status;
}

static double gradients_sent(const gs_settings *s, const gs_layout *l, double weights) {
    const double d = l->dp;
    if (s->exact && !l->zero) return log2(d) * weights;
    return (l->zero > 2 ? 3 : 2) * (d - 1) / d * weights;
}

/* The layers' times for so many samples at once: measured when they are asked for first. */
static gs_status times_for(gs_layout_plan *p, const gs_settings *s, size_t samples, int threads,
                           const gs_layer_times **out) {
    char device[48];
    for (int i = 0; i < p->times_known; i++)
        if (p->times[i].samples == samples) return *out = &p->times[i], GS_OK;
    if (p->times_known == GS_LAYOUT_TIMES) gs_layer_times_free(&p->times[--p->times_known]);
    gs_layer_times *t = &p->times[p->times_known++];
    *out = t;
    gs_status status = gs_devices_name(p->devices, 0, device);
    if (status == GS_OK) status = gs_layer_times_measure(s, s->train_set, device, threads, samples, t);
    if (status != GS_OK) gs_layer_times_free(&p->times[--p->times_known]); /* half of them are no times */
    return status;
}

/* What a worker computes at once of its part of the batch, and how often. */
static gs_status passes_of(const gs_layout_plan *p, const gs_settings *s, const gs_layout *l, size_t *samples,
                           double *passes) {
    const size_t share = gs_schedule_cut(p->memory.batch, 0, l->dp, gs_together(s)).count;
    size_t most;
    GS_TRY(gs_largest_piece(s, s->train_set->shape, &most));
    size_t cuts = s->exact ? (size_t)gs_parts_of(s, p->workers) / (size_t)l->dp : (size_t)gs_passes(s);
    if (l->pp == 1 && cuts < (share + most - 1) / most) cuts = (share + most - 1) / most;
    if (cuts < 1) cuts = 1;
    *samples = gs_schedule_cut(share, 0, (int)cuts, gs_together(s)).count;
    *passes = (double)cuts;
    return GS_OK;
}

/* Where such a run would cut the model. */
static gs_status cut_by_times(const gs_settings *s, const gs_model *m, const gs_layer_times *times,
                              char *text) {
    const gs_pipeline_schedule *schedule;
    int chunks, first[GS_RUNS + 1];
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    GS_TRY(gs_pipeline_cut_by(m, times->both, s->pipeline * chunks, first));
    gs_pipeline_cut_text(s->pipeline * chunks, first, text);
    return GS_OK;
}

/* part: what of the model m a worker of a tensor group has; else m. */
static gs_status predict_part(gs_layout_plan *p, gs_settings *s, const gs_model *m, const gs_model *part,
                              gs_layout_cost *out) {
    const gs_layout l = gs_layout_of(s, p->workers);
    const double batch = (double)p->memory.batch, cores = gs_cpu_cores();
    const int threads = s->exact || p->workers >= cores ? 1 : (int)cores / p->workers;
    const double crowd = fmax(1, p->workers * threads / cores); /* threads for each core */
    const gs_layer_times *times;
    double slowest = 0, work = 0, rest = 0, whole = 0, passes;
    size_t samples;
    *out = (gs_layout_cost){.layout = l, .sequence = s->sequence};
    gs_pipeline shape = {.stages = 1, .micro_batches = 1, .chunks = 1};
    GS_TRY(passes_of(p, s, &l, &samples, &passes));
    GS_TRY(times_for(p, s, samples, threads, &times));
    for (int i = 0; i < times->layers; i++) whole += times->both[i];
    const turns t = {batch / l.dp, passes};
    if (l.pp > 1 && gs_pipeline_is_measured(s->pipeline_cut)) {
        GS_TRY(cut_by_times(s, m, times, out->cut));
        s->pipeline_cut = out->cut;
    }
    for (int i = 0; i < l.pp; i++) {
        stage g = {whole, (double)m->saved * sizeof(float), 0, (double)m->params};
        if (l.pp > 1)
            GS_TRY(describe_stage(s, part, p->workers, i, times, t, &shape, &g));
        else if (l.tp > 1)
            GS_TRY(describe_part(s, part, whole, t, &g));
        const double counts =
                         i == l.pp - 1 ? GS_STATS * sizeof(float) : 0, /* with the gradients, at the end */
            sent = gradients_sent(s, &l, g.weights + counts) + g.sent,
                     update = p->update * g.params / (l.zero > 0 ? l.dp : 1);
        work += passes * g.seconds * l.dp * l.tp;
        slowest = fmax(slowest, passes * g.seconds);
        out->sent = fmax(out->sent, sent);
        rest = fmax(rest, crowd * (update + sent / p->bandwidth));
    }
    const double waits = (double)(l.pp - 1) / ((double)shape.chunks * shape.micro_batches);
    out->bubble = l.pp > 1 ? gs_pipeline_bubble(&shape) : 0;
    out->seconds =
        fmax(slowest * (1 + waits), work * threads / cores) + rest + crowd * p->data * batch / l.dp;
    return memory_of(p, s, &out->memory);
}

static gs_status predict(gs_layout_plan *p, gs_settings *s, const gs_model *m, gs_layout_cost *out) {
    gs_model *part = NULL;
    if (s->tensor > 1)
        GS_TRY(gs_layout_part(s, m, s->tensor - 1, &part)); /* the last has most of a vocabulary */
    const gs_status status = predict_part(p, s, m, part ? part : m, out);
    gs_model_free(part);
    return status;
}

/* ---- all layouts ---- */

static double measure_bandwidth(const gs_settings *s) {
    enum { BYTES = 16 << 20, TIMES = 4 };
    char *from = calloc(1, BYTES), *to = malloc(BYTES);
    double best = 1;
    for (int i = 0; i < TIMES && from && to; i++) {
        const double start = gs_seconds();
        gs_copy(to, from, BYTES);
        best = fmin(best, gs_seconds() - start);
    }
    free(from);
    free(to);
    const double here = BYTES / fmax(best, 1e-9);
    return gs_link_is_there(&s->link) ? fmin(here, s->link.bandwidth) : here;
}

/* r: with one thread, the same samples again and again. */
static gs_status measure(gs_layout_plan *p) {
    gs_settings s = p->memory.settings;
    gs_profile profile = {0};
    char device[48];
    GS_TRY(gs_devices_name(s.devices, 0, device));
    s.devices = device;
    s.pipeline_schedule = s.pipeline_cut = NULL;
    s.micro_batches = 0;
    s.threads = 1;
    s.batch = p->memory.batch > 64 ? 64 : p->memory.batch;
    s.exact = s.sequence = false;
    s.accumulate = 1;
    gs_status status = gs_profile_run(&s, 0.2, &profile);
    p->samples_per_s = profile.step;
    if (status == GS_OK) {
        const gs_profile_row *data = &profile.rows[0], *update = &profile.rows[profile.row_count - 1];
        p->data = data->cell[GS_FORWARD].seconds / (double)s.batch;
        p->update = update->cell[GS_BACKWARD].seconds / (double)profile.params;
    }
    p->bandwidth = measure_bandwidth(&s);
    gs_profile_free(&profile);
    return status;
}

static int faster_first(const void *a, const void *b) {
    const double x = ((const gs_layout_cost *)a)->seconds, y = ((const gs_layout_cost *)b)->seconds;
    return (x > y) - (x < y);
}

/* text: room for its name, which the settings then point to. */
static gs_settings with_layout(const gs_layout_plan *p, const gs_layout *l, bool sequence,
                               char text[GS_LAYOUT_TEXT]) {
    gs_settings s = p->memory.settings;
    s.sequence = sequence;
    s.layout = gs_layout_text(l, text);
    s.max_memory = 0;
    if (l->pp > 1) return s;
    s.micro_batches = 0; /* these are of pipelines */
    s.pipeline_schedule = s.pipeline_cut = NULL;
    return s;
}

static gs_status check_layout(gs_settings *s, int workers) {
    GS_TRY(gs_layout_settle(s));
    GS_TRY(gs_check_settings(s));
    GS_TRY(gs_check_workers(s, s->train_set, workers));
    return gs_check_batch_norm(s, s->train_set, workers);
}

/* It becomes one more row, unless it cannot run, or does not fit. */
static gs_status try_layout(gs_layout_plan *p, const gs_model *m, const gs_layout *l, bool sequence) {
    char text[GS_LAYOUT_TEXT];
    gs_settings s = with_layout(p, l, sequence, text);
    gs_layout_cost *cost = &p->cost[p->costs];
    gs_status status = check_layout(&s, p->workers);
    if (status == GS_OK) status = predict(p, &s, m, cost);
    if (status == GS_E_MEMORY) return status;
    if (status != GS_OK && p->refused++ == 0)
        snprintf(p->why, sizeof p->why, "%s%s: %s", text, sequence ? " --sequence" : "", gs_message());
    if (status != GS_OK) return GS_OK;
    const int limit = p->memory.settings.max_memory;
    if (limit && cost->memory > 1e6 * limit)
        p->too_large++;
    else
        p->costs++;
    return GS_OK;
}

static int dividers_of(int n) {
    int count = 0;
    for (int i = 1; i <= n; i++) count += n % i == 0;
    return count;
}

/* In so many stages and parts. */
static gs_status try_with_zero(gs_layout_plan *p, const gs_model *m, int pp, int tp) {
    if (p->workers % (pp * tp) != 0) return GS_OK;
    const int dp = p->workers / (pp * tp);
    const bool sequence = tp > 1 && p->memory.settings.sequence;
    for (int zero = 0; zero <= (dp > 1 ? GS_LAYOUT_ZERO : 0); zero++)
        for (int divides = 0; divides < (sequence ? 2 : 1); divides++)
            GS_TRY(try_layout(p, m, &(gs_layout){dp, tp, pp, zero}, divides));
    return GS_OK;
}

static gs_status try_all(gs_layout_plan *p, const gs_model *m) {
    const size_t each = (size_t)dividers_of(p->workers);
    p->cost = calloc(2 * each * each * (GS_LAYOUT_ZERO + 1) + 1, sizeof *p->cost);
    if (!p->cost) return gs_fail(GS_E_MEMORY, "no memory for a list of layouts");
    for (int tp = 1; tp <= p->workers && tp <= GS_TENSOR_MOST; tp++)
        for (int pp = 1; pp <= p->workers && pp <= GS_LAYOUT_STAGES; pp++)
            GS_TRY(try_with_zero(p, m, pp, tp));
    qsort(p->cost, (size_t)p->costs, sizeof *p->cost, faster_first);
    return GS_OK;
}

/* As one worker would be rehearsed: the data are there, and the model's text is known. */
static gs_status settle_data(const gs_settings *settings, gs_memory_plan *memory) {
    char device[48];
    gs_settings one = *settings;
    GS_TRY(gs_devices_name(settings->devices, 0, device));
    one.devices = device;
    one.layout = NULL;
    one.pipeline = one.tensor = one.zero = one.max_memory = one.micro_batches = 0;
    one.pipeline_schedule = one.pipeline_cut = NULL;
    one.exact = one.sequence = false;
    GS_TRY(gs_memory_plan_create(&one, memory));
    gs_settings *s = &memory->settings;
    s->exact = settings->exact;
    s->sequence = settings->sequence;
    s->max_memory = settings->max_memory;
    s->micro_batches = settings->micro_batches;
    s->pipeline_schedule = settings->pipeline_schedule;
    s->pipeline_cut = settings->pipeline_cut;
    s->devices = settings->devices;
    return GS_OK;
}

gs_status gs_layout_settled(const gs_settings *settings, int workers, gs_memory_plan *memory,
                            gs_model **plan) {
    *plan = NULL;
    GS_TRY(settle_data(settings, memory));
    gs_settings *s = &memory->settings;
    s->layout = settings->layout;
    GS_TRY(check_layout(s, workers));
    return gs_model_plan(s->model, s->train_set->shape, plan);
}

gs_status gs_layout_plan_create(const gs_settings *settings, const char *devices, int workers,
                                gs_layout_plan *p) {
    *p = (gs_layout_plan){.workers = workers, .devices = devices};
    GS_TRY(settle_data(settings, &p->memory));
    GS_TRY(measure(p));
    gs_model *m;
    const gs_settings *s = &p->memory.settings;
    GS_TRY(gs_model_plan(s->model, s->train_set->shape, &m));
    const gs_status status = try_all(p, m);
    gs_model_free(m);
    return status;
}

void gs_layout_plan_free(gs_layout_plan *p) {
    gs_memory_plan_free(&p->memory);
    free(p->cost);
    for (int i = 0; i < p->times_known; i++) gs_layer_times_free(&p->times[i]);
    *p = (gs_layout_plan){0};
}

gs_status gs_layout_plan_run(const gs_layout_plan *p, const gs_layout_cost *cost, const char *devices,
                             int steps, gs_result *result) {
    char text[GS_LAYOUT_TEXT];
    gs_settings s = with_layout(p, &cost->layout, cost->sequence, text);
    s.devices = devices;
    s.steps = (uint64_t)steps;
    if (*cost->cut) s.pipeline_cut = cost->cut;
    return gs_train(&s, NULL, result);
}
