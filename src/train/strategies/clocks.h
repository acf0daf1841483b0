/* Bounded staleness: which worker may continue, and how stale a gradient is. The server of --sync async (async.c) keeps
 * these clocks.
 *
 * A worker's clock is the number of steps that it has done in this epoch. It may begin the next step if it is at most K
 * steps ahead of the slowest worker. At the end of an epoch all meet: each waits until all have done all steps.
 *
 *     K = 2            clock    ahead
 *     worker 0           3        2      may continue
 *     worker 1           4        3      waits until worker 2 has done 2 steps
 *     worker 2           1        0      may continue: the slowest always may
 *
 * A gradient's staleness is the number of gradients applied since its worker read its weights: those weights are
 * that many gradients out of date. If several gradients are applied in one update, only those before that update count.
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
    size_t steps;     /* in this epoch */
    size_t *clock;    /* [rank]: steps done in this epoch */
    uint64_t *read;   /* [rank]: gradients that were applied before it read its weights */
    uint64_t applied; /* gradients applied since the run began */
    uint64_t *count;  /* [s]: gradients of staleness s */
} gs_clocks;

size_t gs_clocks_slowest(const gs_clocks *);

/* True if worker `rank` may begin its next step, or, at the end of an epoch, leave the epoch. */
bool gs_clocks_may_go_on(const gs_clocks *, int rank);

/* The gradients of these n ranks are applied in one update: record their staleness, and count them as applied. */
void gs_clocks_apply(gs_clocks *, const int *ranks, int n);

/* Record that worker `rank` reads the current weights. */
void gs_clocks_read(gs_clocks *, int rank);
