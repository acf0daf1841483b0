/* Ranks as processes, over Gloo: what gloo.c and the files beside it share. */
#pragma once

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "comm/gloo/gloo_c.h"
#include "comm/transports.h"
#include "comm/waits.h"

typedef struct gs_gloo_inbox gs_gloo_inbox;

typedef struct gs_gloo_state {
    gs_comm comm;
    gs_gloo *gloo; /* NULL for a lone process, which has none of the next three either */
    gs_watchdog *watchdog;
    gs_direct *direct;      /* NULL unless there are two, or where all_reduce is to be Gloo's own */
    gs_gloo_inbox *inboxes; /* [size] */
    bool listens;           /* all of them do */
    pthread_mutex_t list;   /* of the mailboxes */
    gs_mailbox *mailboxes;  /* mailbox.c */
    const char *noun;       /* what messages call a rank: "rank" or "process" */
    pthread_mutex_t lock;   /* of the failure */
    atomic_bool failed;     /* once true, error does not change */
    gs_error error;
    gs_scratch scratch;          /* of the collective under way */
    char (*address)[GS_ADDRESS]; /* [size] */
    char (*host)[GS_HOST];       /* [size] */
    _Atomic uint64_t *heard;     /* [size] the last operation that ended with each rank (gs_call_pack) */
    int *socket; /* [lines * size] each connection, as gs_mesh_connect made it; -1: of this rank */
    int lines;
    /* Guards told, told_by and, until told is set, this rank's own note; then they do not change. */
    pthread_mutex_t waits;
    bool told;               /* a wait was too long, and the note says which */
    gs_gloo_buffer *told_by; /* over the note; NULL: it was not sent */
    unsigned char *notes;    /* [size * size] row r is the note of rank r (failure.c) */
    long *pid;               /* [size] of processes of this machine; 0: of another */
    int *process; /* [size] a descriptor that says when the process has ended; -1: of another machine */
} gs_gloo_state;

static inline int gs_gloo_milliseconds(double seconds) {
    double ms = ceil(seconds * 1000);
    return ms < 1 ? 1 : ms > 1e9 ? 1000000000 : (int)ms;
}

/* ---- mailbox.c ---- */

enum { GS_GLOO_PAYLOAD = 256 * 1024 /* bytes of a message in a piece */ };

/* Different mailboxes may be used by several threads at once. */
gs_gloo_code gs_gloo_send(gs_gloo_state *, const gs_envelope *, const void *data, size_t bytes,
                          int timeout_ms);
gs_gloo_code gs_gloo_recv(gs_gloo_state *, const gs_envelope *, void *data, size_t bytes, int timeout_ms);
void gs_gloo_free_mailboxes(gs_gloo_state *);

/* ---- failure.c ---- */

/* Listen for failure messages of all, from the start. */
gs_gloo_code gs_gloo_listen(gs_gloo_state *, int rank, int size);
void gs_gloo_free_inboxes(gs_gloo_state *, int size);

/* This rank's wait for these peers (count 0: for any of the others) was too long: tell the others. From any thread;
 * only the first such wait is told. */
void gs_gloo_tell_wait(gs_comm *, const int *peers, int count);

/* Gloo failed with this code, and gs_gloo_error_text(), in an operation with `peer`, or with all (-1). Finds the cause
 * if this is the first failure, tells it to the others, and returns it. `what` says what the operation was. */
gs_status gs_gloo_diagnose(gs_comm *, gs_gloo_code, int peer, const char *what);

/* Another rank's failure message, once it has come: this rank fails with it too. Else GS_OK. For who waits
 * outside of Gloo; from any thread. */
gs_status gs_gloo_check_peers(gs_comm *);

/* See gs_transport. */
void gs_gloo_abort(gs_comm *, const char *message);
