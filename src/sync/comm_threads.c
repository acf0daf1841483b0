/* Ranks as threads of one process: they see each other's memory, so nothing is sent, only pointers are shown.
 *
 * Each collective has the same shape: every rank shows its buffer, all meet, every rank does its part of the
 * work on everybody's buffers, all meet again, so that nobody changes a buffer that another still reads.
 *
 * all_reduce, for 3 ranks: each sums one slice over all ranks and writes the sum to all of them.
 *
 *     rank 0  | a0 | b0 | c0 |        | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *     rank 1  | a1 | b1 | c1 |   ->   | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *     rank 2  | a2 | b2 | c2 |        | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *               ^    ^    ^
 *               |    |    rank 2 sums this slice
 *               |    rank 1
 *               rank 0
 *
 * Each sum is computed once, in the order of the ranks, so every rank gets the same bits.
 */
#include "data/shard.h"
#include "sync/team.h"
#include "sync/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes: a reduction is built up in a block that stays in the first-level cache. With 8 KiB the line of another core that
 * is to be written has often been lost again since it was read: 2 MiB between two threads took 120 us, and 85 us so. */
enum { BLOCK = 1024 };

/* ---- meeting ---- */

static void show(gs_comm *c, const gs_call *call, const void *read, void *write) {
    gs_seat *mine = &((gs_team *)c->state)->seats[c->rank];
    mine->call = *call;
    mine->read = read;
    mine->write = write;
}

static bool same(const gs_call *a, const gs_call *b) {
    return a->operation == b->operation && a->count == b->count && a->type == b->type &&
           a->reduction == b->reduction && a->root == b->root;
}

/* Show what this rank brings, meet, and check that all call the same: anything else is a mistake in the
 * program. */
static gs_status begin(gs_comm *c, gs_call call, const void *read, void *write) {
    gs_team *t = c->state;
    show(c, &call, read, write);
    GS_TRY(gs_team_meet(c, false));
    for (int r = 0; r < t->size; r++) {
        if (same(&t->seats[r].call, &call)) continue;
        char mine[80], other[80];
        gs_call_describe(&call, true, mine, sizeof mine);
        gs_call_describe(&t->seats[r].call, true, other, sizeof other);
        gs_bug("rank %d calls %s, rank %d calls %s", t->first_rank + c->rank, mine, t->first_rank + r, other);
    }
    return GS_OK;
}

/* All have done their part. */
static gs_status end(gs_comm *c) {
    return gs_team_meet(c, true);
}

/* `bytes` bytes at `at` of a buffer of another rank; nothing is done where they are in place already. */
static void copy(void *to, const void *from, size_t bytes) {
    if (bytes > 0 && to != from) memcpy(to, from, bytes);
}

static void *place(const void *buffer, size_t at) {
    return buffer ? (unsigned char *)buffer + at : NULL;
}

/* ---- collectives ---- */

/* Reduce elements first .. last-1 over all ranks, in the order of the ranks; ranks lowest .. highest get them,
 * each from element `first` of its buffer less `shift` on. */
static void reduce_slice(const gs_team *t, const gs_call *call, size_t first, size_t last, int lowest,
                         int highest, size_t shift) {
    _Alignas(GS_LINE) unsigned char block[BLOCK];
    size_t width = gs_type_size(call->type), most = BLOCK / width;
    gs_combine combine = gs_combine_of(call->type, call->reduction);
    for (size_t at = first; at < last; at += most) {
        size_t n = last - at < most ? last - at : most;
        combine(block, place(t->seats[0].read, at * width), place(t->seats[1].read, at * width), n);
        for (int r = 2; r < t->size; r++) combine(block, block, place(t->seats[r].read, at * width), n);
        for (int r = lowest; r <= highest; r++)
            memcpy(place(t->seats[r].write, (at - shift) * width), block, n * width);
    }
}

/* Each rank reduces one slice and writes it to the ranks lowest .. highest. */
static gs_status reduce_together(gs_comm *c, gs_call call, const void *read, void *write, int lowest,
                                 int highest) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, call, read, write));
    /* slices end on whole cache lines, or two cores would fight over one */
    size_t line = GS_LINE / gs_type_size(call.type), lines = (call.count + line - 1) / line;
    size_t first = lines * (size_t)c->rank / (size_t)t->size * line;
    size_t last = lines * ((size_t)c->rank + 1) / (size_t)t->size * line;
    if (t->size > 1) reduce_slice(t, &call, first, last < call.count ? last : call.count, lowest, highest, 0);
    return end(c);
}

static gs_status threads_all_reduce(gs_comm *c, void *data, size_t count, gs_type type,
                                    gs_reduction reduction) {
    return reduce_together(c, (gs_call){GS_ALL_REDUCE, count, type, reduction, 0}, data, data, 0,
                           c->size - 1);
}

static gs_status threads_reduce(gs_comm *c, void *data, size_t count, gs_type type, gs_reduction reduction,
                                int root) {
    gs_check_root(c, root);
    return reduce_together(c, (gs_call){GS_REDUCE, count, type, reduction, root}, data, data, root, root);
}

gs_status gs_threads_reduce_to_first(gs_comm *c, const gs_call *call, const void *data, void *result) {
    if (c->size == 1) copy(result, data, call->count * gs_type_size(call->type));
    return reduce_together(c, *call, data, result, 0, 0);
}

static gs_status threads_reduce_scatter(gs_comm *c, const void *all, void *mine, size_t total, gs_type type,
                                        gs_reduction reduction) {
    gs_call call = {GS_REDUCE_SCATTER, total, type, reduction, 0};
    gs_shard part = gs_shard_of(total, c->rank, c->size);
    GS_TRY(begin(c, call, all, mine));
    if (c->size == 1)
        copy(mine, all, total * gs_type_size(type));
    else
        reduce_slice(c->state, &call, part.first, part.first + part.count, c->rank, c->rank, part.first);
    return end(c);
}

static gs_status threads_broadcast(gs_comm *c, void *data, size_t count, gs_type type, int root) {
    const gs_team *t = c->state;
    gs_check_root(c, root);
    GS_TRY(begin(c, (gs_call){GS_BROADCAST, count, type, 0, root}, data, data));
    if (c->rank != root) copy(data, t->seats[root].read, count * gs_type_size(type));
    return end(c);
}

static gs_status threads_all_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type) {
    const gs_team *t = c->state;
    size_t bytes = count * gs_type_size(type);
    GS_TRY(begin(c, (gs_call){GS_ALL_GATHER, count, type, 0, 0}, mine, all));
    for (int r = 0; r < t->size; r++) copy(place(all, (size_t)r * bytes), t->seats[r].read, bytes);
    return end(c);
}

static gs_status threads_gather(gs_comm *c, const void *mine, void *all, size_t count, gs_type type,
                                int root) {
    const gs_team *t = c->state;
    size_t bytes = count * gs_type_size(type);
    gs_check_root(c, root);
    GS_TRY(begin(c, (gs_call){GS_GATHER, count, type, 0, root}, mine, all));
    copy(place(t->seats[root].write, (size_t)c->rank * bytes), mine, bytes);
    return end(c);
}

static gs_status threads_scatter(gs_comm *c, const void *all, void *mine, size_t count, gs_type type,
                                 int root) {
    const gs_team *t = c->state;
    size_t bytes = count * gs_type_size(type);
    gs_check_root(c, root);
    GS_TRY(begin(c, (gs_call){GS_SCATTER, count, type, 0, root}, all, mine));
    copy(mine, place(t->seats[root].read, (size_t)c->rank * bytes), bytes);
    return end(c);
}

static gs_status threads_all_to_all(gs_comm *c, const void *from, void *to, size_t count, gs_type type) {
    const gs_team *t = c->state;
    size_t bytes = count * gs_type_size(type);
    GS_TRY(begin(c, (gs_call){GS_ALL_TO_ALL, count, type, 0, 0}, from, to));
    for (int r = 0; r < t->size; r++)
        copy(place(to, (size_t)r * bytes), place(t->seats[r].read, (size_t)c->rank * bytes), bytes);
    return end(c);
}

static gs_status threads_barrier(gs_comm *c) {
    show(c, &(gs_call){.operation = GS_BARRIER}, NULL, NULL);
    return gs_team_meet(c, false);
}

gs_status gs_threads_with_first(gs_comm *c, const gs_call *call, void *shared, gs_threads_move move,
                                void *context) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, *call, NULL, shared));
    if (move) move(context, t->seats[0].write);
    return end(c);
}

/* ---- from rank to rank: letters.c ---- */

static gs_status threads_send(gs_comm *c, const void *data, size_t bytes, int to) {
    gs_check_peer(c, "sends to", to);
    return gs_team_send(c, data, bytes, to);
}

static gs_status threads_recv(gs_comm *c, void *data, size_t bytes, int from) {
    gs_check_peer(c, "receives from", from);
    return gs_team_recv(c, data, bytes, from);
}

/* ---- failing, making and freeing ---- */

void gs_threads_fail(gs_comm *c, const char *message) {
    gs_team_fail(c->state, message);
}

gs_status gs_threads_failed(const gs_comm *c) {
    return gs_team_failed(c->state);
}

static void threads_abort(gs_comm *c, const char *reason) {
    gs_team *t = c->state;
    char message[GS_TEAM_MESSAGE];
    snprintf(message, sizeof message, "rank %d: %s", t->first_rank + c->rank, reason);
    gs_team_fail(t, message);
}

static void threads_free(gs_comm *c) {
    gs_team_leave(c->state, c->rank);
    free(c);
}

static const gs_transport transport_threads = {
    .name = "threads",
    .send = threads_send,
    .recv = threads_recv,
    .broadcast = threads_broadcast,
    .all_reduce = threads_all_reduce,
    .reduce = threads_reduce,
    .all_gather = threads_all_gather,
    .gather = threads_gather,
    .scatter = threads_scatter,
    .reduce_scatter = threads_reduce_scatter,
    .all_to_all = threads_all_to_all,
    .barrier = threads_barrier,
    .abort = threads_abort,
    .free = threads_free,
};

gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms) {
    if (size < 1) gs_bug("gs_comm_threads_create: size is %d", size);
    if (!(timeout > 0)) return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", timeout);
    gs_team *t = gs_team_create(size, first);
    int made = 0;
    while (t && made < size && (comms[made] = malloc(sizeof *comms[made]))) {
        *comms[made] = (gs_comm){&transport_threads, made, size, timeout, t};
        made++;
    }
    if (made == size) return GS_OK;
    for (int r = 0; t && r < size; r++) gs_team_leave(t, r);
    while (made > 0) free(comms[--made]);
    return gs_fail(GS_E_MEMORY, "no memory for a team of %d threads", size);
}

gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms) {
    return gs_threads_create(size, 0, timeout, comms);
}
