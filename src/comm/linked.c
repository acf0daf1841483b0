/* Real messages over the links of link.h: see gs_comm_linked_create in create.h.
 *
 * A note precedes each message: a double that gives the time at which the message began to leave its sender. From this
 * the receiver computes the time of arrival, and sleeps until then:
 *
 *     sender      send: note, data
 *     its line              |---- beta b ----|
 *     receiver    recv: has both . . . sleeps . . . . .  returns
 *     its line                    alpha  |---- beta b ----|
 *
 * The bytes move at once, over any transport; only recv returns late. While it sleeps the core is free, so a worker can
 * compute while its messages are under way.
 */
#include "comm/transports.h"
#include "core/clock.h"

#include <stdio.h>
#include <sys/prctl.h>

typedef struct linked {
    gs_wrapper wrapper;
    double alpha, beta;   /* in seconds, and seconds per byte */
    pthread_mutex_t lock; /* several threads may send and receive at once, each with its own peer (async.c) */
    gs_port out, in;      /* guarded by the lock */
} linked;

static double take(linked *k, gs_port *port, double earliest, size_t bytes) {
    pthread_mutex_lock(&k->lock);
    double begin = gs_port_take(port, earliest, k->beta * (double)bytes);
    pthread_mutex_unlock(&k->lock);
    return begin;
}

static gs_status linked_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    linked *k = c->state;
    gs_comm *inner = gs_wrapper_inner(c);
    const double left = take(k, &k->out, gs_seconds(), bytes);
    GS_TRY(inner->ops->send(inner, e, &left, sizeof left));
    return inner->ops->send(inner, e, data, bytes);
}

static gs_status takes_too_long(gs_comm *c, const gs_envelope *e, size_t bytes, double seconds) {
    char sentence[GS_FAILURE_TEXT];
    snprintf(sentence, sizeof sentence,
             "rank %d: a message of %zu bytes from rank %d takes another %.4g s over this --link; the "
             "timeout is %g s",
             c->rank, bytes, e->from, seconds, c->timeout);
    gs_wrapper_abort(c, sentence);
    return gs_fail(GS_E_USAGE, "%s", sentence);
}

/* By default Linux may prolong a thread's sleep by 50 us to save energy; ask it not to. */
static void sleep_exactly_until(double moment) {
    static _Thread_local bool asked;
    if (!asked) asked = prctl(PR_SET_TIMERSLACK, 1 /* ns */) == 0;
    gs_sleep_until(moment);
}

static gs_status linked_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    linked *k = c->state;
    gs_comm *inner = gs_wrapper_inner(c);
    double left;
    GS_TRY(inner->ops->recv(inner, e, &left, sizeof left));
    GS_TRY(inner->ops->recv(inner, e, data, bytes));
    double arrives = take(k, &k->in, left + k->alpha, bytes) + k->beta * (double)bytes;
    double wait = arrives - gs_seconds();
    if (!(wait <= c->timeout)) return takes_too_long(c, e, bytes, wait);
    sleep_exactly_until(arrives);
    return GS_OK;
}

static void linked_free(gs_comm *c) {
    linked *k = c->state;
    gs_comm_free(k->wrapper.inner);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static const gs_transport transport_linked = {
    .send = linked_send,
    .recv = linked_recv,
    .collective = gs_collective_by_messages,
    .abort = gs_wrapper_abort,
    .free = linked_free,
};

gs_status gs_comm_linked_create(gs_comm *inner, const gs_link *link, gs_comm **out) {
    *out = inner;
    if (!gs_link_is_there(link) || inner->size == 1) return GS_OK;
    linked *k = calloc(1, sizeof *k);
    if (!k) return gs_fail(GS_E_MEMORY, "no memory for the links of %d ranks", inner->size);
    pthread_mutex_init(&k->lock, NULL);
    k->alpha = link->latency;
    k->beta = link->bandwidth > 0 ? 1 / link->bandwidth : 0;
    gs_wrapper_begin(&k->wrapper, inner, &transport_linked);
    *out = &k->wrapper.comm;
    return GS_OK;
}
