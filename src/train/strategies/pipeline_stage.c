/* What a worker has of a model that is cut into stages: see pipeline.c. */
#include "train/strategies/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "train/hooks.h"
#include "train/internal.h"
#include "layer/watch.h"

/* ---- the cut ---- */

gs_status gs_stage_cut(const gs_worker *w, int stage, gs_pipeline_worker *p) {
    const gs_settings *s = w->settings;
    const gs_pipeline_schedule *schedule;
    p->shape = (gs_pipeline){.stages = w->groups.layout.pp,
                             .micro_batches = s->exact ? w->schedule.mine : w->schedule.passes};
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &p->shape.chunks));
    p->stage = stage;
    p->runs = p->shape.stages * p->shape.chunks;
    GS_TRY(gs_pipeline_cut(gs_model_whole(w->model), s->pipeline_cut, NULL, p->runs,
                           p->first)); /* as all parts do */
    GS_TRY(gs_pipeline_tied(w->model, p->runs, p->first, &p->tied));
    if (p->tied.table) p->shape.tied = s->exact ? GS_TIED_EACH : GS_TIED_ONCE;
    return GS_OK;
}

/* ---- the layers of a micro-batch ---- */

/* The parameter of a model that is the table. */
static gs_param *table_of(const gs_pipeline_worker *p, const gs_model *m) {
    int i = 0;
    while (m->param[i]->at != p->tied.table->at) i++;
    return m->param[i];
}

const gs_param *gs_stage_table(const gs_pipeline_worker *p) {
    return table_of(p, p->chunk[p->stage == 0 ? 0 : p->shape.chunks - 1].slot[0].model);
}

/* They find weights and gradients in this worker's arrays, and there is a copy of what they borrow. */
static gs_status bind_slot(const gs_worker *w, const gs_pipeline_worker *p, const gs_stage_chunk *c,
                           gs_model *m) {
    const gs_holding *own = p->own;
    for (int i = p->first[c->run]; i < p->first[c->run + 1]; i++)
        GS_TRY(gs_holding_bind(own, m->net->child[i]));
    if (own->copy && c->run == p->tied.borrower) {
        gs_param *table = table_of(p, m);
        table->w = gs_held_tail(own, own->weights, own->weights_cut, own->params);
        table->dw = gs_held_tail(own, own->gradients, own->gradients_cut, own->params);
    }
    if (w->model->net->turns) gs_layer_add_turns(m->net, w->model->net->turns); /* the windows of --zero */
    return GS_OK;
}

/* most: in an evaluation slot 0 has more samples than a micro-batch. */
static gs_status make_slot(const gs_worker *w, const gs_pipeline_worker *p, const gs_stage_chunk *c,
                           size_t most, gs_stage_slot *s) {
    const int first = p->first[c->run], last = p->first[c->run + 1];
    const gs_model_wishes stage = {.of = w->model, .max_batch = most, .first = first, .last = last};
    GS_TRY(gs_model_create(w->device, &stage, &s->model));
    GS_TRY(bind_slot(w, p, c, s->model));
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
        p->chunk[c] = (gs_stage_chunk){.run = c * p->shape.stages + p->stage, .state = &p->own->state[c]};
    for (int i = p->own->count - 1; i >= 0; i--) {
        gs_shard *params = &p->chunk[p->own->unit[i].run].params;
        *params = (gs_shard){p->own->unit[i].at, params->count + p->own->unit[i].count};
    }
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
    for (int c = 0; c < p->shape.chunks && !p->own->gradients_cut; c++)
        if (p->chunk[c].params.count > most) most = p->chunk[c].params.count;
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
    for (int c = 0; c < p->shape.chunks; c++) GS_TRY(make_slots(w, p, c));
    GS_TRY(make_inputs(w, p));
    return make_sums(w, p);
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
}
