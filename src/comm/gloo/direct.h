/* A connection between two ranks, on which their own threads write and read.
 *
 * Gloo's method suits any pattern of messages: a thread of its own moves the bytes, after both sides have announced
 * what they want. For two ranks that exchange arrays of 2 MB this costs too much: four threads on two cores wake each
 * other and wait for each other's locks. Here the calling thread does the work, on a socket that blocks:
 *
 *     rank 0    write piece 0 | read piece 0, combine | write piece 1 | ...
 *     rank 1    write piece 0 | read piece 0, combine | write piece 1 | ...
 *
 * Both write first. That cannot block forever, because a piece fits into the socket's send buffer. A piece is small
 * enough to stay in the caches of the cores that copy it four times. A reader spins for a moment before it sleeps
 * (core/wait.h).
 *
 * Between two processes of one machine of two cores (`make bench-sync`; Gloo's ring: 2 MB in 2.0 to 2.7 ms):
 *
 *     2 MB     0.8 ms; in pieces of 256 KiB 1.2, with a buffer that holds no more than a piece 1.6
 *     1 KiB    8 us; 40 where the reader sleeps at once
 */
#pragma once

#include "comm/gloo/gloo_c.h"

typedef struct gs_direct gs_direct;

/* Both ranks call it: they tell each other over Gloo how long a piece can be. `socket` connects them, and is taken
 * over, even on failure. */
gs_gloo_code gs_direct_create(gs_gloo *, int socket, int rank, int timeout_ms, gs_direct **out,
                              gs_gloo_error *error);
void gs_direct_free(gs_direct *); /* NULL is allowed */

/* data[i] = data[i] of rank 0 combined with data[i] of rank 1, on both. GS_GLOO_TIMEOUT if for `timeout_ms` nothing
 * comes from the other rank, or it takes nothing. A different count there is a mistake in the program. */
gs_gloo_code gs_direct_all_reduce(gs_direct *, const gs_call *, void *data, int timeout_ms,
                                  gs_gloo_error *error);

/* From any thread: whoever writes or reads at either end fails at once. */
void gs_direct_shut(gs_direct *);
