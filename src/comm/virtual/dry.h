/* A dry comm: the other ranks are not there, and nothing is sent. Every call returns at once and leaves its buffers as
 * they are, so that the calls of one rank run as they do in training (train/rehearse.c). Its parts (split.h) and its
 * schemes (gs_sync_run) are dry too.
 */
#pragma once

#include "comm/comm.h"

/* Rank `rank` of `size`. GS_E_MEMORY. */
gs_status gs_comm_dry_create(int rank, int size, gs_comm **out);
