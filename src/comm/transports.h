/* What the transports share. Only for src/comm/. */
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include "comm/create.h"
#include "core/memory.h"

enum { GS_FAILURE_TEXT = 640 /* bytes of a failure message, with its 0 */ };

/* For a message of the wrong length. Arguments: bytes wanted (size_t), "rank", its number, bytes sent (size_t). */
#define GS_LENGTH_MISMATCH                                                                                   \
    "%zu bytes are wanted from %s %d, which sent %zu: a message was lost or damaged, or the ranks make "     \
    "different calls"

/* ---- scratch memory of an operation ---- */

/* Kept between calls, so that a training step allocates nothing. Only one operation at a time may use it. */
typedef struct gs_scratch {
    void *memory;
    size_t bytes;
} gs_scratch;

static inline void gs_scratch_free(gs_scratch *s) {
    free(s->memory);
    *s = (gs_scratch){0};
}

/* Provide at least `bytes` bytes with undefined contents. GS_E_MEMORY: "reduce: no memory for 100 bytes". */
static inline gs_status gs_scratch_for(gs_scratch *s, const gs_call *call, size_t bytes) {
    if (s->memory && bytes <= s->bytes) return GS_OK;
    free(s->memory);
    s->bytes = bytes;
    if ((s->memory = malloc(bytes + 1))) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", gs_operation_name(call->operation), bytes);
}

/* ---- comm.c: a message that is a part of a collective ---- */

gs_status gs_collective_send(gs_comm *, const gs_call *call, const void *data, size_t bytes, int to);
gs_status gs_collective_recv(gs_comm *, const gs_call *call, void *data, size_t bytes, int from);

static inline bool gs_is_collective(const gs_envelope *e) {
    return e->call->operation != GS_SEND && e->call->operation != GS_RECV;
}

/* ---- mailboxes of gloo/ and mpi/ ----
 *
 * send copies the message into a slot, which is kept until the peer has it. If all slots are in use, send waits for the
 * oldest one. Slots are used in rotation and keep their memory, so that a message no longer than earlier ones allocates
 * nothing. Short messages have their own slots, twice as many as long ones, because over slow links (linked.c) a note
 * precedes each message.
 */

enum { GS_LONG_COPIES = 2, GS_SHORT_COPIES = 2 * GS_LONG_COPIES, GS_SHORT_MESSAGE = 64 /* bytes */ };
enum { GS_COPIES = GS_LONG_COPIES + GS_SHORT_COPIES };

/* The first member of each transport's mailbox, which holds the messages of one kind from one worker to another. Only
 * one thread uses a mailbox, to send or to receive. */
typedef struct gs_mailbox {
    struct gs_mailbox *next;
    int peer;
    uint32_t name; /* of gs_envelope_name */
    unsigned turn, short_turn;
} gs_mailbox;

/* Combines the kind and both workers, so that an unreceived message is not mistaken for a part of a collective. */
static inline uint32_t gs_envelope_name(const gs_envelope *e) {
    return (uint32_t)gs_is_collective(e) << 31 | (uint32_t)e->from << 16 | (uint32_t)e->to;
}

/* The envelope's mailbox in the list; if missing it is added, with `bytes` bytes, all 0. NULL: out of memory. */
static inline void *gs_mailbox_of(gs_mailbox **list, pthread_mutex_t *lock, const gs_envelope *e,
                                  size_t bytes) {
    const uint32_t name = gs_envelope_name(e);
    pthread_mutex_lock(lock);
    gs_mailbox *box = *list;
    while (box && (box->peer != e->peer || box->name != name)) box = box->next;
    if (!box && (box = calloc(1, bytes))) {
        *box = (gs_mailbox){.next = *list, .peer = e->peer, .name = name};
        *list = box;
    }
    pthread_mutex_unlock(lock);
    return box;
}

/* The slot of the next copy, below GS_COPIES. */
static inline unsigned gs_mailbox_turn(gs_mailbox *box, size_t bytes) {
    return bytes > GS_SHORT_MESSAGE ? box->turn++ % GS_LONG_COPIES
                                    : GS_LONG_COPIES + box->short_turn++ % GS_SHORT_COPIES;
}

/* to[i] = to[i] combined with from[i], as the call says, for `bytes` bytes. */
gs_status gs_collective_combine(gs_comm *, const gs_call *call, void *to, const void *from, size_t bytes);

/* gs_copy, unless the bytes are already there. */
static inline void gs_copy_unless_there(void *to, const void *from, size_t bytes) {
    if (bytes > 0 && to != from) gs_copy(to, from, bytes);
}

/* ---- a comm that wraps another: linked.c, checked.c, inject/ ---- */

/* The first member of a wrapping comm's state. */
typedef struct gs_wrapper {
    gs_comm comm, *inner;
    gs_transport ops; /* with the name of the inner comm */
} gs_wrapper;

static inline void gs_wrapper_begin(gs_wrapper *a, gs_comm *inner, const gs_transport *ops) {
    a->inner = inner;
    a->ops = *ops;
    a->ops.name = inner->ops->name;
    a->comm = (gs_comm){&a->ops, inner->rank, inner->size, inner->timeout, a};
}

static inline gs_comm *gs_wrapper_inner(const gs_comm *c) {
    return ((const gs_wrapper *)c->state)->inner;
}

static inline gs_status gs_wrapper_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    return gs_wrapper_inner(c)->ops->send(gs_wrapper_inner(c), e, data, bytes);
}
static inline gs_status gs_wrapper_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    return gs_wrapper_inner(c)->ops->recv(gs_wrapper_inner(c), e, data, bytes);
}
static inline void gs_wrapper_abort(gs_comm *c, const char *message) {
    gs_wrapper_inner(c)->ops->abort(gs_wrapper_inner(c), message);
}

/* ---- threads/threads.c ---- */

/* Like gs_comm_threads_create, but messages call thread i "rank first + i", by its number in the world. */
gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms);

/* Reduce `data` of all threads into `result` of thread 0. The data are unchanged, except that thread 0's result may be
 * its data. The other threads' result is ignored. `call` gives the reduction, and is named in messages. */
gs_status gs_threads_reduce_to_first(gs_comm *, const gs_call *call, const void *data, void *result);

/* In every thread, copy `bytes` bytes of thread 0's memory `shared`, from offset `at` on, into `to`. Returns when all
 * have copied. `to` may be NULL, or that memory itself. */
gs_status gs_threads_take_from_first(gs_comm *, const gs_call *call, void *shared, void *to, size_t at,
                                     size_t bytes);

/* ---- pairwise_reduce_scatter.c ---- */

/* Reduce `all` of all ranks as `call` says, and put this rank's part into `mine`. all is unchanged, except that mine
 * may be this rank's part of it. `received` holds incoming parts. If `first` is NULL, the parts are those of comm.h.
 * Otherwise `first` has size + 1 entries: rank r stands for ranks first[r] .. first[r + 1] - 1 of the call, with all
 * their parts. */
gs_status gs_pairwise_reduce_scatter(gs_comm *, const gs_call *call, const void *all, void *mine,
                                     const int *first, gs_scratch *received);

/* Exchange the ranks' parts of data[0 .. count - 1], an array of the call's type, among all ranks. first: as above. */
gs_status gs_pairwise_all_gather(gs_comm *, const gs_call *call, void *data, size_t count, const int *first);

/* all_reduce for long arrays: each rank reduces its part, and sends it to the others. */
gs_status gs_all_reduce_in_parts(gs_comm *, const gs_call *call, void *data, gs_scratch *received);

/* ---- levels.c: what two_level/ and threads_in_processes/ share ----
 *
 *     group 0               group 1
 *     rank 0 === rank 1     rank 2 === rank 3 === rank 4       === inside a group
 *       |                     |
 *       +---------------------+                                --- between the groups: the first rank of each leads it
 */

/* The first member of such a comm's state. The ranks of a group are consecutive. */
typedef struct gs_levels {
    gs_comm comm;
    gs_comm *inside; /* the ranks of this group; NULL: only this one */
    /* a copy of *inside with a longer timeout, for waits for the leader; it is the same comm */
    gs_comm patient;
    gs_comm *leaders; /* NULL: this rank is no leader */
    gs_comm *outside; /* for messages to other groups: a comm of all ranks, or of one per group */
    int *first;       /* [groups + 1]: first rank of each group; the last entry is the number of ranks */
} gs_levels;

int gs_group_of(const gs_levels *, int rank);

/* Pass on the status of one step of an operation. A failure spreads to both levels; for GS_E_PEER the group's first
 * message replaces this rank's. */
gs_status gs_levels_finish(const gs_levels *, gs_status);

/* Each takes three steps: inside, between the leaders, inside. */
gs_status gs_levels_broadcast(gs_levels *, const gs_call *, void *data);
gs_status gs_levels_barrier(gs_levels *, const gs_call *);

/* See gs_transport. */
gs_status gs_levels_send(gs_comm *, const gs_envelope *, const void *data, size_t bytes);
gs_status gs_levels_recv(gs_comm *, const gs_envelope *, void *data, size_t bytes);
void gs_levels_abort(gs_comm *, const char *message);

/* How many more seconds a rank waits for one that may itself be waiting elsewhere, so as not to blame it. */
double gs_levels_patience(double timeout);
