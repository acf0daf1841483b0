/* How processes wait for each other in shared memory, and how they learn that one of them is gone.
 *
 * A waiting rank spins for a moment (core/wait.h), because the others mostly arrive within microseconds; then it
 * sleeps. A rank that changes something wakes the sleepers. A process that is killed wakes nobody, so a sleeper wakes
 * up ten times a second and checks whether the ranks it waits for still live.
 */
#include "core/clock.h"
#include "core/wait.h"
#include "comm/process.h"
#include "comm/rank_list.h"
#include "comm/shm/shm.h"
#include "comm/waits.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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
                   m->first + m->rank, m->noun);
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
    return gs_process_watched_has_ended(m->watch[rank]);
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
    if (count > 0) gs_append_ranks(text, size, m->noun, m->first, m->size, mark);
    return count;
}

static bool has_left(const gs_shm *m, int rank) {
    return atomic_load(&m->header->seats[rank].left);
}

/* ---- who waits for whom ---- */

/* Renewed whenever a sleeper wakes up: several threads of a process may wait, and one that finishes withdraws what it
 * showed. */
static void show_waits(const gs_shm_wait *w, double begin) {
    const gs_shm *m = w->shm;
    for (int r = 0; r < m->size; r++) {
        if (r == m->rank || (w->from >= 0 && w->from != r)) continue;
        _Atomic uint64_t *since = &m->waits[m->rank * m->size + r];
        if (w->is(w, r))
            atomic_store(since, 0);
        else if (atomic_load(since) == 0)
            atomic_store(since, (uint64_t)(begin * 1e9));
    }
}

static void hide_waits(const gs_shm_wait *w) {
    const gs_shm *m = w->shm;
    for (int r = 0; r < m->size; r++)
        if (w->from < 0 || w->from == r) atomic_store(&m->waits[m->rank * m->size + r], 0);
}

static void explain_late(const gs_shm_wait *w, const char *what, char *message, size_t size) {
    const gs_shm *m = w->shm;
    size_t pairs = (size_t)m->size * (size_t)m->size;
    bool awaited[GS_SHM_RANKS] = {false};
    uint64_t last[GS_SHM_RANKS];
    char(*host)[GS_HOST] = gs_hosts_here(m->size, m->pid);
    double now = gs_seconds(), *age = calloc(pairs, sizeof *age);
    for (size_t i = 0; age && i < pairs; i++) {
        uint64_t since = atomic_load(&m->waits[i]);
        age[i] = since == 0 ? 0 : now - (double)since * 1e-9;
    }
    for (int r = 0; r < m->size; r++) last[r] = atomic_load(&m->header->seats[r].last);
    for (int r = 0; r < m->size; r++)
        awaited[r] = r != m->rank && (w->from < 0 || w->from == r) && !w->is(w, r);
    snprintf(message, size, "%s %d: %s: ", m->noun, m->first + m->rank, what);
    const gs_waits late = {.noun = m->noun,
                           .first = m->first,
                           .size = m->size,
                           .rank = m->rank,
                           .timeout = w->timeout < m->comm.timeout ? w->timeout : m->comm.timeout,
                           .awaited = awaited,
                           .age = age,
                           .pid = m->pid,
                           .host = (const char(*)[GS_HOST])host,
                           .last = last,
                           .did = "last began"};
    if (age) gs_waits_explain(&late, message, size);
    free(age);
    free(host);
}

/* Has it waited for so long that it gives up? *told: it has said that it waits. That counts from the timeout of the
 * comm on, although a wait may be allowed to take longer. */
static bool is_late(const gs_shm_wait *w, double waited, bool *told) {
    gs_shm *m = w->shm;
    bool stopped = false;
    if (waited < w->timeout && waited < m->comm.timeout) return false;
    for (int r = 0; r < m->size && m->late; r++) {
        if (r == m->rank || (w->from >= 0 && w->from != r) || w->is(w, r)) continue;
        stopped = stopped || gs_process_is_stopped(m->pid[r]);
        if (!*told) m->late(m->context, m->first + r);
    }
    *told = true;
    if (m->heed && m->heed(m->context) != GS_OK) gs_shm_fail(m, GS_E_PEER, gs_message());
    return stopped || waited >= w->timeout + m->grace;
}

/* Can what w waits for still happen? If not, all ranks fail. */
static void look_for_losses(const gs_shm_wait *w, bool late) {
    gs_shm *m = w->shm;
    char who[200], where[GS_HOST] = "?", message[GS_LAST_WORDS];
    const char *what = gs_call_text(w->call, false);
    int lost;
    if (missing(w, has_left, who, sizeof who) > 0)
        snprintf(message, sizeof message, "%s %d: %s: %s ended without it", m->noun, m->first + m->rank, what,
                 who);
    else if ((lost = missing(w, has_ended, who, sizeof who)) > 0) {
        gethostname(where, sizeof where - 1);
        snprintf(message, sizeof message, "%s %d: %s: %s %s lost (the process has ended) on host %s", m->noun,
                 m->first + m->rank, what, who, lost > 1 ? "were" : "was", where);
    } else if (late && missing(w, NULL, who, sizeof who) > 0)
        explain_late(w, what, message, sizeof message);
    else
        return;
    gs_shm_fail(m, GS_E_PEER, message);
}

/* ---- waiting ---- */

gs_status gs_shm_wait_for(const gs_shm_wait *w) {
    gs_wait wait = gs_wait_begin(!w->shm->spins);
    bool told = false;
    do {
        if (is_over(w)) goto over;
    } while (gs_wait_a_moment(&wait));
    const double begin = gs_awake_seconds();
    for (double waited = 0; !is_over(w);) {
        show_waits(w, gs_seconds() - waited);
        sleep_once(w);
        waited = gs_awake_seconds() - begin;
        if (!is_over(w)) look_for_losses(w, is_late(w, waited, &told));
    }
    hide_waits(w);
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

void gs_shm_begin(const gs_shm *m, const gs_call *call) {
    atomic_store_explicit(&m->header->seats[m->rank].last, gs_call_pack(call), memory_order_relaxed);
}

/* The others compare after the first meeting of a collective, when a fast rank may already have shown its next call. So
 * there is room for two calls; no rank can be two collectives ahead. */
void gs_shm_show(gs_shm *m, const gs_call *call) {
    m->header->seats[m->rank].call[++m->calls % 2] = *call;
}

void gs_shm_compare(const gs_shm *m, const gs_call *call) {
    for (int r = 0; r < m->size; r++)
        gs_call_compare(call, &m->header->seats[r].call[m->calls % 2], m->noun, m->first + m->rank,
                        m->first + r);
}
