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

#include "comm/create.h"

enum { GS_LAUNCH_MOST = 256, GS_LAUNCH_WHERE = 3010 };

typedef struct gs_launch_report {
    int slot; /* of the launcher's */
    gs_status code;
    char message[1200];
} gs_launch_report;

typedef struct gs_shared {
    atomic_int generation;
    atomic_int stepped; /* the last generation that has made a step; 0: none */
    atomic_int over;    /* there is no other generation */
    atomic_int exact;   /* the run is, as a process says that asks */
    atomic_int met;     /* all ranks have */
    bool elastic;
    int file; /* the launcher's; -1: no process finds this memory */
    int size;
    char where[GS_LAUNCH_WHERE];
    struct {
        atomic_int asks; /* for this generation */
        int rank;        /* in `generation` */
    } slot[GS_LAUNCH_MOST];
    atomic_int reports;
    gs_launch_report report[GS_LAUNCH_MOST]; /* in the order in which they came */
} gs_shared;

/* ---- the launcher ---- */

/* Processes that it starts inherit it. GS_E_MEMORY. */
gs_status gs_shared_create(bool elastic, gs_shared **);
void gs_shared_free(gs_shared *); /* NULL is allowed */

/* Forget all, for another attempt. */
void gs_shared_clear(gs_shared *);

/* Put into this process's environment what the one of `slot` is to find there. False: no memory. */
bool gs_shared_set_environment(const gs_shared *, int slot);

/* Has the process of this slot reported why it fails? */
bool gs_shared_has_reported(const gs_shared *, int slot);

/* The first report of a reason of its own; else of a rank that merely lost another one (GS_E_PEER); else of one that
 * was stopped. NULL: there is none. */
const gs_launch_report *gs_shared_cause(const gs_shared *);

/* Has the process of this slot asked for the generation after this one? */
bool gs_shared_has_asked(const gs_shared *, int slot);

/* Begin the next generation. rank[slot]: -1: this process is let go. where: a folder. */
void gs_shared_begin_generation(gs_shared *, int size, const int *rank, const char *where);

/* ---- a process; nothing happens in one that no launch has started ---- */

/* Report why it fails; *said: another one has reported the same before; or, to one that was stopped, any reason.
 * False: there is no launcher. */
bool gs_launch_report_failure(gs_status, const char *message, bool *said);

/* It has met the ranks of all nodes. */
void gs_launch_note_joined(void);

/* Rank 0 has made a step. */
void gs_launch_note_step(void);

/* The generation of an elastic launch that it belongs to; 0: no such launch has started it. */
int gs_launch_generation(void);

typedef enum gs_launch_answer { GS_LAUNCH_ENDS, GS_LAUNCH_GOES_ON, GS_LAUNCH_LETS_GO } gs_launch_answer;

/* It has lost a rank. GS_LAUNCH_GOES_ON: *r is what it is in the next generation; its texts are static. exact: the run
 * is, and goes on with as many ranks as that takes. */
gs_launch_answer gs_launch_next_generation(gs_rendezvous *r, bool exact);
