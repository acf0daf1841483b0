/* Sub-communicators: some of the ranks of a comm, as ranks of a comm of their own.
 *
 *     world    0   1   2   3   4   5
 *     first 0, stride 2: ranks 0, 2, 4 of the world are ranks 0, 1, 2;  first 1: ranks 1, 3, 5 are
 *
 * To make one nothing is sent: each of its ranks knows who the others are. Its messages and collectives are made of the
 * messages of the parent, whatever its transport is: a parent over a slow link has children that are slow. Their
 * collectives are those of collectives.c, so two children of one parent with the same size give the same bits.
 *
 * A message is a message between two ranks of the parent, whichever comm it was sent on. So the order of each pair of
 * ranks is one order for all comms that the two share, the parent included, and each of the two kinds of messages
 * (gs_envelope in comm.h: messages, parts of collectives) has one. What a rank sends first, the other must receive
 * first, on the same comm:
 *
 *     right    rank 0: send to 1 on a, send to 1 on b     rank 1: recv from 0 on a, recv from 0 on b
 *     wrong    rank 0: send to 1 on a, send to 1 on b     rank 1: recv from 0 on b, recv from 0 on a
 *
 * Ranks that make their calls in one order, whatever the comms, keep this rule. That two messages may be under way
 * before send waits holds for a pair of ranks, not for each comm.
 *
 * A wait takes at most the parent's timeout. Messages of failures name ranks by their number in the parent. A failure
 * in one comm is the failure of the parent, and so of all its children.
 */
#pragma once

#include "comm/comm.h"

/* The ranks first, first + stride, ... of the parent, `size` of them, as ranks 0, 1, ... *out is NULL on any other
 * rank. gs_comm_free frees it, not the parent, which must live as long. GS_E_MEMORY. */
gs_status gs_comm_split(gs_comm *parent, int first, int stride, int size, gs_comm **out);

/* The same of a list of ranks. */
gs_status gs_comm_split_ranks(gs_comm *parent, const int *ranks, int size, gs_comm **out);

/* The rank in the parent of rank r of such a part. */
int gs_comm_rank_in_parent(const gs_comm *, int r);
