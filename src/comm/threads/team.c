/* How threads wait for each other: spin for a moment (core/wait.h), then sleep, never longer than the timeout.
 *
 * A meeting is a barrier. A waiting rank looks only at the meeting's number, which the last rank to arrive increments.
 */
#include "comm/threads/team.h"
#include "comm/waits.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/text.h"
#include "core/wait.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOOK = 0.2; /* seconds between two looks at the clock (gs_awake_seconds) */

/* ---- failing ---- */

gs_status gs_team_failed(const gs_team *t) {
    return gs_fail(GS_E_PEER, "%s", t->message);
}

/* The caller holds the lock. */
static void fail_locked(gs_team *t, const char *message) {
    if (!atomic_load(&t->failed)) {
        snprintf(t->message, sizeof t->message, "%s", message);
        atomic_store(&t->failed, true);
    }
    pthread_cond_broadcast(&t->changed);
}

void gs_team_fail(gs_team *t, const char *message) {
    pthread_mutex_lock(&t->lock);
    fail_locked(t, message);
    pthread_mutex_unlock(&t->lock);
}

/* ---- waiting ---- */

/* Sleep until something changes, or for a moment; false: it is `until` by gs_awake_seconds. The caller holds the
 * lock. */
static bool sleep_locked(gs_team *t, double until) {
    const double left = until - gs_awake_seconds();
    const struct timespec look = gs_timespec(gs_seconds() + fmax(0, fmin(left, LOOK)));
    pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &look);
    return gs_awake_seconds() < until;
}

/* For messages: the ranks that have not arrived at the meeting where `rank` waits. If `left`, only those that never
 * can. Returns how many. The caller holds the lock. */
static int describe_missing(gs_team *t, int rank, bool left, char *text, size_t size) {
    uint64_t mine = atomic_load(&t->seats[rank].arrivals);
    for (int r = 0; r < t->size; r++)
        t->missing[r] = atomic_load(&t->seats[r].arrivals) < mine && (t->seats[r].left || !left);
    text[0] = '\0';
    return gs_append_ranks(text, size, "rank", t->first_rank, t->size, t->missing);
}

/* age[a * size + b]: seconds that rank a has slept for rank b. */
static void measure_waits_locked(const gs_team *t, double *age) {
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
static void find_cause_locked(gs_team *t, int rank, double timeout, bool *awaited, char *cause, size_t size) {
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
    gs_team *t = c->state;
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
    gs_status status = atomic_load(&t->meeting) == meeting ? gs_team_failed(t) : GS_OK;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* The last rank to arrive and a rank that gives up both decide under the lock. So either all have met, or none has. */
gs_status gs_team_meet(gs_comm *c, bool leaving) {
    gs_team *t = c->state;
    if (!leaving && atomic_load(&t->failed)) return gs_team_failed(t);
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
        return too_late ? gs_team_failed(t) : GS_OK;
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
static gs_spare *spare_for(gs_team *t, gs_mailbox *m, size_t bytes) {
    return bytes <= SMALL ? &m->small : bytes <= LARGE ? &m->large : &t->huge;
}

static void free_list(gs_team_copy *k) {
    while (k) {
        gs_team_copy *next = k->next;
        free(k);
        k = next;
    }
}

static void free_mailboxes(gs_team *t) {
    for (gs_mailbox *m = t->mailboxes; m && m < t->mailboxes + 2 * t->size * t->size; m++) {
        free_list(atomic_load(&m->first));
        free_list(m->small.copies);
        free_list(m->large.copies);
    }
    free_list(t->huge.copies);
}

static gs_team_copy *new_copy(size_t room) {
    size_t lines = (sizeof(gs_team_copy) + room + GS_LINE - 1) / GS_LINE;
    gs_team_copy *k = lines * GS_LINE > room ? aligned_alloc(GS_LINE, lines * GS_LINE) : NULL;
    if (k) *k = (gs_team_copy){.room = room};
    return k;
}

/* An empty copy goes back, unless it is too small for the messages that came since it was made. */
static void keep_locked(gs_spare *s, gs_team_copy *k) {
    if (k->room < s->room) {
        free(k);
        return;
    }
    k->next = s->copies;
    s->copies = k;
}

/* Make room for a message longer than all before. Returns the spare copies, which are now too small; free them without
 * the lock. */
static gs_team_copy *outgrow_locked(gs_spare *s, size_t bytes) {
    gs_team_copy *outgrown = s->copies;
    if (bytes <= s->room && s->room > 0) return NULL;
    *s = (gs_spare){.room = bytes <= SMALL ? SMALL : bytes};
    return outgrown;
}

static gs_team_copy *pop_locked(gs_spare *s) {
    gs_team_copy *k = s->copies;
    if (k) s->copies = k->next;
    return k;
}

/* ---- a mailbox's own ---- */

/* If none is spare, make as many at once as may ever be under way, because the maximum may occur late here too. A ring
 * allows a sender to run furthest ahead, by size - 1 messages: each message waits for the one before it from the other
 * neighbour, and so on round the ring to the receiver. */
static gs_team_copy *make_copies(gs_team *t, gs_spare *s, size_t room) {
    const int ahead = t->size > 4 ? t->size : 4;
    gs_team_copy *mine = new_copy(room);
    for (int i = 1; mine && i < ahead; i++) {
        gs_team_copy *more = new_copy(room);
        pthread_mutex_lock(&t->lock);
        if (more) keep_locked(s, more);
        pthread_mutex_unlock(&t->lock);
    }
    return mine;
}

static gs_team_copy *take_own(gs_team *t, gs_mailbox *m, size_t bytes) {
    gs_spare *s = spare_for(t, m, bytes);
    pthread_mutex_lock(&t->lock);
    gs_team_copy *outgrown = outgrow_locked(s, bytes), *k = pop_locked(s);
    const size_t room = s->room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return k ? k : make_copies(t, s, room);
}

/* ---- the team's ---- */

/* A rank that sends and hardly receives would get further and further ahead. It counts as one that sends to everyone at
 * once. */
static gs_team_copy *take_shared(gs_team *t, gs_seat *seat, size_t bytes) {
    pthread_mutex_lock(&t->lock);
    if (++seat->ahead > seat->most_ahead && seat->most_ahead < t->size) {
        seat->most_ahead++;
        t->huge_wanted++;
    }
    if (bytes > t->huge.room) t->huge_made = 0; /* those under way are freed when they are back */
    gs_team_copy *outgrown = outgrow_locked(&t->huge, bytes);
    gs_team_copy *k = t->huge_made < t->huge_wanted ? NULL : pop_locked(&t->huge);
    if (!k) t->huge_made++;
    const size_t room = t->huge.room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return k ? k : new_copy(room);
}

/* NULL: out of memory. */
static gs_team_copy *take_copy(gs_team *t, int from, gs_mailbox *m, size_t bytes) {
    return bytes > LARGE ? take_shared(t, &t->seats[from], bytes) : take_own(t, m, bytes);
}

static void give_back(gs_team *t, int to, gs_mailbox *m, gs_team_copy *k) {
    pthread_mutex_lock(&t->lock);
    if (k->room > LARGE) t->seats[to].ahead--;
    keep_locked(spare_for(t, m, k->room), k);
    pthread_mutex_unlock(&t->lock);
}

/* ---- send and recv ---- */

static gs_mailbox *mailbox_of(gs_team *t, const gs_envelope *e, int from, int to) {
    return &t->mailboxes[(gs_is_part(e) * t->size + from) * t->size + to];
}

gs_status gs_team_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_team *t = c->state;
    if (atomic_load(&t->failed)) return gs_team_failed(t);
    gs_mailbox *m = mailbox_of(t, e, c->rank, e->peer);
    gs_team_copy *k = take_copy(t, c->rank, m, bytes);
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
    gs_team *t = c->state;
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
static gs_team_copy *wait_for_copy(gs_comm *c, const gs_envelope *e, gs_mailbox *m, size_t bytes) {
    gs_team *t = c->state;
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
    gs_team_copy *k = atomic_load(&t->failed) ? NULL : atomic_load(&m->first);
    if (k) atomic_store(&m->first, k->next);
    pthread_mutex_unlock(&t->lock);
    return k;
}

/* One before it was lost, or the ranks make other calls: it cannot be told here, and all say it. */
static gs_status has_other_length(const gs_comm *c, const gs_envelope *e, size_t bytes, size_t sent) {
    gs_team *t = c->state;
    char message[GS_LAST_WORDS];
    const char *what = gs_is_part(e) ? gs_call_text(e->call, false) : gs_operation_name(e->call->operation);
    snprintf(message, sizeof message, "rank %d: %s: " GS_OTHER_LENGTH, t->first_rank + c->rank, what, bytes,
             "rank", t->first_rank + e->peer, sent);
    gs_team_fail(t, message);
    return gs_team_failed(t);
}

gs_status gs_team_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_team *t = c->state;
    gs_mailbox *m = mailbox_of(t, e, e->peer, c->rank);
    gs_team_copy *k = wait_for_copy(c, e, m, bytes);
    if (!k) return gs_team_failed(t);
    const size_t sent = k->bytes;
    if (sent == bytes) gs_copy(data, k->data, bytes);
    give_back(t, c->rank, m, k);
    return sent == bytes ? GS_OK : has_other_length(c, e, bytes, sent);
}

/* ---- making and leaving ---- */

static void free_team(gs_team *t) {
    free_mailboxes(t);
    free(t->missing);
    free(t->mailboxes);
    free(t->seats);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void create_lock(gs_team *t) {
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

gs_team *gs_team_create(int size, int first_rank) {
    gs_team *t = lines(sizeof *t);
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

void gs_team_leave(gs_team *t, int rank) {
    pthread_mutex_lock(&t->lock);
    t->seats[rank].left = true;
    bool last = --t->members == 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (last) free_team(t);
}
