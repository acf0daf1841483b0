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
#include "comm/transports.h"
#include "comm/waits.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/shard.h"
#include "core/text.h"
#include "core/wait.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes. A reduction is built up in a block that stays in the first-level cache. With blocks of 8 KiB, a core had often
 * lost a line of another core's again between reading and writing it: 2 MiB between two threads took 120 us, against 85
 * us with this size. */
enum { BLOCK = 1024 };

static const double LOOK = 0.2; /* seconds between two looks at the clock (gs_awake_seconds) */

enum { GS_LINE = 64 /* bytes of a cache line */ };

/* What a rank shows to the others, in cache lines of its own. */
typedef struct seat {
    _Alignas(GS_LINE) gs_call call;
    const void *read;
    void *write;
    _Atomic uint64_t arrivals; /* how often this rank has arrived at a meeting */
    bool left;                 /* its comm was freed; under the lock */
    double since;              /* when it went to sleep at a meeting; 0: it does not sleep there; likewise */
    int ahead, most_ahead;     /* huge messages sent, less those received: now, most so far; likewise */
} seat;

/* The copy of a message that is under way, or room for one. */
typedef struct message_copy {
    struct message_copy *next;
    size_t bytes, room; /* room: how long it may be */
    _Alignas(GS_LINE) unsigned char data[];
} message_copy;

/* Copies to be used again; all have the same room, that of the longest message so far. */
typedef struct spares {
    message_copy *copies;
    size_t room;
} spares;

/* From one rank to another. All is changed under the lock. */
typedef struct mailbox {
    /* the oldest message under way; the receiver looks without the lock */
    _Alignas(GS_LINE) _Atomic(message_copy *) first;
    message_copy *last;
    double since;        /* when the receiver went to sleep for it; 0: it does not */
    spares small, large; /* its own spare copies */
} mailbox;

typedef struct team {
    int size;
    int first_rank;                        /* messages call thread i "rank first_rank + i" */
    bool crowded;                          /* more ranks than cores */
    _Alignas(GS_LINE) atomic_int arrived;  /* ranks at the current meeting */
    _Alignas(GS_LINE) atomic_uint meeting; /* its number: counts up when all have come */
    atomic_bool failed;                    /* once true, `message` does not change */
    char message[GS_LAST_WORDS];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* meeting, failed, left, or a mailbox */
    int members;            /* comms that are not freed yet; under the lock */
    seat *seats;            /* [size] */
    mailbox *mailboxes;     /* [(part of a collective * size + from) * size + to] */
    spares huge;            /* spare copies of all mailboxes; under the lock */
    int huge_made;          /* how many there are, spare or under way, of huge.room; likewise */
    int huge_wanted;        /* the sum of most_ahead; likewise */
    bool *missing;          /* [size], for a message; under the lock */
} team;

/* ---- waiting ----
 *
 * How threads wait for each other: spin for a moment (core/wait.h), then sleep, never longer than the timeout.
 *
 * A meeting is a barrier. A waiting rank looks only at the meeting's number, which the last rank to arrive increments.
 */

/* ---- failing ---- */

/* GS_E_PEER with the team's message. */
static gs_status failure(const team *t) {
    return gs_fail(GS_E_PEER, "%s", t->message);
}

/* From here on everything fails with `message`; the first message stays. _locked: the caller holds the lock. */
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

/* Sleep until something changes, or for a moment; false: it is `until` by gs_awake_seconds. The caller holds the
 * lock. */
static bool sleep_locked(team *t, double until) {
    const double left = until - gs_awake_seconds();
    const struct timespec look = gs_timespec(gs_seconds() + fmax(0, fmin(left, LOOK)));
    pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &look);
    return gs_awake_seconds() < until;
}

/* For messages: the ranks that have not arrived at the meeting where `rank` waits. If `left`, only those that never
 * can. Returns how many. The caller holds the lock. */
static int describe_missing(team *t, int rank, bool left, char *text, size_t size) {
    uint64_t mine = atomic_load(&t->seats[rank].arrivals);
    for (int r = 0; r < t->size; r++)
        t->missing[r] = atomic_load(&t->seats[r].arrivals) < mine && (t->seats[r].left || !left);
    text[0] = '\0';
    return gs_append_ranks(text, size, "rank", t->first_rank, t->size, t->missing);
}

/* age[a * size + b]: seconds that rank a has slept for rank b. */
static void measure_waits_locked(const team *t, double *age) {
    const double now = gs_seconds();
    const int n = t->size;
    for (int i = 0; i < 2 * n * n; i++) { /* mailboxes: of (part, from, to) */
        const int from = i / n % n, to = i % n;
        if (t->mailboxes[i].since > 0) age[to * n + from] = now - t->mailboxes[i].since;
    }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n && t->seats[a].since > 0; b++)
            if (atomic_load(&t->seats[b].arrivals) < atomic_load(&t->seats[a].arrivals))
                age[a * n + b] = now - t->seats[a].since;
}

/* `rank` gives up waiting for those that are `awaited`[size]: who is to blame (waits.h)? If some of these, only they
 * stay in `awaited`. If others, for whom these wait, `cause` is ", which wait for rank 2"; if each waits for another,
 * all these waits; else "". The caller holds the lock. */
static void find_cause_locked(team *t, int rank, double timeout, bool *awaited, char *cause, size_t size) {
    const size_t n = (size_t)t->size;
    double *age = calloc(n * n, sizeof *age);
    long *pid = calloc(n, sizeof *pid); /* none is a process */
    bool *blamed = calloc(n, sizeof *blamed), among = true;
    const gs_waits w = {.noun = "rank",
                        .first = t->first_rank,
                        .size = t->size,
                        .rank = rank,
                        .timeout = timeout,
                        .awaited = awaited,
                        .age = age,
                        .pid = pid};
    cause[0] = '\0';
    if (age && pid && blamed) {
        measure_waits_locked(t, age);
        const int count = gs_waits_blame(&w, blamed);
        int waited_for = 0;
        for (int r = 0; r < t->size; r++) {
            among = among && (!blamed[r] || awaited[r]);
            waited_for += awaited[r];
        }
        if (count == 0) {
            gs_append(cause, size, "; all are waiting for others");
            gs_waits_append_all(&w, cause, size);
        } else if (among) {
            memcpy(awaited, blamed, n * sizeof *blamed);
        } else {
            gs_append(cause, size, ", which wait%s for ", waited_for > 1 ? "" : "s");
            gs_append_ranks(cause, size, "rank", t->first_rank, t->size, blamed);
        }
    }
    free(age);
    free(pid);
    free(blamed);
}

/* The slow part of meet: sleep until meeting number `meeting` is over. */
static gs_status sleep_until_met(gs_comm *c, unsigned meeting, bool leaving) {
    team *t = c->state;
    const double until = leaving ? INFINITY : gs_awake_seconds() + c->timeout;
    bool in_time = true;
    pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->meeting) == meeting && (leaving || !atomic_load(&t->failed))) {
        char missing[200], cause[GS_LAST_WORDS / 2] = "", message[GS_LAST_WORDS];
        if (t->seats[c->rank].since <= 0) t->seats[c->rank].since = gs_seconds();
        bool gone = describe_missing(t, c->rank, true, missing, sizeof missing) > 0;
        if (in_time && !gone) {
            in_time = sleep_locked(t, until);
            continue;
        }
        if (!gone) {
            describe_missing(t, c->rank, false, missing, sizeof missing);
            find_cause_locked(t, c->rank, c->timeout, t->missing, cause, sizeof cause);
            missing[0] = '\0';
            gs_append_ranks(missing, sizeof missing, "rank", t->first_rank, t->size, t->missing);
        }
        const char *what = gs_call_text(&t->seats[c->rank].call, false);
        int me = t->first_rank + c->rank;
        if (gone)
            snprintf(message, sizeof message, "rank %d: %s: %s ended without it", me, what, missing);
        else
            snprintf(message, sizeof message, "rank %d: %s: %s did not arrive within %g s%s", me, what,
                     missing, c->timeout, cause);
        fail_locked(t, message);
    }
    t->seats[c->rank].since = 0;
    gs_status status = atomic_load(&t->meeting) == meeting ? failure(t) : GS_OK;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* Wait until all ranks are here. Either all return GS_OK or none does. A rank that does not arrive within the timeout,
 * or never can, makes the team fail.
 *
 * leaving: the meeting at the end of an operation that all have begun and that only moves memory. That bounds the wait,
 * not the timeout, and a failure does not end it: a rank that went on alone would take its buffers away from under the
 * others.
 *
 * The last rank to arrive and a rank that gives up both decide under the lock. So either all have met, or none has. */
static gs_status meet(gs_comm *c, bool leaving) {
    team *t = c->state;
    if (!leaving && atomic_load(&t->failed)) return failure(t);
    unsigned meeting = atomic_load(&t->meeting);
    atomic_fetch_add(&t->seats[c->rank].arrivals, 1);
    if (atomic_fetch_add(&t->arrived, 1) + 1 == t->size) {
        pthread_mutex_lock(&t->lock);
        bool too_late = !leaving && atomic_load(&t->failed);
        if (!too_late) {
            atomic_store(&t->arrived, 0);
            atomic_store(&t->meeting, meeting + 1);
            pthread_cond_broadcast(&t->changed);
        }
        pthread_mutex_unlock(&t->lock);
        return too_late ? failure(t) : GS_OK;
    }
    gs_wait wait = gs_wait_begin(t->crowded);
    do {
        if (atomic_load(&t->meeting) != meeting) return GS_OK;
    } while (gs_wait_a_moment(&wait));
    return sleep_until_met(c, meeting, leaving);
}

/* ---- messages ----
 *
 * Messages between the threads of a team: the sender leaves a copy in a mailbox, so it never waits.
 *
 *     rank 0   take a spare copy, fill it with the message  ->  mailbox 0 -> 1  ->  read it          rank 1
 *                     ^                                                               |
 *                     +----------------- then it is a spare one again ----------------+
 *
 * Where the messages repeat, as in training steps, no memory is allocated: a mailbox keeps as many copies as were ever
 * under way in it at once, all with room for its longest message. Short messages have copies of their own, because the
 * checking mode sends one before each message.
 *
 * Copies of more than 4 MB belong to the whole team: 16 ranks have 240 pairs, but few such messages at a time. How many
 * are under way varies from run to run, and the maximum may occur late. But it is the sum over all ranks of the
 * messages each has sent less those it has received. The scheme alone determines how far ahead a rank is in this sense
 * at each of its sends. So whenever a rank is further ahead than ever before, one more copy is made, even if one is
 * spare. This happens in the first steps. After that a spare copy is there whenever one is needed.
 */

enum { SMALL = GS_LINE, LARGE = 1 << 22 /* bytes, at most; above it, the team's */ };

/* The spare copies for a message of that many bytes. */
static spares *spare_for(team *t, mailbox *m, size_t bytes) {
    return bytes <= SMALL ? &m->small : bytes <= LARGE ? &m->large : &t->huge;
}

static void free_list(message_copy *k) {
    while (k) {
        message_copy *next = k->next;
        free(k);
        k = next;
    }
}

static void free_mailboxes(team *t) {
    for (mailbox *m = t->mailboxes; m && m < t->mailboxes + 2 * t->size * t->size; m++) {
        free_list(atomic_load(&m->first));
        free_list(m->small.copies);
        free_list(m->large.copies);
    }
    free_list(t->huge.copies);
}

static message_copy *new_copy(size_t room) {
    size_t lines = (sizeof(message_copy) + room + GS_LINE - 1) / GS_LINE;
    message_copy *k = lines * GS_LINE > room ? aligned_alloc(GS_LINE, lines * GS_LINE) : NULL;
    if (k) *k = (message_copy){.room = room};
    return k;
}

/* An empty copy goes back, unless it is too small for the messages that came since it was made. */
static void keep_locked(spares *s, message_copy *k) {
    if (k->room < s->room) {
        free(k);
        return;
    }
    k->next = s->copies;
    s->copies = k;
}

/* Make room for a message longer than all before. Returns the spare copies, which are now too small; free them without
 * the lock. */
static message_copy *outgrow_locked(spares *s, size_t bytes) {
    message_copy *outgrown = s->copies;
    if (bytes <= s->room && s->room > 0) return NULL;
    *s = (spares){.room = bytes <= SMALL ? SMALL : bytes};
    return outgrown;
}

static message_copy *pop_locked(spares *s) {
    message_copy *k = s->copies;
    if (k) s->copies = k->next;
    return k;
}

/* ---- a mailbox's own ---- */

/* If none is spare, make as many at once as may ever be under way, because the maximum may occur late here too. A ring
 * allows a sender to run furthest ahead, by size - 1 messages: each message waits for the one before it from the other
 * neighbour, and so on round the ring to the receiver. */
static message_copy *make_copies(team *t, spares *s, size_t room) {
    const int ahead = t->size > 4 ? t->size : 4;
    message_copy *mine = new_copy(room);
    for (int i = 1; mine && i < ahead; i++) {
        message_copy *more = new_copy(room);
        pthread_mutex_lock(&t->lock);
        if (more) keep_locked(s, more);
        pthread_mutex_unlock(&t->lock);
    }
    return mine;
}

static message_copy *take_own(team *t, mailbox *m, size_t bytes) {
    spares *s = spare_for(t, m, bytes);
    pthread_mutex_lock(&t->lock);
    message_copy *outgrown = outgrow_locked(s, bytes), *k = pop_locked(s);
    const size_t room = s->room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return k ? k : make_copies(t, s, room);
}

/* ---- the team's ---- */

/* A rank that sends and hardly receives would get further and further ahead. It counts as one that sends to everyone at
 * once. */
static message_copy *take_shared(team *t, seat *mine, size_t bytes) {
    pthread_mutex_lock(&t->lock);
    if (++mine->ahead > mine->most_ahead && mine->most_ahead < t->size) {
        mine->most_ahead++;
        t->huge_wanted++;
    }
    if (bytes > t->huge.room) t->huge_made = 0; /* those under way are freed when they are back */
    message_copy *outgrown = outgrow_locked(&t->huge, bytes);
    message_copy *k = t->huge_made < t->huge_wanted ? NULL : pop_locked(&t->huge);
    if (!k) t->huge_made++;
    const size_t room = t->huge.room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return k ? k : new_copy(room);
}

/* NULL: out of memory. */
static message_copy *take_copy(team *t, int from, mailbox *m, size_t bytes) {
    return bytes > LARGE ? take_shared(t, &t->seats[from], bytes) : take_own(t, m, bytes);
}

static void give_back(team *t, int to, mailbox *m, message_copy *k) {
    pthread_mutex_lock(&t->lock);
    if (k->room > LARGE) t->seats[to].ahead--;
    keep_locked(spare_for(t, m, k->room), k);
    pthread_mutex_unlock(&t->lock);
}

/* ---- send and recv ---- */

static mailbox *mailbox_of(team *t, const gs_envelope *e, int from, int to) {
    return &t->mailboxes[(gs_is_part(e) * t->size + from) * t->size + to];
}

static gs_status threads_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    team *t = c->state;
    if (atomic_load(&t->failed)) return failure(t);
    mailbox *m = mailbox_of(t, e, c->rank, e->peer);
    message_copy *k = take_copy(t, c->rank, m, bytes);
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
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return GS_OK;
}

static void fail_waiting_locked(const gs_comm *c, const gs_envelope *e, size_t bytes) {
    team *t = c->state;
    bool gone = t->seats[e->peer].left;
    char what[96], within[40] = "", cause[GS_LAST_WORDS / 2] = "", message[GS_LAST_WORDS];
    if (gs_is_part(e))
        gs_call_describe(e->call, false, what, sizeof what);
    else
        snprintf(what, sizeof what, "recv of %zu bytes", bytes);
    bool *awaited = gone ? NULL : calloc((size_t)t->size, sizeof *awaited);
    if (!gone) snprintf(within, sizeof within, " within %g s", c->timeout);
    if (awaited) {
        awaited[e->peer] = true;
        find_cause_locked(t, c->rank, c->timeout, awaited, cause, sizeof cause);
        free(awaited);
    }
    snprintf(message, sizeof message, "rank %d: %s: rank %d %s%s%s", t->first_rank + c->rank, what,
             t->first_rank + e->peer, gone ? "ended without sending" : "sent nothing", within, cause);
    fail_locked(t, message);
}

/* The oldest message in the mailbox; NULL when the team has failed. */
static message_copy *wait_for_copy(gs_comm *c, const gs_envelope *e, mailbox *m, size_t bytes) {
    team *t = c->state;
    gs_wait wait = gs_wait_begin(t->crowded);
    while (!atomic_load(&m->first) && !atomic_load(&t->failed) && gs_wait_a_moment(&wait)) continue;
    const double until = gs_awake_seconds() + c->timeout;
    bool in_time = true;
    pthread_mutex_lock(&t->lock);
    while (!atomic_load(&m->first) && !atomic_load(&t->failed)) {
        if (m->since <= 0) m->since = gs_seconds();
        if (in_time && !t->seats[e->peer].left)
            in_time = sleep_locked(t, until);
        else
            fail_waiting_locked(c, e, bytes);
    }
    m->since = 0;
    message_copy *k = atomic_load(&t->failed) ? NULL : atomic_load(&m->first);
    if (k) atomic_store(&m->first, k->next);
    pthread_mutex_unlock(&t->lock);
    return k;
}

/* One before it was lost, or the ranks make other calls: it cannot be told here, and all say it. */
static gs_status has_other_length(const gs_comm *c, const gs_envelope *e, size_t bytes, size_t sent) {
    team *t = c->state;
    char message[GS_LAST_WORDS];
    const char *what = gs_is_part(e) ? gs_call_text(e->call, false) : gs_operation_name(e->call->operation);
    snprintf(message, sizeof message, "rank %d: %s: " GS_OTHER_LENGTH, t->first_rank + c->rank, what, bytes,
             "rank", t->first_rank + e->peer, sent);
    fail(t, message);
    return failure(t);
}

static gs_status threads_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    team *t = c->state;
    mailbox *m = mailbox_of(t, e, e->peer, c->rank);
    message_copy *k = wait_for_copy(c, e, m, bytes);
    if (!k) return failure(t);
    const size_t sent = k->bytes;
    if (sent == bytes) gs_copy(data, k->data, bytes);
    give_back(t, c->rank, m, k);
    return sent == bytes ? GS_OK : has_other_length(c, e, bytes, sent);
}

/* ---- showing ---- */

static void show(gs_comm *c, const gs_call *call, const void *read, void *write) {
    seat *mine = &((team *)c->state)->seats[c->rank];
    mine->call = *call;
    mine->read = read;
    mine->write = write;
}

/* Show what this rank brings, meet, and check that all call the same: anything else is a mistake in the
 * program. */
static gs_status begin(gs_comm *c, const gs_call *call, const void *read, void *write) {
    team *t = c->state;
    show(c, call, read, write);
    GS_TRY(meet(c, false));
    for (int r = 0; r < t->size; r++)
        gs_call_compare(call, &t->seats[r].call, "rank", t->first_rank + c->rank, t->first_rank + r);
    return GS_OK;
}

/* All have done their part. */
static gs_status end(gs_comm *c) {
    return meet(c, true);
}

static void *place(const void *buffer, size_t at) {
    return buffer ? (unsigned char *)buffer + at : NULL;
}

/* ---- collectives ---- */

/* Reduce elements first .. last-1 over all ranks, in the order of the ranks. Ranks lowest .. highest get the result,
 * from element first - shift of their buffers on. */
static void reduce_slice(const team *t, const gs_call *call, size_t first, size_t last, int lowest,
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
    const team *t = c->state;
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
    const team *t = c->state;
    const seat *seats = t->seats;
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
        return meet(c, false);
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
    const team *t = c->state;
    GS_TRY(begin(c, call, NULL, shared));
    if (move) move(context, t->seats[0].write);
    return end(c);
}

/* ---- making, failing and leaving ---- */

static void free_team(team *t) {
    free_mailboxes(t);
    free(t->missing);
    free(t->mailboxes);
    free(t->seats);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void create_lock(team *t) {
    pthread_mutexattr_t adaptive; /* it is held for moments only: look again before sleeping */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&t->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_cond_init(&t->changed, NULL);
}

/* All bytes 0, in cache lines of its own. */
static void *lines(size_t bytes) {
    void *memory = aligned_alloc(GS_LINE, bytes); /* a multiple of the alignment, as every sizeof here is */
    return memory ? memset(memory, 0, bytes) : NULL;
}

/* NULL: out of memory. */
static team *create_team(int size, int first_rank) {
    team *t = lines(sizeof *t);
    if (!t) return NULL;
    t->size = size;
    t->first_rank = first_rank;
    t->members = size;
    t->crowded = gs_wait_is_crowded(size);
    create_lock(t);
    t->seats = lines((size_t)size * sizeof *t->seats);
    t->mailboxes = lines(2 * (size_t)size * (size_t)size * sizeof *t->mailboxes);
    t->missing = calloc((size_t)size, sizeof *t->missing);
    if (t->seats && t->mailboxes && t->missing) return t;
    free_team(t);
    return NULL;
}

/* A rank leaves; the last one frees the team. Any rank that still waits for this one fails. */
static void leave(team *t, int rank) {
    pthread_mutex_lock(&t->lock);
    t->seats[rank].left = true;
    bool last = --t->members == 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (last) free_team(t);
}

gs_status gs_threads_failed(const gs_comm *c) {
    return failure(c->state);
}

static void threads_abort(gs_comm *c, const char *message) {
    fail(c->state, message);
}

static void threads_free(gs_comm *c) {
    leave(c->state, c->rank);
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

gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms) {
    if (size < 1) gs_bug("gs_comm_threads_create: size is %d", size);
    if (!(timeout > 0)) return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", timeout);
    team *t = create_team(size, first);
    int made = 0;
    while (t && made < size && (comms[made] = malloc(sizeof *comms[made]))) {
        *comms[made] = (gs_comm){&transport_threads, made, size, timeout, t};
        made++;
    }
    if (made == size) return GS_OK;
    for (int r = 0; t && r < size; r++) leave(t, r);
    while (made > 0) free(comms[--made]);
    return gs_fail(GS_E_MEMORY, "no memory for a team of %d threads", size);
}

gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms) {
    return gs_threads_create(size, 0, timeout, comms);
}
