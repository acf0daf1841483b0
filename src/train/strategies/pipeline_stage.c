/* What a worker has of a model that is cut into stages: see pipeline.c. */
#include "train/strategies/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "train/hooks.h"
#include "train/internal.h"

/* ---- the cut ---- */

gs_status gs_stage_cut(const gs_worker *w, int stage, gs_pipeline_worker *p) {
    const gs_settings *s = w->settings;
    const gs_pipeline_schedule *schedule;
    p->shape = (gs_pipeline){.stages = w->groups.layout.pp,
                             .micro_batches = s->exact ? w->schedule.mine : w->schedule.passes};
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &p->shape.chunks));
    p->stage = stage;
    p->runs = p->shape.stages * p->shape.chunks;
    GS_TRY(
        gs_pipeline_cut(gs_model_whole(w->model), s->pipeline_cut, p->runs, p->first)); /* as all parts do */
    GS_TRY(gs_pipeline_tied(w->model, p->runs, p->first, &p->tied));
    if (p->tied.table) p->shape.tied = s->exact ? GS_TIED_EACH : GS_TIED_ONCE;
    return GS_OK;
}

/* ---- the arrays ---- */

/* Of the whole model's weights to this worker's. */
static gs_status copy_weights(gs_worker *w, const gs_pipeline_worker *p, gs_mem whole) {
    const gs_backend *ops = w->device->ops;
    for (int c = 0; c < p->shape.chunks; c++) {
        const gs_stage_chunk *k = &p->chunk[c];
        GS_TRY(ops->copy(w->device, gs_at(p->own->weights, k->unit->at), gs_at(whole, k->unit->first),
                         k->unit->count));
        GS_TRY(ops->copy(w->device, gs_at(p->own->weights, k->state->at), gs_at(whole, k->state->first),
                         k->state->count));
    }
    if (p->own->copy)
        GS_TRY(ops->copy(w->device, gs_at(p->own->weights, p->own->params), gs_at(whole, p->own->copy->at),
                         p->own->copy->count));
    return ops->finish(w->device);
}

static gs_status allocate(gs_worker *w, const gs_pipeline_worker *p, gs_memory_kind kind, size_t more,
                          gs_mem *out) {
    GS_TRY(gs_alloc(w->device, kind, (p->own->counts + more) * sizeof(float), out));
    gs_ledger_tail(&w->device->memory, out->base, GS_MEMORY_STATE,
                   (p->own->counts - p->own->copied) * sizeof(float));
    return GS_OK;
}

/* The model has had all weights, and no gradients. It frees what it has from here on. */
static gs_status divide(gs_worker *w, const gs_pipeline_worker *p) {
    gs_model *m = w->model;
    const gs_mem whole = m->weights;
    GS_TRY(allocate(w, p, GS_MEMORY_WEIGHTS, 0, &w->holding.weights));
    m->weights = p->own->weights;
    m->weights_apart = p->own->counts;
    gs_status status = copy_weights(w, p, whole);
    m->device->ops->free(m->device, whole);
    GS_TRY(status);
    GS_TRY(allocate(w, p, GS_MEMORY_GRADIENTS, GS_STATS, &w->holding.gradients));
    m->gradients = gs_at(p->own->gradients, p->own->counts);
    m->gradients.at -= m->saved; /* gs_model_stats finds the counts; size_t counts around its end */
    m->gradients_apart = p->own->counts + GS_STATS;
    return GS_OK;
}

/* ---- the layers of a micro-batch ---- */

static gs_status bind_layer(gs_layer *l, void *holding) {
    const gs_holding *own = holding;
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        size_t at;
        if (!gs_holding_find(own, p, &at)) continue;
        p->w = gs_at(own->weights, at);
        p->dw = gs_at(own->gradients, at);
    }
    return GS_OK;
}

/* They find weights and gradients in this worker's arrays. */
static gs_status bind_slot(const gs_pipeline_worker *p, const gs_stage_chunk *c, gs_model *m) {
    for (int i = p->first[c->run]; i < p->first[c->run + 1]; i++)
        GS_TRY(gs_layer_walk(m->net->child[i], bind_layer, (void *)(uintptr_t)p->own));
    for (int i = 0; p->tied.table && c->run == p->tied.borrower && i < m->param_count; i++) {
        if (m->param[i]->at != p->tied.table->at) continue;
        m->param[i]->w = gs_stage_table(p, p->own->weights);
        m->param[i]->dw = gs_stage_table(p, p->own->gradients);
    }
    return GS_OK;
}

/* most: in an evaluation slot 0 has more samples than a micro-batch. */
static gs_status make_slot(const gs_worker *w, const gs_pipeline_worker *p, const gs_stage_chunk *c,
                           size_t most, gs_stage_slot *s) {
    const int first = p->first[c->run], last = p->first[c->run + 1];
    const gs_model_wishes stage = {.of = w->model, .max_batch = most, .first = first, .last = last};
    GS_TRY(gs_model_create(w->device, &stage, &s->model));
    GS_TRY(bind_slot(p, c, s->model));
    s->model->scaling = w->model->scaling;
    GS_HOOKS(model, w, s->model->net);
    const gs_layer *net = s->model->net;
    const size_t in = gs_bytes_of(most * gs_shape_size(s->model->in), net->memory.x_half),
                 out = gs_bytes_of(w->schedule.most * gs_shape_size(s->model->out), net->memory.y_half);
    if (c->run > 0) GS_TRY(gs_alloc(w->device, GS_MEMORY_ACTIVATIONS, in, &s->x));
    if (c->run < p->runs - 1) GS_TRY(gs_alloc(w->device, GS_MEMORY_ACTIVATIONS, out, &s->dy));
    s->x.half = net->memory.x_half;
    s->dy.half = net->memory.y_half;
    return GS_OK;
}

static gs_status make_chunks(const gs_worker *w, gs_pipeline_worker *p) {
    p->own = &w->holding;
    p->chunk = calloc((size_t)p->shape.chunks, sizeof *p->chunk);
    if (!p->chunk) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %d chunks", p->shape.chunks);
    for (int c = 0; c < p->shape.chunks; c++)
        p->chunk[c] = (gs_stage_chunk){
            .run = c * p->shape.stages + p->stage, .unit = &p->own->unit[c], .state = &p->own->state[c]};
    return GS_OK;
}

static gs_status make_slots(gs_worker *w, gs_pipeline_worker *p, int number) {
    gs_stage_chunk *c = &p->chunk[number];
    const int slots = gs_instructions_alive(&p->list[p->stage], number);
    c->slot = calloc((size_t)slots, sizeof *c->slot);
    if (!c->slot) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %d micro-batches", slots);
    while (c->slots < slots) {
        const size_t most = c->slots == 0 ? w->input.most : w->schedule.most;
        GS_TRY(make_slot(w, p, c, most, &c->slot[c->slots++]));
    }
    return GS_OK;
}

/* Samples are for the first stage, answers for the last one. */
static gs_status make_inputs(gs_worker *w, gs_pipeline_worker *p) {
    const size_t most = w->schedule.most;
    const int inputs = p->chunk[0].slots;
    p->input = calloc((size_t)inputs + 1, sizeof *p->input);
    if (!p->input) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %d micro-batches", inputs);
    if (p->stage > 0 && p->stage < p->shape.stages - 1) return GS_OK;
    for (p->inputs = 0; p->inputs < inputs;) {
        gs_input *input = &p->input[p->inputs++];
        *input = w->input; /* but for what is of a micro-batch: */
        input->most = most;
        input->x = input->answers = GS_NONE;
        const size_t x = most * gs_shape_size(w->model->in) * sizeof(float);
        if (p->stage == 0) GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, x, &input->x));
        if (p->stage == p->shape.stages - 1)
            GS_TRY(gs_alloc(w->device, GS_MEMORY_DATA, most * w->input.answer_bytes, &input->answers));
    }
    return GS_OK;
}

static gs_status make_lists(const gs_worker *w, gs_pipeline_worker *p) {
    const gs_pipeline_schedule *schedule;
    const size_t stages = (size_t)p->shape.stages;
    int chunks;
    GS_TRY(gs_pipeline_read(w->settings->pipeline_schedule, &schedule, &chunks));
    p->list = calloc(stages, sizeof *p->list);
    p->sent = calloc(stages, sizeof *p->sent);
    p->piece = calloc((size_t)p->shape.micro_batches, sizeof *p->piece);
    if (!p->list || !p->sent || !p->piece)
        return gs_fail(GS_E_MEMORY, "--pipeline: no memory for the schedules of %zu stages", stages);
    for (int s = 0; s < p->shape.stages; s++)
        GS_TRY(gs_instructions_create(schedule, &p->shape, s, &p->list[s]));
    return GS_OK;
}

static size_t largest_chunk(const gs_pipeline_worker *p) {
    size_t most = p->own->counts - p->own->params + GS_STATS; /* the copy, the state and the counts */
    for (int i = 0; i < p->own->count; i++)
        if (p->own->unit[i].count > most) most = p->own->unit[i].count;
    return most;
}

/* What --exact needs: see ../order.h. */
static gs_status make_sums(gs_worker *w, gs_pipeline_worker *p) {
    const gs_settings *s = w->settings;
    const size_t most = largest_chunk(p);
    w->sync_most = GS_STATS;
    if (!s->exact) return GS_OK;
    p->whole = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, most * sizeof *p->whole);
    if (!p->whole) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %zu floats", most);
    w->scheme = &gs_sync_recursive_doubling;
    w->sync_most = most;
    return gs_order_create(w, p->own->counts + GS_STATS);
}

/* In a rehearsal there is nobody to ask: what the devices are called says it. */
static gs_status find_halves(const gs_worker *w, bool *halves) {
    const char *devices = w->settings->devices;
    const int each = w->groups.layout.dp * w->groups.layout.tp, count = gs_devices_count(devices);
    char name[48];
    *halves = true;
    for (int r = w->comm->rank % each; r < w->comm->size && *halves; r += each) {
        GS_TRY(gs_devices_name(devices, r % count, name));
        *halves = strcmp(name, "cpu") != 0;
    }
    return GS_OK;
}

/* Do all devices of this pipeline have activations in 16 bits, so that messages have? */
static gs_status agree_on_halves(const gs_worker *w) {
    const gs_device *d = w->device;
    int64_t all = d->ops->narrow != NULL;
    bool *halves = &w->model->net->half_ends;
    if (d->precision == GS_PRECISION_F32) return GS_OK;
    if (w->settings->rehearsal) return find_halves(w, halves);
    GS_TRY(gs_comm_all_reduce(w->groups.comm[GS_PP], &all, 1, GS_I64, GS_MIN));
    *halves = all != 0;
    return GS_OK;
}

gs_status gs_stage_create(gs_worker *w, gs_pipeline_worker *p) {
    GS_TRY(gs_stage_cut(w, w->groups.place.stage, p));
    GS_TRY(make_chunks(w, p));
    GS_TRY(agree_on_halves(w));
    GS_TRY(make_lists(w, p));
    GS_TRY(divide(w, p));
    for (int c = 0; c < p->shape.chunks; c++) GS_TRY(make_slots(w, p, c));
    GS_TRY(make_inputs(w, p));
    GS_TRY(make_sums(w, p));
    return gs_stage_record_create(p);
}

static void free_chunk(const gs_worker *w, gs_stage_chunk *c) {
    for (int i = 0; i < c->slots; i++) {
        gs_model_free(c->slot[i].model);
        w->device->ops->free(w->device, c->slot[i].x);
        w->device->ops->free(w->device, c->slot[i].dy);
    }
    free(c->slot);
}

void gs_stage_free(gs_worker *w, gs_pipeline_worker *p) {
    for (int c = 0; p->chunk && c < p->shape.chunks; c++) free_chunk(w, &p->chunk[c]);
    for (int i = 0; i < p->inputs; i++) {
        w->device->ops->free(w->device, p->input[i].x);
        w->device->ops->free(w->device, p->input[i].answers);
    }
    for (int s = 0; p->list && s < p->shape.stages; s++) gs_instructions_free(&p->list[s]);
    while (p->kept) {
        gs_kept_message *next = p->kept->next;
        free(p->kept);
        p->kept = next;
    }
    free(p->list);
    free(p->sent);
    free(p->chunk);
    free(p->input);
    free(p->piece);
    free(p->whole);
    gs_stage_record_free(p);
}
