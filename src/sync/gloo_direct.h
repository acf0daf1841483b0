/* A connection of two ranks on which their threads write and read themselves.
 *
 * Gloo's way suits any pattern of messages: a thread of its own moves the bytes, after both sides have announced
 * what they want. For two ranks that exchange arrays of 2 MB that is much: four threads on two cores, which wake each
 * other and wait for each other's locks. Here the thread that calls does the work, on a socket that blocks:
 *
 *     rank 0    write piece 0 | read piece 0, combine | write piece 1 | ...
 *     rank 1    write piece 0 | read piece 0, combine | write piece 1 | ...
 *
 * Both write first: that cannot block for ever because a piece fits into the socket's buffer for sending. A piece is
 * small enough to stay in the caches of the cores that copy it four times. Who reads looks for a moment before it sleeps
 * (core/wait.h).
 *
 * Between two processes of one machine of two cores (`make bench-sync`; Gloo's ring: 2 MB in 2.0 to 2.7 ms):
 *
 *     2 MB     0.8 ms; in pieces of 256 KiB 1.2, with a buffer that holds no more than a piece 1.6
 *     1 KiB    8 us; 40 where the reader sleeps at once
 */
#ifndef GS_SYNC_GLOO_DIRECT_H
#define GS_SYNC_GLOO_DIRECT_H

#include "sync/gloo_c.h"

typedef struct gs_direct gs_direct;

/* Both ranks call it: over Gloo they tell each other where to connect. `address` is this machine's. */
gs_gloo_code gs_direct_create(gs_gloo *, const char *address, int rank, int timeout_ms, gs_direct **out,
                              gs_gloo_error *error);
void gs_direct_free(gs_direct *); /* NULL is allowed */

/* data[i] = data[i] of rank 0 combined with data[i] of rank 1, on both. Another count at the other rank is a mistake in
 * the program. */
gs_gloo_code gs_direct_all_reduce(gs_direct *, void *data, size_t count, gs_gloo_reduction,
                                  gs_gloo_error *error);

/* From any thread: whoever writes or reads at either end fails at once. */
void gs_direct_shut(gs_direct *);

#endif
