/* `gradsum launch`: runs several processes of this program. */
#pragma once

#include <sys/types.h>

#include "cli/launch/shared.h"

typedef struct gs_launch {
    int size;                /* processes on this machine */
    int nodes, node;         /* the number of machines, each with its own launch, and this machine's index */
    int first, world_size;   /* this machine's first rank, and the number of ranks on all machines */
    const char *hosts;       /* start a launch on each of these machines (hosts.c); NULL: only here */
    const char *program;     /* where gradsum is on the other hosts; NULL: at the same path as here */
    bool starter;            /* --hosts started this launch: its processes end when its standard input ends */
    const char *meet;        /* rendezvous (comm/rendezvous/store.h): tcp://HOST:PORT; NULL: a folder here */
    const char *interface;   /* for GRADSUM_INTERFACE; NULL: the interface that the route uses */
    const char *secret_file; /* for GRADSUM_SECRET_FILE; NULL: leave the environment unchanged */
    double timeout;          /* seconds, for GRADSUM_TIMEOUT; 0: leave the environment unchanged */
    const char *transport;   /* for GRADSUM_TRANSPORT */
    bool bind;               /* bind each process to its own cores, if there are enough */
    int elastic_min, elastic_max; /* --elastic MIN:MAX (elastic.c); 0: the loss of one process ends all */
    int restarts;                 /* how often all processes may restart after a loss (launch.c) */
    char **command;               /* the words after "--", ending with NULL */
} gs_launch;

/* Start the processes, wait for them, and return the exit status of `gradsum launch`: 0 if all exited with 0, 2 if
 * wrong usage is to blame, 128 + N if signal N stopped them, else 1, with one message on standard error. When one
 * process fails, the others are stopped, and all restart if launch->restarts allows it; an elastic launch continues
 * without the failed one. Once another rank has ended, a rank that stays stopped (SIGSTOP) for longer than the time-out
 * counts as failed; if the launch was asked to stop, that rank is killed. */
int gs_launch_run(const gs_launch *);

/* Block the signals that a launch handles, and SIGCHLD, so that it can call sigtimedwait on *waited. Ignored signals
 * (nohup) stay ignored. *before: the signal mask to restore in the processes that are started. */
void gs_launch_take_signals(sigset_t *waited, sigset_t *before);

/* In a new process, before exec: arrange for it to end when the launcher does, and restore the signal mask. The process
 * gets its own process group, so that Ctrl-C reaches only the launcher, which passes it on, and no process receives it
 * twice. Some terminals would stop background groups that write (SIGTTOU), so SIGTTOU is ignored. */
void gs_launch_begin_child(pid_t launcher, const sigset_t *before);

/* Call this when sigtimedwait has returned SIGTSTP: stop, and continue on SIGCONT. Returns at once in a process group
 * that no shell watches, because SIGTSTP stops no process there. */
void gs_launch_suspend(void);

/* Bytes by which a launch with --hosts makes the launches it started stop (as on Ctrl-Z) or continue their ranks. */
enum { GS_LAUNCH_SUSPEND = 'z', GS_LAUNCH_RESUME = 'c' };

/* ---- hosts.c ---- */

/* Start a launch on each of launch->hosts: the first is this machine, the others are reached over ssh. Wait for them
 * and return the exit status. Prints the commands that it runs. */
int gs_launch_hosts(const gs_launch *);

/* ---- rendezvous.c: the rendezvous and the environment of the processes ---- */

struct gs_store_server;

/* Where the processes meet: a tcp store, run by the launcher of node rank 0, or a new folder. The last process to
 * arrive removes the folder unless it contains something else, so nothing remains even if the launcher is killed. */
typedef struct gs_launch_rendezvous {
    char where[GS_LAUNCH_WHERE];    /* for GRADSUM_RENDEZVOUS */
    bool own_folder;                /* the folder was made for this launch only */
    struct gs_store_server *server; /* NULL: another launcher runs it, or there is no store */
} gs_launch_rendezvous;

/* GS_E_FILE, GS_E_USAGE. Prints where the store listens; the store answers only after gs_store_server_start. */
gs_status gs_launch_rendezvous_create(const gs_launch *, gs_launch_rendezvous *);

/* Call it when all processes have ended. Removes the launch's own folder with its contents; ends the store and reports
 * strangers that connected. If several launches share the folder and not all ranks have met, leaves a note there that
 * this launch's ranks no longer need it. awaited: after a failure, give other nodes a moment to learn of it. */
void gs_launch_rendezvous_remove(gs_launch_rendezvous *, const gs_launch *, bool met, bool awaited);

/* Set this process's environment to that of local rank `rank`. GS_E_MEMORY. */
gs_status gs_launch_set_environment(const gs_launch_rendezvous *, const gs_launch *, int rank);

/* Like setenv, with a number. False: no memory. */
bool gs_launch_set_number(const char *name, int value);

/* The command's own value of an option such as "--timeout"; NULL: not given. */
const char *gs_launch_option(const gs_launch *, const char *name);

/* The time-out of the processes in seconds: the command's, else the launch's, else the environment's, else the
 * default. */
double gs_launch_timeout(const gs_launch *);

/* Processes started by mpirun would share PoCL's cache, so give this process its own if a folder can be found. */
void gs_launch_cache_under_mpirun(void);

/* ---- launch.c: the running processes, for elastic.c ---- */

typedef struct gs_launch_child {
    pid_t pid;            /* 0: not running */
    int status;           /* its wait status, once it has ended */
    double stopped_since; /* when it was first seen stopped after others had ended; 0: it is not stopped */
    /* What it was doing while the others waited for it in vain: "process 4711 is stopped"; "": it does not hang. */
    char hangs[80];
} gs_launch_child;

/* A slot holds one process at a time. In an elastic launch its rank may change, and a new process may take it. */
typedef struct gs_launch_processes {
    const gs_launch *launch;
    gs_shared *shared;
    double timeout;   /* seconds that a rank may be stopped once others have ended */
    sigset_t blocked; /* the signal mask before the launch */
    int running;
    gs_launch_child child[GS_LAUNCH_MOST]; /* indexed by slot */
    int rank[GS_LAUNCH_MOST];              /* indexed by slot: its rank in the world; -1: it was let go */
} gs_launch_processes;

/* Start the process of this slot as rank[slot] of `size` ranks. GS_E_MEMORY: the system lacks the resources for it. */
gs_status gs_launch_start_process(gs_launch_processes *, const gs_launch_rendezvous *, int slot, int size);

/* Record, for messages, what the process is doing now; only the first call has an effect. */
void gs_launch_note_hanging(gs_launch_child *);

/* Append "rank 2 was killed by signal 9 (Killed)", or "rank 2 hangs: process 4711 is stopped". */
void gs_launch_append_end(const gs_launch_processes *, int slot, char *text, size_t size);

/* Kinds of wait status, the least likely cause of a failure first: a rank that merely exits may have done so because it
 * lost a rank that was killed or that ended for wrong usage. */
typedef enum gs_launch_blame { GS_BLAME_EXIT, GS_BLAME_KILLED, GS_BLAME_USAGE } gs_launch_blame;
gs_launch_blame gs_launch_blame_of(int status);

/* ---- elastic.c: continuing after a loss ---- */

typedef struct gs_elastic {
    double lost_at;                  /* when the generation's first loss was noticed; 0: no loss */
    int lost;                        /* the slot to blame for the losses; -1: unknown */
    bool idle;                       /* the previous generation completed no step */
    bool regrouped;                  /* the current generation is not the first, */
    gs_launch_rendezvous rendezvous; /* and this is that generation's rendezvous */
} gs_elastic;

typedef enum gs_elastic_state {
    GS_ELASTIC_RUNS,
    GS_ELASTIC_WAITS, /* a rank was lost: look often until all others have noticed the loss */
    GS_ELASTIC_FAILS  /* no further generation; a message has said why; elastic->lost is to blame */
} gs_elastic_state;

/* The process of this slot has ended with a status other than 0. */
void gs_elastic_note_loss(gs_elastic *, const gs_launch_processes *, int slot);

/* Look at all processes; begin the next generation once every process has noticed the loss. */
gs_elastic_state gs_elastic_look(gs_elastic *, gs_launch_processes *);

/* Append which ranks this generation lost, and how; "a rank was cut off" if none has ended. */
void gs_elastic_append_lost(const gs_elastic *, const gs_launch_processes *, char *text, size_t size);

/* True if any process has finished its work (status 0). */
bool gs_elastic_is_ending(const gs_launch_processes *);
