/* What a layout's step takes, out of measured parts: the formulas of layout_plan.h. Which layers a worker computes, and
 * which calls it makes, a rehearsal of the step says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/internal.h"
#include "train/layout/layout_parts.h"
#include "train/layout/layout_plan.h"
#include "train/pipeline/virtual_time.h"
#include "train/rehearsal.h"

typedef struct prediction {
    gs_layout_parts *parts;
    const gs_settings *settings; /* settled */
    const gs_model *model;
    gs_layout layout;
    double busy;  /* workers that take turns on a core, or on an OpenCL device; or 1 */
    double batch; /* samples that a worker sees in a step */
    /* In stages: of each run, the mean of its micro-batches; and over the stages. */
    gs_pipeline_worker pipeline;
    double forward[GS_RUNS], backward[GS_RUNS];
    double work, calls, rest; /* all work of layers, the most calls within it, the most that comes after */
} prediction;

/* Of a worker in a step; seconds. */
typedef struct stage {
    double layers, calls; /* calls: between layers */
    double beside, after; /* calls, too */
    double params;        /* that it updates */
} stage;

/* ---- layers ---- */

/* Where workers meet in each layer, all take as long as the slowest. Where they meet once, at the end of a step, all
 * wait for the one whose core is the slowest; more workers than cores are moved from core to core. */
static double slowed_by(const prediction *p, const gs_layer_times *t, int i, bool meets) {
    const gs_layout_parts *m = p->parts;
    if (meets) return t->both[i] > 0 ? t->slowest[i] / t->both[i] : 1;
    if (p->layout.dp == 1 || p->layout.pp > 1 || m->workers * m->threads > m->cores) return 1;
    return fmax(1, t->uneven);
}

static gs_status time_of_layers(const prediction *p, const gs_rehearsed_item *i, bool meets,
                                double *seconds) {
    const gs_layer_times *t;
    *seconds = 0;
    if (i->samples == 0) return GS_OK; /* of a small batch */
    GS_TRY(p->parts->source->layers(p->parts, p->settings, i->samples, &t));
    for (int k = i->first; k < i->end; k++)
        *seconds += (i->backward ? t->backward[k] : t->forward[k]) * slowed_by(p, t, k, meets);
    return GS_OK;
}

/* ---- calls ---- */

/* samples: of the layer that makes it. */
static gs_layout_call call_of(const prediction *p, const gs_rehearsed_item *i, size_t samples, bool beside) {
    const gs_layout *l = &p->layout;
    const gs_call *c = &i->key.call;
    const bool parts = p->settings->sequence && i->axis == GS_TP && samples > 0;
    if (i->what == GS_REHEARSED_MESSAGE)
        return (gs_layout_call){.operation = GS_SEND,
                                .ranks = l->pp,
                                .floats = (i->message.count + sizeof(float) - 1) / sizeof(float)};
    gs_layout_call call = {.scheme = i->key.scheme,
                           .operation = c->operation,
                           .ranks = i->key.ranks,
                           .whole = i->axis == GS_WORLD || (i->axis == GS_DP && l->tp == 1 && l->pp == 1),
                           .beside = beside};
    call.floats = i->key.scheme ? i->key.array.count : c->count * gs_type_size(c->type) / sizeof(float);
    if (c->operation == GS_ALL_GATHER || c->operation == GS_ALL_TO_ALL) call.floats *= (size_t)call.ranks;
    if (c->operation == GS_ALL_TO_ALL) call.operation = GS_REDUCE_SCATTER; /* with --exact: as many bytes */
    if (parts && !call.scheme) call.pieces = samples;
    return call;
}

/* Sender and receiver of a message each have half an exchange. */
static gs_status time_of_call(const prediction *p, const gs_rehearsed_item *i, size_t samples, bool beside,
                              double *seconds) {
    const gs_layout_call call = call_of(p, i, samples, beside);
    *seconds = 0;
    if (call.floats == 0 || call.ranks < 2) return GS_OK;
    GS_TRY(p->parts->source->call(p->parts, &call, seconds));
    if (i->what == GS_REHEARSED_MESSAGE) *seconds /= 2;
    return GS_OK;
}

/* ---- a worker's step ---- */

static bool is_call(const gs_rehearsed_item *i) {
    return i->what == GS_REHEARSED_CALL || i->what == GS_REHEARSED_MESSAGE;
}

/* Calls that the layers make themselves: workers meet in each. */
static bool meets_in_layers(const gs_rehearsal *r, size_t last) {
    bool in_job = false, meets = false;
    for (size_t i = 0; i < last; i++) {
        if (r->item[i].what == GS_REHEARSED_ASK) in_job = true;
        if (r->item[i].what == GS_REHEARSED_NOTE) in_job = false;
        meets |= !in_job && r->item[i].what == GS_REHEARSED_CALL;
    }
    return meets;
}

static void add_to_run(prediction *p, const gs_rehearsed_item *layers, double seconds) {
    int run = 0;
    while (p->pipeline.first[run + 1] <= layers->first) run++;
    (layers->backward ? p->backward : p->forward)[run] += seconds / p->pipeline.shape.micro_batches;
}

/* Which layers a message is for: those before it if it is sent, else those after it. */
static const gs_rehearsed_item *layers_at(const gs_rehearsal *r, size_t i) {
    const bool sends = r->item[i].what == GS_REHEARSED_CALL || r->item[i].message.operation == GS_SEND;
    while (r->item[i].what != GS_REHEARSED_LAYERS) i += sends ? (size_t)-1 : 1;
    return &r->item[i];
}

static gs_status add_items(prediction *p, const gs_rehearsal *r, stage *to) {
    size_t last = r->items, first = 0;
    while (last > 0 && r->item[last - 1].what != GS_REHEARSED_LAYERS) last--;
    while (last < r->items && r->item[last].what == GS_REHEARSED_MESSAGE) last++;
    while (first < last && r->item[first].what != GS_REHEARSED_LAYERS) first++;
    const bool meets = meets_in_layers(r, last);
    bool in_job = false;
    for (size_t k = 0; k < r->items; k++) {
        const gs_rehearsed_item *i = &r->item[k];
        const bool within = k < last && (k > first || i->what != GS_REHEARSED_CALL);
        double seconds = 0;
        if (i->what == GS_REHEARSED_ASK) in_job = true;
        if (i->what == GS_REHEARSED_NOTE) in_job = false;
        if (i->what == GS_REHEARSED_UPDATE) to->params += (double)i->params;
        if (i->what == GS_REHEARSED_LAYERS) GS_TRY(time_of_layers(p, i, meets, &seconds));
        if (is_call(i)) GS_TRY(time_of_call(p, i, within ? layers_at(r, k)->samples : 0, in_job, &seconds));
        *(i->what == GS_REHEARSED_LAYERS ? &to->layers
          : in_job                       ? &to->beside
          : within                       ? &to->calls
                                         : &to->after) += seconds;
        if (p->layout.pp > 1 && within && seconds > 0)
            add_to_run(p, i->what == GS_REHEARSED_LAYERS ? i : layers_at(r, k), seconds);
    }
    return GS_OK;
}

/* What comes after the layers, or beside them: a thread beside a worker takes a core from another one, unless there are
 * cores for all of them; and so does the loader. */
static double rest_of(const prediction *p, const stage *g) {
    const gs_layout_parts *m = p->parts;
    const bool room = m->workers * m->threads + m->workers <= m->cores;
    const double beside = room ? fmax(0, g->beside - g->layers) : g->beside;
    return g->after + beside +
           p->busy * (m->update * g->params + p->batch * (m->data + (room ? 0 : m->loader)));
}

/* Of a tensor group the last has most of a vocabulary. */
static gs_status add_stage(prediction *p, int number, gs_layout_cost *out) {
    const gs_layout *l = &p->layout;
    const int rank = gs_rank_at(l, (gs_place){0, l->tp - 1, number}), all = l->dp * l->tp;
    gs_rehearsal r;
    stage g = {.params = 0};
    gs_status status = gs_rehearsal_create(p->settings, p->model->in, gs_model_answers(p->model),
                                           p->parts->workers, rank, &r);
    if (status == GS_OK) status = add_items(p, &r, &g);
    out->sent = fmax(out->sent, r.sent);
    p->work += g.layers * all;
    p->calls = fmax(p->calls, g.calls);
    p->rest = fmax(p->rest, rest_of(p, &g));
    gs_rehearsal_free(&r);
    return status;
}

/* ---- in stages ---- */

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

/* Of a worker as far as gs_stage_cut looks at it. */
static gs_status find_shape(prediction *p) {
    const gs_settings *s = p->settings;
    gs_worker w = {.settings = s, .groups.layout = p->layout, .model = (gs_model *)(uintptr_t)p->model};
    w.schedule.mine = gs_parts_of(s, p->parts->workers) / p->layout.dp;
    w.schedule.passes = gs_passes(s);
    return gs_stage_cut(&w, 0, &p->pipeline);
}

/* The instructions of all stages, in virtual time. */
static gs_status play(const prediction *p, double *seconds) {
    const gs_pipeline_schedule *schedule;
    const gs_pipeline_times times = {.forward = p->forward, .backward = p->backward};
    gs_pipeline_run run = {0};
    int chunks;
    GS_TRY(gs_pipeline_read(p->settings->pipeline_schedule, &schedule, &chunks));
    gs_instructions *list = calloc((size_t)p->pipeline.shape.stages + 1, sizeof *list);
    if (!list)
        return gs_fail(GS_E_MEMORY, "no memory for the schedules of %d stages", p->pipeline.shape.stages);
    gs_status status = GS_OK;
    for (int s = 0; s < p->pipeline.shape.stages && status == GS_OK; s++)
        status = gs_instructions_create(schedule, &p->pipeline.shape, s, &list[s]);
    if (status == GS_OK) status = gs_pipeline_in_virtual_time(&p->pipeline.shape, list, &times, &run);
    for (int s = 0; s < p->pipeline.shape.stages; s++) gs_instructions_free(&list[s]);
    free(list);
    *seconds = run.took;
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

static gs_status predict(prediction *p, gs_layout_cost *out) {
    const gs_layout *l = &p->layout;
    double played = 0;
    if (l->pp > 1) GS_TRY(find_shape(p));
    for (int i = 0; i < l->pp; i++) GS_TRY(add_stage(p, i, out));
    const double alone = p->work * p->busy / p->parts->workers + p->calls;
    if (l->pp > 1) GS_TRY(play(p, &played));
    if (l->pp > 1) out->bubble = gs_pipeline_bubble(&p->pipeline.shape);
    out->seconds = fmax(played, alone) + p->rest;
    return GS_OK;
}

gs_status gs_layout_predict(gs_layout_parts *parts, const gs_settings *settings, const gs_model *m,
                            size_t batch, gs_layout_cost *out) {
    gs_settings s = *settings;
    const gs_layout l = gs_layout_of(&s, parts->workers);
    prediction *p = malloc(sizeof *p);
    if (!p) return gs_fail(GS_E_MEMORY, "no memory for the stages of a pipeline");
    *p = (prediction){.parts = parts,
                      .settings = &s,
                      .model = m,
                      .layout = l,
                      .busy = turns_taken(parts),
                      .batch = (double)batch / l.dp};
    *out = (gs_layout_cost){.layout = l, .sequence = s.sequence};
    s.devices = parts->devices;
    s.batch = batch;
    gs_status status = GS_OK;
    if (l.pp > 1 && gs_pipeline_is_measured(s.pipeline_cut)) {
        const gs_layer_times *times;
        status = parts->source->layers(parts, &s, gs_pipeline_micro_batch(&s, batch, parts->workers), &times);
        if (status == GS_OK) status = cut_by_times(&s, m, times, out->cut);
        s.pipeline_cut = out->cut;
    }
    if (status == GS_OK) status = predict(p, out);
    free(p);
    return status;
}
