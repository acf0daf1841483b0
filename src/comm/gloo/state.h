/* Ranks as processes, over Gloo: shared by gloo.c and the files beside it. */
#pragma once

#include <math.h>
#include <stdatomic.h>
#include "comm/gloo/gloo_c.h"
#include "comm/transports.h"
#include "comm/waits.h"

typedef struct gs_gloo_inbox gs_gloo_inbox;

typedef struct gs_gloo_state {
    gs_comm comm;
    gs_gloo *gloo; /* NULL for a lone process, like the next three */
    gs_watchdog *watchdog;
    gs_direct *direct;      /* NULL unless there are two ranks and Gloo's own all_reduce is not wanted */
    gs_gloo_inbox *inboxes; /* [size] */
    bool listens;           /* all inboxes are listening */
    pthread_mutex_t list;   /* guards the list of mailboxes */
    gs_mailbox *mailboxes;  /* mailbox.c */
    const char *noun;       /* what messages call a rank: "rank" or "process" */
    pthread_mutex_t lock;   /* guards the failure */
    atomic_bool failed;     /* once true, error does not change */
    gs_error error;
    gs_scratch scratch;          /* for the current collective */
    char (*address)[GS_ADDRESS]; /* [size] */
    char (*host)[GS_HOST];       /* [size] */
    _Atomic uint64_t *heard; /* [size] the last call that each rank is known to have reached (gs_call_pack) */
    int *socket;             /* [lines * size] connections of gs_mesh_connect; -1: this rank */
    int lines;
    /* Guards told, told_by and this rank's own note. None of them changes once told is set. */
    pthread_mutex_t waits;
    bool told;               /* a wait has taken too long; this rank's note says for which ranks */
    gs_gloo_buffer *told_by; /* the buffer over the note; NULL: the note was not sent */
    unsigned char *notes;    /* [size * size] row r is the note of rank r (failure.c) */
    long *pid;               /* [size] processes of this machine; 0: on another machine */
    int *process; /* [size] a descriptor that tells when the process has ended; -1: on another machine */
} gs_gloo_state;

static inline int gs_gloo_milliseconds(double seconds) {
    double ms = ceil(seconds * 1000);
    return ms < 1 ? 1 : ms > 1e9 ? 1000000000 : (int)ms;
}

/* ---- mailbox.c ---- */

enum { GS_GLOO_PAYLOAD = 256 * 1024 /* bytes of the message in each piece */ };

/* Several threads may use different mailboxes concurrently. */
gs_gloo_code gs_gloo_send(gs_gloo_state *, const gs_envelope *, const void *data, size_t bytes,
                          int timeout_ms);
gs_gloo_code gs_gloo_recv(gs_gloo_state *, const gs_envelope *, void *data, size_t bytes, int timeout_ms);
void gs_gloo_free_mailboxes(gs_gloo_state *);

/* ---- failure.c ---- */

/* Listen for failure messages of all ranks. */
gs_gloo_code gs_gloo_listen(gs_gloo_state *, int rank, int size);
void gs_gloo_free_inboxes(gs_gloo_state *, int size);

/* Tell the others that this rank's wait for these peers (count 0: for any rank) has taken too long. May be called from
 * any thread; only the first such wait is reported. */
void gs_gloo_tell_wait(gs_comm *, const int *peers, int count);

/* Handle a failure of Gloo with this code and gs_gloo_error_text(), in the operation `what` with `peer` (-1: with all).
 * If it is the first failure, find its cause and tell the others. Returns the first failure. */
gs_status gs_gloo_diagnose(gs_comm *, gs_gloo_code, int peer, const char *what);

/* Fail with another rank's failure message if one has arrived; else GS_OK. For waits outside Gloo, in any thread. */
gs_status gs_gloo_check_peers(gs_comm *);

/* See gs_transport. */
void gs_gloo_abort(gs_comm *, const char *message);
