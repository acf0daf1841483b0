/* Several processes of this program at once: `gradsum launch`. */
#pragma once

#include <stdbool.h>

#include "core/error.h"

enum { GS_LAUNCH_MOST = 256 };

typedef struct gs_launch {
    int size;              /* how many processes */
    double timeout;        /* seconds, for GRADSUM_TIMEOUT; 0: as it is in the environment */
    const char *transport; /* for GRADSUM_TRANSPORT */
    bool bind;             /* each process keeps to cores of its own, where there are enough */
    char **command;        /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all ended with 0, 2 if all
 * ended with 2, 128 + N if signal N stopped them, else 1; with one message on standard error. When one process fails,
 * the others are stopped. A rank that stays stopped (SIGSTOP) for longer than the time-out after another has ended
 * counts as failed. */
int gs_launch_run(const gs_launch *);

/* ---- launch_why.c: what the processes say of their failures ---- */

typedef struct gs_launch_why {
    int rank;
    gs_status code;
    char message[1200];
} gs_launch_why;

/* Memory that the processes inherit: its descriptor, or -1. */
int gs_launch_why_create(void);

/* In a process of a launch: report why it fails; *said: another one has reported the same before. Elsewhere nothing
 * happens. */
bool gs_launch_why_tell(gs_status, const char *message, bool *said);

/* The first failure. Those of ranks that merely lost another one (GS_E_PEER) count last. False: no rank has reported
 * one. */
bool gs_launch_why_first(int file, gs_launch_why *out);

/* ---- launch_place.c: what the processes find around them ---- */

/* A new folder, in which the processes find each other. The last of them to arrive removes it, unless something else
 * lies there. So nothing is left behind even if the launcher is killed. */
typedef struct gs_launch_place {
    char folder[3000];
    char *cache; /* POCL_CACHE_DIR as the user has set it, or NULL */
} gs_launch_place;

/* GS_E_FILE. */
gs_status gs_launch_place_create(gs_launch_place *);

/* Set the environment of this process to what `rank`, the next to be started, is to find. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_launch_place_for(const gs_launch_place *, const gs_launch *, int rank);

/* The value that the command itself gives this option, such as "--timeout"; NULL: none. */
const char *gs_launch_option(const gs_launch *, const char *name);

/* The time-out of the processes in seconds: the command's, or the launch's, or the environment's, or the default. */
double gs_launch_timeout(const gs_launch *);

/* Remove the folder, if it is still there, with all that is in it. */
void gs_launch_place_remove(gs_launch_place *);

/* Processes that mpirun has started are not launched here, but share PoCL's cache just as well: give this one a
 * cache of its own, where there is a place for it. */
void gs_launch_cache_under_mpirun(void);
