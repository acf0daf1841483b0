/* A dry comm: the other ranks are not there, and nothing is sent. Every call returns at once and leaves its buffers as
 * they are, so that the calls of one rank run as they do in training (predict/dry_run.c). Its parts (split.h) and
 * its schemes (gs_sync_run) are dry too.
 */
#pragma once

#include "comm/comm.h"

struct gs_sync;

/* Told of each call, of the whole and of its parts. */
typedef struct gs_dry_watch {
    void *context;
    /* A collective of `comm`; or a message, of which comm is the whole. */
    gs_status (*called)(void *context, const gs_comm *comm, const gs_call *);
    /* A scheme's sum of sync->array.count floats. */
    gs_status (*summed)(void *context, const struct gs_sync *sync);
} gs_dry_watch;

/* Rank `rank` of `size`. watch must live as long. GS_E_MEMORY. */
gs_status gs_comm_dry_create(int rank, int size, const gs_dry_watch *watch, gs_comm **out);
