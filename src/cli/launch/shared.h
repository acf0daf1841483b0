/* Memory that a launcher and its processes share: why processes fail and, with --elastic, who continues after a loss.
 *
 *     process                                              launcher
 *     has met all others; has done a step    ->
 *     why it fails                           ->            names the rank to blame in its last line
 *     has lost a rank, and asks              ->            waits until each process has asked or ended
 *     continues as rank R of N, or ends      <-            the next generation: each rank, and the rendezvous
 *
 * Generations are numbered from 1. The memory is a memfd, so it cannot be left behind.
 */
#pragma once

#include <stdatomic.h>

#include "comm/create.h"

enum { GS_LAUNCH_MOST = 256, GS_LAUNCH_WHERE = 3010 };

typedef struct gs_launch_report {
    int slot; /* the launcher's slot for the process */
    gs_status code;
    char message[1200];
} gs_launch_report;

typedef struct gs_shared {
    atomic_int generation;
    atomic_int stepped; /* the last generation that completed a step; 0: none */
    atomic_int over;    /* there is no further generation */
    atomic_int exact;   /* the run uses --exact; set by a process that asks */
    atomic_int met;     /* all ranks have met */
    bool elastic;
    int file; /* the launcher's descriptor; -1: processes cannot find this memory */
    int size;
    char where[GS_LAUNCH_WHERE];
    struct {
        atomic_int asks; /* the generation that the process asks for */
        int rank;        /* its rank in `generation` */
    } slot[GS_LAUNCH_MOST];
    atomic_int reports;
    gs_launch_report report[GS_LAUNCH_MOST]; /* in order of arrival */
} gs_shared;

/* ---- the launcher ---- */

/* Create the memory, which the launcher's processes inherit. GS_E_MEMORY. */
gs_status gs_shared_create(bool elastic, gs_shared **);
void gs_shared_free(gs_shared *); /* NULL is allowed */

/* Reset the memory for another attempt. */
void gs_shared_clear(gs_shared *);

/* Set this process's environment to that of the process in `slot`. False: no memory. */
bool gs_shared_set_environment(const gs_shared *, int slot);

/* True if the process of this slot has reported why it fails. */
bool gs_shared_has_reported(const gs_shared *, int slot);

/* Returns the first report of a cause; if there is none, the first report of a lost peer (GS_E_PEER); if there is none
 * of these either, the first report by a rank that was stopped. NULL: there are no reports. */
const gs_launch_report *gs_shared_cause(const gs_shared *);

/* True if the process of this slot has asked for the next generation. */
bool gs_shared_has_asked(const gs_shared *, int slot);

/* Begin the next generation. rank[slot] is -1 for a process that is let go. where: the new rendezvous folder. */
void gs_shared_begin_generation(gs_shared *, int size, const int *rank, const char *where);

/* ---- a process; these functions do nothing in a process that was not started by a launch ---- */

/* Report why this process fails. *said: true if another process has reported the same reason before or, if this process
 * was stopped, any reason. False: there is no launcher. */
bool gs_launch_report_failure(gs_status, const char *message, bool *said);

/* Record that this process has met the ranks of all nodes. */
void gs_launch_note_joined(void);

/* Record that rank 0 has completed a step. */
void gs_launch_note_step(void);

/* This process's generation in an elastic launch; 0: no elastic launch started it. */
int gs_launch_generation(void);

typedef enum gs_launch_answer { GS_LAUNCH_ENDS, GS_LAUNCH_GOES_ON, GS_LAUNCH_LETS_GO } gs_launch_answer;

/* This process has lost a rank: wait for the next generation. GS_LAUNCH_GOES_ON: *r is this process's rendezvous in
 * that generation; its strings are static. exact: continue with 1, 2, 4 or 8 ranks, as --exact requires. */
gs_launch_answer gs_launch_next_generation(gs_rendezvous *r, bool exact);
