/* A connection from each rank to every other, authenticated (handshake.h) before it is used.
 *
 * Each rank listens at one address, which its rank info gives. It calls all lower ranks, and the higher ones call it.
 * One thread serves all handshakes concurrently, so a stranger that stays silent or sends nonsense delays no one: it is
 * soon turned away. If there are too many callers, the oldest one is turned away.
 *
 * Only for src/comm/.
 */
#pragma once

#include "comm/rank_info.h"

/* Listen at `address`, a name or number of this machine. *listener is the socket; its address and port go into the rank
 * info. GS_E_USAGE: this machine has no such address. GS_E_FILE: no file descriptor is left. */
gs_status gs_mesh_listen(const char *address, gs_rank_info *mine, int *listener);

/* socket[line * size + rank]: a nonblocking connection to each rank for each of `lines`, -1 for this rank. The caller
 * closes them, even after a failure. process[rank] tells when that process has ended, or is -1 (gs_processes_watch);
 * NULL: all are -1. GS_E_PEER: within the timeout a rank could not be reached, did not call, or ended. GS_E_FILE, at
 * once: this process has no file descriptor left. */
gs_status gs_mesh_connect(const gs_rendezvous *, const gs_rank_info *all, int listener, const int *process,
                          int lines, int *socket);

void gs_mesh_close(int count, const int *socket);

/* GS_E_FILE, for a call that failed with this errno. For EMFILE "too many open files: RLIMIT_NOFILE is 64 (ulimit -n)",
 * as only a higher limit helps; else the system's text. */
gs_status gs_fail_descriptor(int error);

enum { GS_MESH_WHY = 160 };

/* Connect over one line with the ranks whose roll[rank] is '1', as far as possible. A rank that cannot be reached
 * within the timeout has the socket -1, and why[rank] gives the reason; otherwise why[rank] is "". After a failure
 * there are no connections. */
gs_status gs_mesh_connect_some(const gs_rendezvous *, const gs_rank_info *all, int listener, const char *roll,
                               int *socket, char (*why)[GS_MESH_WHY]);
