/* A call of an operation of comm.h as data: what to do with how many of which type. It can be described in a
 * message, compared between ranks, kept in a table, and run.
 */
#ifndef GS_SYNC_CALL_H
#define GS_SYNC_CALL_H

#include <stdbool.h>
#include "sync/comm.h"

typedef enum gs_operation {
    GS_SEND,
    GS_RECV,
    GS_BROADCAST,
    GS_ALL_REDUCE,
    GS_REDUCE,
    GS_ALL_GATHER,
    GS_GATHER,
    GS_SCATTER,
    GS_REDUCE_SCATTER,
    GS_ALL_TO_ALL,
    GS_BARRIER,
    GS_OPERATIONS
} gs_operation;

/* Members that an operation does not have are 0. */
typedef struct gs_call {
    gs_operation operation;
    size_t count; /* as in comm.h: of reduce_scatter the total, of all_to_all for each rank */
    gs_type type;
    gs_reduction reduction;
    int root; /* send and recv: the other rank */
} gs_call;

const char *gs_operation_name(gs_operation); /* "all_reduce" */
bool gs_operation_reduces(gs_operation);
bool gs_operation_has_root(gs_operation);

/* "all_reduce of 5 f32"; full: "reduce of 5 f32 (sum) to rank 0" */
void gs_call_describe(const gs_call *, bool full, char *text, size_t size);

/* How many bytes rank `rank` of `size` puts in and gets out. broadcast, all_reduce and reduce work in place:
 * for them all is `out`. A rank that is not the root of gather gets nothing, of scatter puts in nothing. */
typedef struct gs_call_bytes {
    size_t in, out;
} gs_call_bytes;
gs_call_bytes gs_call_bytes_of(const gs_call *, int rank, int size);

/* Make the call, with buffers of so many bytes. */
gs_status gs_call_run(gs_comm *, const gs_call *, const void *in, void *out);

#endif
