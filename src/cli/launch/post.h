/* A launch's connection to the launches of other nodes: a corner of the store of node rank 0, which the ranks do not
 * see (comm/meet/store_server.h). The store lives as long as the launch of node rank 0. Who puts "rank-N" is missed:
 * when it ends without a word, the store itself puts "gone-N".
 */
#pragma once

#include "cli/launch/launch.h"
#include "comm/meet/secret.h"
#include "comm/meet/store.h"

typedef struct gs_launch_post {
    gs_rendezvous r;
    unsigned char key[GS_SECRET];
    struct gs_store_server *server; /* of node rank 0 */
    bool serves;
    gs_store *store; /* NULL: not connected, or no more */
    bool lost;       /* it was connected, and is not any more */
    bool deserts;    /* this launch leaves while others wait for it */
} gs_launch_post;

/* GS_E_USAGE: launches that meet there cannot agree on `what`, such as "--restarts 3"; more nodes than `most`. */
gs_status gs_launch_post_check(const gs_launch *, const char *what, int most);

/* On node rank 0 launch->store is made, which all ranks meet at, too. GS_E_USAGE, GS_E_FILE, GS_E_MEMORY. */
gs_status gs_launch_post_create(gs_launch *, gs_launch_post *);
/* Node rank 0 gives the others a moment to hear its last word. */
void gs_launch_post_free(gs_launch_post *);

/* Connect, trying for `within` seconds, but not again once the connection was lost. True: it is there now, and was not
 * before. gs_message() says why it is not there. */
bool gs_launch_post_reach(gs_launch_post *, double within);

/* *there, which may be NULL: the key was there before. False: there is no connection. */
bool gs_launch_post_put(gs_launch_post *, const char *key, const char *value, bool *there);

/* Leave the others, who do not wait for this launch. */
void gs_launch_post_leave(gs_launch_post *);

/* Hear what is new; wait for it for `seconds` at most. */
void gs_launch_post_look(gs_launch_post *, double seconds, gs_store_seen *see, void *context);

/* "rank-3" -> 3; -1: another key. */
int gs_launch_post_number(const char *key, const char *what);
