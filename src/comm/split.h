/* Sub-communicators: some of the ranks of a comm, as ranks of their own comm.
 *
 *     world    0   1   2   3   4   5
 *     first 0, stride 2: ranks 0, 2, 4 of the world become ranks 0, 1, 2;  with first 1, ranks 1, 3, 5 do
 *
 * Splitting sends nothing, because each rank knows the members. All messages and collectives are made of the parent's
 * messages: if the parent has a slow link, so do its children. The collectives are those of collectives.c, so two
 * children of the same size give the same bits.
 *
 * For the parent, a message on a child is a message between two of its own ranks. Therefore all comms that two ranks
 * share, including the parent, share one order of messages, and one order of parts of collectives (gs_envelope in
 * comm.h). The message that one rank sends first, the other must receive first, on the same comm:
 *
 *     right    rank 0: send to 1 on a, send to 1 on b     rank 1: recv from 0 on a, recv from 0 on b
 *     wrong    rank 0: send to 1 on a, send to 1 on b     rank 1: recv from 0 on b, recv from 0 on a
 *
 * Ranks that make their calls in the same order across all comms obey this rule. send waits once two messages are under
 * way between two ranks, counted over all their comms.
 *
 * A wait takes at most the parent's timeout. Failure messages name ranks by their number in the parent. A failure in
 * one comm fails the parent, and so all its children. */
#pragma once

#include "comm/comm.h"

/* Make a comm of `size` ranks of the parent: first, first + stride, ... become ranks 0, 1, ... *out is NULL on all
 * other ranks. gs_comm_free frees it, but not the parent, which must outlive it. GS_E_MEMORY. */
gs_status gs_comm_split(gs_comm *parent, int first, int stride, int size, gs_comm **out);

/* The same for the listed ranks. */
gs_status gs_comm_split_ranks(gs_comm *parent, const int *ranks, int size, gs_comm **out);

/* The number that rank r has in the parent. */
int gs_comm_rank_in_parent(const gs_comm *, int r);
