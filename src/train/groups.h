/* Who shares what with a worker. A layout (layout/layout.h) gives each rank its place, and with that four comms:
 *
 *     --layout dp2,tp2,pp2        part 0            part 1
 *     stage 0, replica 0, 1       worker 0, 2       worker 1, 3       tp goes along a row,
 *     stage 1, replica 0, 1       worker 4, 6       worker 5, 7       dp and pp stay in a column
 *
 * They are made without messages, so that a rehearsal, which has nobody to ask, has them too.
 */
#pragma once

#include "comm/comm.h"
#include "train/layout/layout.h"

typedef enum gs_axis {
    GS_DP,    /* the replicas of what this worker holds: sums of gradients and counts */
    GS_TP,    /* the parts of its layers: sums within them */
    GS_PP,    /* the stages of its pipeline: activations and their gradients */
    GS_WORLD, /* all workers */
    GS_AXES
} gs_axis;

typedef struct gs_groups {
    gs_layout layout;
    gs_place place;         /* of this worker */
    gs_comm *comm[GS_AXES]; /* this worker's rank in it is its place on that axis */
    bool met;               /* the others are there. Else, in a warm-up, layers sum nothing in GS_TP */
} gs_groups;

/* Where there are only replicas, GS_DP is the comm of the world, whose collectives may be a transport's own. Else it is
 * a part of it (comm/split.h), and so are GS_TP and GS_PP always: their collectives are made of messages, and have the
 * same bits over all transports. What is made is to be freed, even after a failure: GS_E_MEMORY. */
gs_status gs_groups_create(gs_comm *world, gs_layout, gs_groups *);
void gs_groups_free(gs_groups *);
