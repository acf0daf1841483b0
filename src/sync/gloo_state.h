/* Ranks as processes, over Gloo: what comm_gloo.c and gloo_lost.c share. */
#ifndef GS_SYNC_GLOO_STATE_H
#define GS_SYNC_GLOO_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "sync/gloo_c.h"
#include "sync/transports.h"

typedef struct gs_gloo_state {
    gs_gloo *gloo;        /* NULL for a lone process */
    const char *noun;     /* what messages call a rank: "rank" or "process" */
    pthread_mutex_t lock; /* of the failure */
    atomic_bool failed;   /* once true, code and message do not change */
    gs_status code;
    char message[GS_GLOO_WORDS];
    gs_scratch scratch; /* of the collective under way */
    size_t *first;      /* [size + 1]: of reduce_scatter */
    bool library;       /* all_reduce is Gloo's own everywhere */
    int *process; /* [size]: a descriptor that says when the process has ended; -1: of another machine */
} gs_gloo_state;

/* ---- gloo_lost.c ---- */

/* The descriptors of processes of this machine; pid[r] is 0 for those elsewhere. NULL: there is no memory. */
int *gs_gloo_watch_processes(int size, const long *pid);
void gs_gloo_unwatch_processes(int size, int *process); /* NULL is allowed */

/* Gloo failed with `e` in an operation with `peer`, or with all (-1). Finds the cause if this is the first failure,
 * tells it to the others, and returns it. `format` says what the operation was. */
gs_status gs_gloo_lost(gs_comm *, const gs_gloo_error *e, int peer, const char *format, ...) GS_PRINTF(4, 5);

/* After a failure: that failure. */
gs_status gs_gloo_failed(const gs_gloo_state *);

/* See gs_process_ops and gs_transport. */
void gs_gloo_fail(gs_comm *, const char *message);
void gs_gloo_abort(gs_comm *, const char *reason);

#endif
