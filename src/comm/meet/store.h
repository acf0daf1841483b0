/* A store is where processes meet that share no folder: each puts its passport under a key, and sees what the others
 * have put. It is a small list of pairs, key and value, both texts. What is put stays. Nothing is changed but beats, by
 * which a process shows that it lives.
 *
 *     tcp://HOST:PORT           a store of our own (store_server.h), which the launcher of node rank 0 holds
 *     file:DIR                  a folder, for those that are no ranks (store_folder.c)
 *
 * Each start of the ranks has a corner of the store, in which no other sees anything, and so have the launches
 * (gs_rendezvous.attempt).
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
    /* This process is done: `key` (NULL: none) is no longer needed. Else what it has put stays, and the others may
     * learn that it has gone. */
    void (*leave)(gs_store *, const char *key);
    /* Replace the value of a key that this process has put, and that gs_store_is_beat. look shows it each time.
     * GS_E_PEER, GS_E_FILE: the store has forgotten the key, or cannot be reached. NULL: the store notices by itself
     * who has gone. */
    gs_status (*beat)(gs_store *, const char *key, const char *value);
    /* Remove all that is left of an attempt (1, 2, ...), or with GS_ATTEMPT_LAUNCHES of the launches. NULL: the store
     * ends with the run. */
    void (*clear)(gs_store *, int attempt);
    void (*free)(gs_store *);
} gs_store_ops;

struct gs_store {
    const gs_store_ops *ops;
    char address[64]; /* of this machine, in numbers: by it this process reaches the store */
};

/* "2/rank-1" -> "rank-1": behind the corner of an attempt (gs_rendezvous.attempt). */
static inline const char *gs_store_name_in(const char *key) {
    const char *slash = strchr(key, '/');
    return slash ? slash + 1 : key;
}

/* "beat-3" */
static inline bool gs_store_is_beat(const char *key) {
    return strncmp(key, "beat-", 5) == 0;
}

/* Connect to a store of tcp; tries again until `until` (gs_awake_seconds). GS_E_PEER: nobody answers there, or not one
 * of this run. GS_E_INTERRUPTED. */
gs_status gs_store_open_tcp(const gs_rendezvous *, const gs_meet_place *, const unsigned char key[GS_SECRET],
                            double until, gs_store **out);

/* A folder that all machines see, as a store, for `gradsum doctor` and for launches (ranks meet there by themselves:
 * rendezvous.h). It is made where it is missing; *key is that of a file in it, which only its owner can read; launches
 * get none. GS_E_FILE: it holds other files, or cannot be used. */
gs_status gs_store_open_folder(const gs_rendezvous *, const gs_meet_place *, unsigned char key[GS_SECRET],
                               gs_store **out);

/* The folder inside of it where the ranks of an attempt meet: "DIR/attempt-2". False: its name is too long. */
bool gs_store_attempt_folder(const char *folder, int attempt, char *path, size_t size);

/* Is it the key that says why nobody can meet here? It stays in a folder when this process has gone. */
static inline bool gs_store_is_fault(const char *key) {
    return strcmp(key, "fault") == 0;
}

/* ---- sockets ---- */

/* Connect to a host, one address after the other. *error: an errno, or -1 and *why: what getaddrinfo says. Returns the
 * socket, which does not block; -1: no address answers within `seconds`. */
int gs_store_call(const char *host, int port, double seconds, int *error, const char **why);

/* A connection on which little is said is lost when the other machine has not answered for so many seconds. */
void gs_store_watch_line(int socket, double seconds);

/* The address of this end, in numbers. */
void gs_store_own_address(int socket, char *text, size_t size);
