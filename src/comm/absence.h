/* A rank that fails before the meeting leaves word, so the ranks that wait for it fail at once, with its reason. It
 * leaves one file for each of the others in the rendezvous folder. The rank that reads its file removes it:
 *
 *     absent-for-1   "0 3 no data at 'mnist'"      by rank 0: a gs_status, and why
 *
 * Such a file can be left over from an earlier run in which nobody read it. So a file older than the timeout is
 * ignored, and a rank that does reach the meeting removes the files it left before. gs_comm_stay_away (comm.h) leaves
 * them. Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include "comm/comm.h"

/* Is this the name of such a file, for a rank of this world? */
bool gs_absence_is_file(const gs_rendezvous *, const char *name);

/* This process has reached a meeting. From here on gs_comm_stay_away does nothing. */
void gs_absence_arrived(void);

/* Remove from a folder the word that it left before. */
void gs_absence_take_back(const gs_rendezvous *);

/* Fail as another rank did, if one has left word for this rank. `path` is this rank's own file: its owner is the user
 * whose word counts, and its date is the time at which it arrived, by the clock of the folder's file system. */
gs_status gs_absence_look(const gs_rendezvous *, const char *path);

/* Fail as the rank did that has left this text; `absent`: before it joined. */
gs_status gs_absence_fail_as(const gs_rendezvous *, const char *text, bool absent);
