/* launch --restarts over several nodes: the launches agree on what follows an attempt. They talk at the store where the
 * ranks meet, in a corner of it that these do not see (post.h):
 *
 *     each launch    rank-R     what it was started with, which must be the same on all
 *     each launch    end-K-R    how attempt K has ended on its node
 *     node rank 0    next-K     once all have ended: another attempt, from which checkpoint; or none, and why
 *
 * Each attempt has a corner of its own for its ranks, so none reads what an earlier one has left: in the store, by
 * GRADSUM_ATTEMPT, or in a folder, by another one inside of it, "DIR/attempt-2".
 *
 * Node rank 0 alone decides (restarts.h), so no two nodes go on in different ways. There is no other attempt where a
 * launch has gone, was stopped, does not answer within the time-out and 10 s, or cannot reach the store any more: who
 * would start its ranks?
 */
#pragma once

#include "cli/launch/restarts.h"

typedef struct gs_launch_nodes gs_launch_nodes;

/* GS_E_USAGE: launches that meet there cannot agree on --restarts. */
gs_status gs_launch_nodes_check(const gs_launch *);

/* *out is NULL where this launch decides alone. At tcp, on node rank 0 launch->store is made, where all attempts meet.
 * GS_E_USAGE: in a folder or at Redis, another launch has come with this node rank. GS_E_PEER: Redis does not answer.
 * GS_E_FILE, GS_E_MEMORY. */
gs_status gs_launch_nodes_create(gs_launch *, gs_launch_nodes **out);
void gs_launch_nodes_free(gs_launch_nodes *); /* NULL is allowed */

/* Now and then during an attempt, once its processes have been started: connect, and hear what others say. Returns true
 * if it is still to connect, or has a beat, so that this should be called again soon. NULL is allowed. */
bool gs_launch_nodes_look(gs_launch_nodes *);

/* Has a node ended well in this attempt? NULL is allowed. */
bool gs_launch_nodes_are_ending(const gs_launch_nodes *);

typedef enum gs_launch_end { GS_ENDED_WELL, GS_ENDED_FAILED, GS_ENDED_STOPPED } gs_launch_end;

/* How an attempt has ended on this node. */
typedef struct gs_launch_report {
    gs_launch_end end;
    int signal; /* of GS_ENDED_STOPPED */
    gs_launch_failure failure;
} gs_launch_report;

/* Tell how the attempt has ended here, and wait until all have; *all: the failure of all nodes, GS_ENDED_WELL if there
 * is none. *what: what follows, as gs_restarts_next says it. False: there is no other attempt. stopped: called
 * meanwhile; where it returns a signal, the launch is to stop. */
bool gs_launch_nodes_agree(gs_launch_nodes *, gs_restarts *, const gs_launch_report *mine, double timeout,
                           int (*stopped)(void *context), void *context, gs_launch_end *all, char *what,
                           size_t size);
