#include "train/layout/layout_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/text.h"
#include "train/internal.h"
#include "train/layout/layout_parts.h"
#include "train/pipeline/cut.h"
#include "train/strategies/pipeline.h"
#include "train/tensor/tensor.h"

/* ---- who holds what ---- */

gs_status gs_layout_part(const gs_settings *s, const gs_model *plan, int rank, gs_model **part) {
    const gs_model_wishes wishes = {.text = s->model, .in = plan->in, .tensor = gs_tensor_group_of(s, rank)};
    const gs_status status = gs_model_create(NULL, &wishes, part);
    return status == GS_E_SHAPE ? gs_fail(GS_E_USAGE, "%s", gs_message()) : status;
}

static void name_layers(const gs_holding *own, char *text, size_t size) {
    *text = 0;
    for (int c = 0; c < own->states; c++) {
        const int first = own->state[c].begin, last = own->state[c].end - 1;
        gs_append(text, size, first < last ? "%s%d-%d" : "%s%d", c > 0 ? "," : "", first, last);
    }
}

/* Of a worker as far as gs_holding_plan looks at it. */
static gs_status share_of_stage(const gs_settings *s, const gs_model *plan, int workers, int rank,
                                gs_layout_share *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_worker w = {.settings = s, .groups.layout = l, .model = (gs_model *)(uintptr_t)plan};
    w.schedule.mine = gs_parts_of(s, workers) / l.dp;
    w.schedule.passes = gs_passes(s);
    const gs_status status = gs_holding_plan(&w, rank, &w.holding);
    if (status == GS_OK) {
        out->params = w.holding.params;
        name_layers(&w.holding, out->layers, sizeof out->layers);
    }
    gs_holding_free(&w.holding);
    return status;
}

gs_status gs_layout_share_of(const gs_settings *s, const gs_model *plan, int workers, int rank,
                             gs_layout_share *out) {
    const gs_layout l = gs_layout_of(s, workers);
    gs_model *part = NULL;
    *out = (gs_layout_share){.place = gs_place_of(&l, rank), .params = plan->params};
    out->weights = l.zero > 2 ? l.dp : 1;
    out->gradients = l.zero > 1 ? l.dp : 1;
    out->vectors = l.zero > 0 ? l.dp : 1;
    snprintf(out->layers, sizeof out->layers, "%s", "all");
    if (l.tp > 1) GS_TRY(gs_layout_part(s, plan, rank, &part));
    if (part) out->params = part->params;
    const gs_status status = l.pp > 1 ? share_of_stage(s, part ? part : plan, workers, rank, out) : GS_OK;
    gs_model_free(part);
    return status;
}

/* ---- one layout ---- */

static gs_status predict(gs_layout_plan *p, const gs_settings *settings, const gs_model *m,
                         gs_layout_cost *out) {
    gs_settings s = *settings;
    gs_memory_plan plan;
    GS_TRY(gs_layout_predict(p->parts, &s, m, p->memory.batch, out));
    if (*out->cut) s.pipeline_cut = out->cut;
    s.devices = p->devices;
    const gs_status status = gs_memory_plan_create(&s, &plan); /* rehearsed */
    if (status == GS_OK) out->memory = gs_memory_most(&plan, NULL);
    gs_memory_plan_free(&plan);
    return status;
}

/* The parts that all layouts are made of. */
static gs_status measure(gs_layout_plan *p) {
    const gs_settings *s = &p->memory.settings;
    p->parts = calloc(1, sizeof *p->parts);
    if (!p->parts) return gs_fail(GS_E_MEMORY, "no memory to measure the parts of a step");
    *p->parts = (gs_layout_parts){.settings = s,
                                  .devices = p->devices,
                                  .workers = p->workers,
                                  .threads = gs_worker_threads(s, p->workers),
                                  .cores = gs_cpu_cores()};
    return gs_layout_parts_measure(p->parts, p->memory.batch);
}

/* ---- all layouts ---- */

static int faster_first(const void *a, const void *b) {
    const double x = ((const gs_layout_cost *)a)->seconds, y = ((const gs_layout_cost *)b)->seconds;
    return (x > y) - (x < y);
}

/* The settings of a run with this layout. text: room for its name, to which they point. */
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

/* The layout becomes a row, unless it cannot run, or does not fit. While there are no rows it is only counted. */
static gs_status try_layout(gs_layout_plan *p, const gs_model *m, const gs_layout *l, bool sequence) {
    char text[GS_LAYOUT_TEXT];
    if (!p->cost) return p->layouts++, GS_OK;
    gs_settings s = with_layout(p, l, sequence, text);
    gs_layout_cost *cost = &p->cost[p->costs];
    if (p->tell) p->tell(p->context, p->costs + p->too_large + p->refused, p->layouts);
    gs_status status = check_layout(&s, p->workers);
    if (status == GS_OK && !p->parts) GS_TRY(measure(p)); /* at the first that can run */
    if (status == GS_OK) status = predict(p, &s, m, cost);
    if (status != GS_OK && status != GS_E_USAGE && status != GS_E_SHAPE)
        return status; /* no memory, or a device that fails: not because of this layout */
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

/* pp stages of tp parts, with every stage of ZeRO that the replicas can have. */
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
    for (int tp = 1; tp <= p->workers && tp <= GS_TENSOR_MOST; tp++)
        for (int pp = 1; pp <= p->workers && pp <= GS_LAYOUT_STAGES; pp++)
            GS_TRY(try_with_zero(p, m, pp, tp));
    if (!p->cost) {
        p->cost = calloc((size_t)p->layouts + 1, sizeof *p->cost);
        return p->cost ? try_all(p, m) : gs_fail(GS_E_MEMORY, "no memory for a list of layouts");
    }
    qsort(p->cost, (size_t)p->costs, sizeof *p->cost, faster_first);
    return GS_OK;
}

/* What needs several workers, and the layouts take up again. */
static void take_those_of_several(gs_settings *to, const gs_settings *from) {
    to->devices = from->devices;
    to->exact = from->exact;
    to->sequence = from->sequence;
    to->max_memory = from->max_memory;
    to->micro_batches = from->micro_batches;
    to->pipeline_schedule = from->pipeline_schedule;
    to->pipeline_cut = from->pipeline_cut;
}

/* Rehearse one worker, which opens the data and finds the model's text. */
static gs_status settle_data(const gs_settings *settings, gs_memory_plan *memory) {
    char device[48];
    gs_settings one = *settings;
    GS_TRY(gs_devices_name(settings->devices, 0, device));
    take_those_of_several(&one, &(gs_settings){.devices = device});
    one.layout = NULL; /* and what it stands for */
    one.pipeline = one.tensor = one.zero = 0;
    GS_TRY(gs_memory_plan_create(&one, memory));
    take_those_of_several(&memory->settings, settings);
    return GS_OK;
}

gs_status gs_layout_settled(const gs_settings *settings, int workers, gs_memory_plan *memory,
                            gs_model **plan) {
    *plan = NULL;
    GS_TRY(settle_data(settings, memory));
    gs_settings *s = &memory->settings;
    s->layout = settings->layout;
    GS_TRY(check_layout(s, workers));
    return gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = s->train_set->shape}, plan);
}

/* What is right in no layout is an error, and not the reason to refuse one. */
static gs_status check_pipelines(const gs_settings *s) {
    const gs_pipeline_schedule *schedule;
    int chunks;
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &chunks));
    return gs_pipeline_cut_check(s->pipeline_cut);
}

gs_status gs_layout_plan_create(const gs_settings *settings, const char *devices, int workers,
                                gs_layout_tell tell, void *context, gs_layout_plan *p) {
    *p = (gs_layout_plan){.workers = workers, .devices = devices, .tell = tell, .context = context};
    GS_TRY(check_pipelines(settings));
    GS_TRY(settle_data(settings, &p->memory));
    gs_model *m;
    const gs_settings *s = &p->memory.settings;
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = s->model, .in = s->train_set->shape}, &m));
    const gs_status status = try_all(p, m);
    gs_model_free(m);
    return status;
}

void gs_layout_plan_free(gs_layout_plan *p) {
    gs_memory_plan_free(&p->memory);
    free(p->cost);
    if (p->parts) gs_layout_parts_free(p->parts);
    free(p->parts);
    *p = (gs_layout_plan){0};
}

gs_status gs_layout_plan_run(const gs_layout_plan *p, const gs_layout_cost *cost, int steps,
                             const gs_observer *observer, gs_result *result) {
    char text[GS_LAYOUT_TEXT];
    gs_settings s = with_layout(p, &cost->layout, cost->sequence, text);
    s.devices = p->devices;
    s.steps = (uint64_t)steps;
    if (*cost->cut) s.pipeline_cut = cost->cut;
    return gs_train(&s, observer, result);
}
