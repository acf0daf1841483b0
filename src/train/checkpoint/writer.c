#include "train/checkpoint/writer.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/thread.h"

struct gs_checkpoint_writer {
    const gs_checkpoint_job *job;
    pthread_t thread;
    gs_checkpoint_done done; /* the thread's while it is busy */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy, end; /* under the lock */
};

/* A run with such weights will soon be said to have diverged; the checkpoints before it must stay. */
static gs_status check_values(const gs_checkpoint_job *j) {
    for (int p = 0; p < j->plan->saved_count && !j->any_value; p++) {
        const gs_param *param = j->plan->param[p];
        for (size_t i = 0; i < param->count; i++)
            if (!isfinite(j->weights[param->at + i]))
                return gs_fail(GS_E_DIVERGED, "a value in %s is not finite", param->name);
    }
    return GS_OK;
}

static void write_one(gs_checkpoint_writer *w) {
    const gs_checkpoint_job *j = w->job;
    gs_checkpoint_done *d = &w->done;
    const double start = gs_seconds();
    gs_status status = check_values(j);
    if (status == GS_OK)
        status = gs_checkpoint_write(j->folder, j->plan, j->ops, j->weights, j->state, j->per_epoch, j->keep,
                                     &d->bytes);
    d->seconds += gs_seconds() - start;
    d->last_failed = status != GS_OK;
    if (status == GS_OK) {
        d->written++;
        d->step = j->state->step;
        return;
    }
    d->failed++;
    snprintf(d->message, sizeof d->message, "no checkpoint of step %" PRIu64 ": %s; the older ones stay",
             j->state->step, gs_message());
}

static void *thread_main(void *argument) {
    gs_checkpoint_writer *w = argument;
    pthread_mutex_lock(&w->lock);
    while (!w->end || w->busy) {
        if (!w->busy) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        write_one(w);
        pthread_mutex_lock(&w->lock);
        w->busy = false;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

gs_status gs_checkpoint_writer_create(const gs_checkpoint_job *job, gs_checkpoint_writer **out) {
    gs_checkpoint_writer *w = *out = calloc(1, sizeof *w);
    if (!w) return gs_fail(GS_E_MEMORY, "--checkpoint: no memory for its thread");
    w->job = job;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (gs_thread_start(&w->thread, thread_main, w) == 0) return GS_OK;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "--checkpoint: cannot start a thread");
}

void gs_checkpoint_writer_free(gs_checkpoint_writer *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->end = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

bool gs_checkpoint_writer_is_idle(gs_checkpoint_writer *w) {
    pthread_mutex_lock(&w->lock);
    const bool idle = !w->busy;
    pthread_mutex_unlock(&w->lock);
    return idle;
}

void gs_checkpoint_writer_start(gs_checkpoint_writer *w) {
    pthread_mutex_lock(&w->lock);
    w->busy = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void gs_checkpoint_writer_wait(gs_checkpoint_writer *w) {
    pthread_mutex_lock(&w->lock);
    while (w->busy) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

const gs_checkpoint_done *gs_checkpoint_writer_done(const gs_checkpoint_writer *w) {
    return &w->done;
}
