/* Several processes of this program at once: `gradsum launch`. */
#ifndef GS_CLI_LAUNCH_H
#define GS_CLI_LAUNCH_H

#include "core/error.h"

enum { GS_LAUNCH_MOST = 256 };

typedef struct gs_launch {
    int size;              /* how many processes */
    const char *timeout;   /* seconds, for GRADSUM_TIMEOUT; NULL: as it is in the environment */
    const char *transport; /* for GRADSUM_TRANSPORT; NULL: as it is in the environment */
    char **command;        /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all ended with 0,
 * 2 if all ended with 2, else 1 with one message on standard error. The rest is stopped when one fails. */
int gs_launch_run(const gs_launch *);

/* ---- launch_place.c: what the processes find around them ---- */

/* The folder is new, and the processes find each other in it. The last of them to come removes it, unless something else
 * lies there: so nothing is left behind even if the launcher is killed. */
typedef struct gs_launch_place {
    char folder[3000];
    char *cache; /* POCL_CACHE_DIR as the user has set it, or NULL */
} gs_launch_place;

/* GS_E_FILE. */
gs_status gs_launch_place_create(gs_launch_place *);

/* Set the environment of this process to what `rank`, the next to be started, shall find. GS_E_FILE,
 * GS_E_MEMORY. */
gs_status gs_launch_place_for(const gs_launch_place *, const gs_launch *, int rank);

/* Remove the folder, if it is still there, with all that is in it. */
void gs_launch_place_remove(gs_launch_place *);

/* Processes that mpirun has started are not launched here, but share PoCL's cache just as well: give this one a
 * cache of its own, where there is a place for it. */
void gs_launch_cache_under_mpirun(void);

#endif
