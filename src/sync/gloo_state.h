/* Ranks as processes, over Gloo: what comm_gloo.c and the gloo_*.c beside it share. */
#ifndef GS_SYNC_GLOO_STATE_H
#define GS_SYNC_GLOO_STATE_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "sync/gloo_direct.h"
#include "sync/gloo_watch.h"
#include "sync/transports.h"

enum { GS_GLOO_WORDS = 512 }; /* bytes of last words */
typedef struct gs_gloo_outbox gs_gloo_outbox;
typedef struct gs_gloo_ear gs_gloo_ear;

typedef struct gs_gloo_state {
    gs_gloo *gloo; /* NULL for a lone process, which has none of the next three either */
    gs_watch *watch;
    gs_direct *direct;    /* NULL unless there are two, or where all_reduce is to be Gloo's own */
    gs_gloo_ear *ears;    /* [size] */
    pthread_mutex_t post; /* of the list of outboxes */
    gs_gloo_outbox *outboxes;
    const char *noun;     /* what messages call a rank: "rank" or "process" */
    pthread_mutex_t lock; /* of the failure */
    atomic_bool failed;   /* once true, code and message do not change */
    gs_status code;
    char message[GS_GLOO_WORDS];
    gs_scratch scratch; /* of the collective under way */
    size_t *first;      /* [size + 1]: of reduce_scatter */
    int *process; /* [size]: a descriptor that says when the process has ended; -1: of another machine */
} gs_gloo_state;

static inline int gs_gloo_milliseconds(double seconds) {
    double ms = ceil(seconds * 1000);
    return ms < 1 ? 1 : ms > 1e9 ? 1000000000 : (int)ms;
}

/* ---- gloo_open.c ---- */

/* Connect to the others: all of *s that connections need is filled in. On failure it is empty again. */
gs_status gs_gloo_open(const gs_rendezvous *, gs_gloo_state *);
void gs_gloo_disconnect(gs_gloo_state *, int size);

/* ---- gloo_letters.c ---- */

/* Different slots may be used by several threads at once. */
gs_gloo_code gs_gloo_send(gs_gloo_state *, const void *data, size_t bytes, int to, uint32_t slot,
                          int timeout_ms, gs_gloo_error *);
gs_gloo_code gs_gloo_recv(gs_gloo_state *, void *data, size_t bytes, int from, uint32_t slot, int timeout_ms,
                          gs_gloo_error *);
void gs_gloo_free_letters(gs_gloo_state *);

/* ---- gloo_peer.c ---- */

/* Listen to the last words of all, from the start. */
gs_gloo_code gs_gloo_listen(gs_gloo_state *, int rank, int size, gs_gloo_error *);
void gs_gloo_free_ears(gs_gloo_state *, int size);

/* How the connection to a peer stands, after a failure. One thread at a time. */
typedef enum gs_gloo_peer_state {
    GS_GLOO_CONNECTED,
    GS_GLOO_LAST_WORDS, /* the peer closed it, and said why: text */
    GS_GLOO_BROKEN,     /* the peer is gone: text says how this was seen */
    GS_GLOO_CLOSED,     /* this side closed it */
} gs_gloo_peer_state;
gs_gloo_peer_state gs_gloo_peer(gs_gloo_state *, int peer, char *text, size_t size);

/* Tell the peers that are still connected why this rank goes, and close all connections: every operation that
 * waits here, in any thread, fails, and so does each at a peer that waits for this rank. */
void gs_gloo_close(const gs_comm *, const char *last_words);

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
