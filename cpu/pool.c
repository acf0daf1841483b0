#include "cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* A run is one generation: the caller publishes the work, counts the generation up, and takes parts like
 * everybody else; it is over when all threads have checked in. A thread that finds no new generation looks
 * for a moment (the next operator of a step comes within microseconds), then sleeps. */
enum { SPINS = 2000 };

struct gs_pool {
    int threads; /* the caller included */
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    atomic_uint generation;
    atomic_int next_part, busy_threads;
    bool quit;
    int parts;
    void (*work)(void *, int);
    void *context;
};

static inline void pause_a_moment(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_parts(gs_pool *p) {
    for (;;) {
        int part = atomic_fetch_add(&p->next_part, 1);
        if (part >= p->parts) return;
        p->work(p->context, part);
    }
}

static void *thread_main(void *argument) {
    gs_pool *p = argument;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load(&p->generation) == seen; i++) pause_a_moment();
        if (atomic_load(&p->generation) == seen) {
            pthread_mutex_lock(&p->lock);
            while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        seen = atomic_load(&p->generation);
        if (p->quit) return NULL;
        take_parts(p);
        if (atomic_fetch_sub(&p->busy_threads, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void start_generation(gs_pool *p) {
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

gs_status gs_pool_create(int threads, gs_pool **out) {
    if (threads < 1) gs_bug("gs_pool_create: %d threads", threads);
    gs_pool *p = calloc(1, sizeof *p);
    if (p) p->thread = calloc((size_t)threads, sizeof *p->thread);
    if (!p || !p->thread) {
        free(p);
        return gs_fail(GS_E_MEMORY, "no memory for a pool of %d threads", threads);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        if (pthread_create(&p->thread[p->threads], NULL, thread_main, p) != 0) {
            int started = p->threads;
            gs_pool_free(p);
            return gs_fail(GS_E_MEMORY, "only %d of %d threads could be started", started, threads);
        }
    }
    *out = p;
    return GS_OK;
}

void gs_pool_free(gs_pool *p) {
    if (!p) return;
    p->quit = true;
    start_generation(p);
    for (int i = 1; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->thread);
    free(p);
}

int gs_pool_threads(const gs_pool *p) {
    return p->threads;
}

void gs_pool_run(gs_pool *p, int parts, void (*work)(void *, int), void *context) {
    if (p->threads == 1 || parts <= 1) {
        for (int part = 0; part < parts; part++) work(context, part);
        return;
    }
    p->work = work;
    p->context = context;
    p->parts = parts;
    atomic_store(&p->next_part, 0);
    atomic_store(&p->busy_threads, p->threads - 1);
    start_generation(p);
    take_parts(p);
    for (int i = 0; i < SPINS && atomic_load(&p->busy_threads) > 0; i++) pause_a_moment();
    if (atomic_load(&p->busy_threads) > 0) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->busy_threads) > 0) pthread_cond_wait(&p->done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}
