/* Who holds what of a model that is cut into stages, and how it becomes whole: see pipeline.c. */
#include "train/ways/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "train/internal.h"

static void add_range(gs_shard *r, const gs_param *p) {
    if (r->count == 0) r->first = p->at;
    r->count += p->count;
}

typedef struct ranges {
    gs_shard *params, *state;
} ranges;

static gs_status add_layer(gs_layer *l, void *context) {
    const ranges *r = context;
    for (int i = 0; i < l->params; i++) add_range(l->param[i].state ? r->state : r->params, &l->param[i]);
    return GS_OK;
}

/* Neighbours in the model are neighbours in the flat arrays. */
static void find_ranges(const gs_model *plan, const int *first, gs_stage_chunk *c) {
    ranges r = {&c->params, &c->state};
    for (int i = first[c->run]; i < first[c->run + 1]; i++)
        (void)gs_layer_walk(plan->net->child[i], add_layer, &r);
}

/* Where the chunks' parts lie in this worker's arrays. */
static void place_chunks(gs_pipeline_worker *p) {
    const bool has_copy = p->tied.table && p->stage == p->shape.stages - 1;
    gs_stage_arrays *a = &p->own;
    for (int c = 0; c < p->shape.chunks; c++) {
        p->chunk[c].params_at = a->params;
        a->params += p->chunk[c].params.count;
    }
    a->state = a->counts = a->params + (has_copy ? p->tied.table->count : 0);
    for (int c = 0; c < p->shape.chunks; c++) {
        p->chunk[c].state_at = a->counts;
        a->counts += p->chunk[c].state.count;
    }
}

gs_status gs_stage_cut(const gs_worker *w, int rank, gs_pipeline_worker *p) {
    const gs_settings *s = w->settings;
    const gs_layout layout = w->groups.layout;
    const gs_place place = gs_place_of(&layout, rank);
    const gs_pipeline_schedule *schedule;
    p->shape =
        (gs_pipeline){.stages = layout.pp, .micro_batches = s->exact ? w->schedule.mine : w->schedule.passes};
    GS_TRY(gs_pipeline_read(s->pipeline_schedule, &schedule, &p->shape.chunks));
    p->stage = place.stage;
    p->group = place.replica;
    p->runs = p->shape.stages * p->shape.chunks;
    GS_TRY(
        gs_pipeline_cut(gs_model_whole(w->model), s->pipeline_cut, p->runs, p->first)); /* as all parts do */
    GS_TRY(gs_pipeline_tied(w->model, p->runs, p->first, &p->tied));
    if (p->tied.table) p->shape.tied = s->exact ? GS_TIED_EACH : GS_TIED_ONCE;
    p->chunk = calloc((size_t)p->shape.chunks, sizeof *p->chunk);
    if (!p->chunk) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %d chunks", p->shape.chunks);
    for (int c = 0; c < p->shape.chunks; c++) {
        p->chunk[c].run = c * p->shape.stages + p->stage;
        find_ranges(w->model, p->first, &p->chunk[c]);
    }
    place_chunks(p);
    return GS_OK;
}

void gs_stage_cut_free(gs_pipeline_worker *p) {
    free(p->chunk);
    p->chunk = NULL;
}

int gs_stage_parts(const gs_worker *w, const gs_pipeline_worker *p, gs_held_part *part, size_t *held) {
    const size_t replicas = (size_t)w->groups.layout.dp;
    int parts = 0;
    *held = 0;
    for (int c = 0; c < p->shape.chunks; c++) {
        const gs_shard r = p->chunk[c].params;
        const size_t own = w->settings->zero ? r.count / replicas : 0, rest = r.count - own * replicas;
        if (own > 0)
            part[parts++] = (gs_held_part){
                .first = r.first + own * (size_t)p->group, .count = own, .vector_at = *held, .counted = true};
        *held += own;
        part[parts++] = (gs_held_part){.first = r.first + own * replicas,
                                       .count = rest,
                                       .vector_at = *held,
                                       .common = true,
                                       .counted = p->group == 0};
        *held += rest;
    }
    return parts;
}

/* ---- what becomes whole ---- */

/* The parts of some worker. */
typedef struct listing {
    gs_pipeline_worker *cut;
    gs_held_part *part;
    int parts;
    size_t held;
} listing;

static void free_listing(listing *l) {
    if (l->cut) gs_stage_cut_free(l->cut);
    free(l->cut);
    free(l->part);
}

static gs_status list(const gs_worker *w, int rank, listing *l) {
    *l = (listing){.cut = calloc(1, sizeof *l->cut), .part = calloc(2 * GS_RUNS, sizeof *l->part)};
    const bool there = l->cut && l->part;
    const gs_status status = there ? gs_stage_cut(w, rank, l->cut) : GS_E_MEMORY;
    if (status == GS_OK) {
        l->parts = gs_stage_parts(w, l->cut, l->part, &l->held);
        return GS_OK;
    }
    free_listing(l);
    if (!there) (void)gs_fail(status, "--pipeline: no memory for a list of parts");
    return status;
}

size_t gs_stage_held(const gs_worker *w) {
    listing l;
    if (list(w, w->comm->rank, &l) != GS_OK) return w->model->params;
    free_listing(&l);
    return l.held;
}

/* Rank 0 gets this part, unless another worker that has it too sends it. */
static bool is_sent(const listing *l, const gs_held_part *part) {
    return part->count > 0 && (!part->common || l->cut->group == 0);
}

/* What this worker holds of a vector, on the host: *out is to be freed. */
static gs_status read_own(gs_worker *w, gs_mem vector, float **out) {
    const size_t held = w->optimizer->held;
    *out = malloc(held * sizeof **out + 1);
    if (!*out) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for %zu floats", held);
    gs_status status = w->device->ops->read(w->device, *out, vector, held * sizeof **out);
    if (status == GS_OK) return GS_OK;
    free(*out);
    return status;
}

/* What the world's rank `rank` has of this worker's part of the layers goes to `whole` on the first that has it. */
static gs_status move(gs_worker *w, int rank, const float *own, float *whole) {
    listing l;
    GS_TRY(list(w, rank, &l));
    gs_status status = GS_OK;
    const int first = w->groups.place.part;
    for (int i = 0; i < l.parts && status == GS_OK; i++) {
        const gs_held_part *part = &l.part[i];
        const size_t bytes = part->count * sizeof *own;
        if (!is_sent(&l, part)) continue;
        if (rank == first)
            memcpy(whole + part->first, own + part->vector_at, bytes);
        else if (w->comm->rank == first)
            status = gs_comm_recv(w->comm, whole + part->first, bytes, rank);
        else
            status = gs_comm_send(w->comm, own + part->vector_at, bytes, first);
    }
    free_listing(&l);
    return status;
}

gs_status gs_stage_gather(gs_worker *w, int i, float *whole) {
    float *own;
    GS_TRY(read_own(w, w->optimizer->vector[i], &own));
    gs_status status = GS_OK;
    const int mine = w->comm->rank, first = w->groups.place.part;
    for (int rank = first; rank < w->comm->size && status == GS_OK; rank += w->groups.layout.tp)
        if (mine == first || mine == rank) status = move(w, rank, own, whole);
    free(own);
    return status;
}

gs_status gs_stage_scatter(gs_worker *w, int i, const float *whole) {
    listing l;
    GS_TRY(list(w, w->comm->rank, &l));
    gs_status status = GS_OK;
    for (int k = 0; k < l.parts && status == GS_OK; k++) {
        const gs_held_part *part = &l.part[k];
        if (part->count == 0) continue;
        status = w->device->ops->write(w->device, gs_at(w->optimizer->vector[i], part->vector_at),
                                       whole + part->first, part->count * sizeof *whole);
    }
    free_listing(&l);
    return status;
}

/* Weights and state of a stage, `of`, to the others of its pipeline. */
static gs_status send_weights(gs_worker *w, const gs_pipeline_worker *of, float *host) {
    const gs_pipeline_worker *p = w->way_state;
    const gs_backend *ops = w->device->ops;
    for (int c = 0; c < of->shape.chunks; c++) {
        const gs_shard range[] = {of->chunk[c].params, of->chunk[c].state};
        const gs_mem at[] = {gs_stage_params(p->own.weights, &p->chunk[c]),
                             gs_stage_state(p->own.weights, &p->chunk[c])};
        for (int k = 0; k < 2; k++) {
            float *to = host + range[k].first;
            if (range[k].count == 0) continue;
            if (p->stage == of->stage) GS_TRY(ops->read(w->device, to, at[k], range[k].count * sizeof *to));
            GS_TRY(gs_comm_broadcast(w->groups.comm[GS_PP], to, range[k].count, GS_F32, of->stage));
        }
    }
    return GS_OK;
}

bool gs_stage_place(const gs_worker *w, const gs_param *param, size_t *at) {
    const gs_pipeline_worker *p = w->way_state;
    for (int c = 0; c < p->shape.chunks; c++) {
        const gs_stage_chunk *k = &p->chunk[c];
        const gs_shard r = param->state ? k->state : k->params;
        if (param->at < r.first || param->at >= r.first + r.count) continue;
        *at = (param->state ? k->state_at : k->params_at) + param->at - r.first;
        return true;
    }
    *at = p->own.params;
    return p->tied.table && p->stage == p->shape.stages - 1 && param->at == p->tied.table->at;
}

gs_status gs_stage_weights(gs_worker *w, float *host) {
    const gs_pipeline_worker *p = w->way_state;
    for (int stage = 0; stage < p->shape.stages; stage++) {
        const gs_place owner = {w->groups.place.replica, w->groups.place.part, stage};
        listing l;
        GS_TRY(list(w, gs_rank_at(&w->groups.layout, owner), &l));
        gs_status status = send_weights(w, l.cut, host);
        free_listing(&l);
        GS_TRY(status);
    }
    return GS_OK;
}
