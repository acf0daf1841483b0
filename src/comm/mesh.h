/* Connect each rank to every other. Each connection is authenticated (handshake.h) before it is used.
 *
 * Each rank listens on the address in its rank info. It calls all lower ranks, and all higher ranks call it. One thread
 * serves all handshakes concurrently, so a stranger that stays silent or sends nonsense delays no one; it is soon
 * turned away. If there are too many callers, the oldest one is turned away.
 *
 * Only for src/comm/. */
#pragma once

#include "comm/rank_info.h"

/* Listen on `address`, a name or number of this machine. *listener is the socket; its address and port go into the rank
 * info. GS_E_USAGE: this machine has no such address. GS_E_FILE: no file descriptor is left. */
gs_status gs_mesh_listen(const char *address, gs_rank_info *mine, int *listener);

/* socket[line * size + rank]: a nonblocking connection to each rank for each of `lines`, -1 for this rank. The caller
 * closes them, even after a failure. process[rank] is a descriptor that tells when that process has ended
 * (gs_processes_watch), or -1; NULL: all are -1. GS_E_PEER: a rank could not be reached, did not call within the
 * timeout, or ended. GS_E_FILE, at once: this process has no file descriptor left. */
gs_status gs_mesh_connect(const gs_rendezvous *, const gs_rank_info *all, int listener, const int *process,
                          int lines, int *socket);

void gs_mesh_close(int count, const int *socket);

/* GS_E_FILE, for a system call that failed with this errno. The message is the system's text. EMFILE differs: only
 * a higher limit helps, so it is "too many open files: RLIMIT_NOFILE is 64 (ulimit -n)". */
gs_status gs_fail_descriptor(int error);

enum { GS_MESH_WHY = 160 };

/* Connect over one line with the ranks whose roll[rank] is '1', as far as possible. For a rank that cannot be reached
 * within the timeout, socket[rank] is -1, and why[rank] gives the reason; otherwise why[rank] is "". After a failure
 * all connections are closed. */
gs_status gs_mesh_connect_some(const gs_rendezvous *, const gs_rank_info *all, int listener, const char *roll,
                               int *socket, char (*why)[GS_MESH_WHY]);
