/* What the launches of an elastic run know of each other: what elastic_nodes.c and elastic_decide.c share. */
#pragma once

#include "cli/launch/elastic_nodes.h"
#include "cli/launch/post.h"

enum { GS_ELASTIC_LAUNCHES = 4 * GS_ELASTIC_NODES };

typedef struct gs_elastic_party {
    bool here, gone;
    int seats;
    char was_started_with[80];
    int first, count; /* its ranks in this generation */
    int noticed;      /* the last generation in which it has noticed a loss, */
    int ready;        /* and the last that it is ready to leave */
    gs_elastic_report report;
} gs_elastic_party;

struct gs_elastic_nodes {
    const gs_launch *launch;
    gs_launch_post post;
    double timeout, since, next_try; /* since: this launch began; next_try: to connect */
    int me;                          /* in `party`; -1: it has not joined yet */
    char was_started_with[80];
    int generation, size, left, before;
    char what[GS_STORE_VALUE]; /* of this generation; or of the end */
    double lost_since;         /* somebody has noticed a loss in this generation; 0: nobody */
    bool said_lost, said_signal, ended, done, idle;
    int decided; /* the last generation after which node rank 0 has decided; -1: none */
    gs_elastic_party party[GS_ELASTIC_LAUNCHES];
};

/* On node rank 0: decide what follows this generation, once that is clear. */
void gs_elastic_nodes_decide(gs_elastic_nodes *);

/* Say that this one was stopped by a signal, and that the run ends. */
void gs_elastic_nodes_say_stopped(gs_elastic_nodes *, int signal);

/* Is it there? */
static inline bool gs_elastic_takes_part(const gs_elastic_party *p) {
    return p->here && !p->gone;
}
