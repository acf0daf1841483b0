#include "train/partition.h"

#include <stdlib.h>

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

/* True if backward recomputes a and b in one segment, whose weights are needed together (layer/memory/recompute.h). */
static bool of_one_segment(const gs_model *m, int a, int b) {
    return m->net->child[a]->memory.segment &&
           m->net->child[a]->memory.segment == m->net->child[b]->memory.segment;
}

/* Add each of the layers begin .. end - 1 to the last unit, or start a new unit with it. */
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
    gs_partition_run *state = context;
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
    GS_TRY(gs_stages_of(w, &p)); /* without stages: a single stage that holds all layers */
    h->runs = p.shape.chunks;
    GS_TRY(GS_NEW(h->run, h->runs, "a list of %d runs", h->runs));
    GS_TRY(GS_NEW(h->unit, m->net->children, "a list of %d units", m->net->children));
    for (int c = 0; c < h->runs; c++) {
        const int run = c * p.shape.stages + coordinates.pp, begin = p.first[run], end = p.first[run + 1];
        const size_t first = begin > 0 ? m->net->child[begin]->at : 0, count = end_of(m, end - 1) - first;
        const bool together = w->settings->recompute && p.runs > 1;
        if (w->settings->zero > 1)
            cut_by_layers(m, c, begin, end, together ? count : largest_layer(m, begin, end), h);
        else
            h->unit[h->count++] = (gs_partition_unit){
                .first = first, .count = count, .at = h->params, .begin = begin, .end = end, .run = c};
        h->run[c] = (gs_partition_run){.begin = begin, .end = end, .params = {h->params, count}};
        h->params += count;
        if (p.runs == 1) (void)gs_layer_walk(m->net, add_state, &h->run[c]); /* may be one layer */
        for (int i = begin; i < end && p.runs > 1; i++)
            (void)gs_layer_walk(m->net->child[i], add_state, &h->run[c]);
    }
    if (p.tied.table && coordinates.pp == p.shape.stages - 1) h->copy = p.tied.table;
    h->copied = h->counts = h->params + (h->copy ? h->copy->count : 0);
    for (int c = 0; c < h->runs; c++) {
        h->run[c].at = h->counts;
        h->counts += h->run[c].count;
    }
    divide(h, w->settings->zero > 0, w->groups.layout.dp);
    return GS_OK;
}

void gs_partition_free(gs_partition *h) {
    free(h->unit);
    free(h->run);
    free(h->part);
    *h = (gs_partition){0};
}

/* The unit that holds the parameter; NULL: none. */
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
    for (int i = 0; i < h->runs && param->state; i++) {
        const gs_partition_run *s = &h->run[i];
        *at = s->at + param->at - s->first;
        if (param->at >= s->first && param->at < s->first + s->count) return true;
    }
    *at = h->params;
    return h->copy && param->at == h->copy->at;
}

/* ---- the arrays ---- */

/* The parameters first .. first + count - 1, at offset `at` of an array. */
typedef struct range {
    size_t first, count, at;
} range;

/* What this worker holds of a unit. In an array of parts (cut), k = 0 is the worker's own part and k = 1 the rest; in
 * an array of whole units, k = 0 is the whole unit and k = 1 nothing. */
static range range_of(const gs_partition *h, const gs_partition_unit *u, bool cut, int k) {
    if (!cut) return (range){u->first, k == 0 ? u->count : 0, u->at};
    return k == 0 ? (range){u->first + u->own * (size_t)h->dp_rank, u->own, u->own_at}
                  : (range){u->first + u->count - u->rest, u->rest, u->rest_at};
}

gs_status gs_partition_read(const gs_worker *w, const gs_partition_unit *u, float *unit) {
    const gs_partition *h = &w->partition;
    for (int k = 0; k < 2; k++) {
        const range r = range_of(h, u, h->weights_cut, k);
        GS_TRY(gs_host_read(w->device, unit + r.first - u->first, gs_at(h->weights, r.at),
                            r.count * sizeof *unit));
    }
    return GS_OK;
}

/* Allocate this worker's array, for whole units or for parts, with `more` floats after the state. */
static gs_status allocate(gs_worker *w, gs_memory_kind kind, bool cut, size_t more, gs_mem *out) {
    const gs_partition *h = &w->partition;
    const size_t floats = gs_partition_tail(h, (gs_mem)GS_NONE, cut, h->counts).at + more;
    GS_TRY(gs_alloc(w->device, kind, floats * sizeof(float), out));
    gs_ledger_tail(&w->device->memory, out->base, GS_MEMORY_STATE, (h->counts - h->copied) * sizeof(float));
    return GS_OK;
}

/* Copy the model's array of weights into this worker's. */
static gs_status copy_weights(gs_worker *w, gs_mem whole, gs_mem to, bool cut) {
    const gs_partition *h = &w->partition;
    const gs_backend *ops = w->device->ops;
    for (int i = 0; i < 2 * h->count; i++) {
        const range r = range_of(h, &h->unit[i / 2], cut, i % 2);
        GS_TRY(ops->copy(w->device, gs_at(to, r.at), gs_at(whole, r.first), r.count));
    }
    for (int i = 0; i < h->runs; i++)
        GS_TRY(ops->copy(w->device, gs_partition_tail(h, to, cut, h->run[i].at),
                         gs_at(whole, h->run[i].first), h->run[i].count));
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
    m->gradients = gs_at(counts, -m->saved); /* where gs_model_stats finds them; size_t wraps around */
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
    /* From now on the model frees this array, and finds its state there, but not its parameters. */
    m->weights = gs_at(gs_partition_tail(h, h->weights, h->weights_cut, h->params), -h->params);
    m->weights_apart = gs_partition_tail(h, (gs_mem)GS_NONE, h->weights_cut, h->counts).at;
    return GS_OK;
}

gs_status gs_partition_divide(gs_worker *w) {
    gs_partition *h = &w->partition;
    if (gs_has_stages(w) || w->settings->zero > 1) GS_TRY(divide_gradients(w));
    if (gs_has_stages(w) || w->settings->zero > 2) GS_TRY(divide_weights(w));
    for (int i = 0; i < h->count; i++) { /* cut arrays are in windows (train/reducers/zero.c) */
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

/* ---- what the worker updates ---- */

/* The end of a run of adjacent tensors of one kind: all divided by a tensor group, or all repeated on its ranks. */
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

/* Split a part at each border between tensors that a group divides and tensors that each of its ranks holds whole. In
 * norms, only the first rank counts the tensors that all hold. */
static gs_held_shard *add_part(const gs_model *m, gs_held_shard part, gs_held_shard *to) {
    if (part.count == 0) *to++ = part; /* observers of updates expect a part, even an empty one */
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

/* Like gs_comm_all_reduce, for at most two numbers, without the temporary memory of a reduction by messages. */
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
    for (int i = 0; i < h->runs; i++)
        GS_TRY(gs_model_update_state_of(
            w->model, gs_partition_tail(h, h->weights, h->weights_cut, h->run[i].at),
            gs_partition_tail(h, h->gradients, h->gradients_cut, h->run[i].at), h->run[i].count, samples));
    return GS_OK;
}

/* For norms (gs_held). If all replicas hold the same sums of gradients, reducing over the tensor group suffices. */
static gs_status reduce_norms(void *worker, int64_t *x, size_t count, bool largest) {
    gs_worker *w = worker;
    gs_comm *c = gs_updates_are_divided(w) ? w->comm : w->groups.comm[GS_TP];
    if (!gs_updates_are_divided(w) && count <= 2) return reduce_few(c, x, count, largest);
    /* with stages, predictions omit these few bytes */
    if (w->groups.layout.pp == 1 && gs_updates_are_divided(w))
        w->measured.sent += 2.0 * (double)count * sizeof *x * (c->size - 1) / c->size;
    return gs_comm_all_reduce(c, x, count, GS_I64, largest ? GS_MAX : GS_SUM);
}

gs_status gs_partition_list(gs_worker *w) {
    const gs_model *m = w->model;
    gs_partition *h = &w->partition;
    /* each border between divided and repeated tensors splits one part or rest */
    const size_t most = 2 * (size_t)h->count + (m->undivided ? 2 * (size_t)m->param_count : 0);
    GS_TRY(GS_NEW(h->part, most, "a list of %zu parts", most));
    gs_held_shard *to = h->part;
    for (int i = 0; i < 2 * h->count; i++) {
        const gs_partition_unit *u = &h->unit[i / 2];
        const range r = range_of(h, u, true, i % 2);
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

/* ---- assembling whole tensors from shards ---- */

/* The maximum number of floats of tensor i on any rank: a vocabulary's shards differ in size. */
static size_t largest_shard(const gs_model *m, int i) {
    size_t most = 0;
    for (int r = 0; r < m->tensor.size; r++) {
        const size_t floats = gs_tensor_count(m->param[i], r, m->tensor.size);
        if (floats > most) most = floats;
    }
    return most;
}

/* Gather tensor i in `all`, and put it into `whole`. If each rank holds the whole tensor, put this rank's copy there,
 * so that --verify can compare it with the other ranks' copies. */
static gs_status put_tensor(gs_worker *w, int i, const float *mine, float *all, float *whole) {
    const gs_model *m = w->model;
    const gs_param *p = m->param[i];
    const size_t floats = largest_shard(m, i);
    float *own = all + floats * (size_t)m->tensor.rank;
    if (floats == 0) return GS_OK;
    gs_host_copy(m->device, own, mine + p->at, p->count * sizeof *own);
    GS_TRY(gs_comm_all_gather(w->groups.comm[GS_TP], own, all, floats, GS_F32));
    for (int r = 0; r < m->tensor.size && whole; r++)
        if (p->cut != GS_UNCUT || r == m->tensor.rank)
            gs_tensor_put_shard(p, r, m->tensor.size, all + (size_t)r * floats,
                                whole + m->undivided->param[i]->at);
    return GS_OK;
}

static gs_status take(gs_worker *w, size_t floats, float **memory) {
    return gs_host_alloc(w, GS_MEMORY_COMMUNICATION, floats * sizeof **memory, memory);
}

static void drop(gs_worker *w, float *memory) {
    if (memory) gs_ledger_remove(&w->device->memory, memory);
    free(memory);
}

/* Assemble the first `count` tensors of the model, one at a time, in memory that holds all shards of the largest
 * tensor. mine: this worker's shards. whole may be NULL. Call this on all workers of a group. */
static gs_status put_together(gs_worker *w, const float *mine, int count, float *whole) {
    const gs_model *m = w->model;
    float *all;
    size_t most = 0;
    for (int i = 0; i < count; i++)
        if (largest_shard(m, i) > most) most = largest_shard(m, i);
    GS_TRY(take(w, most * (size_t)m->tensor.size, &all));
    gs_status status = GS_OK;
    for (int i = 0; i < count && status == GS_OK; i++) status = put_tensor(w, i, mine, all, whole);
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

/* Send `count` floats of vector i, starting at `at`, from the world's rank `rank` to the first rank with the same
 * tensor shards. At most one block of an offloaded vector is in memory at a time. */
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

/* Send all that `rank` holds of vector i; only the first replica sends the rests. */
static gs_status move(gs_worker *w, int rank, int i, float *whole) {
    gs_partition h;
    gs_status status = gs_partition_plan(w, rank, &h);
    for (int k = 0; k < 2 * h.count && status == GS_OK; k++) {
        const range r = range_of(&h, &h.unit[k / 2], true, k % 2);
        if (k % 2 == 0 || h.dp_rank == 0)
            status = move_range(w, rank, i, r.at, r.count, whole ? whole + r.first : NULL);
    }
    gs_partition_free(&h);
    return status;
}

/* Like gs_partition_gather, but only for this worker's tensor shards, on the first rank with the same shards. */
static gs_status gather_part(gs_worker *w, int i, float *whole) {
    const int mine = w->comm->rank, first = w->groups.coordinates.tp;
    for (int rank = first; rank < w->comm->size; rank += w->groups.layout.tp)
        if (mine == first || mine == rank) GS_TRY(move(w, rank, i, whole));
    return GS_OK;
}

/* The workers of the first replica and stage assemble the vector. */
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
    for (int k = 0; k < 2 * h->count; k++) {
        const range r = range_of(h, &h->unit[k / 2], true, k % 2);
        GS_TRY(gs_optimizer_copy_vector(w->optimizer, i, r.at, r.count, NULL, whole + r.first));
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

/* Read a unit of this worker's stage, whole on all replicas. */
static gs_status read_unit(gs_worker *w, const gs_partition_unit *u, float *to) {
    const gs_partition *h = &w->partition;
    GS_TRY(gs_partition_read(w, u, to));
    if (!h->weights_cut || u->own == 0) return GS_OK;
    return gs_comm_all_gather(w->groups.comm[GS_DP], to + u->own * (size_t)h->dp_rank, to, u->own, GS_F32);
}

static gs_status share(gs_worker *w, int stage, float *x, size_t count) {
    enum { LEAST = 1 << 15 }; /* floats; `x` is sent in pieces, because each message under way takes memory */
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
    for (int k = 0; k < of->runs; k++) {
        const gs_partition_run *s = &of->run[k];
        float *to = host + s->first;
        if (mine) GS_TRY(gs_host_read(w->device, to, gs_at(w->model->weights, s->at), s->count * sizeof *to));
        GS_TRY(share(w, stage, to, s->count));
    }
    return GS_OK;
}

/* Read the weights of this worker's tensor shards, in all stages. */
static gs_status read_part(gs_worker *w, float *host) {
    gs_partition of;
    if (!w->partition.weights_cut && w->groups.layout.pp == 1) return gs_model_read_weights(w->model, host);
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
    GS_TRY(take(w, m->saved, &mine));
    gs_status status = read_part(w, mine);
    if (status == GS_OK) status = put_together(w, mine, m->saved_count, host);
    drop(w, mine);
    return status;
}
