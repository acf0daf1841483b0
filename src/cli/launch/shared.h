/* Memory that a launcher and its processes share: why processes fail, and with --elastic who goes on when one was lost.
 *
 *     process                                              launcher
 *     it has met all others; has made a step ->
 *     why it fails                           ->            its last line is the diagnosis
 *     it has lost a rank, and asks           ->            waits until each process has asked, or ended
 *     goes on as rank R of N, or ends        <-            the next generation: who has which rank, where they meet
 *
 * Numbers of generations begin with 1. A memfd: nothing can be left behind.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "comm/comm.h"

enum { GS_LAUNCH_MOST = 256, GS_LAUNCH_MEET = 3010 };

typedef struct gs_launch_why {
    int seat; /* the launcher's child */
    gs_status code;
    char message[1200];
} gs_launch_why;

typedef struct gs_shared {
    atomic_int generation;
    atomic_int stepped;  /* the last generation that has made a step; 0: none */
    atomic_int over;     /* there is no other generation */
    atomic_int exact;    /* a process has said that the run is */
    atomic_int met;      /* all ranks have */
    bool elastic, alone; /* alone: no process finds it */
    int file;            /* the launcher's */
    int size;
    char meet[GS_LAUNCH_MEET];
    struct {
        atomic_int asks; /* for this generation */
        int rank;        /* in `generation` */
    } seat[GS_LAUNCH_MOST];
    atomic_int failures;
    gs_launch_why failure[GS_LAUNCH_MOST]; /* in the order in which they were told */
} gs_shared;

/* ---- the launcher ---- */

/* Processes that it starts inherit it. NULL: it cannot be made. */
gs_shared *gs_shared_create(bool elastic);
void gs_shared_free(gs_shared *); /* NULL is allowed */

/* Forget all, for another attempt. */
void gs_shared_clear(gs_shared *);

/* Put into the environment what the process that is started next, as child `seat`, finds there. */
bool gs_shared_set(const gs_shared *, int seat);

/* Has child `seat` reported why it fails? */
bool gs_shared_has_told(const gs_shared *, int seat);

/* The first failure. Those of ranks that merely lost another one (GS_E_PEER) count last. NULL: none has been
 * reported. */
const gs_launch_why *gs_shared_first(const gs_shared *);

/* Has the process that is child `seat` asked for the generation after this one? */
bool gs_shared_asks(const gs_shared *, int seat);

/* Begin the next generation. rank[seat]: -1: this process is let go. meet: a folder. */
void gs_shared_begin(gs_shared *, int size, const int *rank, const char *meet);

/* ---- a process; nothing happens in one that no launch has started ---- */

/* Report why it fails; *said: another one has reported the same before. False: there is no launcher. */
bool gs_launch_tell(gs_status, const char *message, bool *said);

/* It has met the ranks of all nodes. */
void gs_launch_has_met(void);

/* Rank 0 has made a step. */
void gs_launch_has_stepped(void);

/* Was it started by an elastic launch? */
bool gs_launch_is_elastic(void);

typedef enum gs_launch_answer { GS_LAUNCH_ENDS, GS_LAUNCH_GOES_ON, GS_LAUNCH_LETS_GO } gs_launch_answer;

/* It has lost a rank. GS_LAUNCH_GOES_ON: *r is what it is in the next generation; its texts are static. */
gs_launch_answer gs_launch_next(gs_rendezvous *r);

/* The run is exact, and goes on with as many ranks as that takes. --resume may take it from a file. */
void gs_launch_say_exact(void);

/* Does this generation have other ranks than the launch began with? */
bool gs_launch_is_later(void);
