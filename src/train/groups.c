#include "train/groups.h"

#include "comm/split.h"

gs_status gs_groups_create(gs_comm *world, gs_layout l, gs_groups *g) {
    const gs_place at = gs_place_of(&l, world->rank), first_replica = {0, at.part, at.stage},
                   first_part = {at.replica, 0, at.stage}, first_stage = {at.replica, at.part, 0};
    *g = (gs_groups){.layout = l, .place = at, .comm[GS_WORLD] = world};
    if (l.tp == 1 && l.pp == 1)
        g->comm[GS_DP] = world;
    else
        GS_TRY(gs_comm_part(world, gs_rank_at(&l, first_replica), l.tp, l.dp, &g->comm[GS_DP]));
    GS_TRY(gs_comm_part(world, gs_rank_at(&l, first_part), 1, l.tp, &g->comm[GS_TP]));
    return gs_comm_part(world, gs_rank_at(&l, first_stage), l.tp * l.dp, l.pp, &g->comm[GS_PP]);
}

void gs_groups_free(gs_groups *g) {
    for (gs_axis a = 0; a < GS_WORLD; a++)
        if (g->comm[a] != g->comm[GS_WORLD]) gs_comm_free(g->comm[a]);
    *g = (gs_groups){0};
}
