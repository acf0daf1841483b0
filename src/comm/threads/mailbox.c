/* Messages between the threads of a team: the sender leaves a copy in a mailbox, so it never waits.
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
#include "core/clock.h"
#include "core/memory.h"
#include "core/wait.h"
#include "comm/threads/team.h"

#include <stdio.h>
#include <stdlib.h>

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

void gs_team_free_mailboxes(gs_team *t) {
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
        gs_team_find_cause_locked(t, c->rank, c->timeout, awaited, cause, sizeof cause);
        free(awaited);
    }
    snprintf(message, sizeof message, "rank %d: %s: rank %d %s%s%s", t->first_rank + c->rank, what,
             t->first_rank + e->peer, gone ? "ended without sending" : "sent nothing", within, cause);
    gs_team_fail_locked(t, message);
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
            in_time = gs_team_sleep_locked(t, until);
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
