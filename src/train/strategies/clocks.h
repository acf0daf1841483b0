/* Bounded staleness: which worker may go on, and how stale a gradient is. The server of --sync async (async.c) keeps
 * these clocks.
 *
 * A worker's clock is the number of steps of the epoch that it has done. It may begin the next step if it is at most K
 * steps ahead of the slowest worker. At the end of an epoch all meet: each waits until all have done all steps.
 *
 *     K = 2            clock    ahead
 *     worker 0           3        2      may go on
 *     worker 1           4        3      waits until worker 2 has done 2
 *     worker 2           1        0      may go on: the slowest always may
 *
 * The staleness of a gradient is the number of gradients applied since its worker read its weights: when it arrives,
 * those weights are that many gradients old. For gradients that become one update it counts those before that update.
 *
 * Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server" (NIPS 2013).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_clocks {
    int workers;
    size_t bound;     /* K */
    size_t steps;     /* of this epoch */
    size_t *clock;    /* [rank]: steps of this epoch done */
    uint64_t *read;   /* [rank]: gradients applied when it read its weights */
    uint64_t applied; /* gradients, since the run began */
    uint64_t *count;  /* [s]: gradients of staleness s */
} gs_clocks;

/* The lowest clock. */
size_t gs_clocks_slowest(const gs_clocks *);

/* May worker `rank` go on? */
bool gs_clocks_may_go_on(const gs_clocks *, int rank);

/* The gradients of these n ranks become one update: count their staleness, and them as applied. */
void gs_clocks_apply(gs_clocks *, const int *ranks, int n);

/* Worker `rank` reads the current weights. */
void gs_clocks_read(gs_clocks *, int rank);
