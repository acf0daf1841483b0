/* Executing the instructions of a stage: see pipeline.c. */
#include "layer/layer.h"
#include "train/strategies/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "comm/device.h"
#include "comm/split.h"
#include "core/clock.h"
#include "train/strategy.h"
#include "train/reducer.h"
#include "train/timeline.h"

/* ---- the micro-batches of a step ---- */

/* All stages know the sizes of all micro-batches beforehand. The last ones of a small batch may be empty; the loader
 * does not deliver those. */
static void next_micro_batches(gs_worker *w, gs_pipeline_worker *p) {
    gs_schedule from = w->schedule;
    from.done = w->step;
    gs_schedule_position at = gs_schedule_begin(&from);
    int parts = 0;
    for (p->filled = 0; parts < w->schedule.mine && p->filled < p->cut.shape.micro_batches; p->filled++) {
        gs_micro_batch *micro_batch = &p->micro_batch[p->filled];
        if (!gs_schedule_next(&from, &at, micro_batch)) gs_bug("a step beyond the end of the run");
        parts += micro_batch->last;
    }
    if (parts < w->schedule.mine) gs_bug("a micro-batch is more than can be computed at once");
    w->micro_batch = p->micro_batch[0];
    for (int k = p->filled; k < p->cut.shape.micro_batches; k++) p->micro_batch[k] = (gs_micro_batch){.n = 0};
}

static gs_status load(gs_worker *w, gs_pipeline_worker *p, int k) {
    gs_pass unused = {0};
    if (k >= p->filled) return GS_OK;
    if (p->inputs == 0) { /* stages in the middle take neither samples nor targets */
        w->measured.samples += (double)p->micro_batch[k].n;
        return GS_OK;
    }
    const gs_input own = w->input;
    w->input = p->input[k % p->inputs];
    gs_status status = gs_worker_next(w, &unused);
    w->input = own;
    return status;
}

/* ---- forward and backward ---- */

static gs_stage_slot *slot_of(const gs_pipeline_worker *p, const gs_instruction *i) {
    const gs_stage_chunk *c = &p->chunk[i->chunk];
    return &c->slot[i->micro_batch % c->slots];
}

/* Ranges of this worker's array of gradients. */
static gs_shard state_of(const gs_stage_chunk *c) {
    return (gs_shard){c->state->at, c->state->count};
}
static gs_shard counts_of(const gs_pipeline_worker *p) {
    return (gs_shard){p->own->counts, GS_STATS};
}

static gs_status fill_if_empty(const gs_worker *w, const gs_pipeline_worker *p, bool has, gs_shard r) {
    const gs_mem here = gs_partition_tail(p->own, p->own->gradients, p->own->gradients_cut, r.first);
    return has || r.count == 0 ? GS_OK : w->device->ops->fill(w->device, here, 0, r.count);
}

/* With --exact: leaf k of a range joins the tree; the last leaf leaves the sum in the range. */
static gs_status add_leaf(gs_worker *w, const gs_pipeline_worker *p, gs_shard r, int k) {
    const gs_mem here = gs_partition_tail(p->own, p->own->gradients, p->own->gradients_cut, r.first);
    GS_TRY(fill_if_empty(w, p, p->micro_batch[k].n > 0, r));
    return gs_ordered_sums_add_here(w, here, r.first, r.count, k);
}

/* An empty micro-batch: this replica still takes part in the collectives of a pass. */
static gs_status join(gs_worker *w, const gs_instruction *i, gs_pass pass) {
    pass.fresh = false;
    return w->reducer->join ? w->reducer->join(w, i->chunk, &pass, i->action == GS_DO_BACKWARD) : GS_OK;
}

static gs_status forward(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    gs_stage_chunk *c = &p->chunk[i->chunk];
    gs_stage_slot *s = slot_of(p, i);
    const gs_pass pass =
        gs_worker_pass(w, &p->micro_batch[i->micro_batch], w->settings->exact || !c->has_state);
    const bool has_loss = c->run == p->cut.runs - 1;
    const gs_input *input = p->inputs ? &p->input[i->micro_batch % p->inputs] : NULL;
    if (w->settings->exact && has_loss) GS_TRY(gs_model_clear_stats(w->model));
    if (pass.n > 0) {
        GS_TRY(gs_model_forward(s->model, &pass, c->run > 0 ? s->x : input->x, &s->y));
        if (has_loss) GS_TRY(gs_model_loss(s->model, &pass, s->y, input->targets));
        c->has_state = true;
    } else {
        GS_TRY(join(w, i, pass));
    }
    if (!w->settings->exact) return GS_OK;
    if (has_loss) GS_TRY(add_leaf(w, p, counts_of(p), i->micro_batch));
    return add_leaf(w, p, state_of(c), i->micro_batch);
}

static gs_status backward(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    gs_stage_chunk *c = &p->chunk[i->chunk];
    gs_stage_slot *s = slot_of(p, i);
    const gs_pass pass = gs_worker_pass(w, &p->micro_batch[i->micro_batch], w->settings->exact || !c->has_dw);
    const gs_mem targets =
        c->run == p->cut.runs - 1 && p->inputs ? p->input[i->micro_batch % p->inputs].targets : GS_NONE;
    if (pass.n > 0) {
        GS_TRY(gs_model_backward_stage(s->model, &pass, s->y, targets, s->dy, &s->dx));
        c->has_dw = true;
    } else {
        GS_TRY(join(w, i, pass));
    }
    const bool adds = w->settings->exact && !p->own->gradients_cut; /* if cut, the reducer adds */
    return adds ? add_leaf(w, p, c->params, i->micro_batch) : GS_OK;
}

static gs_status add_bytes(gs_layer *l, void *sum) {
    *(size_t *)sum += l->bytes;
    return GS_OK;
}

/* Bytes that the layers keep of a micro-batch of n samples, for the timeline; slot 0 has room for more. */
static size_t activations_of(const gs_stage_slot *s, size_t n) {
    size_t bytes = 0;
    (void)gs_layer_walk(s->model->net, add_bytes, &bytes);
    return bytes / s->model->max_batch * n;
}

static gs_status compute(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    const bool goes_forward = i->action == GS_DO_FORWARD;
    const double start = gs_seconds();
    GS_TRY(goes_forward ? forward(w, p, i) : backward(w, p, i));
    GS_TRY(w->device->ops->finish(w->device));
    gs_stage_record_pass(p, i, start);
    if (w->recorded)
        gs_timeline_stage(w, !goes_forward, i->micro_batch, i->chunk,
                          activations_of(slot_of(p, i), p->micro_batch[i->micro_batch].n), start);
    return gs_phase_ends(w, goes_forward ? GS_PHASE_FORWARD : GS_PHASE_BACKWARD);
}

/* ---- messages ---- */

/* The memory that a message is sent from, or received into. */
static gs_mem memory_of(const gs_pipeline_worker *p, const gs_instruction *i) {
    switch (i->action) {
    case GS_DO_SEND_ACTIVATION:
        return slot_of(p, i)->y;
    case GS_DO_RECV_ACTIVATION:
        return slot_of(p, i)->x;
    case GS_DO_SEND_GRADIENT:
        return slot_of(p, i)->dx;
    case GS_DO_RECV_GRADIENT:
        return slot_of(p, i)->dy;
    case GS_DO_SEND_TABLE:
    case GS_DO_RECV_TABLE:
        return gs_stage_table(p)->w;
    default:
        return gs_stage_table(p)->dw;
    }
}

/* The bytes of the message of `sent`, by stage `from`. All stages store activations and gradients between two runs in
 * the same number of bits (memory/half_storage.h). */
static size_t bytes_in(const gs_pipeline_worker *p, const gs_instruction *sent, int from) {
    const int run = sent->chunk * p->cut.shape.stages + from;
    const bool forward = sent->action == GS_DO_SEND_ACTIVATION;
    if (!forward && sent->action != GS_DO_SEND_GRADIENT) return p->cut.tied.table->count * sizeof(float);
    const gs_layer *after = p->chunk[0].slot[0].model->net->child[p->cut.first[forward ? run + 1 : run]];
    return gs_bytes_of(p->micro_batch[sent->micro_batch].n * gs_shape_size(after->in), after->memory.x_half);
}

static gs_status send(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    const size_t bytes = bytes_in(p, i, p->stage);
    const double start = gs_seconds();
    const gs_mem from = bytes ? memory_of(p, i) : GS_NONE;
    gs_comm *stages = w->groups.comm[GS_PP];
    GS_TRY(gs_call_run_on_device(stages, w->device, &(gs_call){GS_SEND, bytes, GS_U8, GS_SUM, i->peer}, from,
                                 GS_NONE));
    w->measured.sent += (double)bytes;
    gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, false, gs_comm_rank_in_parent(stages, i->peer), bytes,
                        start);
    return gs_phase_ends(w, GS_PHASE_SYNC);
}

/* A tied gradient is added to the memory; every other message overwrites it. */
static gs_status deliver(gs_worker *w, const gs_pipeline_worker *p, const gs_instruction *i, const void *data,
                         size_t bytes) {
    void *host;
    const gs_mem to = memory_of(p, i);
    if (bytes == 0) return GS_OK;
    if (i->action != GS_DO_RECV_TIED || w->settings->exact)
        return w->device->ops->write(w->device, to, data, bytes);
    GS_TRY(w->device->ops->map(w->device, to, bytes, &host));
    gs_host_add(w->device, host, data, bytes / sizeof(float));
    return w->device->ops->unmap(w->device, to, host);
}

static gs_status keep(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *sent, size_t bytes,
                      gs_kept_message **out) {
    gs_kept_message *m = *out = malloc(sizeof *m + bytes);
    if (!m) return gs_fail(GS_E_MEMORY, "--pipeline: no memory for a message of %zu bytes", bytes);
    *m = (gs_kept_message){.sent = *sent, .next = p->kept};
    p->kept = m;
    return gs_book_host(w, GS_MEMORY_COMMUNICATION, m, bytes);
}

static void drop(gs_worker *w, gs_kept_message *m) {
    gs_ledger_remove(&w->device->memory, m);
    free(m);
}

static gs_kept_message *take_kept(gs_pipeline_worker *p, const gs_instruction *wanted) {
    gs_kept_message **at = &p->kept;
    while (*at && !gs_instruction_is(&(*at)->sent, wanted)) at = &(*at)->next;
    gs_kept_message *found = *at;
    if (found) *at = found->next;
    return found;
}

/* The next message that stage `from` sends to this one, in the order of its list. */
static const gs_instruction *next_message(gs_pipeline_worker *p, int from) {
    const gs_instructions *l = &p->list[from];
    const gs_instruction *i;
    do {
        if (p->sent[from] == l->count)
            gs_bug("stage %d waits for a message that stage %d does not send", p->stage, from);
        i = &l->list[p->sent[from]++];
    } while (!gs_action_sends(i->action) || i->peer != p->stage);
    return i;
}

/* Into `device`, or if that is NULL into `host`. */
static gs_status receive_message(gs_worker *w, int from, size_t bytes, const gs_mem *device, void *host) {
    gs_comm *stages = w->groups.comm[GS_PP];
    const double start = gs_seconds();
    const gs_call call = {GS_RECV, bytes, GS_U8, GS_SUM, from};
    GS_TRY(device ? gs_call_run_on_device(stages, w->device, &call, GS_NONE, *device)
                  : gs_comm_recv(stages, host, bytes, from));
    gs_timeline_message(w, GS_ROW_COMPUTE, w->step + 1, true, gs_comm_rank_in_parent(stages, from), bytes,
                        start);
    return GS_OK;
}

/* Messages that arrive before the wanted one are kept, and one that will be added goes through a buffer. Every other
 * message arrives directly in its memory, which saves a copy. In a step no two messages of one stage are alike, and
 * those of two stages differ too: activations come from the previous stage, gradients from the next one. */
static gs_status receive(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    const gs_instruction wanted = gs_instruction_sent(&p->cut.shape, i, p->stage);
    const bool adds = i->action == GS_DO_RECV_TIED && !w->settings->exact;
    gs_kept_message *m;
    while (!(m = take_kept(p, &wanted))) {
        const gs_instruction *next = next_message(p, i->peer);
        const size_t bytes = bytes_in(p, next, i->peer);
        if (!adds && gs_instruction_is(next, &wanted)) {
            const gs_mem to = bytes ? memory_of(p, i) : GS_NONE;
            GS_TRY(receive_message(w, i->peer, bytes, &to, NULL));
            return gs_phase_ends(w, GS_PHASE_SYNC);
        }
        GS_TRY(keep(w, p, next, bytes, &m));
        GS_TRY(receive_message(w, i->peer, bytes, NULL, m->data));
    }
    gs_status status = deliver(w, p, i, m->data, bytes_in(p, &m->sent, i->peer));
    drop(w, m);
    return status == GS_OK ? gs_phase_ends(w, GS_PHASE_SYNC) : status;
}

/* ---- a step ---- */

static gs_status execute(gs_worker *w, gs_pipeline_worker *p, const gs_instruction *i) {
    if (i->action == GS_DO_LOAD) {
        GS_TRY(load(w, p, i->micro_batch));
        return gs_phase_ends(w, GS_PHASE_DATA);
    }
    if (gs_action_sends(i->action)) return send(w, p, i);
    if (gs_action_receives(i->action)) return receive(w, p, i);
    return compute(w, p, i);
}

/* Both stages of a shared table add to its gradient, also in a fresh pass; and a stage may get no samples. */
static gs_status begin(gs_worker *w, gs_pipeline_worker *p) {
    const gs_backend *ops = w->device->ops;
    GS_TRY(gs_model_clear_stats(w->model));
    if (p->cut.tied.table && (p->stage == 0 || p->stage == p->cut.shape.stages - 1))
        GS_TRY(ops->fill(w->device, gs_stage_table(p)->dw, 0, p->cut.tied.table->count));
    for (int c = 0; c < p->cut.shape.chunks; c++) p->chunk[c].has_dw = p->chunk[c].has_state = false;
    memset(p->sent, 0, (size_t)p->cut.shape.stages * sizeof *p->sent);
    next_micro_batches(w, p);
    return GS_OK;
}

gs_status gs_stage_run(gs_worker *w, gs_pipeline_worker *p) {
    const gs_instructions *mine = &p->list[p->stage];
    GS_TRY(begin(w, p));
    for (size_t i = 0; mine->list[i].action != GS_DO_SUM; i++) GS_TRY(execute(w, p, &mine->list[i]));
    for (int c = 0; c < p->cut.shape.chunks; c++) {
        GS_TRY(fill_if_empty(w, p, p->chunk[c].has_dw || p->own->gradients_cut, p->chunk[c].params));
        GS_TRY(fill_if_empty(w, p, p->chunk[c].has_state, state_of(&p->chunk[c])));
    }
    return GS_OK;
}

gs_status gs_stage_run_after(gs_worker *w, gs_pipeline_worker *p) {
    const gs_instructions *mine = &p->list[p->stage];
    size_t i = 0;
    while (mine->list[i].action != GS_DO_UPDATE) i++;
    for (i++; i < mine->count; i++) GS_TRY(execute(w, p, &mine->list[i]));
    return GS_OK;
}
