/* Processes meet at a store: each puts its rank info there under a key, and sees the others' infos. A store is a small
 * list of pairs, key and value, which never change. It is a folder (folder_store.c), or is held by the launcher of node
 * rank 0 (store_server.h) for processes that know the run's secret. Only for src/comm/ and the launcher.
 */
#pragma once

#include <netinet/in.h>
#include <string.h>
#include "comm/create.h"
#include "comm/handshake.h"

enum { GS_STORE_KEY = 32, GS_STORE_VALUE = 2000 /* bytes, with the 0 at the end */, GS_STORE_HOST = 256 };

/* ---- addresses ---- */

typedef struct gs_endpoint {
    char host[GS_STORE_HOST]; /* without the brackets of IPv6 */
    int port;                 /* 0: any free port */
    const char *folder;       /* DIR of file:DIR, a pointer into the text; NULL: a store at host and port */
} gs_endpoint;

/* "tcp://node7:29400", "tcp://[fd00::1]:29400", "tcp" (this machine, any port), "file:DIR". GS_E_USAGE: the text is
 * none of these. */
gs_status gs_endpoint_read(const char *text, gs_endpoint *);

/* True for the name of a folder, and for "file:DIR". */
bool gs_endpoint_is_folder(const char *text);

/* ---- sockets ---- */

/* Send (`out`) or receive all bytes. False: the connection has ended, or `until` (gs_awake_seconds) has come. */
bool gs_socket_move(int socket, bool out, void *data, size_t bytes, double until);

/* ---- stores ---- */

typedef struct gs_store gs_store;

/* Connect to a store, retrying until the rendezvous's timeout. endpoint NULL: use the folder of the rendezvous.
 * GS_E_PEER: no store of this run answers. GS_E_INTERRUPTED. GS_E_FILE: the folder cannot be used, or is not new. */
gs_status gs_store_open(const gs_rendezvous *, const gs_endpoint *, const unsigned char key[GS_SECRET],
                        gs_store **out);

/* Add a pair. If the key exists already, *there is true, `value` (GS_STORE_VALUE bytes) becomes its value, and the
 * store is unchanged. GS_E_PEER: the store cannot be reached. GS_E_FILE: the file cannot be written. */
gs_status gs_store_put(gs_store *, const char *key, char *value, bool *there);

/* Called at least once for each entry. It must not use the store. */
typedef gs_status gs_store_seen(void *context, const char *key, const char *value);

/* Call `seen` for each new entry (in a folder: for every entry, each time); wait at most `seconds` for new ones. */
gs_status gs_store_poll(gs_store *, double seconds, gs_store_seen *seen, void *context);

/* Describe the store's rejected callers: "; 3 strangers were turned away there", or "" if there were none. */
void gs_store_strangers(gs_store *, char *text, size_t size);

/* The numeric address of this machine from which this process reaches the store. The store must not be a folder. */
const char *gs_store_address(const gs_store *);

/* Say that this process is done; otherwise the others are told that it ended. The last rank removes a folder, unless
 * `met` is false and a rank has yet to read why another one failed. */
void gs_store_leave(gs_store *, bool met);

/* Called by a launcher when its processes have ended: ranks `first` to first + count - 1, of `size` ranks in all. Once
 * all launchers have called it, the folder is removed, so that the next run finds no failure of this one. */
void gs_store_leave_folder(const char *folder, int size, int first, int count);
void gs_store_free(gs_store *); /* NULL is allowed */

/* The R in a name "what-R"; -1: the name has another form, or R is not a rank of this run. */
int gs_rank_of_key(const char *name, const char *what, int size);

/* ---- folder_store.c: these functions for a folder; store.c calls them, and frees the folder store ---- */

typedef struct gs_folder_store gs_folder_store;
gs_status gs_folder_store_open(const gs_rendezvous *, gs_folder_store **out);
gs_status gs_folder_store_put(gs_folder_store *, const char *key, char *value, bool *there);
gs_status gs_folder_store_poll(gs_folder_store *, double seconds, gs_store_seen *seen, void *context);
void gs_folder_store_leave(const gs_folder_store *, bool met);
