/* How threads wait for each other: spin for a moment (core/wait.h), then sleep, never longer than the timeout.
 *
 * A meeting is a barrier. A waiting rank looks only at the meeting's number, which the last rank to arrive increments.
 */
#include "comm/threads/team.h"
#include "core/clock.h"
#include "core/wait.h"
#include "core/text.h"
#include "comm/rank_list.h"
#include "comm/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOOK = 0.2; /* seconds between two looks at the clock (gs_awake_seconds) */

/* ---- failing ---- */

gs_status gs_team_failed(const gs_team *t) {
    return gs_fail(GS_E_PEER, "%s", t->message);
}

void gs_team_fail_locked(gs_team *t, const char *message) {
    if (!atomic_load(&t->failed)) {
        snprintf(t->message, sizeof t->message, "%s", message);
        atomic_store(&t->failed, true);
    }
    pthread_cond_broadcast(&t->changed);
}

void gs_team_fail(gs_team *t, const char *message) {
    pthread_mutex_lock(&t->lock);
    gs_team_fail_locked(t, message);
    pthread_mutex_unlock(&t->lock);
}

/* ---- waiting ---- */

bool gs_team_sleep_locked(gs_team *t, double until) {
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

void gs_team_find_cause_locked(gs_team *t, int rank, double timeout, bool *awaited, char *cause,
                               size_t size) {
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
            in_time = gs_team_sleep_locked(t, until);
            continue;
        }
        if (!gone) {
            describe_missing(t, c->rank, false, missing, sizeof missing);
            gs_team_find_cause_locked(t, c->rank, c->timeout, t->missing, cause, sizeof cause);
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
        gs_team_fail_locked(t, message);
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

/* ---- making and leaving ---- */

static void free_team(gs_team *t) {
    gs_team_free_mailboxes(t);
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
