/* Waits of Gloo that end when a connection breaks.
 *
 * When a connection breaks, Gloo 0.5.0 fails the operations that queue for it, but forgets the one in the middle of its
 * message. That one would wait until the timeout. So a thread checks the connections 50 times a second while any
 * operation waits. When it finds one broken, it wakes those that wait:
 *
 *     Gloo's collectives, and messages     begin, wait, end
 *     the watch                            tick ... tick ... tick, a connection is broken: wake all
 *
 * How a broken connection is found: on each connection a receive is left pending that nobody answers. It fails as soon
 * as Gloo sees the end of the connection. That is at once when the process at the other end dies, on this machine or on
 * another. (A machine that loses power says nothing; only the timeout shows it.)
 *
 * A wait in Gloo that times out closes all connections, and the others take this rank for lost. So Gloo waits without
 * limit, and the watch wakes it at the deadline. The connections stay open, and the ranks can tell each other what is
 * wrong.
 *
 * An operation that can still finish after a break does so: only a wait that lasts from one tick to the next is woken.
 */
#pragma once

#include "comm/gloo/gloo_c.h"

typedef struct gs_watch gs_watch;

/* Watches the connections of a rank; must be freed before they are closed. */
gs_gloo_code gs_watch_create(gs_gloo *, int rank, int size, gs_watch **out, gs_gloo_error *error);
void gs_watch_free(gs_watch *); /* NULL is allowed */

/* GS_GLOO_OK: the connection to `peer` stands. Else what Gloo says of its end is in *error. */
gs_gloo_code gs_watch_look(gs_watch *, int peer, gs_gloo_error *error);

/* A wait begins or ends, in any thread. After it was woken: gs_watch_found writes what Gloo says of the connection that
 * broke, or "". */
void gs_watch_begin(gs_watch *, gs_gloo_wait *);
void gs_watch_end(gs_watch *, gs_gloo_wait *);
void gs_watch_found(gs_watch *, gs_gloo_error *found);
