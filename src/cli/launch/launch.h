/* Several processes of this program at once: `gradsum launch`. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/launch/shared.h"
#include "core/error.h"

typedef struct gs_launch {
    int size;                /* how many processes on this machine */
    int nodes, node;         /* how many machines, each with a launch of its own; which one this is */
    const char *meet;        /* where they meet (comm/meet/store.h): tcp://HOST:PORT; NULL: here */
    const char *interface;   /* by which they are reached, for GRADSUM_INTERFACE; NULL: by the route */
    const char *secret_file; /* for GRADSUM_SECRET_FILE; NULL: as it is in the environment */
    double timeout;          /* seconds, for GRADSUM_TIMEOUT; 0: as it is in the environment */
    const char *transport;   /* for GRADSUM_TRANSPORT */
    bool bind;               /* each process keeps to cores of its own, where there are enough */
    const char *elastic;     /* "2:4" (launch/elastic.c); NULL: a lost process ends all */
    int restarts;            /* how often all may start again, when one was lost (launch.c) */
    char **command;          /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all ended with 0, 2 if all
 * ended with 2, 128 + N if signal N stopped them, else 1; with one message on standard error. When one process fails,
 * the others are stopped, and all start again where launch->restarts says so. A rank that stays stopped (SIGSTOP)
 * for longer than the time-out after another has ended counts as failed; after a signal, it is killed then. */
int gs_launch_run(const gs_launch *);

/* How many processes there are on all machines. */
static inline int gs_launch_world(const gs_launch *l) {
    return l->nodes * l->size;
}

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

/* ---- the processes, while they run: what launch.c and elastic.c share ---- */

struct gs_elastic;

typedef struct gs_launch_child {
    pid_t pid;            /* 0: not running */
    int status;           /* as waitpid says, once it has ended */
    double stopped_since; /* seen stopped since then, while others had ended; 0: it is not */
    /* What it was doing when others failed for lack of it: "process 4711 is stopped"; "": it does not hang. */
    char hangs[80];
} gs_launch_child;

typedef struct gs_launch_state {
    const gs_launch *launch;
    gs_launch_place place;
    double timeout; /* seconds that a rank may be stopped once others have ended */
    gs_launch_child child[GS_LAUNCH_MOST];
    int rank[GS_LAUNCH_MOST]; /* of each in the world; -1: it was let go (elastic.c) */
    gs_shared *shared;
    struct gs_elastic *elastic; /* NULL: the launch is not elastic */
    bool misused;               /* an elastic launch ended because a rank had ended for wrong usage */
    int running;
    int failed; /* the child (a seat) that failed first, or -1 */
    int hung;   /* the child (a seat) that failed by being stopped too long after others ended; or -1 */
    int failed_others; /* how many were running then, */
    bool told;         /* and whether they had to be told to end */
    int stopped_by;    /* the signal that asked us to stop, or 0 */
    double stopped_at;
    int next;       /* the next signal for those that still run: 0 none, SIGTERM or SIGKILL, */
    double next_at; /* and when it is due */
    sigset_t waited, before;
} gs_launch_state;

/* Start the process child[seat], in an elastic launch as rank s->rank[seat] of `size`. GS_E_MEMORY, GS_E_FILE. */
gs_status gs_launch_start_one(gs_launch_state *, const gs_launch_place *, int seat, int size);

/* What it does now, for messages. */
void gs_launch_note_hanging(gs_launch_child *);

/* This child has failed, and with it the launch: the others are told to end, if they do not by themselves. */
void gs_launch_note_failure(gs_launch_state *, int seat);

/* This child has failed. Where it has not met the ranks of other nodes yet, and has not said why it failed, these are
 * told at their meeting place; that takes 2 s at most. */
void gs_launch_tell_absent(const gs_launch_state *, int seat);

/* "rank 2 was killed by signal 9 (Killed)" */
void gs_launch_status_text(const gs_launch_state *, int seat, char *text, size_t size);

/* ---- elastic.c ---- */

/* GS_E_USAGE: --elastic does not go with the rest of the launch. */
gs_status gs_elastic_check(const gs_launch *);

/* Before the processes are started: s->elastic. GS_E_MEMORY. */
gs_status gs_elastic_create(gs_launch_state *);
void gs_elastic_free(gs_launch_state *); /* with the folder of its last generation */

/* Not all processes could be started: none of them goes on. Nothing happens without --elastic. */
void gs_elastic_give_up(gs_launch_state *);

/* This child has ended in another way than with 0. */
void gs_elastic_lost(gs_launch_state *, int seat);

/* Have some processes ended with 0, their work being done? */
bool gs_elastic_is_ending(const gs_launch_state *);

/* No process is left. If one was lost at the end, when others had done their work, that is a failure. */
void gs_elastic_close(gs_launch_state *);

/* Now and then. Is a generation about to begin, so that this should be called again soon? */
bool gs_elastic_look(gs_launch_state *);
