/* A layout describes in one word how the workers of a run share the work.
 *
 *     --layout dp2,pp4,zero1
 *
 *     dpN      N replicas (data parallel): each computes a part of the batch
 *     tpN      N shards of each pair of linear layers, like --tensor N
 *     ppN      N stages of the model, like --pipeline N
 *     zeroN    the replicas divide data that each would otherwise hold whole, like --zero N
 *
 * Terms may come in any order, each at most once. A missing term is dp1, tp1, pp1 or zero0. The run has exactly dp x tp
 * x pp workers. Adjacent ranks communicate most: rank = (stage x dp + replica) x tp + shard. With dp2,pp2
 *
 *                replica 0   replica 1
 *     stage 0     worker 0    worker 1      a step's activations go down a column,
 *     stage 1     worker 2    worker 3      and gradients are summed along a row
 */
#pragma once

#include "comm/comm.h"

/* Maximum values. */
enum { GS_LAYOUT_WORKERS = 4096, GS_LAYOUT_PARTS = 64, GS_LAYOUT_STAGES = 64, GS_LAYOUT_ZERO = 3 };

typedef struct gs_layout {
    int dp, tp, pp, zero;
} gs_layout;

/* GS_E_USAGE: a term is unknown or repeated, or its number is outside 1 to 4096 (tp, pp: 64; zero: 0 to 3). */
gs_status gs_layout_read(const char *text, gs_layout *out);

/* "dp2,pp4,zero1": omits dp1, tp1, pp1 and zero0, but is "dp1" if no other term is left. */
enum { GS_LAYOUT_TEXT = 64 };
const char *gs_layout_text(const gs_layout *, char text[GS_LAYOUT_TEXT]);

/* A worker's coordinates in the dp x tp x pp mesh: its replica, its tensor shard, its stage. */
typedef struct gs_coordinates {
    int dp, tp, pp;
} gs_coordinates;

gs_coordinates gs_coordinates_of(const gs_layout *, int rank);
int gs_rank_at(const gs_layout *, gs_coordinates);

/* ---- groups of ranks ---- */

/* A layout gives each rank its coordinates, and these determine its four comms:
 *
 *     --layout dp2,tp2,pp2        shard 0           shard 1
 *     stage 0, replica 0, 1       worker 0, 2       worker 1, 3       tp goes along a row,
 *     stage 1, replica 0, 1       worker 4, 6       worker 5, 7       dp and pp stay in a column
 *
 * Creating them sends no messages, so a dry run, which has no peers, can create them too.
 */
typedef enum gs_axis {
    GS_DP,    /* the replicas of this worker's stage and shard: they sum gradients and counts */
    GS_TP,    /* the shards of this worker's layers: they sum within layers */
    GS_PP,    /* the stages of this worker's pipeline: they pass on activations and their gradients */
    GS_WORLD, /* all workers */
    GS_AXES
} gs_axis;

typedef struct gs_groups {
    gs_layout layout;
    gs_coordinates coordinates; /* of this worker */
    gs_comm *comm[GS_AXES];     /* this worker's rank in each is its coordinate on that axis */
    bool met; /* true once the others are ready; before that, in a warm-up, layers sum nothing in GS_TP */
} gs_groups;

/* If the layout has only replicas, GS_DP is the world's comm, whose collectives may be a transport's own. Otherwise
 * GS_DP is a subset of the world's comm (comm/split.h), as GS_TP and GS_PP always are. A subset's collectives consist
 * of messages, and give the same bits over all transports. Free the groups even after a failure. GS_E_MEMORY. */
gs_status gs_groups_create(gs_comm *world, gs_layout, gs_groups *);
void gs_groups_free(gs_groups *);
