/* What the launches of an elastic run know of each other: what elastic_nodes.c and elastic_decide.c share. */
#pragma once

#include "cli/launch/elastic_nodes.h"
#include "cli/launch/post.h"

enum { GS_ELASTIC_LAUNCHES = 4 * GS_ELASTIC_NODES };

/* How the value of next-K begins:
 *
 *     "1 SIZE KEPT SURVIVORS N:FIRST:COUNT,...\nwhat"   another generation
 *     "0 \nwhy"                                         the end: a failure,
 *     "3 \nwhy"                                         wrong usage,
 *     "2 \n"                                            or all is done */
typedef enum gs_elastic_next {
    GS_NEXT_FAILED = '0',
    GS_NEXT_GENERATION = '1',
    GS_NEXT_DONE = '2',
    GS_NEXT_MISUSED = '3'
} gs_elastic_next;

typedef struct gs_elastic_party {
    bool here, gone;
    int seats;
    char was_started_with[80];
    int first, count; /* its ranks in this generation */
    int noticed;      /* the last generation in which it has noticed a loss, */
    int ready;        /* and the last that it is ready to leave */
    gs_elastic_report report;
    int stopped_by; /* a signal; 0: none, */
    int stopped_in; /* and the last generation that it had begun by then */
} gs_elastic_party;

struct gs_elastic_nodes {
    const gs_launch *launch;
    gs_launch_post post;
    double timeout, since, next_try; /* since: this launch began; next_try: to connect */
    int me;                          /* in `party`; -1: it has not joined yet */
    char was_started_with[80];
    int generation, size, kept, survivors; /* as gs_elastic_share has them */
    char what[GS_STORE_VALUE];             /* of this generation; or of the end */
    double lost_since;                     /* somebody has noticed a loss in this generation; 0: nobody */
    bool said_lost, said_stopped, ended, idle;
    int exit_status; /* once it has ended */
    int decided;     /* the last generation after which node rank 0 has decided; -1: none */
    gs_elastic_party party[GS_ELASTIC_LAUNCHES];
};

/* On node rank 0: decide what follows this generation, once that is clear. */
void gs_elastic_nodes_decide(gs_elastic_nodes *);

/* On node rank 0, which was stopped by a signal itself: the run ends. */
void gs_elastic_nodes_decide_stopped(gs_elastic_nodes *, int signal);

/* Is it there? */
static inline bool gs_elastic_takes_part(const gs_elastic_party *p) {
    return p->here && !p->gone;
}
