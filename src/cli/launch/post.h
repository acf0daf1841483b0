/* A launch's connection to the launches of other nodes: a corner of the store, which the ranks do not see.
 *
 *     tcp           The store is that of node rank 0 (comm/meet/store_server.h), and lives as long as its launch. Who
 *                   puts "rank-N" is missed: when it ends without a word, the store itself puts "gone-N".
 *     redis, file   The store is there before the launches, and after them. So each has a "beat-N" there, which it
 *                   changes twice a second. Where that stays as it is for almost the time-out, or vanishes, the launch
 *                   has gone. What a launch has put stays until the last of them leaves: it removes all that is left of
 *                   the run, also what those have put that were killed.
 *
 * Where a launch finds the store full, all hear it ("fault", comm/meet/store.h), and end their connections.
 */
#pragma once

#include "cli/launch/launch.h"
#include "comm/meet/secret.h"
#include "comm/meet/store.h"

typedef struct gs_launch_pulse {
    char beat[24];
    double since; /* this beat was seen first; 0: there was none yet */
    int missed;   /* it was not there in so many looks in turn */
} gs_launch_pulse;

typedef struct gs_launch_post {
    gs_rendezvous r;
    gs_meet_place place;
    unsigned char key[GS_SECRET];
    struct gs_store_server *server; /* of node rank 0, of tcp */
    bool serves;
    gs_store *store;   /* NULL: not connected, or no more */
    bool lost;         /* it was connected, and is not any more; */
    char refused[600]; /* why, if the store is full, for this launch or another; else "" */
    bool deserts;      /* this launch leaves while others wait for it */
    int attempt;       /* that the ranks are in, from 1; 0: the store notices by itself what they leave */
    gs_launch_pulse *pulse; /* [nodes]; NULL: the store notices by itself who has gone */
    bool joined;            /* this launch has a beat there; of these: */
    int beats;
    double next_beat, looked; /* when it is due; when the last look was */
} gs_launch_post;

/* Seconds from one try to reach the launches of other nodes to the next. */
#define GS_POST_TRIES_EVERY 0.2

/* GS_E_USAGE: launches that meet there cannot agree on `what`, such as "--restarts 3"; more nodes than `most`. tcp: no
 * other place will do, because it is needed that the store itself puts "gone-N". */
gs_status gs_launch_post_check(const gs_launch *, const char *what, int most, bool tcp);

/* At tcp, on node rank 0, launch->store is made, which all ranks meet at, too. GS_E_USAGE, GS_E_FILE, GS_E_MEMORY. */
gs_status gs_launch_post_create(gs_launch *, gs_launch_post *);
/* Node rank 0 gives the others a moment to hear its last word. */
void gs_launch_post_free(gs_launch_post *);

/* Connect, trying for `within` seconds, but not again once the connection was lost. True: it is there now, and was not
 * before. gs_message() says why it is not there. */
bool gs_launch_post_reach(gs_launch_post *, double within);

/* *there, which may be NULL: the key was there before. False: there is no connection, or the store does not take it,
 * which ends the connection. */
bool gs_launch_post_put(gs_launch_post *, const char *key, const char *value, bool *there);

/* Put "rank-N" of this node rank, and begin to beat. *there: another launch has done so before. */
void gs_launch_post_join(gs_launch_post *, const char *value, bool *there);

/* Leave the others, who do not wait for this launch. */
void gs_launch_post_leave(gs_launch_post *);

/* Hear what is new; wait for it for `seconds` at most. Beats, where that is due. */
void gs_launch_post_look(gs_launch_post *, double seconds, gs_store_seen *see, void *context);

/* Has this launch gone, by its beat? */
bool gs_launch_post_is_silent(const gs_launch_post *, int rank);

/* The ranks of all nodes have ended, in this attempt: nothing of it is needed any more. */
void gs_launch_post_clear(gs_launch_post *, int attempt);

/* "rank-3" -> 3; -1: another key. */
int gs_launch_post_number(const char *key, const char *what);
