/* A thread that does jobs while its owner goes on, in the order in which they are given:
 *
 *     owner       give 1, compute | give 2, compute | wait for 1: done  | wait for 2 |
 *     its thread  | job 1                 | job 2                       |
 *
 * Collectives of units and buckets (ZeRO, --bucket), files of checkpoints, pages of files, the connections of a
 * parameter server, and all that a run's worker does are such jobs. Only the owner gives jobs and waits for them. */
#pragma once

#include <stdint.h>
#include "core/error.h"

typedef struct gs_job {
    gs_status (*run)(void *context, const struct gs_job *);
    void *context;
    int what, unit, part; /* these are for run */
    bool first, last, counted;
} gs_job;

typedef struct gs_jobs gs_jobs;

/* room: jobs that are given and not yet done, at most; giving one more waits. 0: there is no thread, and a job is done
 * when it is given. That is needed where the owner itself makes collectives between jobs, and where a device may be
 * called by its worker's thread alone (backend.h). GS_E_MEMORY: no memory, or no thread; *out is NULL then. */
gs_status gs_jobs_create(int room, gs_jobs **out);

/* Without a thread, for a dry run (predict/dry_run.h): a job is done when it is given. `told` hears of that, and of
 * each wait, with the job's ticket; 0: for all. GS_E_MEMORY. */
typedef enum gs_jobs_event { GS_JOB_ASKED, GS_JOB_DONE, GS_JOB_AWAITED } gs_jobs_event;
typedef void (*gs_jobs_told)(void *context, gs_jobs_event, uint64_t ticket);
gs_status gs_jobs_create_dry(gs_jobs_told, void *context, gs_jobs **out);

/* Ends the thread after the job that it is at. NULL is allowed. */
void gs_jobs_free(gs_jobs *);

bool gs_jobs_have_thread(const gs_jobs *);

/* *ticket, which may be NULL: the job's number, from 1; 0 without a thread. Fails as gs_jobs_wait does. */
gs_status gs_jobs_give(gs_jobs *, gs_job, uint64_t *ticket);

bool gs_jobs_is_done(gs_jobs *, uint64_t ticket);

/* Until this job and all before it are done; ticket 0: at once. After a job has failed none is run any more, and this
 * fails with that job's message. */
gs_status gs_jobs_wait(gs_jobs *, uint64_t ticket);
gs_status gs_jobs_wait_for_all(gs_jobs *);
