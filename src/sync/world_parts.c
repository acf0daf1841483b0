/* Collectives of a world (comm_world.c) whose ranks end with different things. They go through memory of the
 * leaders, the first threads of the processes:
 *
 *     1. within each process    the threads give their parts to the leader's memory, or reduce into it
 *     2. between the leaders    one message for each pair of processes, or a collective of Gloo
 *     3. within each process    each thread takes its part from the leader's memory
 */
#include "data/shard.h"
#include "sync/world.h"

#include <stdlib.h>

/* Memory of the leader for a collective: what it reads or writes between the processes is its own, so that
 * no failure can take it away. It is kept for the next one. The other threads get NULL. */
static gs_status leaders_memory(const gs_world_member *m, const gs_call *call, size_t bytes, void **out) {
    *out = NULL;
    if (!gs_world_is_leader(m) || (*out = gs_scratch_take(&m->w->shared, bytes))) return GS_OK;
    return gs_world_finish(
        m, gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", gs_operation_name(call->operation), bytes));
}

static gs_status reduce_through(const gs_world_member *m, const gs_call *call, void *data, int owner,
                                void *shared) {
    gs_comm *processes = m->w->processes;
    GS_TRY(gs_world_finish(m, gs_threads_reduce_to_first(m->local, call, data, shared)));
    if (gs_world_is_leader(m))
        GS_TRY(gs_world_finish(
            m, processes->ops->reduce(processes, shared, call->count, call->type, call->reduction, owner)));
    gs_world_part result = {.take = data, .bytes = call->count * gs_type_size(call->type)};
    bool root = m->w->first[processes->rank] + m->local->rank == call->root;
    return gs_world_from_leader(m, call, shared, root ? gs_world_take : NULL, &result);
}

gs_status gs_world_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction,
                          int root) {
    const gs_world_member *m = c->state;
    gs_check_root(c, root);
    gs_call call = {GS_REDUCE, count, type, reduction, root};
    void *shared;
    GS_TRY(leaders_memory(m, &call, count * gs_type_size(type), &shared));
    return reduce_through(m, &call, data, gs_world_process_of(m->w, root), shared);
}

/* The leader of the root's process collects: part p comes from the leader of process p. */
static gs_status collect(const gs_world_member *m, const gs_call *call, int owner, unsigned char *shared) {
    gs_comm *processes = m->w->processes;
    const int *first = m->w->first;
    size_t bytes = call->count * gs_type_size(call->type);
    int me = processes->rank;
    if (me != owner)
        return processes->ops->between->send_part(processes, call, shared + (size_t)first[me] * bytes,
                                                  (size_t)(first[me + 1] - first[me]) * bytes, owner);
    for (int p = 0; p < processes->size; p++)
        if (p != owner)
            GS_TRY(processes->ops->between->recv_part(processes, call, shared + (size_t)first[p] * bytes,
                                                      (size_t)(first[p + 1] - first[p]) * bytes, p));
    return GS_OK;
}

gs_status gs_world_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type, int root) {
    const gs_world_member *m = c->state;
    gs_check_root(c, root);
    gs_call call = {GS_GATHER, count, type, 0, root};
    size_t bytes = count * gs_type_size(type);
    gs_world_part own = {mine, NULL, (size_t)c->rank * bytes, bytes};
    gs_world_part result = {.take = all, .bytes = (size_t)c->size * bytes};
    void *shared;
    GS_TRY(leaders_memory(m, &call, (size_t)c->size * bytes, &shared));
    gs_status status =
        gs_world_finish(m, gs_threads_with_first(m->local, &call, shared, gs_world_give, &own));
    if (status == GS_OK && gs_world_is_leader(m))
        status = gs_world_finish(m, collect(m, &call, gs_world_process_of(m->w, root), shared));
    if (status == GS_OK)
        status = gs_world_from_leader(m, &call, shared, c->rank == root ? gs_world_take : NULL, &result);
    return status;
}

/* The other way round. */
static gs_status distribute(const gs_world_member *m, const gs_call *call, int owner, unsigned char *shared) {
    gs_comm *processes = m->w->processes;
    const int *first = m->w->first;
    size_t bytes = call->count * gs_type_size(call->type);
    int me = processes->rank;
    if (me != owner)
        return processes->ops->between->recv_part(processes, call, shared + (size_t)first[me] * bytes,
                                                  (size_t)(first[me + 1] - first[me]) * bytes, owner);
    for (int p = 0; p < processes->size; p++)
        if (p != owner)
            GS_TRY(processes->ops->between->send_part(processes, call, shared + (size_t)first[p] * bytes,
                                                      (size_t)(first[p + 1] - first[p]) * bytes, p));
    return GS_OK;
}

gs_status gs_world_scatter(gs_comm *c, const void *all, void *mine, size_t count, gs_type type, int root) {
    const gs_world_member *m = c->state;
    gs_check_root(c, root);
    gs_call call = {GS_SCATTER, count, type, 0, root};
    size_t bytes = count * gs_type_size(type);
    gs_world_part whole = {all, NULL, 0, (size_t)c->size * bytes};
    gs_world_part own = {NULL, mine, (size_t)c->rank * bytes, bytes};
    void *shared;
    GS_TRY(leaders_memory(m, &call, (size_t)c->size * bytes, &shared));
    gs_status status = gs_world_finish(
        m, gs_threads_with_first(m->local, &call, shared, c->rank == root ? gs_world_give : NULL, &whole));
    if (status == GS_OK && gs_world_is_leader(m))
        status = gs_world_finish(m, distribute(m, &call, gs_world_process_of(m->w, root), shared));
    if (status == GS_OK) status = gs_world_from_leader(m, &call, shared, gs_world_take, &own);
    return status;
}

/* Between the leaders: the part of a process is that of all its ranks together, and ends in its place. */
static gs_status reduce_scatter_parts(const gs_world_member *m, const gs_call *call, unsigned char *shared) {
    gs_comm *processes = m->w->processes;
    const int *ranks = m->w->first;
    int size = ranks[processes->size];
    size_t *first = m->w->parts;
    for (int p = 0; p < processes->size; p++) first[p] = gs_shard_of(call->count, ranks[p], size).first;
    first[processes->size] = call->count;
    return gs_pairwise_reduce_scatter(processes, call, shared,
                                      shared + first[processes->rank] * gs_type_size(call->type), first,
                                      &m->w->received);
}

gs_status gs_world_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total, gs_type type,
                                  gs_reduction reduction) {
    const gs_world_member *m = c->state;
    gs_call call = {GS_REDUCE_SCATTER, total, type, reduction, 0};
    size_t width = gs_type_size(type);
    gs_shard shard = gs_shard_of(total, c->rank, c->size);
    gs_world_part own = {NULL, mine, shard.first * width, shard.count * width};
    void *shared;
    GS_TRY(leaders_memory(m, &call, total * width, &shared));
    gs_status status = gs_world_finish(m, gs_threads_reduce_to_first(m->local, &call, all, shared));
    if (status == GS_OK && gs_world_is_leader(m))
        status = gs_world_finish(m, reduce_scatter_parts(m, &call, shared));
    if (status == GS_OK) status = gs_world_from_leader(m, &call, shared, gs_world_take, &own);
    return status;
}

/* ---- all_to_all ----
 *
 * The leader's memory holds an outbox and an inbox for each process: what the ranks here give to the ranks of
 * that process, and what they get from them. A box has one block for each pair of ranks, ordered by the one
 * that gives and then by the one that gets: so the outbox of one process is the inbox of the other as it is.
 */

typedef struct boxes {
    const gs_world_member *m;
    const void *from;
    void *to;
    size_t bytes; /* of a block */
} boxes;

/* Where the box for process p begins, in blocks. */
static size_t box(const gs_world_member *m, int p) {
    return (size_t)m->local->size * (size_t)m->w->first[p];
}

static size_t ranks_in(const gs_world_member *m, int p) {
    return (size_t)(m->w->first[p + 1] - m->w->first[p]);
}

static void fill_outboxes(void *context, void *outboxes) {
    const boxes *b = context;
    const gs_world_member *m = b->m;
    for (int p = 0; p < m->w->processes->size; p++) {
        size_t row = ranks_in(m, p), block = box(m, p) + (size_t)m->local->rank * row;
        gs_world_copy(gs_world_at(outboxes, block * b->bytes),
                      gs_world_at(b->from, (size_t)m->w->first[p] * b->bytes), row * b->bytes);
    }
}

static void empty_inboxes(void *context, void *inboxes) {
    const boxes *b = context;
    const gs_world_member *m = b->m;
    for (int p = 0; p < m->w->processes->size; p++) {
        for (size_t r = 0; r < ranks_in(m, p); r++) {
            size_t block = box(m, p) + r * (size_t)m->local->size + (size_t)m->local->rank;
            gs_world_copy(gs_world_at(b->to, ((size_t)m->w->first[p] + r) * b->bytes),
                          gs_world_at(inboxes, block * b->bytes), b->bytes);
        }
    }
}

/* Pairwise exchange, as in pairwise_reduce_scatter.c. */
static gs_status exchange_boxes(const gs_world_member *m, const gs_call *call, unsigned char *out,
                                unsigned char *in) {
    gs_comm *processes = m->w->processes;
    size_t bytes = call->count * gs_type_size(call->type);
    int me = processes->rank, n = processes->size;
    size_t local = (size_t)m->local->size;
    gs_world_copy(in + box(m, me) * bytes, out + box(m, me) * bytes, local * local * bytes);
    for (int k = 1; k < n; k++) {
        int to = (me + k) % n, from = (me - k + n) % n;
        GS_TRY(processes->ops->between->send_part(processes, call, out + box(m, to) * bytes,
                                                  local * ranks_in(m, to) * bytes, to));
        GS_TRY(processes->ops->between->recv_part(processes, call, in + box(m, from) * bytes,
                                                  local * ranks_in(m, from) * bytes, from));
    }
    return GS_OK;
}

gs_status gs_world_all_to_all(gs_comm *c, const void *from, void *to, size_t count, gs_type type) {
    const gs_world_member *m = c->state;
    gs_call call = {GS_ALL_TO_ALL, count, type, 0, 0};
    boxes own = {m, from, to, count * gs_type_size(type)};
    size_t bytes = box(m, m->w->processes->size) * own.bytes;
    void *outboxes;
    GS_TRY(leaders_memory(m, &call, 2 * bytes, &outboxes));
    void *inboxes = gs_world_at(outboxes, bytes);
    gs_status status =
        gs_world_finish(m, gs_threads_with_first(m->local, &call, outboxes, fill_outboxes, &own));
    if (status == GS_OK && gs_world_is_leader(m))
        status = gs_world_finish(m, exchange_boxes(m, &call, outboxes, inboxes));
    if (status == GS_OK) status = gs_world_from_leader(m, &call, inboxes, empty_inboxes, &own);
    return status;
}
