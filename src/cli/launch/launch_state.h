/* The processes of a launch, while they run: what launch.c, launch_end.c and elastic.c share. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/launch/restarts.h"

struct gs_elastic_board;
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
    int rank[GS_LAUNCH_MOST];       /* of each in the world; -1: it was let go (elastic.h) */
    struct gs_elastic_board *board; /* of an elastic launch, as is the next; else NULL */
    struct gs_elastic *elastic;
    bool misused; /* an elastic launch ended because a rank had ended for wrong usage */
    int running;
    int why;    /* what they say of their failures (launch/launch_why.c) */
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

/* ---- launch_absent.c ---- */

/* This child has failed. Where it has not met the ranks of other nodes yet, and has not said why it failed, these are
 * told at their meeting place; that takes 2 s at most. */
void gs_launch_tell_absent(const gs_launch_state *, int seat);

/* ---- launch_end.c ---- */

/* "rank 2 was killed by signal 9 (Killed)" */
void gs_launch_status_text(const gs_launch_state *, int seat, char *text, size_t size);

/* The exit status, and why it is not 0; *again: there is another attempt instead. */
int gs_launch_outcome(gs_launch_state *, gs_restarts *, bool *again);
