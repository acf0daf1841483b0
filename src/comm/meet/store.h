/* A store is where processes meet that share no folder: each puts its passport under a key, and sees what the others
 * have put. It is a small list of pairs, key and value, both texts. What is put stays, unchanged.
 *
 *     tcp://HOST:PORT           a store of our own (store_server.h), which the launcher of node rank 0 holds
 *     file:DIR                  a folder, for those that are no ranks (store_folder.c)
 *
 * Whoever puts knows the run's secret (secret.h): entries of others are not seen. Only for src/comm/ and the launcher.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include "comm/comm.h"
#include "comm/proof.h"

enum { GS_STORE_KEY = 32, GS_STORE_VALUE = 2000 /* bytes, with the 0 at the end */, GS_STORE_HOST = 256 };

/* ---- addresses ---- */

typedef enum gs_meet_kind { GS_MEET_FILE, GS_MEET_TCP } gs_meet_kind;

typedef struct gs_meet_place {
    gs_meet_kind kind;
    char host[GS_STORE_HOST]; /* without the brackets of IPv6; of a file: its folder is `folder` */
    int port;                 /* 0: any that is free */
    const char *folder;       /* of file:DIR: a part of the text */
} gs_meet_place;

/* "tcp://node7:29400", "tcp://[fd00::1]:29400", "tcp" (this machine, any port), "file:DIR". GS_E_USAGE: it is
 * none of these. */
gs_status gs_meet_place_read(const char *text, gs_meet_place *);

/* Is it the name of a folder, or "file:DIR"? */
bool gs_meet_is_folder(const char *text);

/* ---- stores ---- */

typedef struct gs_store gs_store;

/* For each entry that was not seen before. */
typedef gs_status gs_store_seen(void *context, const char *key, const char *value);

typedef struct gs_store_ops {
    /* *there: the key was there already, and `value` is what it holds; nothing has changed. value: GS_STORE_VALUE
     * bytes. GS_E_PEER, GS_E_FILE: the store cannot be reached. */
    gs_status (*put)(gs_store *, const char *key, char *value, bool *there);
    /* Call `seen` for what is new; wait for that for `seconds` at most, or less. */
    gs_status (*look)(gs_store *, double seconds, gs_store_seen *seen, void *context);
    /* What else came to the store: " (3 callers did not know the run's secret)"; "" where nothing did. */
    void (*strangers)(gs_store *, char *text, size_t size);
    /* This process is done. Else the others may learn that it has gone without a word. */
    void (*leave)(gs_store *);
    void (*free)(gs_store *);
} gs_store_ops;

struct gs_store {
    const gs_store_ops *ops;
    char address[64]; /* of this machine, in numbers: by it this process reaches the store */
};

/* Connect to a store of tcp; tries again until `until` (gs_awake_seconds). GS_E_PEER: nobody answers there, or not one
 * of this run. GS_E_INTERRUPTED. */
gs_status gs_store_open_tcp(const gs_rendezvous *, const gs_meet_place *, const unsigned char key[GS_SECRET],
                            double until, gs_store **out);

/* A folder that all machines see, as a store, for `gradsum doctor` (ranks meet there by themselves: rendezvous.h). It
 * is made where it is missing; *key is that of a file in it, which only its owner can read. GS_E_FILE: it holds other
 * files, or cannot be used. */
gs_status gs_store_open_folder(const gs_rendezvous *, const gs_meet_place *, unsigned char key[GS_SECRET],
                               gs_store **out);

/* Is it the key that says why nobody can meet here? It stays in a folder when this process has gone. */
static inline bool gs_store_is_fault(const char *key) {
    return strcmp(key, "fault") == 0;
}

/* ---- sockets ---- */

/* Connect to a host, one address after the other. *error: an errno, or -1 and *why: what getaddrinfo says. Returns the
 * socket, which does not block; -1: no address answers within `seconds`. */
int gs_store_call(const char *host, int port, double seconds, int *error, const char **why);

/* The address of this end, in numbers. */
void gs_store_own_address(int socket, char *text, size_t size);
