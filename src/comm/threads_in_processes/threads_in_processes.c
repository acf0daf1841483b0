/* Ranks as threads of several processes: the two other transports, one inside the other.
 *
 *     process 0             process 1
 *     rank 0 --- rank 1     rank 2 --- rank 3 --- rank 4       --- shared memory
 *       |                     |
 *       +========= Gloo ======+                                the first thread of each process is its leader
 *
 * A collective goes in three steps: within each process to its leader, between the leaders, back within each
 * process. So only one gradient of each process travels, however many threads it holds. gather and scatter, which no
 * training needs, are made of messages (collectives.c). all_to_all is not: over Gloo, two processes of two workers each
 * (--model mlp --sync allreduce --wire f16) then made 7,077 samples/s instead of 8,564 (medians of seven runs,
 * alternately).
 */
#include "comm/transports.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/shard.h"

typedef struct shared_state {
    gs_comm *processes;
    atomic_int members;          /* threads of this process that are not freed yet */
    gs_scratch shared, received; /* the leader's, for the collective under way */
    struct member *member;       /* [local] */
    int first[]; /* [processes + 1]: first rank of each process; the last entry is the world's size */
} shared_state;

typedef struct member {
    gs_levels levels; /* inside: the threads of this process */
    shared_state *s;
} member;

static gs_status finish(member *m, gs_status status) {
    return gs_levels_finish(&m->levels, status);
}

/* ---- the last step: the leader shows its memory, and every thread takes its part ---- */

typedef struct part {
    void *to;         /* NULL: nothing */
    size_t at, bytes; /* in the leader's memory */
} part;

static void take(void *context, void *shared) {
    const part *p = context;
    const unsigned char *from = shared;
    if (p->to) gs_copy_unless_there(p->to, from + p->at, p->bytes);
}

static gs_status from_leader(member *m, const gs_call *call, void *shared, gs_threads_move move, void *own) {
    return finish(m, gs_threads_with_first(&m->levels.patient, call, shared, move, own));
}

/* ---- collectives ---- */

static gs_status all_reduce(member *m, const gs_call *call, void *data) {
    GS_TRY(finish(m, gs_threads_reduce_to_first(m->levels.inside, call, data, data)));
    if (m->levels.leaders) GS_TRY(finish(m, gs_call_run(m->s->processes, call, NULL, data)));
    return from_leader(m, call, data, take, &(part){data, 0, call->count * gs_type_size(call->type)});
}

/* Between the leaders, in pairs as in pairwise_reduce_scatter.c. The part of process p begins at first[p] * unit. Each
 * gives every other its part of `out` (own: the giver's part), and gets what the other gives into that one's part of
 * `in`. */
static gs_status exchange(member *m, const gs_call *call, const unsigned char *out, unsigned char *in,
                          size_t unit, bool own) {
    gs_comm *processes = m->s->processes;
    const int *first = m->s->first;
    int me = processes->rank, n = processes->size;
    for (int k = 1; k < n; k++) {
        int to = (me + k) % n, from = (me - k + n) % n, part = own ? me : to;
        GS_TRY(gs_collective_send(processes, call, out + (size_t)first[part] * unit,
                                  (size_t)(first[part + 1] - first[part]) * unit, to));
        GS_TRY(gs_collective_recv(processes, call, in + (size_t)first[from] * unit,
                                  (size_t)(first[from + 1] - first[from]) * unit, from));
    }
    return GS_OK;
}

static gs_status all_gather(member *m, const gs_call *call, const void *mine, unsigned char *all) {
    size_t bytes = call->count * gs_type_size(call->type);
    const int *first = m->s->first;
    unsigned char *own = bytes > 0 ? all + (size_t)first[m->s->processes->rank] * bytes : all;
    GS_TRY(finish(m, gs_call_run(m->levels.inside, call, mine, own)));
    if (m->levels.leaders) GS_TRY(finish(m, exchange(m, call, all, all, bytes, true)));
    return from_leader(m, call, all, take, &(part){all, 0, (size_t)first[m->s->processes->size] * bytes});
}

/* The leader's memory for a collective. What it reads or writes between the processes is its own, so no failure can
 * take it away. The memory is kept for the next collective. The other threads get NULL. */
static gs_status leaders_memory(member *m, const gs_call *call, size_t bytes, void **out) {
    *out = NULL;
    if (!m->levels.leaders) return GS_OK;
    GS_TRY(finish(m, gs_scratch_for(&m->s->shared, call, bytes)));
    *out = m->s->shared.memory;
    return GS_OK;
}

static gs_status reduce(member *m, const gs_call *call, void *data, bool is_root) {
    gs_call between = *call;
    const size_t bytes = call->count * gs_type_size(call->type);
    void *shared;
    between.root = gs_group_of(&m->levels, call->root);
    GS_TRY(leaders_memory(m, call, bytes, &shared));
    GS_TRY(finish(m, gs_threads_reduce_to_first(m->levels.inside, call, data, shared)));
    if (m->levels.leaders) GS_TRY(finish(m, gs_call_run(m->s->processes, &between, NULL, shared)));
    return from_leader(m, call, shared, take, &(part){is_root ? data : NULL, 0, bytes});
}

/* Between the leaders: the part of a process is that of all its ranks together, and ends in its place. */
static gs_status reduce_scatter_parts(member *m, const gs_call *call, unsigned char *shared) {
    gs_comm *processes = m->s->processes;
    const int *first = m->s->first;
    size_t at = gs_shard_of(call->count, first[processes->rank], first[processes->size]).first;
    return gs_pairwise_reduce_scatter(processes, call, shared, shared + at * gs_type_size(call->type), first,
                                      &m->s->received);
}

static gs_status reduce_scatter(member *m, const gs_call *call, const void *all, void *mine, gs_shard own) {
    size_t width = gs_type_size(call->type);
    void *shared;
    GS_TRY(leaders_memory(m, call, call->count * width, &shared));
    GS_TRY(finish(m, gs_threads_reduce_to_first(m->levels.inside, call, all, shared)));
    if (m->levels.leaders) GS_TRY(finish(m, reduce_scatter_parts(m, call, shared)));
    return from_leader(m, call, shared, take, &(part){mine, own.first * width, own.count * width});
}

/* ---- all_to_all ----
 *
 * The leader's memory holds what the ranks here give to those of each process, and behind it what they get. For each
 * process there is a block for each pair of ranks, ordered by sender and then by receiver: so what one process gives
 * is what the other gets, as it is.
 */

typedef struct blocks {
    member *m;
    const unsigned char *from;
    unsigned char *to;
    size_t bytes; /* of a block */
} blocks;

/* How many blocks lie before those for process p. */
static size_t before(member *m, int p) {
    return (size_t)m->levels.inside->size * (size_t)m->s->first[p];
}

static void give(void *context, void *shared) {
    const blocks *b = context;
    member *m = b->m;
    const int *first = m->s->first;
    for (int p = 0; p < m->s->processes->size && b->bytes > 0; p++) {
        size_t row = (size_t)(first[p + 1] - first[p]),
               at = before(m, p) + (size_t)m->levels.inside->rank * row;
        memcpy((unsigned char *)shared + at * b->bytes, b->from + (size_t)first[p] * b->bytes,
               row * b->bytes);
    }
}

static void get(void *context, void *shared) {
    const blocks *b = context;
    member *m = b->m;
    const int *first = m->s->first;
    for (int p = 0; p < m->s->processes->size && b->bytes > 0; p++)
        for (int r = first[p]; r < first[p + 1]; r++) {
            size_t at = before(m, p) + (size_t)(r - first[p]) * (size_t)m->levels.inside->size +
                        (size_t)m->levels.inside->rank;
            memcpy(b->to + (size_t)r * b->bytes, (unsigned char *)shared + at * b->bytes, b->bytes);
        }
}

static gs_status all_to_all(member *m, const gs_call *call, const void *from, void *to) {
    blocks own = {m, from, to, call->count * gs_type_size(call->type)};
    size_t bytes = before(m, m->s->processes->size) * own.bytes;
    void *out;
    GS_TRY(leaders_memory(m, call, 2 * bytes, &out));
    unsigned char *in = out ? (unsigned char *)out + bytes : NULL;
    GS_TRY(finish(m, gs_threads_with_first(m->levels.inside, call, out, give, &own)));
    if (m->levels.leaders) {
        size_t mine = before(m, m->s->processes->rank) * own.bytes;
        gs_copy_unless_there(in + mine, (unsigned char *)out + mine,
                             (size_t)m->levels.inside->size * (size_t)m->levels.inside->size * own.bytes);
        GS_TRY(gs_levels_finish(
            &m->levels, exchange(m, call, out, in, (size_t)m->levels.inside->size * own.bytes, false)));
    }
    return from_leader(m, call, in, get, &own);
}

static gs_status workers_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    member *m = c->state;
    switch (call->operation) {
    case GS_ALL_REDUCE:
        return all_reduce(m, call, out);
    case GS_REDUCE:
        return reduce(m, call, out, c->rank == call->root);
    case GS_REDUCE_SCATTER:
        return reduce_scatter(m, call, in, out, gs_shard_of(call->count, c->rank, c->size));
    case GS_BROADCAST:
        return gs_levels_broadcast(&m->levels, call, out);
    case GS_ALL_GATHER:
        return all_gather(m, call, in, out);
    case GS_ALL_TO_ALL:
        return all_to_all(m, call, in, out);
    case GS_BARRIER:
        return gs_levels_barrier(&m->levels, call);
    default:
        return gs_collective_by_messages(c, call, in, out);
    }
}

/* ---- making, freeing ---- */

static void free_shared(shared_state *s) {
    gs_comm_free(s->processes);
    gs_scratch_free(&s->shared);
    gs_scratch_free(&s->received);
    free(s->member);
    free(s);
}

static void workers_free(gs_comm *c) {
    member *m = c->state;
    shared_state *s = m->s;
    gs_comm_free(m->levels.inside);
    if (atomic_fetch_sub(&s->members, 1) == 1) free_shared(s);
}

static const gs_transport transport_workers = {
    .name = "threads in processes",
    .send = gs_levels_send,
    .recv = gs_levels_recv,
    .collective = workers_collective,
    .abort = gs_levels_abort,
    .free = workers_free,
};

/* first[p] = sum of the counts of the processes before p */
static gs_status count_ranks(shared_state *s, int local) {
    enum { MOST = 4096 };
    int processes = s->processes->size;
    GS_TRY(gs_comm_all_gather(s->processes, &local, s->first + 1, 1, GS_I32));
    for (int p = 0; p < processes; p++) {
        if (s->first[p + 1] < 1 || s->first[p + 1] > MOST)
            return gs_fail(GS_E_PEER, "process %d reports %d workers; wanted 1 to %d", p, s->first[p + 1],
                           MOST);
        s->first[p + 1] += s->first[p];
    }
    return GS_OK;
}

static gs_status create_members(shared_state *s, int local, double timeout, gs_comm **comms) {
    int first = s->first[s->processes->rank], size = s->first[s->processes->size];
    gs_comm **locals;
    GS_TRY(GS_NEW(s->member, local, "%d workers", local));
    GS_TRY(GS_NEW(locals, local, "%d workers", local));
    gs_status status = gs_threads_create(local, first, timeout + gs_levels_patience(timeout), locals);
    for (int i = 0; status == GS_OK && i < local; i++) {
        member *m = &s->member[i];
        m->s = s;
        m->levels = (gs_levels){.comm = {&transport_workers, first + i, size, timeout, m},
                                .inside = locals[i],
                                .patient = *locals[i],
                                .leaders = i == 0 ? s->processes : NULL,
                                .outside = s->processes,
                                .first = s->first};
        /* The leader's waits between the processes are bounded there, each by the timeout; a failure wakes us. */
        m->levels.patient.timeout = i == 0 ? locals[i]->timeout + gs_levels_patience(timeout) : INFINITY;
        comms[i] = &m->levels.comm;
    }
    free(locals);
    return status;
}

gs_status gs_comm_workers_create(int local, gs_comm *processes, double timeout, gs_comm **comms) {
    if (local < 1) gs_bug("gs_comm_workers_create: a process with %d workers", local);
    if (!processes) return gs_comm_threads_create(local, timeout, comms);
    if (!processes->ops->set_multithreaded)
        gs_bug("gs_comm_workers_create: '%s' does not connect processes", processes->ops->name);
    shared_state *s = calloc(1, sizeof *s + ((size_t)processes->size + 1) * sizeof *s->first);
    if (!s) {
        gs_comm_free(processes);
        return gs_fail(GS_E_MEMORY, "no memory for %d workers", local);
    }
    s->processes = processes;
    atomic_store(&s->members, local);
    gs_status status = count_ranks(s, local);
    if (status == GS_OK &&
        s->first[processes->size] == processes->size) { /* one worker in each: nothing inside */
        comms[0] = processes;
        s->processes = NULL;
        free_shared(s);
        return GS_OK;
    }
    if (status == GS_OK) {
        processes->ops->set_multithreaded(processes);
        status = create_members(s, local, timeout, comms);
    }
    if (status != GS_OK) free_shared(s);
    return status;
}
