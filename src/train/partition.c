#include "train/partition.h"

#include <stdlib.h>
#include <string.h>

#include "parallel/tensor.h"
#include "optim/offload.h"
#include "train/strategy.h"
#include "train/stages.h"

/* ---- units ---- */

static size_t end_of(const gs_model *m, int child) {
    const gs_layer *net = m->net;
    return child + 1 < net->children ? net->child[child + 1]->at : m->params;
}

static bool lends(const gs_layer *l) {
    bool found = l->lent;
    for (int i = 0; i < l->children && !found; i++) found = lends(l->child[i]);
    return found;
}

static size_t largest_layer(const gs_model *m, int begin, int end) {
    size_t most = 0;
    for (int i = begin; i < end; i++) {
        const size_t count = end_of(m, i) - m->net->child[i]->at;
        if (count > most) most = count;
    }
    return most;
}

/* What backward runs again must have its weights together (layer/memory/recompute.h). */
static bool of_one_segment(const gs_model *m, int a, int b) {
    return m->net->child[a]->memory.segment &&
           m->net->child[a]->memory.segment == m->net->child[b]->memory.segment;
}

/* The layers begin .. end - 1 one after the other: into the unit before, or a new one. */
static void cut_by_layers(const gs_model *m, int run, int begin, int end, size_t most, gs_partition *h) {
    const int before = h->count;
    for (int i = begin; i < end; i++) {
        const gs_layer *l = m->net->child[i];
        const size_t count = end_of(m, i) - l->at;
        gs_partition_unit *open = h->count > before ? &h->unit[h->count - 1] : NULL;
        if (count == 0) continue;
        if (open && !open->stays && !lends(l) &&
            (open->count + count <= most || of_one_segment(m, open->end - 1, i))) {
            open->count += count;
            open->end = i + 1;
        } else {
            h->unit[h->count++] = (gs_partition_unit){.first = l->at,
                                                      .count = count,
                                                      .at = h->params + l->at - m->net->child[begin]->at,
                                                      .begin = i,
                                                      .end = i + 1,
                                                      .run = run,
                                                      .stays = lends(l)};
        }
    }
}

static gs_status make_lists(gs_partition *h, int units, int states) {
    GS_TRY(GS_NEW(h->unit, units, "a list of %d units", units));
    return GS_NEW(h->state, states, "a list of %d states", states);
}

static void divide(gs_partition *h, bool zero, int dp) {
    for (int i = 0; i < h->count; i++) {
        gs_partition_unit *u = &h->unit[i];
        u->own = zero ? u->count / (size_t)dp : 0;
        u->rest = u->count - u->own * (size_t)dp;
        u->own_at = h->own;
        h->own += u->own;
    }
    for (int i = 0; i < h->count; i++) {
        h->unit[i].rest_at = h->own + h->rest;
        h->rest += h->unit[i].rest;
    }
}

static gs_status add_state(gs_layer *l, void *context) {
    gs_partition_state *state = context;
    for (int i = 0; i < l->params; i++) {
        if (!l->param[i].state) continue;
        if (state->count == 0) state->first = l->param[i].at;
        state->count += l->param[i].count;
    }
    return GS_OK;
}

gs_status gs_partition_plan(const gs_worker *w, int rank, gs_partition *h) {
    const gs_model *m = w->model;
    const gs_coordinates coordinates = gs_coordinates_of(&w->groups.layout, rank);
    gs_stages p;
    *h = (gs_partition){.dp_rank = coordinates.dp, .weights = m->weights, .gradients = m->gradients};
    GS_TRY(gs_stages_of(w, &p)); /* of one stage: all layers */
    GS_TRY(make_lists(h, m->net->children, p.shape.chunks));
    h->states = p.shape.chunks;
    for (int c = 0; c < h->states; c++) {
        const int run = c * p.shape.stages + coordinates.pp, begin = p.first[run], end = p.first[run + 1];
        const size_t first = begin > 0 ? m->net->child[begin]->at : 0, count = end_of(m, end - 1) - first;
        const bool together = w->settings->recompute && p.runs > 1;
        if (w->settings->zero > 1)
            cut_by_layers(m, c, begin, end, together ? count : largest_layer(m, begin, end), h);
        else
            h->unit[h->count++] = (gs_partition_unit){
                .first = first, .count = count, .at = h->params, .begin = begin, .end = end, .run = c};
        h->params += count;
        h->state[c].begin = begin;
        h->state[c].end = end;
        if (p.runs == 1) (void)gs_layer_walk(m->net, add_state, &h->state[c]); /* it may be one layer */
        for (int i = begin; i < end && p.runs > 1; i++)
            (void)gs_layer_walk(m->net->child[i], add_state, &h->state[c]);
    }
    if (p.tied.table && coordinates.pp == p.shape.stages - 1) h->copy = p.tied.table;
    h->copied = h->counts = h->params + (h->copy ? h->copy->count : 0);
    for (int c = 0; c < h->states; c++) {
        h->state[c].at = h->counts;
        h->counts += h->state[c].count;
    }
    divide(h, w->settings->zero > 0, w->groups.layout.dp);
    return GS_OK;
}

void gs_partition_free(gs_partition *h) {
    free(h->unit);
    free(h->state);
    free(h->part);
    *h = (gs_partition){0};
}

/* NULL: no unit has it. */
static const gs_partition_unit *unit_with(const gs_partition *h, const gs_param *param) {
    for (int i = 0; i < h->count && !param->state; i++) {
        const gs_partition_unit *u = &h->unit[i];
        if (param->at >= u->first && param->at < u->first + u->count) return u;
    }
    return NULL;
}

bool gs_partition_find(const gs_partition *h, const gs_param *param, size_t *at) {
    const gs_partition_unit *u = unit_with(h, param);
    if (u) return *at = u->at + param->at - u->first, true;
    for (int i = 0; i < h->states && param->state; i++) {
        const gs_partition_state *s = &h->state[i];
        *at = s->at + param->at - s->first;
        if (param->at >= s->first && param->at < s->first + s->count) return true;
    }
    *at = h->params;
    return h->copy && param->at == h->copy->at;
}

/* ---- the arrays ---- */

int gs_partition_ranges(const gs_partition *h, const gs_partition_unit *u, bool cut,
                        gs_partition_range range[2]) {
    range[0] = cut ? (gs_partition_range){u->first + u->own * (size_t)h->dp_rank, u->own, u->own_at}
                   : (gs_partition_range){u->first, u->count, u->at};
    range[1] = (gs_partition_range){u->first + u->count - u->rest, u->rest, u->rest_at};
    return cut ? 2 : 1;
}

gs_status gs_partition_read(const gs_worker *w, const gs_partition_unit *u, float *unit) {
    const gs_partition *h = &w->partition;
    gs_partition_range r[2];
    for (int i = 0, count = gs_partition_ranges(h, u, h->weights_cut, r); i < count; i++)
        GS_TRY(gs_host_read(w->device, unit + r[i].first - u->first, gs_at(h->weights, r[i].at),
                            r[i].count * sizeof *unit));
    return GS_OK;
}

/* What this worker has of an array: in whole units or in parts, and more behind the state. */
static gs_status allocate(gs_worker *w, gs_memory_kind kind, bool cut, size_t more, gs_mem *out) {
    const gs_partition *h = &w->partition;
    const size_t floats = gs_partition_tail(h, (gs_mem)GS_NONE, cut, h->counts).at + more;
    GS_TRY(gs_alloc(w->device, kind, floats * sizeof(float), out));
    gs_ledger_tail(&w->device->memory, out->base, GS_MEMORY_STATE, (h->counts - h->copied) * sizeof(float));
    return GS_OK;
}

/* Of the model's array of weights to this worker's. */
static gs_status copy_weights(gs_worker *w, gs_mem whole, gs_mem to, bool cut) {
    const gs_partition *h = &w->partition;
    const gs_backend *ops = w->device->ops;
    for (int i = 0; i < h->count; i++) {
        gs_partition_range r[2];
        for (int k = 0, count = gs_partition_ranges(h, &h->unit[i], cut, r); k < count; k++)
            GS_TRY(ops->copy(w->device, gs_at(to, r[k].at), gs_at(whole, r[k].first), r[k].count));
    }
    for (int i = 0; i < h->states; i++)
        GS_TRY(ops->copy(w->device, gs_partition_tail(h, to, cut, h->state[i].at),
                         gs_at(whole, h->state[i].first), h->state[i].count));
    if (h->copy)
        GS_TRY(ops->copy(w->device, gs_partition_tail(h, to, cut, h->params), gs_at(whole, h->copy->at),
                         h->copy->count));
    return ops->finish(w->device);
}

static gs_status divide_gradients(gs_worker *w) {
    gs_model *m = w->model;
    gs_partition *h = &w->partition;
    m->device->ops->free(m->device, m->gradients);
    m->gradients = (gs_mem)GS_NONE;
    h->gradients_cut = w->settings->zero > 1;
    GS_TRY(allocate(w, GS_MEMORY_GRADIENTS, h->gradients_cut, GS_STATS, &h->gradients));
    const gs_mem counts = gs_partition_tail(h, h->gradients, h->gradients_cut, h->counts);
    m->gradients = gs_at(counts, -m->saved); /* gs_model_stats finds them; size_t counts around its end */
    m->gradients_apart = counts.at + GS_STATS;
    return GS_OK;
}

static gs_status divide_weights(gs_worker *w) {
    gs_model *m = w->model;
    gs_partition *h = &w->partition;
    const gs_mem whole = m->weights;
    h->weights_cut = w->settings->zero > 2;
    GS_TRY(allocate(w, GS_MEMORY_WEIGHTS, h->weights_cut, 0, &h->weights));
    const gs_status status = copy_weights(w, whole, h->weights, h->weights_cut);
    m->device->ops->free(m->device, status == GS_OK ? whole : h->weights);
    GS_TRY(status);
    /* The model frees it from here on, and finds the state, if no parameters. */
    m->weights = gs_at(gs_partition_tail(h, h->weights, h->weights_cut, h->params), -h->params);
    m->weights_apart = gs_partition_tail(h, (gs_mem)GS_NONE, h->weights_cut, h->counts).at;
    return GS_OK;
}

gs_status gs_partition_divide(gs_worker *w) {
    gs_partition *h = &w->partition;
    if (gs_has_stages(w) || w->settings->zero > 1) GS_TRY(divide_gradients(w));
    if (gs_has_stages(w) || w->settings->zero > 2) GS_TRY(divide_weights(w));
    for (int i = 0; i < h->count; i++) { /* in windows, if they are cut: train/reducers/zero.c */
        h->unit[i].weights = gs_at(h->weights, h->unit[i].at);
        h->unit[i].gradients = gs_at(h->gradients, h->unit[i].at);
    }
    return GS_OK;
}

static gs_status bind_layer(gs_layer *l, void *partition) {
    const gs_partition *h = partition;
    for (int i = 0; i < l->params; i++) {
        gs_param *p = &l->param[i];
        const gs_partition_unit *u = unit_with(h, p);
        size_t at;
        if (!gs_partition_find(h, p, &at)) continue;
        p->w = u ? gs_at(u->weights, p->at - u->first) : gs_partition_tail(h, h->weights, h->weights_cut, at);
        p->dw = u ? gs_at(u->gradients, p->at - u->first)
                  : gs_partition_tail(h, h->gradients, h->gradients_cut, at);
    }
    return GS_OK;
}

gs_status gs_partition_bind(const gs_partition *h, gs_layer *l) {
    return gs_layer_walk(l, bind_layer, (void *)(uintptr_t)h);
}

/* ---- what is updated ---- */

/* Tensors after each other that are alike: where they end, and whether the group repeats them. */
static size_t end_of_run(const gs_model *m, size_t at, bool *repeated) {
    size_t end = at;
    for (int i = 0; i < m->param_count; i++) {
        const gs_param *p = m->param[i];
        if (p->at + p->count <= at) continue;
        const bool same = p->cut == GS_UNCUT;
        if (end == at) *repeated = same;
        if (same != *repeated) break;
        end = p->at + p->count;
    }
    return end;
}

/* Parts do not reach over the border between a tensor that a group divides and one that all of it hold; of the latter
 * the first of the group counts. */
static gs_held_shard *add_part(const gs_model *m, gs_held_shard part, gs_held_shard *to) {
    if (part.count == 0) *to++ = part; /* whoever watches updates hears of it all the same */
    while (part.count > 0) {
        bool repeated = false;
        const size_t end = m->undivided ? end_of_run(m, part.first, &repeated) : part.first + part.count,
                     here = end - part.first < part.count ? end - part.first : part.count;
        *to = part;
        to->count = here;
        to->counted &= !repeated || m->tensor.rank == 0;
        to++;
        part.first += here;
        part.vector_at += here;
        part.weights = gs_at(part.weights, here);
        part.gradients = gs_at(part.gradients, here);
        part.count -= here;
    }
    return to;
}

/* As gs_comm_all_reduce, for at most two numbers: without memory for a moment, which a reduction by messages takes. */
static gs_status reduce_few(gs_comm *c, int64_t *x, size_t count, bool largest) {
    int64_t all[2 * GS_LAYOUT_PARTS] = {0};
    GS_TRY(gs_comm_all_gather(c, x, all, count, GS_I64));
    for (size_t i = 0; i < count; i++) x[i] = all[i];
    for (size_t i = count; i < count * (size_t)c->size; i++) {
        int64_t *to = &x[i % count];
        *to = !largest ? *to + all[i] : all[i] > *to ? all[i] : *to;
    }
    return GS_OK;
}

bool gs_updates_are_divided(const gs_worker *w) {
    return w->settings->zero > 0 || w->groups.layout.pp > 1;
}

bool gs_updates_all(const gs_worker *w) {
    return !gs_updates_are_divided(w) && w->groups.layout.tp == 1;
}

gs_status gs_partition_end_update(gs_worker *w, double samples) {
    const gs_partition *h = &w->partition;
    if (w->groups.layout.pp == 1) return gs_optimizer_end_update(w->optimizer, samples);
    w->optimizer->updates++;
    if (w->optimizer->offload) GS_TRY(gs_optimizer_offload_fetch_first(w->optimizer));
    for (int i = 0; i < h->states; i++)
        GS_TRY(gs_model_update_state_of(w->model,
                                        gs_partition_tail(h, h->weights, h->weights_cut, h->state[i].at),
                                        gs_partition_tail(h, h->gradients, h->gradients_cut, h->state[i].at),
                                        h->state[i].count, samples));
    return GS_OK;
}

/* What norms need (gs_held). Where all replicas have the same sums of gradients, a tensor group is enough. */
static gs_status reduce_norms(void *worker, int64_t *x, size_t count, bool largest) {
    gs_worker *w = worker;
    gs_comm *c = gs_updates_are_divided(w) ? w->comm : w->groups.comm[GS_TP];
    if (!gs_updates_are_divided(w) && count <= 2) return reduce_few(c, x, count, largest);
    if (w->groups.layout.pp == 1 && gs_updates_are_divided(w)) /* a few bytes between stages are in no plan */
        w->measured.sent += 2.0 * (double)count * sizeof *x * (c->size - 1) / c->size;
    return gs_comm_all_reduce(c, x, count, GS_I64, largest ? GS_MAX : GS_SUM);
}

gs_status gs_partition_list(gs_worker *w) {
    const gs_model *m = w->model;
    gs_partition *h = &w->partition;
    /* A border is in one part, or rest, each. */
    const size_t most = 2 * (size_t)h->count + (m->undivided ? 2 * (size_t)m->param_count : 0);
    GS_TRY(GS_NEW(h->part, most, "a list of %zu parts", most));
    gs_held_shard *to = h->part;
    for (int i = 0; i < 2 * h->count; i++) {
        const gs_partition_unit *u = &h->unit[i / 2];
        gs_partition_range part[2];
        (void)gs_partition_ranges(h, u, true, part);
        const gs_partition_range r = part[i % 2];
        const size_t whole_at = u->at + r.first - u->first;
        const bool common = i % 2 == 1 && gs_updates_are_divided(w);
        to = add_part(m,
                      (gs_held_shard){.first = r.first,
                                      .count = r.count,
                                      .weights = gs_at(h->weights, h->weights_cut ? r.at : whole_at),
                                      .gradients = gs_at(h->gradients, h->gradients_cut ? r.at : whole_at),
                                      .vector_at = r.at,
                                      .common = common,
                                      .counted = h->dp_rank == 0 || !common},
                      to);
    }
    h->update = (gs_held){h->part, (int)(to - h->part), reduce_norms, w};
    return GS_OK;
}

/* ---- the parts of tensors become whole ones ---- */

/* Of tensor i, of the rank that has most: the parts of a vocabulary differ. */
static size_t most_of(const gs_model *m, int i) {
    size_t most = 0;
    for (int r = 0; r < m->tensor.size; r++) {
        const size_t floats = gs_tensor_count(m->param[i], r, m->tensor.size);
        if (floats > most) most = floats;
    }
    return most;
}

/* Room for all parts of the largest of the first `count` tensors. */
static size_t room_of(const gs_model *m, int count) {
    size_t most = 0;
    for (int i = 0; i < count; i++)
        if (most_of(m, i) > most) most = most_of(m, i);
    return most * (size_t)m->tensor.size;
}

/* Rank r's part of tensor i. Of what all hold it takes this worker's, so that --verify sees whether the others' is the
 * same. */
static void put_part(const gs_model *m, int i, int r, const float *from, float *whole) {
    if (m->param[i]->cut != GS_UNCUT || r == m->tensor.rank)
        gs_tensor_put_shard(m->param[i], r, m->tensor.size, from, whole + m->undivided->param[i]->at);
}

/* As gs_model_read_weights, but some of them. */
static gs_status read_weights(const gs_model *m, size_t at, size_t bytes, float *to) {
    const gs_backend *ops = m->device->ops;
    const bool hints = m->offloaded_weights && !m->weights_in_windows; /* operators work in place */
    uint64_t number;
    if (bytes == 0) return GS_OK;
    if (m->offloaded_weights && m->weights_in_windows &&
        at < m->params) { /* behind: the state, on the device */
        GS_TRY(ops->settle(m->device));
        gs_host_copy(m->device, to, m->offloaded_weights + at, bytes);
        return GS_OK;
    }
    if (hints) GS_TRY(ops->fetch(m->device, (gs_mem)GS_NONE, m->offloaded_weights + at, bytes, &number));
    if (hints) GS_TRY(ops->settle(m->device)); /* the last one has gone */
    GS_TRY(gs_host_read(m->device, to, gs_at(m->weights, at), bytes));
    return hints ? ops->offload(m->device, m->offloaded_weights + at, (gs_mem)GS_NONE, bytes, NULL) : GS_OK;
}

/* Tensor i, of which own_part is what this worker has; NULL: that is in the device's weights, from `at` on. */
static gs_status put_tensor(gs_worker *w, int i, const float *own_part, size_t at, float *all, float *whole) {
    const gs_model *m = w->model;
    const size_t floats = most_of(m, i);
    float *own = all + floats * (size_t)m->tensor.rank;
    const size_t bytes = gs_tensor_count(m->param[i], m->tensor.rank, m->tensor.size) * sizeof *own;
    if (floats == 0) return GS_OK;
    if (!own_part) GS_TRY(read_weights(m, at, bytes, own));
    if (own_part) gs_host_copy(m->device, own, own_part, bytes);
    GS_TRY(gs_comm_all_gather(w->groups.comm[GS_TP], own, all, floats, GS_F32));
    for (int r = 0; r < m->tensor.size && whole; r++) put_part(m, i, r, all + (size_t)r * floats, whole);
    return GS_OK;
}

static gs_status take(gs_worker *w, size_t floats, float **memory) {
    return gs_host_alloc(w, GS_MEMORY_COMMUNICATION, floats * sizeof **memory, memory);
}

static void drop(gs_worker *w, float *memory) {
    if (memory) gs_ledger_remove(&w->device->memory, memory);
    free(memory);
}

/* The first `count` tensors of the model, one after the other: of each there is room for all parts. mine: what this
 * worker has of them; NULL: they are the weights, and lie on the device. whole may be NULL. All of a group. */
static gs_status put_together(gs_worker *w, const float *mine, int count, float *whole) {
    const gs_model *m = w->model;
    float *all;
    size_t at = 0;
    GS_TRY(take(w, room_of(m, count), &all));
    gs_status status = GS_OK;
    for (int i = 0; i < count && status == GS_OK; i++) {
        status = put_tensor(w, i, mine ? mine + at : NULL, at, all, whole);
        at += gs_tensor_count(m->param[i], m->tensor.rank, m->tensor.size);
    }
    drop(w, all);
    return status;
}

/* ---- vectors ---- */

static gs_status send_range(gs_worker *w, int to, int i, size_t at, size_t count) {
    float *own;
    GS_TRY(gs_optimizer_map_vector(w->optimizer, i, at, count, &own));
    const gs_status sent = gs_comm_send(w->comm, own, count * sizeof *own, to),
                    unmapped = gs_optimizer_unmap_vector(w->optimizer, i, at, count, own);
    return sent == GS_OK ? unmapped : sent;
}

/* `count` floats that the world's rank `rank` has of vector i, from `at` on, come to the first rank that has the same
 * part of the tensors. Of what lies elsewhere no more than a block is in memory at once. */
static gs_status move_range(gs_worker *w, int rank, int i, size_t at, size_t count, float *to) {
    const int first = w->groups.coordinates.tp;
    const size_t chunk = gs_optimizer_is_offloaded(w->optimizer) ? GS_OFFLOAD_BLOCK : count;
    if (rank == first) return gs_optimizer_copy_vector(w->optimizer, i, at, count, to, NULL);
    for (size_t done = 0; done < count; done += chunk) {
        const size_t some = gs_smaller(chunk, count - done);
        if (w->comm->rank == first)
            GS_TRY(gs_comm_recv(w->comm, to + done, some * sizeof *to, rank));
        else
            GS_TRY(send_range(w, first, i, at + done, some));
    }
    return GS_OK;
}

/* Of the rests, the first replica's. */
static gs_status move(gs_worker *w, int rank, int i, float *whole) {
    gs_partition h;
    gs_status status = gs_partition_plan(w, rank, &h);
    for (int k = 0; k < 2 * h.count && status == GS_OK; k++) {
        gs_partition_range part[2];
        (void)gs_partition_ranges(&h, &h.unit[k / 2], true, part);
        const gs_partition_range r = part[k % 2];
        if (k % 2 == 0 || h.dp_rank == 0)
            status = move_range(w, rank, i, r.at, r.count, whole ? whole + r.first : NULL);
    }
    gs_partition_free(&h);
    return status;
}

/* As gs_partition_gather, of this worker's part of the tensors, to the first rank that has the same part. */
static gs_status gather_part(gs_worker *w, int i, float *whole) {
    const int mine = w->comm->rank, first = w->groups.coordinates.tp;
    for (int rank = first; rank < w->comm->size; rank += w->groups.layout.tp)
        if (mine == first || mine == rank) GS_TRY(move(w, rank, i, whole));
    return GS_OK;
}

/* Those that have the first replica and stage put it together. */
gs_status gs_partition_gather(gs_worker *w, int i, float *whole) {
    const bool first = w->comm->rank < w->groups.layout.tp;
    float *mine = NULL;
    if (w->groups.layout.tp == 1) return gather_part(w, i, whole);
    if (first) GS_TRY(take(w, w->model->params, &mine));
    gs_status status = gather_part(w, i, mine);
    if (status == GS_OK && first) status = put_together(w, mine, w->model->param_count, whole);
    drop(w, mine);
    return status;
}

static gs_status scatter_part(gs_worker *w, int i, const float *whole) {
    const gs_partition *h = &w->partition;
    for (int k = 0; k < h->count; k++) {
        gs_partition_range r[2];
        for (int part = 0, count = gs_partition_ranges(h, &h->unit[k], true, r); part < count; part++)
            GS_TRY(gs_optimizer_copy_vector(w->optimizer, i, r[part].at, r[part].count, NULL,
                                            whole + r[part].first));
    }
    return GS_OK;
}

gs_status gs_partition_scatter(gs_worker *w, int i, const float *whole) {
    const gs_model *m = w->model;
    float *mine;
    if (!m->undivided) return scatter_part(w, i, whole);
    GS_TRY(take(w, m->params, &mine));
    for (int k = 0; k < m->param_count; k++)
        gs_tensor_get_shard(m->param[k], m->tensor.rank, m->tensor.size, mine + m->param[k]->at,
                            whole + m->undivided->param[k]->at);
    const gs_status status = scatter_part(w, i, mine);
    drop(w, mine);
    return status;
}

/* ---- weights ---- */

/* Of this worker's stage, on all replicas. */
static gs_status read_unit(gs_worker *w, const gs_partition_unit *u, float *to) {
    const gs_partition *h = &w->partition;
    GS_TRY(gs_partition_read(w, u, to));
    if (!h->weights_cut || u->own == 0) return GS_OK;
    return gs_comm_all_gather(w->groups.comm[GS_DP], to + u->own * (size_t)h->dp_rank, to, u->own, GS_F32);
}

static gs_status share(gs_worker *w, int stage, float *x, size_t count) {
    enum { LEAST = 1 << 15 }; /* floats: what is under way is in memory once more */
    gs_comm *stages = w->groups.comm[GS_PP];
    const size_t chunk = count / 64 > LEAST ? count / 64 : LEAST;
    for (size_t at = 0; at < count && stages->size > 1; at += chunk) {
        const size_t some = count - at < chunk ? count - at : chunk;
        GS_TRY(gs_comm_broadcast(stages, x + at, some, GS_F32, stage));
        GS_TRY(gs_comm_barrier(stages));
    }
    return GS_OK;
}

static gs_status read_stage(gs_worker *w, int stage, const gs_partition *of, float *host) {
    const bool mine = stage == w->groups.coordinates.pp;
    for (int k = 0; k < of->count; k++) {
        const gs_partition_unit *u = &of->unit[k];
        if (mine) GS_TRY(read_unit(w, u, host + u->first));
        GS_TRY(share(w, stage, host + u->first, u->count));
    }
    for (int k = 0; k < of->states; k++) {
        const gs_partition_state *s = &of->state[k];
        float *to = host + s->first;
        if (mine) GS_TRY(gs_host_read(w->device, to, gs_at(w->model->weights, s->at), s->count * sizeof *to));
        GS_TRY(share(w, stage, to, s->count));
    }
    return GS_OK;
}

/* Has this worker all weights of its part of the tensors? */
static bool has_all(const gs_worker *w) {
    return !w->partition.weights_cut && w->groups.layout.pp == 1;
}

static gs_status read_part(gs_worker *w, float *host) {
    gs_partition of;
    if (has_all(w)) return gs_model_read_weights(w->model, host);
    if (!host) return GS_OK;
    for (int stage = 0; stage < w->groups.layout.pp; stage++) {
        const gs_coordinates owner = {w->groups.coordinates.dp, w->groups.coordinates.tp, stage};
        gs_status status = gs_partition_plan(w, gs_rank_at(&w->groups.layout, owner), &of);
        if (status == GS_OK) status = read_stage(w, stage, &of, host);
        gs_partition_free(&of);
        GS_TRY(status);
    }
    return GS_OK;
}

gs_status gs_partition_weights(gs_worker *w, float *host) {
    const gs_model *m = w->model;
    float *mine = NULL;
    if (!m->undivided) return read_part(w, host);
    if (has_all(w)) return put_together(w, NULL, m->saved_count, host);
    GS_TRY(take(w, m->saved, &mine));
    gs_status status = read_part(w, mine);
    if (status == GS_OK) status = put_together(w, mine, m->saved_count, host);
    drop(w, mine);
    return status;
}
