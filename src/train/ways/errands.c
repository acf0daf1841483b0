#include "train/ways/errands.h"
#include "core/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 16 /* errands that wait; who gives more waits too */ };

struct gs_errands {
    gs_status (*run)(void *context, const gs_errand *);
    void *context;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    gs_errand errand[ROOM]; /* number n is at n % ROOM; under the lock, as all below */
    uint64_t given, done;
    bool end;
    gs_status failed;
    char message[1024]; /* errors belong to a thread; this carries one out of it */
};

static void *thread_main(void *argument) {
    gs_errands *e = argument;
    pthread_mutex_lock(&e->lock);
    while (!e->end) {
        if (e->done == e->given) {
            pthread_cond_wait(&e->changed, &e->lock);
            continue;
        }
        if (e->failed == GS_OK) {
            const gs_errand errand = e->errand[(e->done + 1) % ROOM];
            gs_status status;
            char message[sizeof e->message] = "";
            pthread_mutex_unlock(&e->lock);
            status = e->run(e->context, &errand);
            if (status != GS_OK) snprintf(message, sizeof message, "%s", gs_message());
            pthread_mutex_lock(&e->lock);
            e->failed = status;
            if (status != GS_OK) snprintf(e->message, sizeof e->message, "%s", message);
        }
        e->done++;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

gs_status gs_errands_create(bool thread, gs_status (*run)(void *context, const gs_errand *), void *context,
                            gs_errands **out) {
    gs_errands *e = *out = calloc(1, sizeof *e);
    if (!e) return gs_fail(GS_E_MEMORY, "--zero: no memory for a list of units");
    e->run = run;
    e->context = context;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (!thread) return GS_OK;
    e->started = gs_thread_start(&e->thread, thread_main, e) == 0;
    return e->started ? GS_OK : gs_fail(GS_E_MEMORY, "--zero: cannot start a thread");
}

void gs_errands_free(gs_errands *e) {
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    e->end = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (e->started) pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Called with the lock. */
static gs_status wait_until(gs_errands *e, uint64_t number) {
    while (e->done < number) pthread_cond_wait(&e->changed, &e->lock);
    return e->failed == GS_OK ? GS_OK : gs_fail(e->failed, "%s", e->message);
}

bool gs_errands_has_thread(const gs_errands *e) {
    return e->started;
}

gs_status gs_errands_give(gs_errands *e, gs_errand errand, uint64_t *number) {
    gs_status status = GS_OK;
    *number = 0;
    if (!e->started) return e->run(e->context, &errand);
    pthread_mutex_lock(&e->lock);
    if (e->given >= ROOM) status = wait_until(e, e->given - ROOM + 1);
    if (status == GS_OK) {
        *number = ++e->given;
        e->errand[*number % ROOM] = errand;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

gs_status gs_errands_wait(gs_errands *e, uint64_t number) {
    pthread_mutex_lock(&e->lock);
    gs_status status = wait_until(e, number);
    pthread_mutex_unlock(&e->lock);
    return status;
}

gs_status gs_errands_wait_for_all(gs_errands *e) {
    return gs_errands_wait(e, e->given); /* only this thread gives any */
}
