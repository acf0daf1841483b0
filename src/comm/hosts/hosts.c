/* Processes on several machines, of which some hold several: two other transports, one inside the other.
 *
 *     machine 0             machine 1
 *     rank 0 === rank 1     rank 2 === rank 3 === rank 4       === shared memory
 *       |                     |
 *       +---- connections ----+                                the first rank of each machine is its leader
 *
 * A message goes through shared memory where both ranks are on one machine, and over a connection of Gloo elsewhere.
 * all_reduce, broadcast and barrier go in three steps: within each machine to its leader, between the leaders, back
 * within each machine. So one array of each machine travels, however many ranks it holds. The other collectives are
 * made of messages (collectives.c). All add in a fixed order.
 *
 * world/ is the same for threads inside of processes, and may stand on this one. A machine whose ranks do not follow
 * each other (as some job schedulers number them) leaves the run on Gloo alone.
 */
#include "comm/gloo/state.h"
#include "comm/rendezvous.h"
#include "comm/shm/shm.h"
#include "comm/split.h"
#include "comm/transports.h"
#include "core/shard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE = 256, SHORT = 16 * 1024 /* bytes of an array that one leader sums */ };

/* When a wait was too long, the ranks tell each other for whom they wait (gloo/lost.c), also within a machine: else a
 * rank would blame one that itself waits for the lost one. Who waits for a rank elsewhere finds the cause, within 2 s,
 * and tells it to all. Ranks of one machine give it this time, and those that wait for their leader some more: it may
 * wait for several others, one after the other. */
typedef struct hosts {
    gs_comm comm;
    gs_comm *gloo;       /* all ranks */
    gs_comm *local;      /* those of this machine; NULL: this one alone */
    gs_comm patient;     /* local, with a longer timeout: a copy of a comm is the same comm */
    gs_comm *leaders;    /* of gloo; NULL: this rank is none */
    gs_scratch received; /* a leader's, for the collective under way */
    int machines;
    int *first; /* [machines + 1]: first rank of each; the last entry is the number of ranks */
} hosts;

static int machine_of(const hosts *h, int rank) {
    int m = 0;
    while (rank >= h->first[m + 1]) m++;
    return m;
}

/* A failure in one is the failure of the other, in which somebody may wait. */
static void fail_all(const hosts *h, const char *message) {
    if (h->local) h->local->ops->abort(h->local, message);
    h->gloo->ops->abort(h->gloo, message);
}

static gs_status finish(const hosts *h, gs_status status) {
    char message[GS_LAST_WORDS];
    if (status == GS_OK) return GS_OK;
    snprintf(message, sizeof message, "%s", gs_message());
    fail_all(h, message);
    return gs_fail(status, "%s", message);
}

/* ---- collectives ---- */

/* Between the leaders: each sums a part of the array, and gives it to the others. */
static gs_status sum_of_parts(hosts *h, const gs_call *call, unsigned char *data) {
    gs_comm *c = h->leaders;
    const size_t width = gs_type_size(call->type);
    const gs_shard own = gs_shard_of(call->count, c->rank, c->size);
    GS_TRY(gs_pairwise_reduce_scatter(c, call, data, data + own.first * width, NULL, &h->received));
    for (int k = 1; k < c->size; k++) {
        const int to = (c->rank + k) % c->size, from = (c->rank - k + c->size) % c->size;
        const gs_shard theirs = gs_shard_of(call->count, from, c->size);
        GS_TRY(gs_send_part(c, call, data + own.first * width, own.count * width, to));
        GS_TRY(gs_recv_part(c, call, data + theirs.first * width, theirs.count * width, from));
    }
    return GS_OK;
}

static gs_status all_reduce(hosts *h, const gs_call *call, void *data) {
    gs_call inside = *call;
    const bool is_short =
        call->count * gs_type_size(call->type) <= SHORT || call->count < (size_t)h->machines;
    inside.root = 0;
    inside.operation = GS_REDUCE;
    if (h->local) GS_TRY(finish(h, gs_call_run(h->local, &inside, NULL, data)));
    if (h->leaders)
        GS_TRY(finish(h, is_short ? gs_call_run(h->leaders, call, NULL, data) : sum_of_parts(h, call, data)));
    inside.operation = GS_BROADCAST;
    return h->local ? finish(h, gs_call_run(&h->patient, &inside, NULL, data)) : GS_OK;
}

static gs_status broadcast(hosts *h, const gs_call *call, void *data) {
    const int owner = machine_of(h, call->root), mine = machine_of(h, h->comm.rank);
    gs_call inside = *call, between = *call;
    inside.root = owner == mine ? call->root - h->first[mine] : 0;
    between.root = owner;
    if (h->local && owner == mine) GS_TRY(finish(h, gs_call_run(h->local, &inside, NULL, data)));
    if (h->leaders) GS_TRY(finish(h, gs_call_run(h->leaders, &between, NULL, data)));
    return h->local && owner != mine ? finish(h, gs_call_run(&h->patient, &inside, NULL, data)) : GS_OK;
}

static gs_status barrier(hosts *h, const gs_call *call) {
    if (h->local) GS_TRY(finish(h, gs_call_run(h->local, call, NULL, NULL)));
    if (h->leaders) GS_TRY(finish(h, gs_call_run(h->leaders, call, NULL, NULL)));
    return h->local ? finish(h, gs_call_run(&h->patient, call, NULL, NULL)) : GS_OK;
}

static gs_status hosts_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    hosts *h = c->state;
    switch (call->operation) {
    case GS_ALL_REDUCE:
        return all_reduce(h, call, out);
    case GS_BROADCAST:
        return broadcast(h, call, out);
    case GS_BARRIER:
        return barrier(h, call);
    default:
        return gs_collective_by_messages(c, call, in, out);
    }
}

/* ---- messages ---- */

/* The transport that leads to the peer; *inner is addressed for it. */
static gs_comm *way_to_peer(const hosts *h, const gs_envelope *e, gs_envelope *inner) {
    const int mine = machine_of(h, h->comm.rank);
    *inner = *e;
    if (!h->local || machine_of(h, e->peer) != mine) return h->gloo;
    inner->peer = e->peer - h->first[mine];
    return h->local;
}

static gs_status hosts_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_envelope inner;
    gs_comm *way = way_to_peer(c->state, e, &inner);
    return finish(c->state, way->ops->send(way, &inner, data, bytes));
}

static gs_status hosts_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_envelope inner;
    gs_comm *way = way_to_peer(c->state, e, &inner);
    return finish(c->state, way->ops->recv(way, &inner, data, bytes));
}

/* ---- failing, freeing ---- */

static void hosts_abort(gs_comm *c, const char *message) {
    fail_all(c->state, message);
}

static void hosts_of_processes(gs_comm *c) {
    hosts *h = c->state;
    if (h->local) h->local->ops->of_processes(h->local);
    h->gloo->ops->of_processes(h->gloo);
}

/* gloo still belongs to the caller. */
static void free_all_but_gloo(hosts *h) {
    gs_comm_free(h->leaders);
    gs_comm_free(h->local);
    gs_scratch_free(&h->received);
    free(h->first);
    free(h);
}

static void hosts_free(gs_comm *c) {
    hosts *h = c->state;
    gs_comm *gloo = h->gloo;
    free_all_but_gloo(h);
    gs_comm_free(gloo);
}

static const gs_transport transport_hosts = {
    .name = "hosts",
    .send = hosts_send,
    .recv = hosts_recv,
    .collective = hosts_collective,
    .abort = hosts_abort,
    .free = hosts_free,
    .of_processes = hosts_of_processes,
};

/* ---- making ---- */

/* Fill in `first`. False: the ranks of a machine do not follow each other, or no machine has two. */
static bool divide(const char (*place)[PLACE], int size, hosts *h) {
    bool shares = false;
    h->machines = 0;
    for (int r = 0; r < size; r++) {
        const bool same = r > 0 && strncmp(place[r], place[r - 1], PLACE) == 0;
        shares = shares || same;
        if (same) continue;
        for (int m = 0; m < h->machines; m++)
            if (strncmp(place[r], place[h->first[m]], PLACE) == 0) return false;
        h->first[h->machines++] = r;
    }
    h->first[h->machines] = size;
    return shares && h->machines > 1;
}

static gs_status learn_places(hosts *h, const char *place, bool *fits) {
    gs_comm *gloo = h->gloo;
    char mine[PLACE] = "", (*all)[PLACE] = calloc((size_t)gloo->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the places of %d processes", gloo->size);
    if (place)
        snprintf(mine, sizeof mine, "%s", place);
    else
        gs_rendezvous_place(mine, sizeof mine);
    const gs_status status = gs_comm_all_gather(gloo, mine, all, PLACE, GS_U8);
    *fits = status == GS_OK && divide((const char(*)[PLACE])all, gloo->size, h);
    free(all);
    return status;
}

static double longer(double timeout) {
    return fmin(timeout, 3) + 0.5;
}

/* Each machine by itself; *can: it shares memory, or has one rank alone. */
static gs_status share_memory(hosts *h, int32_t *can) {
    const int mine = machine_of(h, h->gloo->rank);
    gs_comm *group;
    char why[256] = "";
    GS_TRY(gs_comm_part(h->gloo, h->first[mine], 1, h->first[mine + 1] - h->first[mine], &group));
    gs_status status = group->size > 1 ? gs_comm_shm_create(group, &h->local, why, sizeof why) : GS_OK;
    *can = group->size == 1 || h->local;
    gs_comm_free(group);
    if (!h->local) return status;
    gs_shm *shm = h->local->state;
    shm->first = h->first[mine];
    shm->grace = longer(h->gloo->timeout);
    shm->late = gs_gloo_tell_wait;
    shm->heed = gs_gloo_heed;
    shm->all = h->gloo;
    return status;
}

static gs_status find_leaders(hosts *h) {
    if (h->local) h->patient = *h->local;
    h->patient.timeout = h->gloo->timeout + 2 * longer(h->gloo->timeout);
    return gs_comm_part_of(h->gloo, h->first, h->machines, &h->leaders);
}

gs_status gs_comm_hosts_create(gs_comm *gloo, const char *place, gs_comm **out) {
    hosts *h = calloc(1, sizeof *h);
    bool fits = false;
    int32_t can = 0;
    *out = NULL;
    if (!h || !(h->first = malloc(((size_t)gloo->size + 1) * sizeof *h->first))) {
        free(h);
        return gs_fail(GS_E_MEMORY, "no memory for %d processes", gloo->size);
    }
    h->gloo = gloo;
    gs_status status = learn_places(h, place, &fits);
    if (status == GS_OK && fits) status = share_memory(h, &can);
    if (status == GS_OK && fits) status = gs_comm_all_reduce(gloo, &can, 1, GS_I32, GS_MIN); /* can all? */
    if (status == GS_OK && can) status = find_leaders(h);
    if (status != GS_OK || !can) {
        free_all_but_gloo(h);
        return status;
    }
    h->comm = (gs_comm){&transport_hosts, gloo->rank, gloo->size, gloo->timeout, h};
    *out = &h->comm;
    return GS_OK;
}
