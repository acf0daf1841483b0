#include "io/fetcher.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/thread.h"

enum { ROOM = 64 };

typedef struct range {
    char *begin, *end;
    bool drop;
    int kind;
    gs_away_watch watch;
} range;

struct gs_fetcher {
    pthread_t thread;
    size_t page;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    range range[ROOM]; /* number n is at n % ROOM; under the lock, as all below */
    uint64_t given, done;
    bool end;
    gs_fetcher_times times;
    gs_away_watch watch;
    int kind;
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Not MADV_WILLNEED: on ext4 (Linux 6.18) it makes pages of 4 kB, where faults make larger ones. To bring 100 MB that
 * lie in the system's memory took 58 ms with it, and 10 without. An older system is made to read each page; only to
 * read, for the worker may be writing there. */
static void fetch(char *begin, char *end, size_t page) {
    if (madvise(begin, (size_t)(end - begin), MADV_POPULATE_WRITE) == 0) return;
    for (const volatile char *at = begin; at < end; at += page) (void)*at;
}

static void run(const gs_fetcher *f, const range *r) {
    if (r->begin >= r->end) return;
    if (r->drop)
        madvise(r->begin, (size_t)(r->end - r->begin),
                MADV_DONTNEED); /* of a shared mapping nothing is lost */
    else
        fetch(r->begin, r->end, f->page);
}

static void *thread_main(void *argument) {
    gs_fetcher *f = argument;
    pthread_mutex_lock(&f->lock);
    while (!f->end) {
        if (f->done == f->given) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        const range r = f->range[(f->done + 1) % ROOM];
        pthread_mutex_unlock(&f->lock);
        const double start = gs_seconds();
        run(f, &r);
        const double end = gs_seconds(), took = end - start;
        if (r.watch.moved && r.end > r.begin)
            r.watch.moved(r.watch.context, r.watch.step,
                          &(gs_away_move){start, end, (size_t)(r.end - r.begin), r.kind, !r.drop});
        pthread_mutex_lock(&f->lock);
        f->times.busy += took;
        if (!r.drop && r.end > r.begin) f->times.bytes += (double)(r.end - r.begin);
        f->done++;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

gs_status gs_fetcher_create(gs_fetcher **out) {
    gs_fetcher *f = *out = calloc(1, sizeof *f);
    if (!f) return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of errands");
    f->page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    if (gs_thread_start(&f->thread, thread_main, f) == 0) return GS_OK;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "--offload: cannot start a thread");
}

void gs_fetcher_free(gs_fetcher *f) {
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->end = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void gs_fetcher_watch(gs_fetcher *f, gs_away_watch watch, int kind) {
    pthread_mutex_lock(&f->lock);
    f->watch = watch;
    f->kind = kind;
    pthread_mutex_unlock(&f->lock);
}

static uint64_t give(gs_fetcher *f, range r) {
    pthread_mutex_lock(&f->lock);
    while (f->given - f->done >= ROOM - 1) pthread_cond_wait(&f->changed, &f->lock);
    const uint64_t number = ++f->given;
    r.watch = f->watch;
    r.kind = f->kind;
    f->range[number % ROOM] = r;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return number;
}

static char *page_of(const gs_fetcher *f, char *memory) {
    return memory - (uintptr_t)memory % f->page;
}

uint64_t gs_fetcher_fetch(gs_fetcher *f, void *memory, size_t bytes) {
    char *end = (char *)memory + bytes;
    if (bytes == 0) return 0;
    return give(f, (range){.begin = page_of(f, memory), .end = page_of(f, end - 1) + f->page});
}

uint64_t gs_fetcher_drop(gs_fetcher *f, void *memory, size_t bytes) {
    char *begin = (char *)memory + f->page - 1;
    return give(f,
                (range){.begin = page_of(f, begin), .end = page_of(f, (char *)memory + bytes), .drop = true});
}

void gs_fetcher_wait(gs_fetcher *f, uint64_t number) {
    pthread_mutex_lock(&f->lock);
    if (f->done < number) {
        const double start = gs_seconds();
        while (f->done < number) pthread_cond_wait(&f->changed, &f->lock);
        f->times.waited += gs_seconds() - start;
    }
    pthread_mutex_unlock(&f->lock);
}

void gs_fetcher_settle(gs_fetcher *f) {
    pthread_mutex_lock(&f->lock);
    while (f->done < f->given) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

gs_fetcher_times gs_fetcher_measured(gs_fetcher *f) {
    pthread_mutex_lock(&f->lock);
    const gs_fetcher_times times = f->times;
    pthread_mutex_unlock(&f->lock);
    return times;
}
