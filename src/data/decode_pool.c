#include "data/decode_pool.h"
#include "core/thread.h"

#include <pthread.h>
#include <stdlib.h>

/* A loop that somebody has asked for. */
typedef struct job {
    gs_status (*work)(void *context, void *tools, size_t i);
    void *context;
    size_t n, next; /* next: not begun by anybody */
    int at_work;    /* helpers */
    gs_error error;
    size_t failed_at;
    struct job *behind; /* in the list of jobs */
} job;

typedef struct spare {
    void *tools;
    struct spare *behind;
} spare;

struct gs_decode_pool {
    gs_decode_pool_tools tools;
    int helpers;
    pthread_t *thread;
    void **own;           /* tools of the helpers */
    pthread_mutex_t lock; /* of what follows, and of the jobs */
    pthread_cond_t wanted, done;
    job *jobs;
    spare *spares; /* tools of those who call, between two calls */
    int ready;     /* helpers that have taken their tools */
    bool quit;
};

/* Take one number after the other. Called with the lock, which is free during the work. Numbers are given in order, so
 * after a failure at i all below i have been begun, and their failures count before it. */
static void take_part(gs_decode_pool *c, job *j, void *tools) {
    while (j->next < j->n && j->error.status == GS_OK) {
        const size_t i = j->next++;
        pthread_mutex_unlock(&c->lock);
        gs_status status = j->work(j->context, tools, i);
        pthread_mutex_lock(&c->lock);
        if (status == GS_OK || (j->error.status != GS_OK && j->failed_at < i)) continue;
        j->failed_at = i;
        j->error.status = GS_OK; /* of a later number */
        gs_error_keep(&j->error, status);
    }
}

static job *job_with_work(gs_decode_pool *c) {
    job *j = c->jobs;
    while (j && (j->next == j->n || j->error.status != GS_OK)) j = j->behind;
    return j;
}

static void remove_job(gs_decode_pool *c, job *j) {
    job **at = &c->jobs;
    while (*at != j) at = &(*at)->behind;
    *at = j->behind;
}

static void *helper_main(void *argument) {
    gs_decode_pool *c = argument;
    pthread_mutex_lock(&c->lock);
    void *tools = c->own[c->ready++];
    while (!c->quit) {
        job *j = job_with_work(c);
        if (!j) {
            pthread_cond_wait(&c->wanted, &c->lock);
            continue;
        }
        j->at_work++;
        take_part(c, j, tools);
        if (--j->at_work == 0) pthread_cond_broadcast(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- those who call ---- */

static gs_status take_tools(gs_decode_pool *c, spare **out) {
    pthread_mutex_lock(&c->lock);
    spare *s = *out = c->spares;
    if (s) c->spares = s->behind;
    pthread_mutex_unlock(&c->lock);
    if (s) return GS_OK;
    GS_TRY(GS_NEW(s, 1, "the tools of a thread"));
    gs_status status = c->tools.create(&s->tools);
    if (status != GS_OK) free(s);
    if (status == GS_OK) *out = s;
    return status;
}

gs_status gs_decode_pool_do(gs_decode_pool *c, size_t n,
                            gs_status (*work)(void *context, void *tools, size_t i), void *context) {
    spare *mine;
    job j = {.work = work, .context = context, .n = n};
    GS_TRY(take_tools(c, &mine));
    pthread_mutex_lock(&c->lock);
    j.behind = c->jobs;
    c->jobs = &j; // cppcheck-suppress autoVariables ; it is removed below
    if (c->helpers > 0 && n > 1) pthread_cond_broadcast(&c->wanted);
    take_part(c, &j, mine->tools);
    while (j.at_work > 0) pthread_cond_wait(&c->done, &c->lock);
    remove_job(c, &j);
    mine->behind = c->spares;
    c->spares = mine;
    pthread_mutex_unlock(&c->lock);
    return gs_error_again(&j.error);
}

/* ---- create, free ---- */

static gs_status start_helper(gs_decode_pool *c) {
    GS_TRY(c->tools.create(&c->own[c->helpers]));
    if (gs_thread_start(&c->thread[c->helpers], helper_main, c) == 0) {
        c->helpers++;
        return GS_OK;
    }
    c->tools.free(c->own[c->helpers]);
    return gs_fail(GS_E_MEMORY, "cannot start thread %d of --loaders", c->helpers + 2);
}

gs_status gs_decode_pool_create(int threads, gs_decode_pool_tools tools, gs_decode_pool **out) {
    gs_decode_pool *c = *out = calloc(1, sizeof *c);
    if (!c) return gs_fail(GS_E_MEMORY, "no memory for %d loaders", threads);
    c->tools = tools;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wanted, NULL);
    pthread_cond_init(&c->done, NULL);
    gs_status status = GS_NEW(c->thread, threads, "%d loaders", threads);
    if (status == GS_OK) status = GS_NEW(c->own, threads, "%d loaders", threads);
    for (int i = 1; i < threads && status == GS_OK; i++) status = start_helper(c);
    if (status == GS_OK) return GS_OK;
    gs_decode_pool_free(c);
    *out = NULL;
    return status;
}

void gs_decode_pool_free(gs_decode_pool *c) {
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->wanted);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->helpers; i++) pthread_join(c->thread[i], NULL);
    for (int i = 0; i < c->helpers; i++) c->tools.free(c->own[i]);
    while (c->spares) {
        spare *s = c->spares;
        c->spares = s->behind;
        c->tools.free(s->tools);
        free(s);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->wanted);
    pthread_cond_destroy(&c->done);
    free(c->thread);
    free(c->own);
    free(c);
}
