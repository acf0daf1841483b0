/* Bounded staleness: who may go on, and how stale a gradient is. The book that the server of --sync async keeps
 * (async_server.h).
 *
 * A worker's clock is how many steps of the epoch it has done. It may begin the next one when it is at most K steps
 * ahead of the slowest worker, and at the end of an epoch, where all meet, when all have done all:
 *
 *     K = 2            clock    ahead
 *     worker 0           3        2      may go on
 *     worker 1           4        3      waits until worker 2 has done 2
 *     worker 2           1        0      may go on: the slowest always may
 *
 * The staleness of a gradient is how many gradients have been applied since its worker read its weights: its weights
 * were so many gradients old when it came. Gradients that become one update have the staleness that they had before it.
 *
 * Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server" (NIPS 2013).
 */
#ifndef GS_TRAIN_CLOCKS_H
#define GS_TRAIN_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_clocks {
    int workers;
    size_t bound;     /* K */
    size_t steps;     /* of this epoch */
    size_t *clock;    /* [rank]: steps of this epoch that it has done */
    uint64_t *read;   /* [rank]: gradients that had been applied when it read its weights */
    uint64_t applied; /* gradients, since the beginning */
    uint64_t *count;  /* [s]: gradients of staleness s */
} gs_clocks;

/* The lowest clock. */
size_t gs_clocks_slowest(const gs_clocks *);

/* May worker `rank` go on, at its clock? */
bool gs_clocks_may_go_on(const gs_clocks *, int rank);

/* The gradients of these n ranks become one update: count their staleness, and that they were applied. */
void gs_clocks_apply(gs_clocks *, const int *ranks, int n);

/* Worker `rank` reads the weights that there are now. */
void gs_clocks_read(gs_clocks *, int rank);

#endif
