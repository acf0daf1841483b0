#include "core/jobs.h"
#include "core/thread.h"

#include <stdlib.h>

struct gs_jobs {
    pthread_t thread;
    uint64_t room;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t given, done; /* guarded by the lock, like the fields below */
    bool end;
    gs_jobs_told told; /* may be NULL */
    void *context;
    gs_error error;
    gs_job job[]; /* job n is at n % room */
};

static void *thread_main(void *argument) {
    gs_jobs *j = argument;
    pthread_mutex_lock(&j->lock);
    while (!j->end) {
        if (j->done == j->given) {
            pthread_cond_wait(&j->changed, &j->lock);
            continue;
        }
        if (j->error.status == GS_OK) {
            const gs_job job = j->job[(j->done + 1) % j->room];
            pthread_mutex_unlock(&j->lock);
            const gs_status status = job.run(job.context, &job);
            pthread_mutex_lock(&j->lock);
            gs_error_keep(&j->error, status);
        }
        j->done++;
        pthread_cond_broadcast(&j->changed);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

gs_status gs_jobs_create(int room, gs_jobs **out) {
    gs_jobs *j = *out = calloc(1, sizeof *j + (size_t)room * sizeof *j->job);
    if (!j) return gs_fail(GS_E_MEMORY, "no memory for a list of %d job%s", room, gs_s((size_t)room));
    j->room = (uint64_t)room;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, NULL);
    if (room == 0 || gs_thread_start(&j->thread, thread_main, j) == 0) return GS_OK;
    j->room = 0;
    gs_jobs_free(j);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "cannot start a thread");
}

gs_status gs_jobs_create_dry(gs_jobs_told told, void *context, gs_jobs **out) {
    GS_TRY(gs_jobs_create(0, out));
    (*out)->told = told;
    (*out)->context = context;
    return GS_OK;
}

void gs_jobs_free(gs_jobs *j) {
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->end = true;
    pthread_cond_broadcast(&j->changed);
    pthread_mutex_unlock(&j->lock);
    if (j->room > 0) pthread_join(j->thread, NULL);
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

bool gs_jobs_have_thread(const gs_jobs *j) {
    return j->room > 0;
}

/* Call it with the lock held. */
static gs_status wait_until(gs_jobs *j, uint64_t ticket) {
    while (j->done < ticket) pthread_cond_wait(&j->changed, &j->lock);
    return gs_error_again(&j->error);
}

static gs_status do_dry(gs_jobs *j, const gs_job *job, uint64_t *ticket) {
    j->told(j->context, GS_JOB_ASKED, ++j->given);
    GS_TRY(job->run(job->context, job));
    j->told(j->context, GS_JOB_DONE, j->given);
    if (ticket) *ticket = j->given;
    return GS_OK;
}

gs_status gs_jobs_give(gs_jobs *j, gs_job job, uint64_t *ticket) {
    if (ticket) *ticket = 0;
    if (j->told) return do_dry(j, &job, ticket);
    if (j->room == 0) return job.run(job.context, &job);
    pthread_mutex_lock(&j->lock);
    gs_status status = wait_until(j, j->given < j->room ? 0 : j->given - j->room + 1);
    if (status == GS_OK) {
        j->job[++j->given % j->room] = job;
        if (ticket) *ticket = j->given;
        pthread_cond_broadcast(&j->changed);
    }
    pthread_mutex_unlock(&j->lock);
    return status;
}

bool gs_jobs_is_done(gs_jobs *j, uint64_t ticket) {
    pthread_mutex_lock(&j->lock);
    const bool done = j->done >= ticket;
    pthread_mutex_unlock(&j->lock);
    return done;
}

gs_status gs_jobs_wait(gs_jobs *j, uint64_t ticket) {
    if (j->told && ticket > 0) j->told(j->context, GS_JOB_AWAITED, ticket);
    if (j->told) return GS_OK;
    pthread_mutex_lock(&j->lock);
    const gs_status status = wait_until(j, ticket);
    pthread_mutex_unlock(&j->lock);
    return status;
}

gs_status gs_jobs_wait_for_all(gs_jobs *j) {
    if (j->told) j->told(j->context, GS_JOB_AWAITED, 0);
    return j->told ? GS_OK : gs_jobs_wait(j, j->given); /* only this thread submits jobs */
}
