/* Ranks as threads of several processes: one transport inside another.
 *
 *     process 0             process 1
 *     rank 0 --- rank 1     rank 2 --- rank 3 --- rank 4       --- shared memory
 *       |                     |
 *       +========= Gloo ======+                                each process's first thread is its leader
 *
 * A collective takes three steps: to the leader within each process, between the leaders, and back within each process.
 * Therefore only one gradient per process travels, for any number of threads. all_to_all, gather and scatter are made
 * of messages (collectives.c).
 */
#include "comm/transports.h"

#include <math.h>
#include <stdatomic.h>

#include "core/shard.h"

typedef struct shared_state {
    gs_comm *processes;
    atomic_int members;          /* threads of this process whose comms are not freed yet */
    gs_scratch shared, received; /* the leader's, for the current collective */
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

/* The last step: the leader shows its memory, and every thread copies `bytes` bytes of it, from offset `at` on, into
 * `to` unless that is NULL. */
static gs_status from_leader(member *m, const gs_call *call, void *shared, void *to, size_t at,
                             size_t bytes) {
    return finish(m, gs_threads_take_from_first(&m->levels.patient, call, shared, to, at, bytes));
}

/* ---- collectives ---- */

static gs_status all_reduce(member *m, const gs_call *call, void *data) {
    GS_TRY(finish(m, gs_threads_reduce_to_first(m->levels.inside, call, data, data)));
    if (m->levels.leaders) GS_TRY(finish(m, gs_call_run(m->s->processes, call, NULL, data)));
    return from_leader(m, call, data, data, 0, call->count * gs_type_size(call->type));
}

static gs_status all_gather(member *m, const gs_call *call, const void *mine, unsigned char *all) {
    gs_comm *processes = m->s->processes;
    const size_t bytes = call->count * gs_type_size(call->type), ranks = (size_t)m->levels.comm.size;
    const int *first = m->s->first;
    unsigned char *own = bytes > 0 ? all + (size_t)first[processes->rank] * bytes : all;
    GS_TRY(finish(m, gs_call_run(m->levels.inside, call, mine, own)));
    if (m->levels.leaders)
        GS_TRY(finish(m, gs_pairwise_all_gather(processes, call, all, call->count * ranks, first)));
    return from_leader(m, call, all, all, 0, ranks * bytes);
}

/* The leader's memory for a collective; NULL in the other threads. A caller's buffer would not do, because transfers
 * between the processes may still use the memory after a failure. The memory is kept for the next collective. */
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
    return from_leader(m, call, shared, is_root ? data : NULL, 0, bytes);
}

/* The step between the leaders: each reduces the adjacent parts of all its process's ranks, in place. */
static gs_status reduce_scatter_parts(member *m, const gs_call *call, unsigned char *shared) {
    gs_comm *processes = m->s->processes;
    const int *first = m->s->first;
    size_t at = gs_shard_of(call->count, first[processes->rank], first[processes->size]).first;
    return gs_pairwise_reduce_scatter(processes, call, shared, shared + at * gs_type_size(call->type), first,
                                      &m->s->received);
}

static gs_status reduce_scatter(member *m, const gs_call *call, const void *all, void *mine, gs_shard own) {
    const size_t width = gs_type_size(call->type);
    void *shared;
    GS_TRY(leaders_memory(m, call, call->count * width, &shared));
    GS_TRY(finish(m, gs_threads_reduce_to_first(m->levels.inside, call, all, shared)));
    if (m->levels.leaders) GS_TRY(finish(m, reduce_scatter_parts(m, call, shared)));
    return from_leader(m, call, shared, mine, own.first * width, own.count * width);
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
        /* The timeout bounds the leader's waits between processes, and a failure of the leader wakes the threads. */
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
        s->first[processes->size] == processes->size) { /* one worker per process: one level suffices */
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
