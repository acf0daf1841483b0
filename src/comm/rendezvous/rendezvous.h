/* The rendezvous: processes find each other in a folder or at tcp://HOST:PORT; either is a store (store.h).
 *
 *     open        open the store, choose an address, and listen on it
 *     wait        put this rank's info, and get the infos of all others (rank_info.h)
 *     close       clean up, when all are connected or this process has failed
 *
 * A rank that fails before all have met reports why, and every other rank fails with the same sentence. If a rank ends
 * without a message, the store names that rank; in a folder, later ranks name it. Only for src/comm/.
 */
#pragma once

#include "comm/rank_info.h"
#include "comm/rendezvous/store.h"

typedef struct gs_rendezvous_state {
    const gs_rendezvous *r;
    char address[256];
    unsigned char key[GS_SECRET];   /* of the run; all 0 in a folder */
    gs_endpoint endpoint;           /* the store's, if it is not a folder */
    struct gs_store_server *server; /* the store, if this process holds it */
    gs_store *store;                /* NULL: a lone process without a folder */
    bool by_store;                  /* the store is not a folder */
    int listener;                   /* the socket where this process listens */
    /* [size] This rank's info from the start, the others' as they arrive; pid 0: on another machine. */
    gs_rank_info *all;
    bool *missing;
    int left;
    /* here: this rank's info is put; met: all have met (probe/probe.c sets it too); failed: this process has failed. */
    bool here, met, failed;
} gs_rendezvous_state;

/* GS_E_USAGE: rank, size, timeout or (if wanted) the folder is invalid. */
gs_status gs_rendezvous_check(const gs_rendezvous *, bool folder);

/* Errors: those of the store and the secret; GS_E_USAGE: no such interface. */
gs_status gs_rendezvous_open(const gs_rendezvous *, gs_rendezvous_state **out);

/* Return when all ranks have arrived. GS_E_PEER: a rank did not arrive within the timeout, arrived and ended, or cannot
 * belong to the same run. GS_E_FILE: the folder cannot be used. */
gs_status gs_rendezvous_wait(gs_rendezvous_state *);

/* For a rank that fails with `status` after the wait: tell the others why, before it closes its connections; otherwise
 * they would report it as lost. All ranks fail with the first such message. */
gs_status gs_rendezvous_fail(const gs_rendezvous_state *, gs_status status);

void gs_rendezvous_close(gs_rendezvous_state *); /* NULL is allowed */
