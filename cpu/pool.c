#include "cpu/pool.h"
#include "core/thread.h"
#include "core/wait.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* A run has a number and is cut into slices of several parts each. A thread starts with the same slices in every run:
 * what the last operator wrote there is in its core's cache. Then it takes slices that others have not started, so that
 * no one waits for a thread that the system has not scheduled yet. A thread takes a slice by writing the run's number
 * to it. When the last slice is done the run is over, even if some threads never joined it.
 *
 * A thread without a new run waits in the stages of core/wait.h: the next operator of a step follows within
 * microseconds, and waking a sleeping thread takes longer than many operators. */
enum { SLICES_A_THREAD = 4, SLICE_BITS = 16 };

struct gs_pool {
    int threads; /* including the caller */
    bool crowded, dry;
    pthread_t *thread;
    atomic_int numbered; /* threads that have received their number; the caller is 0 */
    atomic_bool quit;

    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    atomic_int sleepers; /* sleeping threads */
    atomic_bool caller_sleeps;

    _Atomic uint64_t run;    /* its number and, in SLICE_BITS, its number of slices: both are read at once */
    _Atomic uint64_t *taken; /* per slice: the number of the last run in which it was taken */
    atomic_int left;         /* slices not done yet */
    int parts;
    void (*work)(void *, int);
    void *context;
};

static _Thread_local int this_thread;

int gs_pool_thread(void) {
    return this_thread;
}

/* Try to take a slice. Returns false if another thread has it, or this run is over. */
static bool take(gs_pool *p, int slice, uint64_t number) {
    uint64_t last = atomic_load(&p->taken[slice]);
    return last < number && atomic_compare_exchange_strong(&p->taken[slice], &last, number);
}

static int share(int count, int i, int n) {
    return (int)((int64_t)count * i / n);
}

/* Only a thread that has taken a slice reads the run's members, which do not change until the slice is done. */
static void take_slices(gs_pool *p, uint64_t run, int thread) {
    int slices = (int)(run & ((1 << SLICE_BITS) - 1)), own = share(slices, thread, p->threads);
    for (int i = 0; i < slices; i++) {
        int slice = (own + i) % slices;
        if (!take(p, slice, run >> SLICE_BITS)) continue;
        int end = share(p->parts, slice + 1, slices);
        for (int part = share(p->parts, slice, slices); part < end; part++) p->work(p->context, part);
        if (atomic_fetch_sub(&p->left, 1) == 1 && atomic_load(&p->caller_sleeps)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void wait_for_run_after(gs_pool *p, uint64_t seen) {
    gs_wait wait = gs_wait_begin(p->crowded);
    do {
        if (atomic_load(&p->run) != seen) return;
    } while (gs_wait_a_moment(&wait));
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1); /* from here on start_run wakes this thread */
    while (atomic_load(&p->run) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *thread_main(void *argument) {
    gs_pool *p = argument;
    int thread = this_thread = 1 + atomic_fetch_add(&p->numbered, 1);
    for (uint64_t run = 0;;) {
        wait_for_run_after(p, run);
        run = atomic_load(&p->run);
        if (atomic_load(&p->quit)) return NULL;
        take_slices(p, run, thread);
    }
}

static uint64_t start_run(gs_pool *p, int slices) {
    uint64_t number = 1 + (atomic_load(&p->run) >> SLICE_BITS), run = number << SLICE_BITS | (uint64_t)slices;
    atomic_store(&p->left, slices);
    atomic_store(&p->run, run);
    if (atomic_load(&p->sleepers) == 0) return run;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    return run;
}

static void wait_for_the_last_slice(gs_pool *p) {
    gs_wait wait = gs_wait_begin(p->crowded);
    do {
        if (atomic_load(&p->left) == 0) return;
    } while (gs_wait_a_moment(&wait));
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (atomic_load(&p->left) > 0) pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

gs_status gs_pool_create(int threads, gs_pool **out) {
    if (threads < 1 || threads > (1 << SLICE_BITS) / SLICES_A_THREAD - 1)
        gs_bug("gs_pool_create: %d threads", threads);
    gs_pool *p = calloc(1, sizeof *p);
    if (p) p->thread = calloc((size_t)threads, sizeof *p->thread);
    if (p) p->taken = calloc((size_t)threads * SLICES_A_THREAD, sizeof *p->taken);
    if (!p || !p->thread || !p->taken) {
        if (p) free(p->thread), free(p->taken);
        free(p);
        return gs_fail(GS_E_MEMORY, "no memory for a pool of %d threads", threads);
    }
    p->crowded = gs_wait_is_crowded(threads);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        if (gs_thread_start(&p->thread[p->threads], thread_main, p) != 0) {
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
    atomic_store(&p->quit, true);
    start_run(p, 0);
    for (int i = 1; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->taken);
    free(p->thread);
    free(p);
}

int gs_pool_threads(const gs_pool *p) {
    return p->threads;
}

void gs_pool_set_dry(gs_pool *p) {
    p->dry = true;
}

void gs_pool_run(gs_pool *p, int parts, void (*work)(void *, int), void *context) {
    if (p->dry) return;
    if (p->threads == 1 || parts <= 1) {
        for (int part = 0; part < parts; part++) work(context, part);
        return;
    }
    p->work = work;
    p->context = context;
    p->parts = parts;
    int most = p->threads * SLICES_A_THREAD;
    take_slices(p, start_run(p, parts < most ? parts : most), 0);
    wait_for_the_last_slice(p);
}
