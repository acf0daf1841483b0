/* How processes find each other: each leaves a file "rank-R" in a folder that all can see. Only for
 * src/comm/. */
#pragma once

#include "comm/passport.h"

/* GS_E_USAGE: rank, size or timeout make no sense; or the folder, where one is wanted. */
gs_status gs_rendezvous_check(const gs_rendezvous *, bool folder);

/* Leave this rank's file, and return when the files of all ranks are there: all[0..size-1] says what they hold. The
 * caller has filled in this rank's own (gs_passport_create). GS_E_PEER: a rank did not arrive within the timeout, or
 * arrived and ended, or cannot be of the same run. GS_E_FILE: the folder cannot be used, or is not new. On failure this
 * rank's file is removed again. The pid of ranks that run elsewhere becomes 0. */
gs_status gs_rendezvous_meet(const gs_rendezvous *, gs_passport *all);

/* See gs_meeting_fail. */
gs_status gs_rendezvous_fail(const gs_rendezvous *, gs_status status);

/* Remove this rank's file, and the folder if it is empty then. */
void gs_rendezvous_leave(const gs_rendezvous *);

/* Where process numbers mean the same: a host, its running kernel, and in that a process namespace. The kernel's number
 * tells machines apart that have the same name, as clones of one disk do. */
void gs_rendezvous_place(char *text, size_t size);

/* The rank in "rank-1", where `what` is "rank"; -1: it is another name, or no rank of this run. */
int gs_rank_in(const char *name, const char *what, int size);

/* This process has reached a meeting. From here on gs_comm_stay_away does nothing. */
void gs_absence_arrived(void);

/* Fail as the rank did that has left this text; `absent`: before it joined. */
gs_status gs_absence_fail_as(const gs_rendezvous *, const char *text, bool absent);
