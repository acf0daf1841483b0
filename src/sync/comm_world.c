/* Ranks as threads of several processes: the two other transports, one inside the other.
 *
 *     process 0             process 1
 *     rank 0 --- rank 1     rank 2 --- rank 3 --- rank 4       --- shared memory
 *       |                     |
 *       +========= Gloo ======+                                the first thread of each process is its leader
 *
 * A collective goes in three steps: within each process to its leader, between the leaders, back within each
 * process. So only one gradient of each process travels, however many threads it holds.
 */
#include "sync/world.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gs_world_process_of(const gs_world *w, int rank) {
    int p = 0;
    while (rank >= w->first[p + 1]) p++;
    return p;
}

/* A failure in one step is the failure of all: whoever waits in the other transport must not wait on. */
static void fail_all(const gs_world_member *m, const char *message) {
    gs_threads_fail(m->local, message);
    m->w->processes->ops->between->fail(m->w->processes, message);
}

gs_status gs_world_finish(const gs_world_member *m, gs_status status) {
    if (status == GS_OK) return GS_OK;
    fail_all(m, gs_message());
    return status == GS_E_PEER ? gs_threads_failed(m->local) : status;
}

/* How long the leader takes between the processes is bounded there, by the same timeout for each wait; a
 * failure wakes those who wait here. */
gs_status gs_world_from_leader(const gs_world_member *m, const gs_call *call, void *shared,
                               gs_threads_move take, void *context) {
    double timeout = m->local->timeout;
    if (!gs_world_is_leader(m)) m->local->timeout = INFINITY;
    gs_status status = gs_threads_with_first(m->local, call, shared, take, context);
    m->local->timeout = timeout;
    return gs_world_finish(m, status);
}

/* ---- collectives that end with the same everywhere; world_parts.c has the others ---- */

static gs_status world_all_reduce(gs_comm *c, void *data, size_t count, gs_type type,
                                  gs_reduction reduction) {
    const gs_world_member *m = c->state;
    gs_comm *processes = m->w->processes;
    gs_call call = {GS_ALL_REDUCE, count, type, reduction, 0};
    gs_world_part result = {.take = data, .bytes = count * gs_type_size(type)};
    GS_TRY(gs_world_finish(m, gs_threads_reduce_to_first(m->local, &call, data, data)));
    if (gs_world_is_leader(m))
        GS_TRY(gs_world_finish(m, processes->ops->all_reduce(processes, data, count, type, reduction)));
    return gs_world_from_leader(m, &call, data, gs_world_take, &result);
}

static gs_status world_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    const gs_world_member *m = c->state;
    gs_comm *processes = m->w->processes;
    gs_check_root(c, root);
    int owner = gs_world_process_of(m->w, root);
    gs_call call = {GS_BROADCAST, count, type, 0, root};
    gs_world_part result = {.take = data, .bytes = count * gs_type_size(type)};
    gs_status status;
    if (owner == processes->rank)
        status = m->local->ops->broadcast(m->local, data, count, type, root - m->w->first[owner]);
    else /* all are here: none waits for a leader that never comes */
        status = gs_threads_with_first(m->local, &call, NULL, NULL, NULL);
    GS_TRY(gs_world_finish(m, status));
    if (gs_world_is_leader(m))
        GS_TRY(gs_world_finish(m, processes->ops->broadcast(processes, data, count, type, owner)));
    return owner == processes->rank ? GS_OK : gs_world_from_leader(m, &call, data, gs_world_take, &result);
}

/* Between the leaders: each gives its part to all others, in pairs as in pairwise_reduce_scatter.c. */
static gs_status gather_parts(const gs_world_member *m, const gs_call *call, unsigned char *all) {
    gs_comm *processes = m->w->processes;
    const int *first = m->w->first;
    size_t bytes = call->count * gs_type_size(call->type);
    int me = processes->rank, n = processes->size;
    for (int k = 1; k < n; k++) {
        int to = (me + k) % n, from = (me - k + n) % n;
        GS_TRY(processes->ops->between->send_part(processes, call, all + (size_t)first[me] * bytes,
                                                  (size_t)(first[me + 1] - first[me]) * bytes, to));
        GS_TRY(processes->ops->between->recv_part(processes, call, all + (size_t)first[from] * bytes,
                                                  (size_t)(first[from + 1] - first[from]) * bytes, from));
    }
    return GS_OK;
}

static gs_status world_all_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type) {
    const gs_world_member *m = c->state;
    int me = m->w->processes->rank;
    size_t bytes = count * gs_type_size(type);
    gs_call call = {GS_ALL_GATHER, count, type, 0, 0};
    gs_world_part result = {.take = all, .bytes = (size_t)c->size * bytes};
    void *own = gs_world_at(all, (size_t)m->w->first[me] * bytes);
    GS_TRY(gs_world_finish(m, m->local->ops->all_gather(m->local, mine, own, count, type)));
    if (gs_world_is_leader(m)) GS_TRY(gs_world_finish(m, gather_parts(m, &call, all)));
    return gs_world_from_leader(m, &call, all, gs_world_take, &result);
}

static gs_status world_barrier(gs_comm *c) {
    const gs_world_member *m = c->state;
    gs_comm *processes = m->w->processes;
    GS_TRY(gs_world_finish(m, m->local->ops->barrier(m->local)));
    if (gs_world_is_leader(m)) GS_TRY(gs_world_finish(m, processes->ops->barrier(processes)));
    return gs_world_from_leader(m, &(gs_call){.operation = GS_BARRIER}, NULL, NULL, NULL);
}

/* ---- messages ---- */

static gs_status world_send(gs_comm *c, const void *data, size_t bytes, int to) {
    const gs_world_member *m = c->state;
    gs_comm *processes = m->w->processes;
    gs_check_peer(c, "sends to", to);
    int p = gs_world_process_of(m->w, to);
    if (p == processes->rank)
        return gs_world_finish(m, m->local->ops->send(m->local, data, bytes, to - m->w->first[p]));
    return gs_world_finish(m, processes->ops->between->send(processes, data, bytes, p, c->rank, to));
}

static gs_status world_recv(gs_comm *c, void *data, size_t bytes, int from) {
    const gs_world_member *m = c->state;
    gs_comm *processes = m->w->processes;
    gs_check_peer(c, "receives from", from);
    int p = gs_world_process_of(m->w, from);
    if (p == processes->rank)
        return gs_world_finish(m, m->local->ops->recv(m->local, data, bytes, from - m->w->first[p]));
    return gs_world_finish(m, processes->ops->between->recv(processes, data, bytes, p, from, c->rank));
}

static void world_abort(gs_comm *c, const char *reason) {
    char message[512];
    snprintf(message, sizeof message, "rank %d: %s", c->rank, reason);
    fail_all(c->state, message);
}

static void free_world(gs_world *w) {
    gs_comm_free(w->processes);
    gs_scratch_free(&w->shared);
    gs_scratch_free(&w->received);
    free(w->parts);
    free(w->first);
    free(w);
}

static void world_free(gs_comm *c) {
    gs_world_member *m = c->state;
    gs_world *w = m->w;
    gs_comm_free(m->local);
    free(m);
    free(c);
    if (atomic_fetch_sub(&w->members, 1) == 1) free_world(w);
}

static const gs_transport transport_world = {
    .name = "world",
    .send = world_send,
    .recv = world_recv,
    .broadcast = world_broadcast,
    .all_reduce = world_all_reduce,
    .reduce = gs_world_reduce,
    .all_gather = world_all_gather,
    .gather = gs_world_gather,
    .scatter = gs_world_scatter,
    .reduce_scatter = gs_world_reduce_scatter,
    .all_to_all = gs_world_all_to_all,
    .barrier = world_barrier,
    .abort = world_abort,
    .free = world_free,
};

/* first[p] = sum of the counts of the processes before p */
static gs_status count_ranks(gs_world *w, int local) {
    int processes = w->processes->size;
    w->first = calloc((size_t)processes + 1, sizeof *w->first);
    w->parts = calloc((size_t)processes + 1, sizeof *w->parts);
    if (!w->first || !w->parts)
        return gs_fail(GS_E_MEMORY, "no memory for the numbers of %d processes", processes);
    GS_TRY(w->processes->ops->all_gather(w->processes, &local, w->first + 1, 1, GS_I32));
    for (int p = 0; p < processes; p++) w->first[p + 1] += w->first[p];
    return GS_OK;
}

static gs_status create_members(gs_world *w, int local, double timeout, gs_comm **comms) {
    int first = w->first[w->processes->rank], size = w->first[w->processes->size];
    gs_comm **locals = calloc((size_t)local, sizeof *locals);
    gs_status status = locals ? gs_threads_create(local, first, timeout, locals)
                              : gs_fail(GS_E_MEMORY, "no memory for %d workers", local);
    for (int i = 0; status == GS_OK && i < local; i++) {
        gs_world_member *m = malloc(sizeof *m);
        comms[i] = malloc(sizeof *comms[i]);
        if (m && comms[i]) {
            *m = (gs_world_member){w, locals[i]};
            *comms[i] = (gs_comm){&transport_world, first + i, size, timeout, m};
            continue;
        }
        status = gs_fail(GS_E_MEMORY, "no memory for %d workers", local);
        free(m);
        free(comms[i]);
        while (--i >= 0) {
            free(comms[i]->state);
            free(comms[i]);
        }
        for (int k = 0; k < local; k++) gs_comm_free(locals[k]);
        break;
    }
    free(locals);
    return status;
}

gs_status gs_comm_world_create(int local, gs_comm *processes, double timeout, gs_comm **comms) {
    if (local < 1) gs_bug("gs_comm_world_create: a process with %d workers", local);
    if (!processes) return gs_comm_threads_create(local, timeout, comms);
    if (!processes->ops->between)
        gs_bug("gs_comm_world_create: '%s' does not connect processes", processes->ops->name);
    gs_world *w = calloc(1, sizeof *w);
    if (!w) {
        gs_comm_free(processes);
        return gs_fail(GS_E_MEMORY, "no memory for %d workers", local);
    }
    w->processes = processes;
    atomic_store(&w->members, local);
    gs_status status = count_ranks(w, local);
    if (status == GS_OK &&
        w->first[processes->size] == processes->size) { /* one worker in each: nothing inside */
        comms[0] = processes;
        w->processes = NULL;
        free_world(w);
        return GS_OK;
    }
    if (status == GS_OK) {
        processes->ops->between->of_processes(processes);
        status = create_members(w, local, timeout, comms);
    }
    if (status != GS_OK) free_world(w);
    return status;
}
