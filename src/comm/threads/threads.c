/* Ranks as threads of one process. They see each other's memory, so nothing is sent: they only show each other
 * pointers.
 *
 * Each collective has the same shape. Every rank shows its buffer; all meet; every rank does its part of the work on
 * all the buffers; all meet again, so that no rank changes a buffer while another still reads it.
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
#include "core/shard.h"
#include "comm/threads/team.h"
#include "comm/transports.h"

#include <stdlib.h>
#include <string.h>

/* Bytes. A reduction is built up in a block that stays in the first-level cache. With blocks of 8 KiB, a core had often
 * lost a line of another core's again between reading and writing it: 2 MiB between two threads took 120 us, against 85
 * us with this size. */
enum { BLOCK = 1024 };

/* ---- meeting ---- */

static void show(gs_comm *c, const gs_call *call, const void *read, void *write) {
    gs_seat *mine = &((gs_team *)c->state)->seats[c->rank];
    mine->call = *call;
    mine->read = read;
    mine->write = write;
}

/* Show what this rank brings, meet, and check that all call the same: anything else is a mistake in the
 * program. */
static gs_status begin(gs_comm *c, const gs_call *call, const void *read, void *write) {
    gs_team *t = c->state;
    show(c, call, read, write);
    GS_TRY(gs_team_meet(c, false));
    for (int r = 0; r < t->size; r++)
        gs_call_compare(call, &t->seats[r].call, "rank", t->first_rank + c->rank, t->first_rank + r);
    return GS_OK;
}

/* All have done their part. */
static gs_status end(gs_comm *c) {
    return gs_team_meet(c, true);
}

static void *place(const void *buffer, size_t at) {
    return buffer ? (unsigned char *)buffer + at : NULL;
}

/* ---- collectives ---- */

/* Reduce elements first .. last-1 over all ranks, in the order of the ranks. Ranks lowest .. highest get the result,
 * from element first - shift of their buffers on. */
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
static void reduce_own_slice(const gs_comm *c, const gs_call *call, int lowest, int highest) {
    const gs_team *t = c->state;
    /* Slices end at cache-line boundaries; otherwise two cores would contend for a line. */
    size_t line = GS_LINE / gs_type_size(call->type), lines = (call->count + line - 1) / line;
    size_t first = lines * (size_t)c->rank / (size_t)t->size * line;
    size_t last = lines * ((size_t)c->rank + 1) / (size_t)t->size * line;
    if (t->size > 1)
        reduce_slice(t, call, first, last < call->count ? last : call->count, lowest, highest, 0);
}

static void reduce_own_part(const gs_comm *c, const gs_call *call, const void *all, void *mine) {
    gs_shard part = gs_shard_of(call->count, c->rank, c->size);
    if (c->size == 1)
        gs_copy_unless_there(mine, all, call->count * gs_type_size(call->type));
    else
        reduce_slice(c->state, call, part.first, part.first + part.count, c->rank, c->rank, part.first);
}

/* This rank's part of a collective that all have begun. */
static void take_part(const gs_comm *c, const gs_call *call, const void *in, void *out) {
    const gs_team *t = c->state;
    const gs_seat *seats = t->seats;
    size_t bytes = call->count * gs_type_size(call->type), own = (size_t)c->rank * bytes;
    switch (call->operation) {
    case GS_ALL_REDUCE:
        reduce_own_slice(c, call, 0, c->size - 1);
        break;
    case GS_REDUCE:
        reduce_own_slice(c, call, call->root, call->root);
        break;
    case GS_REDUCE_SCATTER:
        reduce_own_part(c, call, in, out);
        break;
    case GS_BROADCAST:
        if (c->rank != call->root) gs_copy_unless_there(out, seats[call->root].read, bytes);
        break;
    case GS_ALL_GATHER:
        for (int r = 0; r < t->size; r++)
            gs_copy_unless_there(place(out, (size_t)r * bytes), seats[r].read, bytes);
        break;
    case GS_GATHER:
        gs_copy_unless_there(place(seats[call->root].write, own), in, bytes);
        break;
    case GS_SCATTER:
        gs_copy_unless_there(out, place(seats[call->root].read, own), bytes);
        break;
    default: /* all_to_all */
        for (int r = 0; r < t->size; r++)
            gs_copy_unless_there(place(out, (size_t)r * bytes), place(seats[r].read, own), bytes);
    }
}

static gs_status threads_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    if (call->operation == GS_BARRIER) {
        show(c, call, NULL, NULL);
        return gs_team_meet(c, false);
    }
    GS_TRY(begin(c, call, in, out));
    take_part(c, call, in, out);
    return end(c);
}

gs_status gs_threads_reduce_to_first(gs_comm *c, const gs_call *call, const void *data, void *result) {
    if (c->size == 1) gs_copy_unless_there(result, data, call->count * gs_type_size(call->type));
    GS_TRY(begin(c, call, data, result));
    reduce_own_slice(c, call, 0, 0);
    return end(c);
}

gs_status gs_threads_with_first(gs_comm *c, const gs_call *call, void *shared, gs_threads_move move,
                                void *context) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, call, NULL, shared));
    if (move) move(context, t->seats[0].write);
    return end(c);
}

/* ---- failing, making and freeing ---- */

gs_status gs_threads_failed(const gs_comm *c) {
    return gs_team_failed(c->state);
}

static void threads_abort(gs_comm *c, const char *message) {
    gs_team_fail(c->state, message);
}

static void threads_free(gs_comm *c) {
    gs_team_leave(c->state, c->rank);
    free(c);
}

static const gs_transport transport_threads = {
    .name = "threads",
    .send = gs_team_send,
    .recv = gs_team_recv,
    .collective = threads_collective,
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
