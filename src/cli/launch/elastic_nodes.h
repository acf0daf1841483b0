/* launch --elastic over several nodes: the launches agree on each generation. They talk at the store of node rank 0
 * (post.h):
 *
 *     each launch    rank-N      it is there, with so many seats for ranks; N = its node rank + nodes * how often a
 *                                launch of that node rank has gone before
 *     each launch    lost-K-N    it has noticed a loss in generation K
 *     each launch    ready-K-N   each of its ranks has asked for another generation, or has ended: how many survive
 *     each launch    stopped-N   it was asked to stop, and its ranks have ended
 *     node rank 0    next-K      once all are ready, stopped or gone: who has which ranks in generation K + 1, or the
 *                                end
 *     the store, or node rank 0
 *                    gone-N      this launch has ended without a word, or says nothing any more: its ranks are lost
 *
 * Generation 1 begins in the same way, when all nodes are there. A launch that comes later is a newcomer: where there
 * is room for its ranks (MAX), those of the node that has rank 0 fail on purpose after a step, so that all meet again
 * with them.
 *
 * Node rank 0 alone decides, so no two groups go on. A launch that does not say within 5 s that it has heard of a loss
 * has gone; so has one that is not ready the time-out later. One that cannot reach node rank 0 any more ends. If one
 * was stopped before it had begun a generation, the ranks of the others would wait there in vain: all end at once.
 * Ranks are in the order of nodes.
 *
 * Redis and a folder have all of the store's operations that this needs but one: they do not put "gone-N" for a launch
 * that ends without a word, at once and under the number that it came with, so that another may come in its place
 * (post.h knows launches there by beats, one of each node rank, and within the time-out). So they are refused.
 */
#pragma once

#include "cli/launch/launch.h"

typedef struct gs_elastic_nodes gs_elastic_nodes;

enum { GS_ELASTIC_NODES = 64 };

/* *out is NULL where this launch decides alone. On node rank 0 launch->store is made. GS_E_USAGE, GS_E_FILE,
 * GS_E_MEMORY. */
gs_status gs_elastic_nodes_create(gs_launch *, gs_elastic_nodes **out);
void gs_elastic_nodes_free(gs_elastic_nodes *); /* NULL is allowed */

/* Connect, hear what others say, and on node rank 0 decide. Now and then. */
void gs_elastic_nodes_look(gs_elastic_nodes *);

/* The generation that all are in, or should be; 0: none has begun. */
int gs_elastic_nodes_generation(const gs_elastic_nodes *);

/* What this node does in it. */
typedef struct gs_elastic_share {
    int first, count; /* ranks */
    int size;         /* of the world */
    int survivors;    /* of the generation before, on all nodes */
    int kept;         /* of these go on */
    const char *what; /* why it has begun: "rank 2 was killed by signal 9 (Killed)" */
} gs_elastic_share;
gs_elastic_share gs_elastic_nodes_share(const gs_elastic_nodes *);

/* Why there is no other generation, for this launch at least; NULL: there may be one. *exit_status: 0: all have done
 * their work; 2: wrong usage; else 1. */
const char *gs_elastic_nodes_end(const gs_elastic_nodes *, int *exit_status);

/* Can it not reach node rank 0 any more? Then its ranks may be waiting for those of others. */
bool gs_elastic_nodes_is_cut_off(const gs_elastic_nodes *);

/* Has another noticed a loss in this generation? */
bool gs_elastic_nodes_lost(const gs_elastic_nodes *);
/* Have ranks of another ended, their work being done? */
bool gs_elastic_nodes_are_ending(const gs_elastic_nodes *);
/* Are there newcomers, with whom more ranks could go on? exact: the run is. */
bool gs_elastic_nodes_has_newcomers(const gs_elastic_nodes *, bool exact);

/* This launch has noticed a loss. */
void gs_elastic_nodes_say_lost(gs_elastic_nodes *);

typedef struct gs_elastic_report {
    int survivors;   /* ranks that can go on */
    bool lost, done; /* some were lost; some have done their work */
    bool stepped;    /* this generation has made a step */
    bool misused;    /* a rank has ended for wrong usage */
    bool exact;      /* the run is */
    char what[200];  /* how the first was lost: "rank 2 was killed by signal 9 (Killed)"; "" */
} gs_elastic_report;

/* This launch is ready. Only the first report in a generation counts. */
void gs_elastic_nodes_report(gs_elastic_nodes *, const gs_elastic_report *);

/* This launch was stopped by a signal in this generation, or before it had begun a later one; its ranks have ended. */
void gs_elastic_nodes_say_stopped(gs_elastic_nodes *, int signal, int generation);
