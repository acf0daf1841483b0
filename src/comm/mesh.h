/* A connection from each rank to every other, proven (handshake.h) before Gloo or anything else uses it.
 *
 * Each rank listens at one address, which its rank info names. It calls all lower ranks, and the higher ones call it.
 * All conversations go on at the same time, in one thread. So a stranger that calls and then stays silent, or sends
 * nonsense, delays nobody: it is turned away after a moment. When there are too many callers, the one that has been
 * here longest must go.
 *
 * Only for src/comm/.
 */
#pragma once

#include "comm/rank_info.h"

/* Listen at `address`, a name or number of this machine. *listener is the socket; the rank info's address and port say
 * where it listens. GS_E_USAGE: this machine has no such address. GS_E_FILE: no file descriptor is left. */
gs_status gs_mesh_listen(const char *address, gs_rank_info *mine, int *listener);

/* socket[line * size + rank]: a connection to each rank for each of `lines`, -1 for this rank itself; they do not
 * block. The caller closes them, also after a failure. process[rank] says when that process has ended, or is -1
 * (gs_processes_watch); NULL: all are. GS_E_PEER: within the timeout a rank could not be reached, or did not call, or
 * ended. GS_E_FILE, at once: this process has no file descriptor left. */
gs_status gs_mesh_connect(const gs_rendezvous *, const gs_rank_info *all, int listener, const int *process,
                          int lines, int *socket);

void gs_mesh_close(int count, const int *socket);

/* GS_E_FILE, for a call that failed with `error`, an errno: "`what`: too many open files: the limit is 64 (ulimit -n)"
 * where this process has no descriptor left (EMFILE): waiting does not help, the limit has to be raised. Else what the
 * system says of it. */
gs_status gs_fail_descriptor(int error, const char *what, ...) GS_PRINTF(2, 3);

enum { GS_MESH_WHY = 160 };

/* The same as far as possible, over one line, with those ranks that are present[rank]. Those that cannot be reached
 * within the timeout have the socket -1, and why[rank] says why; "": there is a connection, or none was wanted. After a
 * failure there are no connections. */
gs_status gs_mesh_connect_some(const gs_rendezvous *, const gs_rank_info *all, int listener,
                               const bool *present, int *socket, char (*why)[GS_MESH_WHY]);
