/* Ranks as threads of one process. They share memory: collectives send nothing, and only exchange pointers.
 *
 * In each collective every rank shows its buffer, and all meet at a barrier. Then every rank does its share of the work
 * on all buffers, and all meet again, so that no rank changes a buffer while another still reads it.
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
 * Each sum is computed once, in rank order, so every rank gets the same bits.
 *
 * A waiting rank spins briefly (core/wait.h), then sleeps, never longer than the timeout. At a barrier it looks only at
 * the barrier's number, which the last rank to arrive increments. The sender of a message leaves a copy in a mailbox,
 * and waits only if UNREAD of its long messages are already there:
 *
 *     rank 0   take a spare copy, fill it with the message  ->  mailbox 0 -> 1  ->  read it          rank 1
 *                     ^                                                               |
 *                     +------------------------ it is spare again --------------------+
 *
 * Messages that repeat, as in training steps, allocate no memory. The number of copies under way varies from run to
 * run, and its maximum may occur late. But it is the sum, over all ranks, of messages sent minus messages received, and
 * at each send of a rank the scheme alone determines that rank's difference. Therefore one more copy is made whenever a
 * rank is further ahead than ever before, even if one is spare, so that after the first steps a spare copy is always
 * there. A rank that sends more than it receives has at most UNREAD copies for each of its mailboxes. Messages of very
 * different lengths have separate pools; otherwise a barrier's byte could occupy a copy as long as an array.
 */
#include "comm/transports.h"
#include "comm/waits.h"
#include "core/clock.h"
#include "core/shard.h"
#include "core/text.h"
#include "core/wait.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 64 /* bytes of a cache line */ };

/* Bytes of a block in which a reduction is built up; it stays in the first-level cache. With 8 KiB a core often lost a
 * line to another core between reading and writing it: 2 MiB between two threads took 120 us instead of 85 us. */
enum { BLOCK = 1024 };

/* Pools of copies: for messages of up to SHORT bytes, of up to 8 times as many, and so on. */
enum { POOLS = 8, SHORT = 4096 };

/* With this many messages longer than SHORT in a mailbox, its sender waits (comm.h). Senders of short messages, which
 * may be the notes of long ones (linked.c), never wait. */
enum { UNREAD = 2 };

static const double LOOK = 0.2; /* seconds between two looks at the clock (gs_awake_seconds) */

/* What a rank shows to the others, in separate cache lines. */
typedef struct rank_slot {
    _Alignas(LINE) gs_call call;
    const void *read;
    void *write;
    _Atomic uint64_t arrivals; /* how often this rank has arrived at a barrier */
    bool left;                 /* its comm was freed; under the lock */
    /* Per pool, under the lock: messages sent minus received, now and at its maximum; number of mailboxes sent to. */
    int ahead[POOLS], most_ahead[POOLS], ways[POOLS];
} rank_slot;

/* The copy of a message, or room for one. */
typedef struct copy {
    struct copy *next;
    size_t bytes, room; /* length and capacity */
    _Alignas(LINE) unsigned char data[];
} copy;

/* Messages from one rank to another. All changes are made under the lock. */
typedef struct mailbox {
    _Alignas(LINE) _Atomic(copy *) first; /* the oldest message; the receiver looks without the lock */
    copy *last;
    atomic_int unread; /* long ones */
    unsigned pools;    /* the pools of its messages so far: bit i is pool i */
} mailbox;

/* Guarded by the lock. */
typedef struct pool {
    copy *spare;      /* unused copies */
    size_t room;      /* of each copy */
    int made, wanted; /* copies, spare or under way; wanted: the sum of most_ahead */
} pool;

typedef struct team {
    int size;
    int first_rank;                     /* messages call thread i "rank first_rank + i" */
    bool crowded;                       /* more ranks than cores */
    _Alignas(LINE) atomic_int arrived;  /* ranks at the current barrier */
    _Alignas(LINE) atomic_uint barrier; /* its number, incremented when all ranks have arrived */
    atomic_bool failed;                 /* once true, `message` does not change */
    char message[GS_FAILURE_TEXT];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* barrier, failed, left, or a mailbox */
    int members;            /* comms that are not freed yet; under the lock */
    rank_slot *slots;       /* [size] */
    mailbox *mailboxes;     /* [(part of a collective * size + from) * size + to] */
    /* Under the lock: */
    double *since; /* [size * size] when rank a went to sleep for rank b; 0: it does not */
    pool pool[POOLS];
} team;

/* ---- failing ---- */

static gs_status failure(const team *t) {
    return gs_fail(GS_E_PEER, "%s", t->message);
}

/* Make every later call fail with `message`; the first message is kept. The caller holds the lock. */
static void fail_locked(team *t, const char *message) {
    if (!atomic_load(&t->failed)) {
        snprintf(t->message, sizeof t->message, "%s", message);
        atomic_store(&t->failed, true);
    }
    pthread_cond_broadcast(&t->changed);
}

static void fail(team *t, const char *message) {
    pthread_mutex_lock(&t->lock);
    fail_locked(t, message);
    pthread_mutex_unlock(&t->lock);
}

/* ---- waiting ---- */

/* A wait for the others at a barrier, for a message, or for room for one. */
typedef struct waiting {
    const gs_comm *c;
    const gs_call *call; /* the waiting operation, for failure messages */
    unsigned barrier;
    /* True for the barrier at the end of an operation that all have begun. It cannot last long, because all only move
     * memory. Neither timeout nor failure ends it: a rank that left would take its buffers from the others. */
    bool leaving;
    const mailbox *box; /* of the message; NULL: a barrier */
    bool sends;         /* waits for room there */
    int peer;
} waiting;

static bool has_come(const waiting *w) {
    if (w->sends) return atomic_load(&w->box->unread) < UNREAD;
    return w->box ? atomic_load(&w->box->first) != NULL
                  : atomic_load(&((team *)w->c->state)->barrier) != w->barrier;
}

static bool is_over(const waiting *w) {
    return has_come(w) || (!w->leaving && atomic_load(&((team *)w->c->state)->failed));
}

static bool is_awaited(const waiting *w, int rank) {
    const rank_slot *slots = ((team *)w->c->state)->slots;
    if (w->box) return rank == w->peer;
    return atomic_load(&slots[rank].arrivals) < atomic_load(&slots[w->c->rank].arrivals);
}

/* Sleep until something changes, at most briefly. False: the time `until` (gs_awake_seconds) has come. */
static bool sleep_locked(team *t, double until) {
    const double left = until - gs_awake_seconds();
    const struct timespec look = gs_timespec(gs_seconds() + fmax(0, fmin(left, LOOK)));
    pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &look);
    return gs_awake_seconds() < until;
}

/* Fail with "rank 0: all_reduce of 5 f32: rank 1 ended without it", or say who does not answer, and why (waits.h). */
static void give_up_locked(const waiting *w, bool gone) {
    team *t = w->c->state;
    const size_t n = (size_t)t->size;
    const double now = gs_seconds();
    char message[GS_FAILURE_TEXT];
    bool *awaited = calloc(n, sizeof *awaited);
    double *age = calloc(n * n, sizeof *age);
    for (int r = 0; awaited && r < t->size; r++) awaited[r] = is_awaited(w, r) && (!gone || t->slots[r].left);
    for (size_t i = 0; age && i < n * n; i++) age[i] = t->since[i] > 0 ? now - t->since[i] : 0;
    snprintf(message, sizeof message, "rank %d: %s: ", t->first_rank + w->c->rank,
             gs_call_text(w->call, false));
    if (awaited && gone) {
        gs_append_ranks(message, sizeof message, "rank", t->first_rank, t->size, awaited);
        gs_append(message, sizeof message, " ended without it");
    } else if (awaited && age) {
        gs_waits_explain(&(gs_waits){.noun = "rank",
                                     .first = t->first_rank,
                                     .size = t->size,
                                     .rank = w->c->rank,
                                     .timeout = w->c->timeout,
                                     .awaited = awaited,
                                     .age = age},
                         message, sizeof message);
    }
    fail_locked(t, message);
    free(awaited);
    free(age);
}

/* Show this wait to the others. This is done again at each look, because several threads of a rank may wait (async.c),
 * each for its own peer. True: an awaited rank has left. */
static bool show_locked(const waiting *w, double begin) {
    team *t = w->c->state;
    bool gone = false;
    for (int r = 0; r < t->size; r++) {
        double *since = &t->since[w->c->rank * t->size + r];
        if (!is_awaited(w, r)) continue;
        gone |= t->slots[r].left;
        if (*since <= 0) *since = begin;
    }
    return gone;
}

/* The slow part of a wait: sleep until it is over. */
static void sleep_until_over(const waiting *w) {
    team *t = w->c->state;
    const double begin = gs_seconds(), until = w->leaving ? INFINITY : gs_awake_seconds() + w->c->timeout;
    bool in_time = true;
    pthread_mutex_lock(&t->lock);
    while (!is_over(w)) {
        const bool gone = show_locked(w, begin);
        if (w->leaving || (in_time && !gone))
            in_time = sleep_locked(t, until);
        else
            give_up_locked(w, gone);
    }
    for (int r = 0; r < t->size; r++)
        if (!w->box || r == w->peer) t->since[w->c->rank * t->size + r] = 0;
    pthread_mutex_unlock(&t->lock);
}

/* Wait. If an awaited rank has left, or does not arrive within the timeout, all ranks fail. */
static gs_status wait_for(const waiting *w) {
    const team *t = w->c->state;
    gs_wait wait = gs_wait_begin(t->crowded);
    while (!is_over(w))
        if (!gs_wait_a_moment(&wait)) sleep_until_over(w);
    return has_come(w) ? GS_OK : failure(t);
}

/* ---- barrier ---- */

/* Wait until all ranks are here. Either all return GS_OK or none does, because the last rank to arrive and a rank that
 * gives up both act under the lock. */
static gs_status barrier(const gs_comm *c, bool leaving) {
    team *t = c->state;
    if (!leaving && atomic_load(&t->failed)) return failure(t);
    const waiting w = {
        .c = c, .call = &t->slots[c->rank].call, .barrier = atomic_load(&t->barrier), .leaving = leaving};
    atomic_fetch_add(&t->slots[c->rank].arrivals, 1);
    if (atomic_fetch_add(&t->arrived, 1) + 1 < t->size) return wait_for(&w);
    pthread_mutex_lock(&t->lock);
    const bool too_late = !leaving && atomic_load(&t->failed);
    if (!too_late) {
        atomic_store(&t->arrived, 0);
        atomic_store(&t->barrier, w.barrier + 1);
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return too_late ? failure(t) : GS_OK;
}

static void show(gs_comm *c, const gs_call *call, const void *read, void *write) {
    rank_slot *mine = &((team *)c->state)->slots[c->rank];
    mine->call = *call;
    mine->read = read;
    mine->write = write;
}

/* Show this rank's buffers, meet, and check that all make the same call. */
static gs_status begin(gs_comm *c, const gs_call *call, const void *read, void *write) {
    team *t = c->state;
    show(c, call, read, write);
    GS_TRY(barrier(c, false));
    for (int r = 0; r < t->size; r++)
        gs_call_compare(call, &t->slots[r].call, "rank", t->first_rank + c->rank, t->first_rank + r);
    return GS_OK;
}

static void *place(const void *buffer, size_t at) {
    return buffer ? (unsigned char *)buffer + at : NULL;
}

/* ---- collectives ---- */

/* Reduce elements first .. last-1 over all ranks, in rank order. Ranks lowest .. highest get the result, from element
 * first - shift of their buffers on. */
static void reduce_slice(const team *t, const gs_call *call, size_t first, size_t last, int lowest,
                         int highest, size_t shift) {
    _Alignas(LINE) unsigned char block[BLOCK];
    size_t width = gs_type_size(call->type), most = BLOCK / width;
    gs_combine combine = gs_combine_of(call->type, call->reduction); /* sums floats: to[i] = a[i] + b[i] */
    for (size_t at = first; at < last; at += most) {
        size_t n = last - at < most ? last - at : most;
        combine(block, place(t->slots[0].read, at * width), place(t->slots[1].read, at * width), n);
        for (int r = 2; r < t->size; r++) combine(block, block, place(t->slots[r].read, at * width), n);
        for (int r = lowest; r <= highest; r++)
            memcpy(place(t->slots[r].write, (at - shift) * width), block, n * width);
    }
}

/* Each rank reduces one slice and writes it to the ranks lowest .. highest. */
static void reduce_own_slice(const gs_comm *c, const gs_call *call, int lowest, int highest) {
    const team *t = c->state;
    /* Slices end at cache-line boundaries; otherwise two cores would contend for a line. */
    size_t line = LINE / gs_type_size(call->type), lines = (call->count + line - 1) / line;
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

/* This rank's share of a collective that all have begun. */
static void take_part(const gs_comm *c, const gs_call *call, const void *in, void *out) {
    const team *t = c->state;
    const rank_slot *slots = t->slots;
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
        if (c->rank != call->root) gs_copy_unless_there(out, slots[call->root].read, bytes);
        break;
    case GS_ALL_GATHER:
        for (int r = 0; r < t->size; r++)
            gs_copy_unless_there(place(out, (size_t)r * bytes), slots[r].read, bytes);
        break;
    case GS_GATHER:
        gs_copy_unless_there(place(slots[call->root].write, own), in, bytes);
        break;
    case GS_SCATTER:
        gs_copy_unless_there(out, place(slots[call->root].read, own), bytes);
        break;
    default: /* all_to_all */
        for (int r = 0; r < t->size; r++)
            gs_copy_unless_there(place(out, (size_t)r * bytes), place(slots[r].read, own), bytes);
    }
}

static gs_status threads_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const team *t = c->state;
    if (call->operation == GS_BARRIER) {
        if (atomic_load(&t->failed)) return failure(t); /* other threads of this rank may be here too */
        show(c, call, NULL, NULL);
        return barrier(c, false);
    }
    GS_TRY(begin(c, call, in, out));
    take_part(c, call, in, out);
    return barrier(c, true); /* all have done their part */
}

gs_status gs_threads_reduce_to_first(gs_comm *c, const gs_call *call, const void *data, void *result) {
    if (c->size == 1) gs_copy_unless_there(result, data, call->count * gs_type_size(call->type));
    GS_TRY(begin(c, call, data, result));
    reduce_own_slice(c, call, 0, 0);
    return barrier(c, true); /* all have done their part */
}

gs_status gs_threads_take_from_first(gs_comm *c, const gs_call *call, void *shared, void *to, size_t at,
                                     size_t bytes) {
    const team *t = c->state;
    GS_TRY(begin(c, call, NULL, shared));
    if (to) gs_copy_unless_there(to, place(t->slots[0].write, at), bytes);
    return barrier(c, true); /* all have done their part */
}

/* ---- messages ---- */

static atomic_size_t copied; /* bytes of all copies of this process */

size_t gs_threads_copied(void) {
    return atomic_load(&copied);
}

static mailbox *mailbox_of(const team *t, const gs_envelope *e, int from, int to) {
    return &t->mailboxes[(gs_is_collective(e) * t->size + from) * t->size + to];
}

static size_t bytes_of(size_t room) {
    return (sizeof(copy) + room + LINE - 1) / LINE * LINE;
}

static copy *new_copy(size_t room) {
    const size_t bytes = bytes_of(room);
    atomic_fetch_add(&copied, bytes);
    copy *k = bytes > room ? aligned_alloc(LINE, bytes) : NULL;
    if (k)
        *k = (copy){.room = room};
    else
        atomic_fetch_sub(&copied, bytes);
    return k;
}

static void free_copies(copy *k) {
    while (k) {
        copy *next = k->next;
        const size_t bytes = bytes_of(k->room);
        free(k);
        atomic_fetch_sub(&copied, bytes);
        k = next;
    }
}

static int pool_of(size_t bytes) {
    int i = 0;
    while (i < POOLS - 1 && bytes > (size_t)SHORT << 3 * i) i++;
    return i;
}

/* Take a copy for a message from `rank`. NULL: out of memory. */
static copy *take_copy(team *t, mailbox *m, int rank, size_t bytes) {
    const int i = pool_of(bytes);
    rank_slot *s = &t->slots[rank];
    pool *p = &t->pool[i];
    copy *outgrown = NULL, *k = NULL;
    pthread_mutex_lock(&t->lock);
    s->ways[i] += !(m->pools >> i & 1);
    m->pools |= 1U << i;
    if (++s->ahead[i] > s->most_ahead[i] && s->most_ahead[i] < UNREAD * (i > 0 ? s->ways[i] : t->size)) {
        s->most_ahead[i]++;
        p->wanted++;
    }
    if (bytes > p->room) { /* longer than all before; give_back frees shorter copies that are under way */
        outgrown = p->spare;
        p->spare = NULL;
        p->room = bytes;
        p->made = 0;
    }
    if (p->made >= p->wanted && (k = p->spare))
        p->spare = k->next;
    else
        p->made++;
    const size_t room = p->room;
    pthread_mutex_unlock(&t->lock);
    free_copies(outgrown);
    return k ? k : new_copy(room);
}

/* `rank` has read the message. */
static void give_back(team *t, mailbox *m, int rank, copy *k) {
    const int i = pool_of(k->bytes);
    pool *p = &t->pool[i];
    pthread_mutex_lock(&t->lock);
    if (k->bytes > SHORT && atomic_fetch_sub(&m->unread, 1) == UNREAD) pthread_cond_broadcast(&t->changed);
    t->slots[rank].ahead[i]--;
    const bool is_outgrown = k->room < p->room;
    k->next = is_outgrown ? NULL : p->spare;
    if (!is_outgrown) p->spare = k;
    pthread_mutex_unlock(&t->lock);
    if (is_outgrown) free_copies(k);
}

static gs_status threads_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    team *t = c->state;
    mailbox *m = mailbox_of(t, e, c->rank, e->peer);
    if (atomic_load(&t->failed)) return failure(t);
    if (bytes > SHORT)
        GS_TRY(wait_for(&(waiting){.c = c, .call = e->call, .box = m, .sends = true, .peer = e->peer}));
    copy *k = take_copy(t, m, c->rank, bytes);
    if (!k)
        return gs_fail(GS_E_MEMORY, "rank %d: no memory for a message of %zu bytes to rank %d",
                       t->first_rank + c->rank, bytes, t->first_rank + e->peer);
    k->next = NULL;
    k->bytes = bytes;
    gs_copy(k->data, data, bytes);
    pthread_mutex_lock(&t->lock);
    if (atomic_load(&m->first))
        m->last->next = k;
    else
        atomic_store(&m->first, k);
    m->last = k;
    if (bytes > SHORT) atomic_fetch_add(&m->unread, 1);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return GS_OK;
}

static gs_status has_other_length(const gs_comm *c, const gs_envelope *e, size_t bytes, size_t sent) {
    team *t = c->state;
    char message[GS_FAILURE_TEXT];
    const char *what =
        gs_is_collective(e) ? gs_call_text(e->call, false) : gs_operation_name(e->call->operation);
    snprintf(message, sizeof message, "rank %d: %s: " GS_LENGTH_MISMATCH, t->first_rank + c->rank, what,
             bytes, "rank", t->first_rank + e->peer, sent);
    fail(t, message);
    return failure(t);
}

static gs_status threads_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    team *t = c->state;
    mailbox *m = mailbox_of(t, e, e->peer, c->rank);
    if (atomic_load(&t->failed)) return failure(t);
    GS_TRY(wait_for(&(waiting){.c = c, .call = e->call, .box = m, .peer = e->peer}));
    pthread_mutex_lock(&t->lock);
    copy *k = atomic_load(&m->first);
    atomic_store(&m->first, k->next);
    pthread_mutex_unlock(&t->lock);
    const size_t sent = k->bytes;
    if (sent == bytes) gs_copy(data, k->data, bytes);
    give_back(t, m, c->rank, k);
    return sent == bytes ? GS_OK : has_other_length(c, e, bytes, sent);
}

/* ---- failing, making and freeing ---- */

static void threads_abort(gs_comm *c, const char *message) {
    fail(c->state, message);
}

static void free_team(team *t) {
    for (int i = 0; t->mailboxes && i < 2 * t->size * t->size; i++)
        free_copies(atomic_load(&t->mailboxes[i].first));
    for (int i = 0; i < POOLS; i++) free_copies(t->pool[i].spare);
    free(t->mailboxes);
    free(t->slots);
    free(t->since);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* The last rank to leave frees the team. Ranks that still wait for this one fail. */
static void threads_free(gs_comm *c) {
    team *t = c->state;
    pthread_mutex_lock(&t->lock);
    t->slots[c->rank].left = true;
    bool last = --t->members == 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (last) free_team(t);
    free(c);
}

static const gs_transport transport_threads = {
    .name = "threads",
    .send = threads_send,
    .recv = threads_recv,
    .collective = threads_collective,
    .abort = threads_abort,
    .free = threads_free,
};

/* Zeroed memory, in separate cache lines. */
static void *lines(size_t bytes) {
    void *memory = aligned_alloc(LINE, bytes); /* every size passed here is a multiple of LINE */
    return memory ? memset(memory, 0, bytes) : NULL;
}

/* NULL: out of memory. */
static team *create_team(int size, int first_rank) {
    const size_t n = (size_t)size;
    team *t = lines(sizeof *t);
    if (!t) return NULL;
    t->size = size;
    t->first_rank = first_rank;
    t->members = size;
    t->crowded = gs_wait_is_crowded(size);
    t->lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP; /* spins: it is held only briefly */
    pthread_cond_init(&t->changed, NULL);
    t->slots = lines(n * sizeof *t->slots);
    t->mailboxes = lines(2 * n * n * sizeof *t->mailboxes);
    t->since = calloc(n * n, sizeof *t->since);
    if (t->slots && t->mailboxes && t->since) return t;
    free_team(t);
    return NULL;
}

gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms) {
    if (size < 1) gs_bug("gs_threads_create: size is %d", size);
    if (!(timeout > 0)) return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", timeout);
    team *t = create_team(size, first);
    int made = 0;
    while (t && made < size && (comms[made] = malloc(sizeof *comms[made]))) {
        *comms[made] = (gs_comm){&transport_threads, made, size, timeout, t};
        made++;
    }
    if (made == size) return GS_OK;
    if (t) free_team(t);
    while (made > 0) free(comms[--made]);
    return gs_fail(GS_E_MEMORY, "no memory for a team of %d threads", size);
}

gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms) {
    return gs_threads_create(size, 0, timeout, comms);
}
