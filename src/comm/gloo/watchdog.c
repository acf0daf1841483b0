/* End Gloo's waits when a connection breaks.
 *
 * When a connection breaks, Gloo 0.5.0 fails the operations queued for it, but forgets an operation that is in the
 * middle of its message and would wait until the timeout. Therefore a thread checks the connections 50 times a second
 * while any operation waits, and wakes all waits when a connection is broken:
 *
 *     Gloo's collectives, and messages     begin, wait, end
 *     the watchdog                         tick ... tick ... tick, a connection is broken: wake all
 *
 * To detect a break, a receive that no one answers stays pending on each connection. It fails as soon as Gloo sees the
 * end of the connection: at once when the process at the other end dies, on any machine. (If a machine loses power,
 * only the timeout reveals it.)
 *
 * A timeout inside Gloo closes all connections, so the others would report this rank as lost. Therefore Gloo waits
 * without limit, and the watchdog wakes it at the deadline. The connections stay open, so the ranks can tell each other
 * what is wrong.
 *
 * An operation that can still finish after a break may do so: only waits that last from one tick to the next are woken.
 */
#include "comm/gloo/gloo_c.h"
#include "core/clock.h"
#include "core/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TICK = 0.02; /* seconds */

struct gs_watchdog {
    int size;
    gs_gloo_buffer **line; /* [size] a receive that no one answers; NULL: this rank */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards all members below, and each look at a line */
    pthread_cond_t end;
    bool ends;
    gs_gloo_wait *waiting;
    bool broken; /* once true, found does not change */
    char found[GS_GLOO_ERROR_TEXT];
};

/* ---- the list of waits ---- */

void gs_watchdog_begin(gs_watchdog *w, gs_gloo_wait *one) {
    pthread_mutex_lock(&w->lock);
    *one = (gs_gloo_wait){
        .buffer = one->buffer, .sends = one->sends, .deadline = one->deadline, .next = w->waiting};
    if (one->next) one->next->before = one;
    w->waiting = one;
    pthread_mutex_unlock(&w->lock);
}

void gs_watchdog_end(gs_watchdog *w, gs_gloo_wait *one) {
    pthread_mutex_lock(&w->lock);
    if (one->next) one->next->before = one->before;
    *(one->before ? &one->before->next : &w->waiting) = one->next;
    pthread_mutex_unlock(&w->lock);
}

void gs_watchdog_found(gs_watchdog *w, char found[GS_GLOO_ERROR_TEXT]) {
    pthread_mutex_lock(&w->lock);
    memcpy(found, w->found, sizeof w->found);
    pthread_mutex_unlock(&w->lock);
}

/* ---- looking ---- */

/* A wait that is woken in advance only looks: it returns at once, or fails. Only one thread at a time may do this: two
 * wakes could count as one, and then the second wait would time out and close all connections. */
static gs_gloo_code look_locked(gs_watchdog *w, int peer) {
    gs_gloo_wake(w->line[peer], false);
    return gs_gloo_wait_recv(w->line[peer], 1);
}

gs_gloo_code gs_watchdog_look(gs_watchdog *w, int peer) {
    pthread_mutex_lock(&w->lock);
    gs_gloo_code code = look_locked(w, peer);
    pthread_mutex_unlock(&w->lock);
    return code;
}

static void tick_locked(gs_watchdog *w) {
    const double now = gs_awake_seconds();
    for (int r = 0; w->waiting && !w->broken && r < w->size; r++)
        w->broken = w->line[r] && look_locked(w, r) != GS_GLOO_OK;
    if (w->broken && !w->found[0]) snprintf(w->found, sizeof w->found, "%s", gs_gloo_error_text());
    for (gs_gloo_wait *one = w->waiting; one; one = one->next) {
        one->late = one->late || (one->deadline > 0 && now >= one->deadline);
        if (one->late || (w->broken && one->long_ago)) gs_gloo_wake(one->buffer, one->sends);
        one->long_ago = true;
    }
}

static void *watch_main(void *argument) {
    gs_watchdog *w = argument;
    pthread_mutex_lock(&w->lock);
    while (!w->ends) {
        const struct timespec tick = gs_timespec(gs_seconds() + TICK);
        while (!w->ends && pthread_cond_clockwait(&w->end, &w->lock, CLOCK_MONOTONIC, &tick) != ETIMEDOUT)
            continue;
        tick_locked(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- making and freeing ---- */

gs_gloo_code gs_watchdog_create(gs_gloo *g, int rank, int size, gs_watchdog **out) {
    gs_watchdog *w = calloc(1, sizeof *w);
    if (!w) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->end, NULL);
    w->size = size;
    w->line = calloc((size_t)size, sizeof *w->line);
    gs_gloo_code code = w->line ? GS_GLOO_OK : gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    for (int r = 0; code == GS_GLOO_OK && r < size; r++) {
        if (r == rank) continue;
        code = gs_gloo_buffer_create(g, NULL, 0, false, &w->line[r]);
        if (code == GS_GLOO_OK) code = gs_gloo_begin_recv(w->line[r], r, GS_GLOO_WATCH_SLOT);
    }
    if (code == GS_GLOO_OK) w->running = gs_thread_start(&w->thread, watch_main, w) == 0;
    if (code == GS_GLOO_OK && !w->running)
        code = gs_gloo_explain(GS_GLOO_OTHER, "cannot start a thread to watch the connections");
    if (code == GS_GLOO_OK) code = gs_gloo_be_watched(g, w);
    if (code == GS_GLOO_OK)
        *out = w;
    else
        gs_watchdog_free(w);
    return code;
}

void gs_watchdog_free(gs_watchdog *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_signal(&w->end);
    pthread_mutex_unlock(&w->lock);
    if (w->running) pthread_join(w->thread, NULL);
    for (int r = 0; w->line && r < w->size; r++) gs_gloo_buffer_free(w->line[r]);
    free(w->line);
    pthread_cond_destroy(&w->end);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
