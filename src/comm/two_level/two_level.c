/* Processes on several machines, some of which hold several processes: one transport inside another.
 *
 *     machine 0             machine 1
 *     rank 0 === rank 1     rank 2 === rank 3 === rank 4       === shared memory
 *       |                     |
 *       +---- connections ----+                                each machine's first rank is its leader
 *
 * A message goes through shared memory if both ranks are on one machine, and otherwise over Gloo. all_reduce, broadcast
 * and barrier take three steps: to the leader within each machine, between the leaders, and back within each machine.
 * Therefore only one array per machine travels, for any number of ranks. The other collectives are made of messages
 * (collectives.c). All reductions add in a fixed order.
 *
 * threads_in_processes/ may be built on this transport. If a machine's ranks are not consecutive, as with some job
 * schedulers, the run uses only Gloo.
 */
#include "comm/rank_info.h"
#include "comm/shm/shm.h"
#include "comm/split.h"

enum { SHORT = 16 * 1024 /* maximum bytes of an array that one leader sums */ };

/* After a timeout the ranks tell each other for whom they wait (gloo/failure.c), even within a machine, so as not to
 * blame a rank that itself waits for the lost one. A rank that waits for another machine finds the cause within 2 s,
 * and tells all. The other ranks of its machine give it this time (shm's grace). Ranks that wait for their leader give
 * it more (levels.patient), because it may wait for several ranks in sequence. */
typedef struct two_level {
    gs_levels levels;    /* inside: shared memory; outside: gloo, all ranks */
    gs_scratch received; /* a leader's, for the current collective */
    int machines;
} two_level;

/* ---- collectives ---- */

static gs_status all_reduce(two_level *h, const gs_call *call, void *data) {
    gs_call inside = *call;
    const bool is_short =
        call->count * gs_type_size(call->type) <= SHORT || call->count < (size_t)h->machines;
    inside.root = 0;
    inside.operation = GS_REDUCE;
    if (h->levels.inside)
        GS_TRY(gs_levels_finish(&h->levels, gs_call_run(h->levels.inside, &inside, NULL, data)));
    if (h->levels.leaders)
        GS_TRY(gs_levels_finish(
            &h->levels, is_short ? gs_call_run(h->levels.leaders, call, NULL, data)
                                 : gs_all_reduce_in_parts(h->levels.leaders, call, data, &h->received)));
    inside.operation = GS_BROADCAST;
    return h->levels.inside
               ? gs_levels_finish(&h->levels, gs_call_run(&h->levels.patient, &inside, NULL, data))
               : GS_OK;
}

static gs_status two_level_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    two_level *h = c->state;
    switch (call->operation) {
    case GS_ALL_REDUCE:
        return all_reduce(h, call, out);
    case GS_BROADCAST:
        return gs_levels_broadcast(&h->levels, call, out);
    case GS_BARRIER:
        return gs_levels_barrier(&h->levels, call);
    default:
        return gs_collective_by_messages(c, call, in, out);
    }
}

/* ---- failing, freeing ---- */

static void two_level_set_multithreaded(gs_comm *c) {
    two_level *h = c->state;
    if (h->levels.inside) h->levels.inside->ops->set_multithreaded(h->levels.inside);
    h->levels.outside->ops->set_multithreaded(h->levels.outside);
}

static void free_all_but_gloo(two_level *h) {
    gs_comm_free(h->levels.leaders);
    gs_comm_free(h->levels.inside);
    gs_scratch_free(&h->received);
    free(h->levels.first);
    free(h);
}

static void two_level_free(gs_comm *c) {
    two_level *h = c->state;
    gs_comm *gloo = h->levels.outside;
    free_all_but_gloo(h);
    gs_comm_free(gloo);
}

static const gs_transport transport_two_level = {
    .name = "two-level",
    .send = gs_levels_send,
    .recv = gs_levels_recv,
    .collective = two_level_collective,
    .abort = gs_levels_abort,
    .free = two_level_free,
    .set_multithreaded = two_level_set_multithreaded,
};

/* ---- making ---- */

/* Fill in `first`. False: the ranks of a machine are not consecutive, or no machine has two. */
static bool divide(const gs_process_info *all, int size, two_level *h) {
    bool shares = false;
    h->machines = 0;
    for (int r = 0; r < size; r++) {
        const bool same = r > 0 && gs_is_same_machine(&all[r], &all[r - 1]);
        shares = shares || same;
        if (same) continue;
        for (int m = 0; m < h->machines; m++)
            if (gs_is_same_machine(&all[r], &all[h->levels.first[m]])) return false;
        h->levels.first[h->machines++] = r;
    }
    h->levels.first[h->machines] = size;
    return shares && h->machines > 1;
}

static gs_status learn_machines(two_level *h, const char *machine, bool *fits) {
    gs_process_info *all;
    const gs_status status = gs_processes_learn(h->levels.outside, machine, &all);
    *fits = status == GS_OK && divide(all, h->levels.outside->size, h);
    free(all);
    return status;
}

/* Set up shared memory on this machine. *can: it works, or the machine has only one rank. */
static gs_status share_memory(two_level *h, int32_t *can) {
    const int mine = gs_group_of(&h->levels, h->levels.outside->rank);
    gs_comm *group;
    char why[256] = "";
    GS_TRY(gs_comm_split(h->levels.outside, h->levels.first[mine], 1,
                         h->levels.first[mine + 1] - h->levels.first[mine], &group));
    gs_status status =
        group->size > 1 ? gs_comm_shm_create(group, &h->levels.inside, why, sizeof why) : GS_OK;
    *can = group->size == 1 || h->levels.inside;
    gs_comm_free(group);
    if (!h->levels.inside) return status;
    gs_shm *shm = h->levels.inside->state;
    shm->first = h->levels.first[mine];
    shm->grace = gs_levels_patience(h->levels.outside->timeout);
    shm->all = h->levels.outside;
    return status;
}

gs_status gs_comm_two_level_create(gs_comm *gloo, const char *machine, gs_comm **out) {
    two_level *h;
    bool fits = false;
    int32_t can = 0;
    *out = NULL;
    GS_TRY(GS_NEW(h, 1, "%d processes", gloo->size));
    h->levels.outside = gloo;
    gs_status status = GS_NEW(h->levels.first, gloo->size + 1, "%d processes", gloo->size);
    if (status == GS_OK) status = learn_machines(h, machine, &fits);
    if (status == GS_OK && fits) status = share_memory(h, &can);
    if (status == GS_OK && fits) status = gs_comm_all_reduce(gloo, &can, 1, GS_I32, GS_MIN); /* if all can */
    if (status == GS_OK && can)
        status = gs_comm_split_ranks(gloo, h->levels.first, h->machines, &h->levels.leaders);
    if (status != GS_OK || !can) {
        free_all_but_gloo(h);
        return status;
    }
    if (h->levels.inside) h->levels.patient = *h->levels.inside;
    h->levels.patient.timeout = gloo->timeout + 2 * gs_levels_patience(gloo->timeout);
    h->levels.comm = (gs_comm){&transport_two_level, gloo->rank, gloo->size, gloo->timeout, h};
    *out = &h->levels.comm;
    return GS_OK;
}
