/* Several processes of this program at once: `gradsum launch`. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/launch/shared.h"
#include "core/error.h"

typedef struct gs_launch {
    int size;        /* how many processes on this machine */
    int nodes, node; /* how many machines, each with a launch of its own; which one this is */
    int first,
        world_size;      /* the first of these processes among all, and how many there are on all machines */
    const char *hosts;   /* start a launch on each of these machines (hosts.c); NULL: here alone */
    const char *program; /* of those; NULL: where this one is */
    bool starter;        /* --hosts has started this launch: its processes end with its standard input */
    const char *meet;    /* where they meet (comm/rendezvous/store.h): tcp://HOST:PORT; NULL: here */
    const char *interface;        /* by which they are reached, for GRADSUM_INTERFACE; NULL: by the route */
    const char *secret_file;      /* for GRADSUM_SECRET_FILE; NULL: as it is in the environment */
    double timeout;               /* seconds, for GRADSUM_TIMEOUT; 0: as it is in the environment */
    const char *transport;        /* for GRADSUM_TRANSPORT */
    bool bind;                    /* each process keeps to cores of its own, where there are enough */
    int elastic_min, elastic_max; /* --elastic MIN:MAX (elastic.c); 0: a lost process ends all */
    int restarts;                 /* how often all may start again, when one was lost (launch.c) */
    char **command;               /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all ended with 0, 2 if wrong
 * usage is to blame, 128 + N if signal N stopped them, else 1; with one message on standard error. When one process
 * fails, the others are stopped, and all start again where launch->restarts says so; where it is elastic, they go on. A
 * rank that stays stopped (SIGSTOP) for longer than the time-out after another has ended counts as failed; after a
 * signal, it is killed then. */
int gs_launch_run(const gs_launch *);

/* From here on the signals of a launch, and SIGCHLD, wait until sigtimedwait takes one of *waited. One that is ignored
 * (nohup) stays ignored. *before: for the processes that are started. */
void gs_launch_take_signals(sigset_t *waited, sigset_t *before);

/* SIGTSTP has been taken: stop, as if it had not been, until SIGCONT. In a group that no shell watches the system lets
 * nobody stop: then this returns at once. */
void gs_launch_suspend(void);

/* What a launch of several hosts writes to those that it has started: their ranks stop, as at Ctrl-Z, and go on. */
enum { GS_LAUNCH_SUSPEND = 'z', GS_LAUNCH_RESUME = 'c' };

/* ---- hosts.c ---- */

/* Start a launch on each of launch->hosts, over ssh on all but the first, which is this machine; wait for them, and
 * return the exit status. Prints what it runs. */
int gs_launch_hosts(const gs_launch *);

/* ---- rendezvous.c: where the processes meet, and what else they find around them ---- */

struct gs_store_server;

/* Where the processes find each other. A folder is new, and the last of them to arrive removes it, unless something
 * else lies there. So nothing is left behind even if the launcher is killed. A store of tcp is held by the launcher of
 * node rank 0. */
typedef struct gs_launch_rendezvous {
    char where[GS_LAUNCH_WHERE];    /* for GRADSUM_RENDEZVOUS */
    bool own_folder;                /* that folder was made for this launch alone */
    struct gs_store_server *server; /* NULL: another launcher's, or no store */
} gs_launch_rendezvous;

/* GS_E_FILE, GS_E_USAGE. Prints where the store listens, which answers once gs_store_server_start is called. */
gs_status gs_launch_rendezvous_create(const gs_launch *, gs_launch_rendezvous *);

/* All processes have ended. Remove the folder, if it is still there, with all that is in it; end the store, and tell of
 * strangers that came to it. In a folder that several launches share, and whose ranks have not all met, say that
 * these need nothing any more. awaited: after a failure, give those of other nodes a moment to hear of it. */
void gs_launch_rendezvous_remove(gs_launch_rendezvous *, const gs_launch *, bool met, bool awaited);

/* Set the environment of this process to what `rank` of this machine is to find. GS_E_MEMORY. */
gs_status gs_launch_set_environment(const gs_launch_rendezvous *, const gs_launch *, int rank);

/* False: no memory. */
bool gs_launch_set_number(const char *name, int value);

/* The value that the command itself gives this option, such as "--timeout"; NULL: none. */
const char *gs_launch_option(const gs_launch *, const char *name);

/* The time-out of the processes in seconds: the command's, or the launch's, or the environment's, or the default. */
double gs_launch_timeout(const gs_launch *);

/* Processes that mpirun has started are not launched here, but share PoCL's cache just as well: give this one a
 * cache of its own, where there is a place for it. */
void gs_launch_cache_under_mpirun(void);

/* ---- launch.c: the processes, while they run; for elastic.c ---- */

typedef struct gs_launch_child {
    pid_t pid;            /* 0: not running */
    int status;           /* as waitpid says, once it has ended */
    double stopped_since; /* seen stopped since then, while others had ended; 0: it is not */
    /* What it was doing when others failed for lack of it: "process 4711 is stopped"; "": it does not hang. */
    char hangs[80];
} gs_launch_child;

/* A slot holds one process at a time. Where the launch is elastic, a slot's rank changes, and a new process may follow
 * in it. */
typedef struct gs_launch_processes {
    const gs_launch *launch;
    gs_shared *shared;
    double timeout;   /* seconds that a rank may be stopped once others have ended */
    sigset_t blocked; /* signals, when the launch began */
    int running;
    gs_launch_child child[GS_LAUNCH_MOST]; /* [slot] */
    int rank[GS_LAUNCH_MOST];              /* [slot] in the world; -1: it was let go */
} gs_launch_processes;

/* Start the process of this slot as rank[slot] of `size`. GS_E_MEMORY: the system has no room for it. */
gs_status gs_launch_start_process(gs_launch_processes *, const gs_launch_rendezvous *, int slot, int size);

/* Remember what it does now, for messages; of several times the first counts. */
void gs_launch_note_hanging(gs_launch_child *);

/* Append "rank 2 was killed by signal 9 (Killed)", or "rank 2 hangs: process 4711 is stopped". */
void gs_launch_append_end(const gs_launch_processes *, int slot, char *text, size_t size);

/* How much an end is to blame, by its wait status: a rank that merely exits may have lost one that was killed, or that
 * ended for wrong usage. */
typedef enum gs_launch_blame { GS_BLAME_EXIT, GS_BLAME_KILLED, GS_BLAME_USAGE } gs_launch_blame;
gs_launch_blame gs_launch_blame_of(int status);

/* ---- elastic.c: who goes on when a rank was lost ---- */

typedef struct gs_elastic {
    double lost_at;                  /* the first loss of this generation was noticed; 0: there was none */
    int lost;                        /* slot of the loss that is to blame for the others; -1: none is known */
    bool idle;                       /* the generation before made no step */
    bool regrouped;                  /* there was a generation after the first */
    gs_launch_rendezvous rendezvous; /* of the last such one */
} gs_elastic;

typedef enum gs_elastic_state {
    GS_ELASTIC_RUNS,
    GS_ELASTIC_WAITS, /* a rank was lost; until all others have noticed it, look often */
    GS_ELASTIC_FAILS  /* there is no other generation, which has been said; elastic->lost is to blame */
} gs_elastic_state;

/* The process of this slot has ended in another way than with 0. */
void gs_elastic_note_loss(gs_elastic *, const gs_launch_processes *, int slot);

/* Look at all processes; begin the next generation where each of them has noticed a loss. */
gs_elastic_state gs_elastic_look(gs_elastic *, gs_launch_processes *);

/* Who was lost in this generation, and how; "a rank was cut off": nobody. */
void gs_elastic_append_lost(const gs_elastic *, const gs_launch_processes *, char *text, size_t size);

/* Have some processes ended with 0, their work being done? */
bool gs_elastic_is_ending(const gs_launch_processes *);
