/* How processes find each other: each leaves a file "rank-R" in a folder that all can see. Only for
 * src/sync/. */
#ifndef GS_SYNC_RENDEZVOUS_H
#define GS_SYNC_RENDEZVOUS_H

#include "sync/comm.h"

/* Leave this rank's file and return when the files of all ranks are there. GS_E_PEER: a rank did not come
 * within the timeout, or came and ended. GS_E_FILE: the folder cannot be used, or is not new. On failure this
 * rank's file is removed again. pid[0..size-1]: the processes of the ranks; 0 where one runs elsewhere. */
gs_status gs_rendezvous_meet(const gs_rendezvous *, long *pid);

/* Remove this rank's file, and the folder if it is empty then. */
void gs_rendezvous_leave(const gs_rendezvous *);

/* Where process numbers mean the same: a host, and on it a name space of processes. */
void gs_rendezvous_place(char *text, size_t size);

#endif
