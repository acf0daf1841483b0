/* Messages between the threads of a team: the sender leaves a copy, a letter, so it never waits.
 *
 *     rank 0   take a spare letter, copy the message into it   ->  post 0 -> 1  ->   copy it out     rank 1
 *                     ^                                                                 |
 *                     +------------- the empty letter is a spare one again -------------+
 *
 * So where the messages repeat, as those of a training step do, no memory is allocated: a post has as many
 * letters as were ever under way on it, all with room for its longest message. Short messages have letters of
 * their own: the checking mode sends one before each message.
 *
 * Letters of more than 4 MB belong to the whole team: 16 ranks have 240 posts, and few such messages at a time. How
 * many are under way is a matter of luck, and may be seen late. But it is the sum over all ranks of what each has sent
 * and has not received, and how far a rank is ahead in this way at each of its sends is a matter of the scheme. So each
 * time that a rank is further ahead than ever before, one letter more is made, also if there is one to spare: in the
 * first steps. From then on there is one to spare whenever it is needed.
 */
#include "core/wait.h"
#include "sync/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = GS_LINE, LARGE = 1 << 22 /* bytes, at most; above it, the team's */ };

/* The spare letters for a message of so many bytes. */
static gs_spare *spare_for(gs_team *t, gs_post *p, size_t bytes) {
    return bytes <= SMALL ? &p->small : bytes <= LARGE ? &p->large : &t->huge;
}

static void free_list(gs_letter *l) {
    while (l) {
        gs_letter *next = l->next;
        free(l);
        l = next;
    }
}

void gs_team_free_letters(gs_team *t) {
    for (gs_post *p = t->posts; p && p < t->posts + t->size * t->size; p++) {
        free_list(atomic_load(&p->first));
        free_list(p->small.letters);
        free_list(p->large.letters);
    }
    free_list(t->huge.letters);
}

static gs_letter *new_letter(size_t room) {
    size_t lines = (sizeof(gs_letter) + room + GS_LINE - 1) / GS_LINE;
    gs_letter *l = lines * GS_LINE > room ? aligned_alloc(GS_LINE, lines * GS_LINE) : NULL;
    if (l) *l = (gs_letter){.room = room};
    return l;
}

/* An empty letter goes back, unless it is too small for the messages that came since it was made. */
static void keep_locked(gs_spare *s, gs_letter *l) {
    if (l->room < s->room) {
        free(l);
        return;
    }
    l->next = s->letters;
    s->letters = l;
}

/* Room for a longer message than all before. The spare letters, which are now too small; to be freed without the lock. */
static gs_letter *outgrow_locked(gs_spare *s, size_t bytes) {
    gs_letter *outgrown = s->letters;
    if (bytes <= s->room && s->room > 0) return NULL;
    *s = (gs_spare){.room = bytes <= SMALL ? SMALL : bytes};
    return outgrown;
}

static gs_letter *pop_locked(gs_spare *s) {
    gs_letter *l = s->letters;
    if (l) s->letters = l->next;
    return l;
}

/* ---- a post's own ---- */

/* With none to spare, as many are made at once as may be under way. How far a sender runs ahead of its receiver is a
 * matter of luck, and may be seen late; how far it can is a matter of the scheme. A ring allows most: each message waits
 * for the one before it from the other neighbour, and so on round the ring to the receiver, that is size - 1 messages. */
static gs_letter *make_letters(gs_team *t, gs_spare *s, size_t room) {
    const int ahead = t->size > 4 ? t->size : 4;
    gs_letter *mine = new_letter(room);
    for (int i = 1; mine && i < ahead; i++) {
        gs_letter *more = new_letter(room);
        pthread_mutex_lock(&t->lock);
        if (more) keep_locked(s, more);
        pthread_mutex_unlock(&t->lock);
    }
    return mine;
}

static gs_letter *take_own(gs_team *t, gs_post *p, size_t bytes) {
    gs_spare *s = spare_for(t, p, bytes);
    pthread_mutex_lock(&t->lock);
    gs_letter *outgrown = outgrow_locked(s, bytes), *l = pop_locked(s);
    const size_t room = s->room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return l ? l : make_letters(t, s, room);
}

/* ---- the team's ---- */

/* A rank that sends and hardly receives would be ever further ahead: it counts as one that sends to everyone at once. */
static gs_letter *take_shared(gs_team *t, gs_seat *seat, size_t bytes) {
    pthread_mutex_lock(&t->lock);
    if (++seat->ahead > seat->most_ahead && seat->most_ahead < t->size) {
        seat->most_ahead++;
        t->huge_wanted++;
    }
    if (bytes > t->huge.room) t->huge_made = 0; /* those under way are freed when they are back */
    gs_letter *outgrown = outgrow_locked(&t->huge, bytes);
    gs_letter *l = t->huge_made < t->huge_wanted ? NULL : pop_locked(&t->huge);
    if (!l) t->huge_made++;
    const size_t room = t->huge.room;
    pthread_mutex_unlock(&t->lock);
    free_list(outgrown);
    return l ? l : new_letter(room);
}

/* NULL: out of memory. */
static gs_letter *take_letter(gs_team *t, int from, int to, size_t bytes) {
    return bytes > LARGE ? take_shared(t, &t->seats[from], bytes)
                         : take_own(t, &t->posts[from * t->size + to], bytes);
}

static void give_back(gs_team *t, int from, int to, gs_letter *l) {
    pthread_mutex_lock(&t->lock);
    if (l->room > LARGE) t->seats[to].ahead--;
    keep_locked(spare_for(t, &t->posts[from * t->size + to], l->room), l);
    pthread_mutex_unlock(&t->lock);
}

/* ---- send and recv ---- */

gs_status gs_team_send(gs_comm *c, const void *data, size_t bytes, int to) {
    gs_team *t = c->state;
    if (atomic_load(&t->failed)) return gs_team_failed(t);
    gs_post *p = &t->posts[c->rank * t->size + to];
    gs_letter *l = take_letter(t, c->rank, to, bytes);
    if (!l)
        return gs_fail(GS_E_MEMORY, "rank %d: no memory for a message of %zu bytes to rank %d",
                       t->first_rank + c->rank, bytes, t->first_rank + to);
    l->next = NULL;
    l->bytes = bytes;
    if (bytes > 0) memcpy(l->data, data, bytes);
    pthread_mutex_lock(&t->lock);
    if (atomic_load(&p->first))
        p->last->next = l;
    else
        atomic_store(&p->first, l);
    p->last = l;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return GS_OK;
}

/* The oldest letter from rank `from`; NULL when the team has failed. */
static gs_letter *wait_for_letter(gs_comm *c, size_t bytes, int from) {
    gs_team *t = c->state;
    gs_post *p = &t->posts[from * t->size + c->rank];
    gs_wait wait = gs_wait_begin(t->crowded);
    while (!atomic_load(&p->first) && !atomic_load(&t->failed) && gs_wait_a_moment(&wait)) continue;
    struct timespec until;
    const struct timespec *deadline = gs_team_deadline(c, &until);
    bool in_time = true;
    pthread_mutex_lock(&t->lock);
    while (!atomic_load(&p->first) && !atomic_load(&t->failed)) {
        bool gone = t->seats[from].left;
        if (in_time && !gone) {
            in_time = gs_team_sleep_locked(t, deadline);
            continue;
        }
        char message[GS_TEAM_MESSAGE], within[40] = "";
        if (!gone) snprintf(within, sizeof within, " within %g s", c->timeout);
        snprintf(message, sizeof message, "rank %d: recv of %zu bytes: rank %d %s%s", t->first_rank + c->rank,
                 bytes, t->first_rank + from, gone ? "ended without sending" : "sent nothing", within);
        gs_team_fail_locked(t, message);
    }
    gs_letter *l = atomic_load(&t->failed) ? NULL : atomic_load(&p->first);
    if (l) atomic_store(&p->first, l->next);
    pthread_mutex_unlock(&t->lock);
    return l;
}

gs_status gs_team_recv(gs_comm *c, void *data, size_t bytes, int from) {
    gs_team *t = c->state;
    gs_letter *l = wait_for_letter(c, bytes, from);
    if (!l) return gs_team_failed(t);
    if (l->bytes != bytes)
        gs_bug("rank %d receives %zu bytes from rank %d, which sent %zu", t->first_rank + c->rank, bytes,
               t->first_rank + from, l->bytes);
    if (bytes > 0) memcpy(data, l->data, bytes);
    give_back(t, from, c->rank, l);
    return GS_OK;
}
