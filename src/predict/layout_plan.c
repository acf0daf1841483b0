#include "predict/layout_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/text.h"
#include "train/settings.h"
#include "train/strategy.h"
#include "parallel/virtual_time.h"
#include "predict/dry_run.h"
#include "predict/measured_cut.h"
#include "train/stages.h"
#include "train/tensor.h"

/* ---- who holds what ---- */

gs_status gs_layout_tp_model(const gs_settings *s, const gs_model *plan, int rank, gs_model **part) {
    const gs_model_config config = {.text = s->model, .in = plan->in, .tensor = gs_tensor_group_of(s, rank)};
    const gs_status status = gs_model_create(NULL, &config, part);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
}

static void name_layers(const gs_partition *own, char *text, size_t size) {
    *text = 0;
    for (int c = 0; c < own->runs; c++) {
        const int first = own->run[c].begin, last = own->run[c].end - 1;
        gs_append(text, size, first < last ? "%s%d-%d" : "%s%d", c > 0 ? "," : "", first, last);
    }
}

/* A worker with only the members that gs_partition_plan and gs_stages_of read. */
static gs_worker planned_worker(const gs_settings *s, const gs_model *plan, int workers) {
    const gs_layout l = gs_layout_of(s, workers);
    return (gs_worker){.settings = s,
                       .groups.layout = l,
                       .model = (gs_model *)(uintptr_t)plan,
                       .schedule.mine = gs_batch_shards(s, workers) / l.dp,
                       .schedule.passes = gs_passes(s)};
}

static gs_status share_of_stage(const gs_settings *s, const gs_model *plan, int workers, int rank,
                                gs_layout_share *out) {
    gs_worker w = planned_worker(s, plan, workers);
    const gs_status status = gs_partition_plan(&w, rank, &w.partition);
    if (status == GS_OK) {
        out->params = w.partition.params;
        name_layers(&w.partition, out->layers, sizeof out->layers);
    }
    gs_partition_free(&w.partition);
    return status;
}

gs_status gs_layout_share_of(const gs_settings *s, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_model *part = NULL;
    *out = (gs_layout_share){.layers = "all", .params = plan->params};
    if (l.tp > 1) GS_TRY(gs_layout_tp_model(s, plan, rank, &part));
    if (part) out->params = part->params;
    const gs_status status = l.pp > 1 ? share_of_stage(s, part ? part : plan, workers, rank, out) : GS_OK;
    gs_model_free(part);
    return status;
}

/* ---- the time of a layout's step: the formulas of layout_plan.h ----
 *
 * A dry run of the step lists the layers that a worker computes, and its calls. */

typedef struct prediction {
    gs_layout_measured *measured;
    const gs_settings *settings; /* resolved */
    const gs_model *model;
    gs_layout layout;
    double busy;  /* number of workers that take turns on a core or an OpenCL device; at least 1 */
    double batch; /* samples per worker in a step */
    gs_stages pipeline;
    double forward[GS_RUNS], backward[GS_RUNS]; /* per run of layers: the mean over its micro-batches */
    /* Over all stages: the total time of layers; the most time in calls between layers; the longest rest of a step. */
    double work, calls, rest;
} prediction;

/* One worker's step; times in seconds. */
typedef struct stage {
    double layers, calls;     /* calls: between layers */
    double background, after; /* calls beside layers, and after them */
    double params;            /* number of parameters that it updates */
} stage;

/* ---- layers ---- */

/* If workers meet in each layer, all take as long as the slowest. If they meet only at the end of a step, all wait for
 * the worker on the slowest core. If threads outnumber cores, no worker stays on one core, so none is slower. */
static double slowed_by(const prediction *p, const gs_layer_times *t, int i, bool meets) {
    const gs_layout_measured *m = p->measured;
    if (meets) return t->both[i] > 0 ? t->slowest[i] / t->both[i] : 1;
    if (p->layout.dp == 1 || p->layout.pp > 1 || m->workers * m->threads > m->cores) return 1;
    return fmax(1, t->uneven);
}

static gs_status time_of_layers(const prediction *p, const gs_dry_run_item *i, bool meets, double *seconds) {
    const gs_layer_times *t;
    *seconds = 0;
    if (i->samples == 0) return GS_OK; /* possible in a small batch */
    GS_TRY(p->measured->source->layers(p->measured, p->settings, i->samples, &t));
    for (int k = i->first; k < i->end; k++)
        *seconds += (i->backward ? t->backward[k] : t->forward[k]) * slowed_by(p, t, k, meets);
    return GS_OK;
}

/* ---- calls ---- */

/* samples: the number of samples in the layer that makes the call. */
static gs_layout_call call_of(const prediction *p, const gs_dry_run_item *i, size_t samples) {
    const gs_layout *l = &p->layout;
    const gs_call *c = &i->key.call;
    const bool parts = p->settings->sequence && i->axis == GS_TP && samples > 0;
    if (i->op > GS_VIRTUAL_LIST)
        return (gs_layout_call){
            .operation = GS_SEND, .ranks = l->pp, .floats = (c->count + sizeof(float) - 1) / sizeof(float)};
    gs_layout_call call = {.scheme = i->key.scheme,
                           .operation = c->operation,
                           .ranks = i->key.ranks,
                           .whole = i->axis == GS_WORLD || (i->axis == GS_DP && l->tp == 1 && l->pp == 1),
                           .background = i->in_job};
    call.floats = i->key.scheme ? i->key.array.count : c->count * gs_type_size(c->type) / sizeof(float);
    if (c->operation == GS_ALL_GATHER || c->operation == GS_ALL_TO_ALL) call.floats *= (size_t)call.ranks;
    if (c->operation == GS_ALL_TO_ALL) call.operation = GS_REDUCE_SCATTER; /* --exact; sends as many bytes */
    if (parts && !call.scheme) call.samples = samples;
    return call;
}

/* The sender and the receiver of a message each count half of an exchange. */
static gs_status time_of_call(const prediction *p, const gs_dry_run_item *i, size_t samples,
                              double *seconds) {
    const gs_layout_call call = call_of(p, i, samples);
    *seconds = 0;
    if (call.floats == 0 || call.ranks < 2) return GS_OK;
    GS_TRY(p->measured->source->call(p->measured, &call, seconds));
    if (i->op > GS_VIRTUAL_LIST) *seconds /= 2;
    return GS_OK;
}

/* ---- a worker's step ---- */

static void add_to_run(prediction *p, const gs_dry_run_item *layers, double seconds) {
    int run = 0;
    while (p->pipeline.first[run + 1] <= layers->first) run++;
    (layers->backward ? p->backward : p->forward)[run] += seconds / p->pipeline.shape.micro_batches;
}

/* The layers to which a call belongs: the preceding ones or, if it receives a message, the following ones. */
static const gs_dry_run_item *layers_at(const gs_dry_run *r, size_t i) {
    const bool receives = r->item[i].op == GS_VIRTUAL_RECV_ONE;
    while (r->item[i].op != GS_VIRTUAL_LAYERS) i += receives ? 1 : (size_t)-1;
    return &r->item[i];
}

static gs_status add_items(prediction *p, const gs_dry_run *r, stage *to) {
    size_t last = r->items, first = 0;
    while (last > 0 && r->item[last - 1].op != GS_VIRTUAL_LAYERS) last--;
    while (last < r->items && r->item[last].op > GS_VIRTUAL_LIST) last++;
    while (first < last && r->item[first].op != GS_VIRTUAL_LAYERS) first++;
    bool meets = false; /* true if layers call other workers, so that workers meet in each layer */
    for (size_t k = 0; k < last; k++) meets |= r->item[k].op == GS_VIRTUAL_LIST && !r->item[k].in_job;
    for (size_t k = 0; k < r->items; k++) {
        const gs_dry_run_item *i = &r->item[k];
        const bool within = k < last && (k > first || i->op != GS_VIRTUAL_LIST);
        double seconds = 0;
        if (i->op == GS_VIRTUAL_UPDATE) to->params += (double)i->params;
        if (i->op == GS_VIRTUAL_LAYERS) GS_TRY(time_of_layers(p, i, meets, &seconds));
        if (i->op >= GS_VIRTUAL_LIST)
            GS_TRY(time_of_call(p, i, within ? layers_at(r, k)->samples : 0, &seconds));
        *(i->op == GS_VIRTUAL_LAYERS ? &to->layers
          : i->in_job                ? &to->background
          : within                   ? &to->calls
                                     : &to->after) += seconds;
        if (p->layout.pp > 1 && within && seconds > 0)
            add_to_run(p, i->op == GS_VIRTUAL_LAYERS ? i : layers_at(r, k), seconds);
    }
    return GS_OK;
}

/* Seconds of a step after its layers and beside them. Unless there are cores for all threads, a thread beside a worker
 * takes a core from another worker, and so does the loader. */
static double rest_of(const prediction *p, const stage *g) {
    const gs_layout_measured *m = p->measured;
    const bool room = m->workers * m->threads + m->workers <= m->cores;
    const double background = room ? fmax(0, g->background - g->layers) : g->background;
    return g->after + background +
           p->busy * (m->update * g->params + p->batch * (m->data + (room ? 0 : m->loader)));
}

/* A tensor group is represented by its last worker, which holds the largest part of a vocabulary. */
static gs_status add_stage(prediction *p, int number, gs_layout_cost *out) {
    const gs_layout *l = &p->layout;
    const int rank = gs_rank_at(l, (gs_coordinates){0, l->tp - 1, number}), all = l->dp * l->tp;
    gs_dry_run r;
    stage g = {.params = 0};
    gs_status status = gs_dry_run_create(p->settings, p->model->in, gs_model_targets(p->model),
                                         p->measured->workers, rank, &r);
    if (status == GS_OK) status = add_items(p, &r, &g);
    out->sent = fmax(out->sent, r.sent);
    p->work += g.layers * all;
    p->calls = fmax(p->calls, g.calls);
    p->rest = fmax(p->rest, rest_of(p, &g));
    gs_dry_run_free(&r);
    return status;
}

/* ---- pipelines ---- */

/* Seconds for the instructions of all stages, in virtual time. */
static gs_status play(const prediction *p, double *seconds) {
    const gs_pipeline_times times = {.forward = p->forward, .backward = p->backward};
    gs_pipeline_run run = {0};
    gs_instructions *list;
    GS_TRY(GS_NEW(list, p->pipeline.shape.stages, "the schedules of %d stages", p->pipeline.shape.stages));
    gs_status status = GS_OK;
    for (int s = 0; s < p->pipeline.shape.stages && status == GS_OK; s++)
        status = gs_instructions_create(p->pipeline.schedule, &p->pipeline.shape, s, &list[s]);
    if (status == GS_OK) status = gs_pipeline_in_virtual_time(&p->pipeline.shape, list, &times, &run);
    for (int s = 0; s < p->pipeline.shape.stages; s++) gs_instructions_free(&list[s]);
    free(list);
    *seconds = run.took;
    return status;
}

/* ---- a step ---- */

/* Threads per core or, if more, workers per OpenCL device; only one worker measures on such a device at a time. */
static double turns_taken(const gs_layout_measured *m) {
    const char *devices = m->settings->devices;
    const int named = gs_devices_count(devices);
    double most = fmax(1, (double)m->workers * m->threads / m->cores);
    for (int i = 0; i < named; i++) {
        char one[48], other[48];
        int count = 0;
        if (gs_devices_name(devices, i, one) != GS_OK || strcmp(one, "cpu") == 0) continue;
        for (int k = 0; k < m->workers; k++)
            count += gs_devices_name(devices, k % named, other) == GS_OK && strcmp(one, other) == 0;
        most = fmax(most, count);
    }
    return most;
}

static gs_status predict(prediction *p, gs_layout_cost *out) {
    const gs_layout *l = &p->layout;
    double played = 0;
    const gs_worker w = planned_worker(p->settings, p->model, p->measured->workers);
    if (l->pp > 1) GS_TRY(gs_stages_of(&w, &p->pipeline));
    for (int i = 0; i < l->pp; i++) GS_TRY(add_stage(p, i, out));
    const double alone = p->work * p->busy / p->measured->workers + p->calls;
    if (l->pp > 1) GS_TRY(play(p, &played));
    if (l->pp > 1) out->bubble = gs_pipeline_bubble(&p->pipeline.shape);
    out->seconds = fmax(played, alone) + p->rest;
    return GS_OK;
}

gs_status gs_layout_predict(gs_layout_measured *measured, const gs_settings *settings, const gs_model *m,
                            size_t batch, gs_layout_cost *out) {
    gs_settings s = *settings;
    const gs_layout l = gs_layout_of(&s, measured->workers);
    prediction p = {.measured = measured,
                    .settings = &s,
                    .model = m,
                    .layout = l,
                    .busy = turns_taken(measured),
                    .batch = (double)batch / l.dp};
    *out = (gs_layout_cost){.layout = l, .sequence = s.sequence};
    s.batch = batch;
    if (l.pp > 1 && gs_pipeline_is_measured(s.pipeline_cut)) {
        const size_t micro_batch = gs_pipeline_micro_batch(&s, batch, measured->workers);
        const gs_layer_times *times;
        gs_cut_report report;
        GS_TRY(measured->source->layers(measured, &s, micro_batch, &times));
        GS_TRY(gs_cut_by_times(&s, m, times, &report));
        s.pipeline_cut = gs_pipeline_cut_text(report.runs, report.first, out->cut);
    }
    return predict(&p, out);
}

/* ---- one layout ---- */

static gs_status predict_with_memory(gs_layout_plan *p, const gs_settings *settings, const gs_model *m,
                                     gs_layout_cost *out) {
    gs_settings s = *settings;
    gs_memory_plan plan;
    GS_TRY(gs_layout_predict(p->measured, &s, m, p->memory.batch, out));
    if (*out->cut) s.pipeline_cut = out->cut;
    const gs_status status = gs_memory_plan_create(&s, &plan); /* a dry run */
    if (status == GS_OK) out->memory = gs_memory_most(&plan, NULL);
    gs_memory_plan_free(&plan);
    return status;
}

static gs_status measure(gs_layout_plan *p) {
    const gs_settings *s = &p->memory.settings;
    GS_TRY(GS_NEW(p->measured, 1, "the parts of a step"));
    *p->measured = (gs_layout_measured){.settings = s,
                                        .workers = p->workers,
                                        .threads = gs_worker_threads(s, p->workers),
                                        .cores = gs_cpu_cores()};
    return gs_layout_measure(p->measured, p->memory.batch);
}

/* ---- all layouts ---- */

static int faster_first(const void *a, const void *b) {
    const double x = ((const gs_layout_cost *)a)->seconds, y = ((const gs_layout_cost *)b)->seconds;
    return (x > y) - (x < y);
}

/* The settings of a run with this layout; they point to its name, which is written to `text`. */
static gs_settings with_layout(const gs_layout_plan *p, const gs_layout *l, bool sequence,
                               char text[GS_LAYOUT_TEXT]) {
    gs_settings s = p->memory.settings;
    s.sequence = sequence;
    s.layout = gs_layout_text(l, text);
    s.max_memory = 0;
    if (l->pp > 1) return s;
    s.micro_batches = 0; /* pipelines only */
    s.pipeline_schedule = s.pipeline_cut = NULL;
    return s;
}

static gs_status check_layout(gs_settings *s, int workers) {
    GS_TRY(gs_layout_settle(s));
    GS_TRY(gs_check_settings(s));
    GS_TRY(gs_check_workers(s, s->train_set, workers));
    return gs_check_batch_norm(s, s->train_set, workers);
}

/* Complete the row, unless the layout cannot run or does not fit. */
static gs_status try_layout(gs_layout_plan *p, const gs_model *m, const gs_layout_cost *row) {
    char text[GS_LAYOUT_TEXT];
    const bool sequence = row->sequence;
    gs_settings s = with_layout(p, &row->layout, sequence, text);
    gs_layout_cost *cost = &p->cost[p->costs]; /* the slot for this row, perhaps an earlier row's */
    gs_status status = check_layout(&s, p->workers);
    if (status == GS_OK && !p->measured) GS_TRY(measure(p)); /* when the first runnable layout is found */
    if (status == GS_OK) status = predict_with_memory(p, &s, m, cost);
    if (status != GS_OK && status != GS_E_USAGE && status != GS_E_SHAPE)
        return status; /* no memory, or a failing device: not this layout's fault */
    if (status != GS_OK && p->refused++ == 0)
        snprintf(p->why, sizeof p->why, "%s%s: %s", text, sequence ? " --sequence" : "", gs_message());
    if (status != GS_OK) return GS_OK;
    const int limit = p->memory.settings.max_memory;
    if (!limit || cost->memory <= 1e6 * limit) return p->costs++, GS_OK;
    p->least = p->too_large++ ? fmin(p->least, cost->memory) : cost->memory;
    return GS_OK;
}

/* List the layouts with pp stages and tp shards, each with every possible ZeRO stage. */
static gs_status list_with_zero(gs_layout_plan *p, int pp, int tp, size_t *room) {
    const int dp = p->workers / (pp * tp), sequence = tp > 1 && p->memory.settings.sequence;
    if (p->workers % (pp * tp) != 0) return GS_OK;
    for (int zero = 0; zero <= (dp > 1 ? GS_LAYOUT_ZERO : 0); zero++)
        for (int divides = 0; divides <= sequence; divides++) {
            if (!gs_grow(&p->cost, (size_t)p->layouts, room, sizeof *p->cost))
                return gs_fail(GS_E_MEMORY, "no memory for a list of layouts");
            p->cost[p->layouts++] = (gs_layout_cost){.layout = {dp, tp, pp, zero}, .sequence = divides};
        }
    return GS_OK;
}

static gs_status try_all(gs_layout_plan *p, const gs_model *m) {
    size_t room = 0;
    for (int tp = 1; tp <= p->workers && tp <= GS_LAYOUT_PARTS; tp++)
        for (int pp = 1; pp <= p->workers && pp <= GS_LAYOUT_STAGES; pp++)
            GS_TRY(list_with_zero(p, pp, tp, &room));
    for (int i = 0; i < p->layouts; i++) {
        if (p->tell) p->tell(p->context, i, p->layouts);
        GS_TRY(try_layout(p, m, &p->cost[i]));
    }
    qsort(p->cost, (size_t)p->costs, sizeof *p->cost, faster_first);
    return GS_OK;
}

/* A dry run of one worker opens the data and finds the model's text. The layouts then use the original settings. */
static gs_status settle_data(const gs_settings *settings, gs_memory_plan *memory) {
    char device[48];
    gs_settings one = *settings, *to = &memory->settings;
    GS_TRY(gs_settings_alone(&one, device));
    GS_TRY(gs_memory_plan_create(&one, memory));
    to->devices = settings->devices;
    to->exact = settings->exact;
    to->sequence = settings->sequence;
    to->max_memory = settings->max_memory;
    to->micro_batches = settings->micro_batches;
    to->pipeline_schedule = settings->pipeline_schedule;
    to->pipeline_cut = settings->pipeline_cut;
    return GS_OK;
}

gs_status gs_layout_settled(const gs_settings *settings, int workers, gs_memory_plan *memory,
                            gs_model **plan) {
    *plan = NULL;
    GS_TRY(settle_data(settings, memory));
    gs_settings *s = &memory->settings;
    s->layout = settings->layout;
    GS_TRY(check_layout(s, workers));
    return gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = s->train_set->shape}, plan);
}

gs_status gs_layout_plan_create(const gs_settings *settings, const char *devices, int workers,
                                gs_layout_tell tell, void *context, gs_layout_plan *p) {
    *p = (gs_layout_plan){.workers = workers, .tell = tell, .context = context};
    /* If every layout would fail for the same reason, report it as an error instead of refusing each layout. */
    GS_TRY(gs_strategy_pipeline.check(settings));
    GS_TRY(settle_data(settings, &p->memory));
    gs_model *m;
    gs_settings *s = &p->memory.settings;
    s->devices = devices;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = s->train_set->shape}, &m));
    const gs_status status = try_all(p, m);
    gs_model_free(m);
    return status;
}

void gs_layout_plan_free(gs_layout_plan *p) {
    gs_memory_plan_free(&p->memory);
    free(p->cost);
    if (p->measured) gs_layout_measured_free(p->measured);
    free(p->measured);
    *p = (gs_layout_plan){0};
}

gs_status gs_layout_plan_run(const gs_layout_plan *p, const gs_layout_cost *cost, int steps,
                             const gs_observer *observer, gs_result *result) {
    char text[GS_LAYOUT_TEXT];
    gs_settings s = with_layout(p, &cost->layout, cost->sequence, text);
    s.steps = (uint64_t)steps;
    if (*cost->cut) s.pipeline_cut = cost->cut;
    return gs_train(&s, observer, result);
}
