/* The processes of a launch, while they run: what launch.c, elastic.c and restarts.c share. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/launch/shared.h"

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

/* ---- launch.c ---- */

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

/* ---- restarts.c ---- */

/* How an attempt has failed. */
typedef struct gs_launch_failure {
    bool lost;      /* a rank was killed, hung, or was cut off */
    gs_status code; /* else: what a rank says is wrong; GS_OK: none has said anything */
    bool stepped;   /* the attempt has made a step */
} gs_launch_failure;

typedef struct gs_restarts gs_restarts;

/* GS_E_USAGE: this option is not for several nodes; the message says what starts those again. */
gs_status gs_launch_check_one_node(const gs_launch *, const char *option);

/* GS_E_USAGE: --restarts does not go with the rest of the launch. */
gs_status gs_restarts_check(const gs_launch *);

/* The launch must live as long. Before the first attempt. GS_E_MEMORY. */
gs_status gs_restarts_create(const gs_launch *, gs_restarts **out);
void gs_restarts_free(gs_restarts *); /* NULL is allowed */

/* The launch of this attempt. */
const gs_launch *gs_restarts_attempt(const gs_restarts *);

/* An attempt has failed: is there another? *what: where that goes on, or why there is none, to stand after the failure:
 * "; restart 1 of 3: it goes on after step 40 (...)"; without --restarts "". */
bool gs_restarts_next(gs_restarts *, const gs_launch_failure *, char *what, size_t size);
