/* Waiting for MPI, never longer than the timeout; and how a failure spreads.
 *
 * MPI_Wait has no limit. So every operation is begun by a call that returns at once. MPI_Test is then called again and
 * again, which is also what lets MPI make progress: at first without a pause, then yielding the core, after a while
 * with short sleeps.
 *
 * A rank that fails sends its message to all others on a communicator of its own. Ranks that wait look there too, and
 * fail with that message. This is the last thing that MPI does for a comm. Operations already begun are never
 * completed, and must not touch their memory when it is used for other things. So no thread returns with a failure
 * while another still lets MPI work, and MPI_Finalize is left out (session.h).
 */
#ifdef GRADSUM_MPI
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "comm/mpi/session.h"
#include "comm/mpi/state.h"
#include "comm/waits.h"

enum {
    BUSY_TESTS = 200,  /* before the core is offered to others between tests: about 20 us */
    EAR_INTERVAL = 16, /* tests between two looks for last words */
};
static const double SLEEPLESS = 5e-3, TELLING = 0.5, LAST_WORDS = 0.05; /* seconds */

/* ---- failing ---- */

gs_status gs_mpi_failed(const gs_mpi *s) {
    return gs_fail(s->code, "%s", s->message);
}

/* Send the message to all and give it a moment to leave. */
static void tell_all(gs_comm *c) {
    gs_mpi *s = c->state;
    double end = gs_seconds() + TELLING;
    for (int r = 0; r < c->size; r++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int done = 0;
        if (r == c->rank || MPI_Isend(s->message, GS_LAST_WORDS, MPI_BYTE, r, 0,
                                      s->channel[GS_MPI_LAST_WORDS], &request) != MPI_SUCCESS)
            continue;
        while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && gs_seconds() < end)
            sched_yield();
    }
}

static void fail_locked(gs_comm *c, gs_status code, const char *message, bool tell) {
    gs_mpi *s = c->state;
    if (atomic_load(&s->failed)) return;
    snprintf(s->message, sizeof s->message, "%s", message);
    s->code = code;
    atomic_fetch_add(&s->waiting, 1);
    atomic_store(&s->failed, true);
    gs_mpi_break();
    if (tell && s->ear != MPI_REQUEST_NULL) tell_all(c); /* null: not all ranks are connected yet */
    atomic_fetch_sub(&s->waiting, 1);
}

void gs_mpi_fail(gs_comm *c, gs_status code, const char *message, bool tell) {
    gs_mpi *s = c->state;
    pthread_mutex_lock(&s->lock);
    fail_locked(c, code, message, tell);
    pthread_mutex_unlock(&s->lock);
}

void gs_mpi_listen(gs_comm *c) {
    gs_mpi *s = c->state;
    if (pthread_mutex_trylock(&s->lock) != 0) return;
    int heard = 0;
    atomic_fetch_add(&s->waiting, 1);
    if (s->ear != MPI_REQUEST_NULL && !atomic_load(&s->failed) &&
        MPI_Test(&s->ear, &heard, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard) {
        s->heard[GS_LAST_WORDS - 1] = '\0';
        fail_locked(c, GS_E_PEER, s->heard, false);
    }
    atomic_fetch_sub(&s->waiting, 1);
    pthread_mutex_unlock(&s->lock);
}

/* ---- messages of failures ---- */

gs_status gs_mpi_fail_call(gs_comm *c, const gs_call *call, const char *why) {
    const gs_mpi *s = c->state;
    char message[GS_LAST_WORDS];
    snprintf(message, sizeof message, "%s %d: %s: %s", s->noun, c->rank, gs_call_text(call, false), why);
    gs_mpi_fail(c, GS_E_PEER, message, true);
    return gs_mpi_failed(c->state);
}

gs_status gs_mpi_check(gs_comm *c, const gs_call *call, int error) {
    const gs_mpi *s = c->state;
    char text[MPI_MAX_ERROR_STRING] = "", why[MPI_MAX_ERROR_STRING + 16];
    int length;
    if (error == MPI_SUCCESS) return GS_OK;
    /* Perhaps a rank that failed has left half an operation behind: then its last words are on their way. */
    for (double end = gs_seconds() + LAST_WORDS; gs_seconds() < end && !atomic_load(&s->failed);)
        gs_mpi_listen(c);
    MPI_Error_string(error, text, &length);
    snprintf(why, sizeof why, "MPI says: %s", text);
    return gs_mpi_fail_call(c, call, why);
}

static gs_status fail_late(gs_comm *c, const gs_call *call, int peer) {
    const gs_mpi *s = c->state;
    char why[GS_LAST_WORDS / 2] = "";
    size_t n = (size_t)(unsigned)c->size;
    bool *late = calloc(n, sizeof *late);
    double *age = calloc(n * n, sizeof *age); /* what the others wait for is not known */
    if (peer < 0 && c->size == 2) peer = 1 - c->rank;
    for (int r = 0; late && r < c->size; r++) late[r] = peer < 0 ? r != c->rank : r == peer;
    char(*host)[GS_HOST] = gs_hosts_here(c->size, s->pid);
    const gs_waits waits = {.noun = s->noun,
                            .size = c->size,
                            .rank = c->rank,
                            .timeout = c->timeout,
                            .awaited = late,
                            .one_of = peer < 0,
                            .age = age,
                            .pid = s->pid,
                            .host = (const char(*)[GS_HOST])host};
    if (late && age) gs_waits_explain(&waits, why, sizeof why);
    free(host);
    free(late);
    free(age);
    return gs_mpi_fail_call(c, call, why);
}

/* ---- waiting ---- */

/* Requests that are done become MPI_REQUEST_NULL, which counts as done: so this goes on where it stopped. */
static int test_all(int count, MPI_Request *requests, bool *done, MPI_Status *status) {
    int one = 1, error = MPI_SUCCESS;
    for (int i = 0; i < count && one && error == MPI_SUCCESS; i++)
        error = MPI_Test(&requests[i], &one, status);
    *done = one;
    return error;
}

static gs_status wait_inside(gs_comm *c, const gs_call *call, int peer, int count, MPI_Request *requests,
                             MPI_Status *status) {
    gs_mpi *s = c->state;
    double start = 0;
    for (unsigned tests = 1;; tests++) {
        bool done;
        if (atomic_load(&s->failed)) return gs_mpi_failed(s);
        GS_TRY(gs_mpi_check(c, call, test_all(count, requests, &done, status)));
        if (done) return GS_OK;
        if (tests % EAR_INTERVAL == 0) gs_mpi_listen(c);
        if (tests < BUSY_TESTS) continue;
        const double now = gs_awake_seconds();
        if (start == 0) start = now;
        if (now - start > c->timeout) return fail_late(c, call, peer);
        if (now - start < SLEEPLESS)
            sched_yield();
        else
            gs_nap(50e-6);
    }
}

gs_status gs_mpi_wait(gs_comm *c, const gs_call *call, int peer, int count, MPI_Request *requests,
                      MPI_Status *status) {
    gs_mpi *s = c->state;
    atomic_fetch_add(&s->waiting, 1);
    gs_status result = wait_inside(c, call, peer, count, requests, status);
    atomic_fetch_sub(&s->waiting, 1);
    while (result != GS_OK && atomic_load(&s->waiting) > 0) sched_yield();
    return result;
}
#endif
