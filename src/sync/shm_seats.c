/* How processes wait for each other in shared memory, and how they learn that one of them is gone.
 *
 * A rank that waits looks for a moment (core/wait.h), because the others are mostly there within microseconds; then it
 * sleeps. Who changes something wakes the sleepers. A process that is killed wakes nobody, so a sleeper gets up ten
 * times a second and looks whether those that it waits for still live.
 */
#include "core/clock.h"
#include "core/wait.h"
#include "sync/rank_list.h"
#include "sync/shm.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 100 };

/* ---- failing ---- */

bool gs_shm_has_failed(const gs_shm *m) {
    return atomic_load(&m->header->failed) != 0;
}

gs_status gs_shm_failed(const gs_shm *m) {
    const gs_shm_header *h = m->header;
    for (int i = 0; atomic_load(&h->failed) == 1 && i < 1000; i++) sched_yield();
    if (atomic_load(&h->failed) == 2) return gs_fail(h->code, "%s", h->message);
    return gs_fail(GS_E_PEER, "%s %d: another %s failed and was lost before it could say why", m->noun,
                   m->rank, m->noun);
}

void gs_shm_fail(gs_shm *m, gs_status code, const char *message) {
    gs_shm_header *h = m->header;
    int none = 0;
    if (atomic_compare_exchange_strong(&h->failed, &none, 1)) {
        h->code = code;
        snprintf(h->message, sizeof h->message, "%s", message);
        atomic_store(&h->failed, 2);
    }
    gs_shm_wake(m);
}

/* ---- sleeping: events counts up, and is the word that sleepers wait at ---- */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time) {
    syscall(SYS_futex, (uint32_t *)word, operation, value, time, NULL, 0);
}

void gs_shm_wake(gs_shm *m) {
    gs_shm_header *h = m->header;
    if (atomic_load(&h->sleepers) == 0) return;
    atomic_fetch_add(&h->events, 1);
    futex(&h->events, FUTEX_WAKE, INT32_MAX, NULL);
}

static bool is_there(const gs_shm_wait *w) {
    if (w->from >= 0) return w->is(w, w->from);
    for (int r = 0; r < w->shm->size; r++)
        if (!w->is(w, r)) return false;
    return true;
}

static bool is_over(const gs_shm_wait *w) {
    return is_there(w) || gs_shm_has_failed(w->shm);
}

/* Sleep until something changes, or for a slice. */
static void sleep_once(const gs_shm_wait *w) {
    gs_shm_header *h = w->shm->header;
    atomic_fetch_add(&h->sleepers, 1);
    uint32_t events = atomic_load(&h->events);
    if (!is_over(w))
        futex(&h->events, FUTEX_WAIT, events, &(struct timespec){.tv_nsec = SLICE_MS * 1000000L});
    atomic_fetch_sub(&h->sleepers, 1);
}

/* ---- who is missing, and why ---- */

static bool has_ended(const gs_shm *m, int rank) {
    struct pollfd p = {.fd = m->watch[rank], .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Those that w waits for and that are `gone`, or all of them; how many. */
static int missing(const gs_shm_wait *w, bool (*gone)(const gs_shm *, int), char *text, size_t size) {
    const gs_shm *m = w->shm;
    int count = 0;
    bool mark[GS_SHM_RANKS] = {false};
    for (int r = 0; r < m->size; r++) {
        bool looked_at = w->from < 0 || w->from == r;
        mark[r] = looked_at && r != m->rank && (!gone || gone(m, r)) && !w->is(w, r);
        count += mark[r];
    }
    text[0] = '\0';
    if (count > 0) gs_append_ranks(text, size, m->noun, 0, m->size, mark);
    return count;
}

static bool has_left(const gs_shm *m, int rank) {
    return atomic_load(&m->header->seats[rank].left);
}

static void describe(const gs_call *call, char *text, size_t size) {
    if (call->operation == GS_SEND || call->operation == GS_RECV)
        snprintf(text, size, "%s of %zu bytes %s rank %d", gs_operation_name(call->operation), call->count,
                 call->operation == GS_SEND ? "to" : "from", call->root);
    else
        gs_call_describe(call, false, text, size);
}

/* Can it still come about? If not, everybody fails. */
static void look_for_losses(const gs_shm_wait *w, bool late) {
    gs_shm *m = w->shm;
    char who[200], what[96], message[GS_SHM_MESSAGE];
    describe(w->call, what, sizeof what);
    int lost;
    if (missing(w, has_left, who, sizeof who) > 0)
        snprintf(message, sizeof message, "%s %d: %s: %s ended without it", m->noun, m->rank, what, who);
    else if ((lost = missing(w, has_ended, who, sizeof who)) > 0)
        snprintf(message, sizeof message, "%s %d: %s: %s %s lost (the process has ended)", m->noun, m->rank,
                 what, who, lost > 1 ? "were" : "was");
    else if (late && missing(w, NULL, who, sizeof who) > 0)
        snprintf(message, sizeof message, "%s %d: %s: no answer within %g s from %s", m->noun, m->rank, what,
                 w->timeout, who);
    else
        return;
    gs_shm_fail(m, GS_E_PEER, message);
}

/* ---- waiting ---- */

gs_status gs_shm_wait_for(const gs_shm_wait *w) {
    gs_wait wait = gs_wait_begin(!w->shm->spins);
    do {
        if (is_over(w)) goto over;
    } while (gs_wait_a_moment(&wait));
    while (!is_over(w)) {
        sleep_once(w);
        if (!is_over(w)) look_for_losses(w, gs_seconds() - wait.begin >= w->timeout);
    }
over:
    return is_there(w) ? GS_OK : gs_shm_failed(w->shm);
}

/* ---- meeting ---- */

static bool has_arrived(const gs_shm_wait *w, int rank) {
    uint32_t arrived = atomic_load(&w->shm->header->seats[rank].arrived);
    return (int32_t)(arrived - w->want) >= 0;
}

gs_status gs_shm_meet(gs_shm *m, const gs_call *call, double timeout) {
    if (gs_shm_has_failed(m)) return gs_shm_failed(m);
    gs_shm_wait w = {
        .is = has_arrived, .shm = m, .from = -1, .want = ++m->meetings, .call = call, .timeout = timeout};
    atomic_store(&m->header->seats[m->rank].arrived, m->meetings);
    gs_shm_wake(m);
    return gs_shm_wait_for(&w);
}

/* The others compare after the first meeting of a collective, when a fast rank may have shown its next call
 * already: so two calls have a place, and nobody can be two collectives ahead. */
void gs_shm_show(gs_shm *m, const gs_call *call) {
    m->header->seats[m->rank].call[++m->calls % 2] = *call;
}

void gs_shm_compare(const gs_shm *m, const gs_call *call) {
    for (int r = 0; r < m->size; r++) {
        const gs_call *other = &m->header->seats[r].call[m->calls % 2];
        if (other->operation == call->operation && other->count == call->count && other->type == call->type &&
            other->reduction == call->reduction && other->root == call->root)
            continue;
        char a[96], b[96];
        gs_call_describe(call, true, a, sizeof a);
        gs_call_describe(other, true, b, sizeof b);
        gs_bug("%s %d calls %s, %s %d calls %s", m->noun, m->rank, a, m->noun, r, b);
    }
}
