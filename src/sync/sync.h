/* The sum of gradients: dW = dW1 + ... + dWN, and the sum reaches everyone.
 *
 * Each scheme is one file, to be read beside the theory:
 *
 *     allreduce.c   all ranks sum together (Gloo's ring between processes)
 *     ps.c          parameter server: rank 0 collects, sums, and sends the sum back
 *
 * The counts of samples travel in the same array (model/model.h), and the division comes after the sum, so
 * that parts of unequal size weigh what they should.
 */
#ifndef GS_SYNC_SYNC_H
#define GS_SYNC_SYNC_H

#include "backend.h"
#include "sync/comm.h"

typedef struct gs_sync_scheme {
    const char *name; /* for --sync: "allreduce", "ps" */
    const char *what; /* one line for --help */
    /* data[i] = sum over ranks of data[i], on every rank the same bits */
    gs_status (*sum)(gs_comm *, float *data, size_t count);
} gs_sync_scheme;

extern const gs_sync_scheme gs_sync_allreduce, gs_sync_ps;

/* All schemes, ending with NULL. */
const gs_sync_scheme *const *gs_sync_schemes(void);

/* GS_E_USAGE: the message lists the schemes. */
gs_status gs_sync_find(const char *name, const gs_sync_scheme **out);

/* Sum `count` floats of device memory over all ranks: map, sum, unmap. With one rank nothing is done. */
gs_status gs_sync_sum(const gs_sync_scheme *, gs_comm *, gs_device *, gs_mem data, size_t count);

#endif
