/* Several processes of this program at once: `gradsum launch`. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cli/launch/shared.h"
#include "core/error.h"

typedef struct gs_launch {
    int size;            /* how many processes on this machine */
    int nodes, node;     /* how many machines, each with a launch of its own; which one this is */
    int first, world;    /* the first of these processes among all, and how many there are on all machines */
    const char *hosts;   /* start a launch on each of these machines (hosts.c); NULL: here alone */
    const char *program; /* of those; NULL: where this one is */
    bool starter;        /* --hosts has started this launch: its processes end with its standard input */
    const char *meet;    /* where they meet (comm/meet/store.h): tcp://HOST:PORT; NULL: here */
    const char *interface;   /* by which they are reached, for GRADSUM_INTERFACE; NULL: by the route */
    const char *secret_file; /* for GRADSUM_SECRET_FILE; NULL: as it is in the environment */
    double timeout;          /* seconds, for GRADSUM_TIMEOUT; 0: as it is in the environment */
    const char *transport;   /* for GRADSUM_TRANSPORT */
    bool bind;               /* each process keeps to cores of its own, where there are enough */
    int fewest, most; /* --elastic: so many go on when one was lost; fewest 0: a lost process ends all */
    int restarts;     /* how often all may start again, when one was lost (launch.c) */
    char **command;   /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all ended with 0, 2 if all
 * ended with 2, 128 + N if signal N stopped them, else 1; with one message on standard error. When one process fails,
 * the others are stopped, and all start again where launch->restarts says so; where it is elastic, they go on. A rank
 * that stays stopped (SIGSTOP) for longer than the time-out after another has ended counts as failed; after a signal,
 * it is killed then. */
int gs_launch_run(const gs_launch *);

/* From here on the signals of a launch, and SIGCHLD, wait until sigtimedwait takes one of *waited. One that is ignored
 * (nohup) stays ignored. *before: for the processes that are started. */
void gs_launch_take_signals(sigset_t *waited, sigset_t *before);

/* SIGTSTP has been taken: stop, as if it had not been, until SIGCONT. In a group that no shell watches the system lets
 * nobody stop: then this returns at once. */
void gs_launch_stand_still(void);

/* What a launch of several hosts writes to those that it has started: their ranks stop, as at Ctrl-Z, and go on. */
enum { GS_LAUNCH_HALT = 'z', GS_LAUNCH_GO_ON = 'c' };

/* ---- hosts.c ---- */

/* Start a launch on each of launch->hosts, over ssh on all but the first, which is this machine; wait for them, and
 * return the exit status. Prints what it runs. */
int gs_launch_hosts(const gs_launch *);

/* ---- launch_place.c: what the processes find around them ---- */

/* "gradsum launch: ..." on standard error, on a terminal in lines of its width. */
void gs_launch_say(const char *format, ...) GS_PRINTF(1, 2);

struct gs_store_server;

/* Where the processes find each other. A folder is new, and the last of them to arrive removes it, unless something
 * else lies there. So nothing is left behind even if the launcher is killed. A store of tcp is held by the launcher of
 * node rank 0. */
typedef struct gs_launch_place {
    char folder[3000];              /* that this launcher has made; "" */
    char meet[3010];                /* for GRADSUM_RENDEZVOUS */
    struct gs_store_server *server; /* NULL: another launcher's, or no store */
    char *cache;                    /* POCL_CACHE_DIR as the user has set it, or NULL */
} gs_launch_place;

/* GS_E_FILE, GS_E_USAGE. Prints where the store listens. */
gs_status gs_launch_place_create(const gs_launch *, gs_launch_place *);

/* The processes have been started: from now on the store answers them. GS_E_MEMORY. */
gs_status gs_launch_place_open(const gs_launch_place *);

/* Set the environment of this process to what `rank`, the next to be started, is to find. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_launch_place_for(const gs_launch_place *, const gs_launch *, int rank);

/* False: no memory. */
bool gs_launch_set_number(const char *name, int value);

/* Undo what gs_launch_place_for has done to the user's POCL_CACHE_DIR, which another place is to begin with. */
void gs_launch_place_forget(const gs_launch_place *);

/* The value that the command itself gives this option, such as "--timeout"; NULL: none. */
const char *gs_launch_option(const gs_launch *, const char *name);

/* The time-out of the processes in seconds: the command's, or the launch's, or the environment's, or the default. */
double gs_launch_timeout(const gs_launch *);

/* Remove the folder, if it is still there, with all that is in it; end the store, and tell of strangers that came to
 * it. members: after a failure, give so many processes a moment to hear of it; 0: there is no need. */
void gs_launch_place_remove(gs_launch_place *, int members);

/* Processes that mpirun has started are not launched here, but share PoCL's cache just as well: give this one a
 * cache of its own, where there is a place for it. */
void gs_launch_cache_under_mpirun(void);
