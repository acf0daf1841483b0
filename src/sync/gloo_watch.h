/* Waits of Gloo that end when a connection breaks.
 *
 * When a connection breaks Gloo 0.5.0 fails the operations that wait for their turn on it, but forgets the one in the
 * middle of its message: that one would wait until the timeout. So a thread looks at the connections 50 times a second
 * while somebody waits, and wakes those who wait when one is found broken:
 *
 *     Gloo's collectives, and messages     begin, wait, end
 *     the watch                            tick ... tick ... tick, a connection is broken: wake all
 *
 * How a broken connection is found: a receive that nobody answers is left on each. It waits for its turn for ever, so it
 * is failed as soon as Gloo sees the end of the connection; which is at once when the process at the other end dies,
 * on this machine or on another one. (A machine that loses its power says nothing: that is what the timeout is for.)
 *
 * What can still be done after a break is done: only a wait that lasts from one tick to the next is woken.
 */
#ifndef GS_SYNC_GLOO_WATCH_H
#define GS_SYNC_GLOO_WATCH_H

#include "sync/gloo_c.h"

typedef struct gs_watch gs_watch;

/* Of the connections of a rank; freed before these are closed. */
gs_gloo_code gs_watch_create(gs_gloo *, int rank, int size, gs_watch **out, gs_gloo_error *error);
void gs_watch_free(gs_watch *); /* NULL is allowed */

/* Somebody waits for the buffer, from begin to end. */
typedef struct gs_watched {
    gs_gloo_buffer *buffer;
    bool sends;
    bool long_ago; /* it began before the last tick */
    struct gs_watched *before, *next;
} gs_watched;
void gs_watch_begin(gs_watch *, gs_watched *);
void gs_watch_end(gs_watch *, gs_watched *);

/* For one who was woken: what Gloo says of the connection that broke. */
const char *gs_watch_found(gs_watch *);

/* GS_GLOO_OK: the connection to `peer` stands. Else what Gloo says of its end is in *error. */
gs_gloo_code gs_watch_look(gs_watch *, int peer, gs_gloo_error *error);

#endif
