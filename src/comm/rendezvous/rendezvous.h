/* The rendezvous: how a process finds the others, in a folder or at tcp://HOST:PORT: either is a store (store.h).
 *
 *     open        open the store, choose an address, and listen there
 *     wait        tell who this is, and learn who and where the others are (rank_info.h)
 *     close       all are connected, or this one has failed: clean up
 *
 * A rank that fails before all have met says why, and every other rank fails with the same sentence. One that ends
 * without a word is named by the store or, in a folder, by those who come later. Only for src/comm/.
 */
#pragma once

#include "comm/rank_info.h"
#include "comm/rendezvous/store.h"

typedef struct gs_rendezvous_state {
    const gs_rendezvous *r;
    char address[256];
    unsigned char key[GS_SECRET];   /* of the run, where the store is no folder */
    gs_endpoint endpoint;           /* of the store, too */
    struct gs_store_server *server; /* where this process holds the store */
    gs_store *store;                /* NULL: there is one process alone, which has no folder */
    bool by_store;                  /* the store is no folder */
    int listener;                   /* the socket where this process listens */
    /* [size] What the ranks tell: this process's from the start, that of all once they have met; the pid of those that
     * run elsewhere is 0. */
    gs_rank_info *all;
    bool *missing;
    int left;
    /* It has put its rank info; all have met (also set where another rendezvous has: probe/probe.c); it has failed. */
    bool here, met, failed;
} gs_rendezvous_state;

/* GS_E_USAGE: rank, size or timeout make no sense; or the folder, where one is wanted. */
gs_status gs_rendezvous_check(const gs_rendezvous *, bool folder);

/* Errors: those of the store and of the secret; GS_E_USAGE: there is no such interface. */
gs_status gs_rendezvous_open(const gs_rendezvous *, gs_rendezvous_state **out);

/* Return when all ranks have come. GS_E_PEER: a rank did not arrive within the timeout, or arrived and ended, or cannot
 * be of the same run. GS_E_FILE: the folder cannot be used. */
gs_status gs_rendezvous_wait(gs_rendezvous_state *);

/* This rank fails with `status` after the wait, and tells why before it closes its connections: else those that see
 * them end take it for the one that was lost. The first to tell is heard: all later ones fail with its sentence. */
gs_status gs_rendezvous_fail(const gs_rendezvous_state *, gs_status status);

void gs_rendezvous_close(gs_rendezvous_state *); /* NULL is allowed */
