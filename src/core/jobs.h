/* A thread that runs jobs, in the order in which they are given, while its owner continues:
 *
 *     owner       give 1, compute | give 2, compute | wait for 1: done  | wait for 2 |
 *     its thread  | job 1                 | job 2                       |
 *
 * Used for collectives of units and buckets (ZeRO, --bucket), checkpoint files, pages of files, connections of a
 * parameter server, the start and end of MPI, and a run's workers. Only the owner submits jobs and waits for them. */
#pragma once

#include <stdint.h>
#include "core/error.h"

typedef struct gs_job {
    gs_status (*run)(void *context, const struct gs_job *);
    void *context;
    int what, unit, part; /* arguments for run */
    bool first, last, counted;
} gs_job;

typedef struct gs_jobs gs_jobs;

/* room: the maximum number of unfinished jobs; gs_jobs_give waits rather than exceed it. With 0 there is no thread, and
 * gs_jobs_give itself runs the job, as is necessary if the owner runs collectives between jobs, or if only the worker's
 * thread may call a device (backend.h). GS_E_MEMORY: no memory, or no thread could start; *out is then NULL. */
gs_status gs_jobs_create(int room, gs_jobs **out);

/* For a dry run (predict/dry_run.h), without a thread: gs_jobs_give runs the job. `told` is called with a job's ticket
 * when the job is given, done, or waited for; with ticket 0, all jobs are waited for. GS_E_MEMORY. */
typedef enum gs_jobs_event { GS_JOB_ASKED, GS_JOB_DONE, GS_JOB_AWAITED } gs_jobs_event;
typedef void (*gs_jobs_told)(void *context, gs_jobs_event, uint64_t ticket);
gs_status gs_jobs_create_dry(gs_jobs_told, void *context, gs_jobs **out);

/* Stops the thread after its current job. NULL is allowed. */
void gs_jobs_free(gs_jobs *);

bool gs_jobs_have_thread(const gs_jobs *);

/* *ticket (may be NULL): the job's number, from 1, or 0 if gs_jobs_create got room 0. Fails like gs_jobs_wait. */
gs_status gs_jobs_give(gs_jobs *, gs_job, uint64_t *ticket);

bool gs_jobs_is_done(gs_jobs *, uint64_t ticket);

/* Wait until this job and all earlier ones are done; ticket 0 does not wait. After a failed job no further job runs,
 * and every wait fails with that job's message. */
gs_status gs_jobs_wait(gs_jobs *, uint64_t ticket);
gs_status gs_jobs_wait_for_all(gs_jobs *);
