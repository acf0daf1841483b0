#include "io/fetcher.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/jobs.h"

enum { ROOM = 64, RANGES = ROOM + 1 /* the next one is written down before it may have to wait */ };

typedef struct range {
    char *begin, *end;
    bool drop;
    int kind;
    gs_away_watch watch;
} range;

struct gs_fetcher {
    gs_jobs *jobs;
    size_t page;
    range range[RANGES]; /* of job n at n % RANGES */
    uint64_t given;
    gs_fetcher_times times; /* waited: the owner's; the rest the thread's */
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

static gs_status run(void *fetcher, const gs_job *job) {
    gs_fetcher *f = fetcher;
    const range *r = &f->range[job->unit];
    if (r->begin >= r->end) return GS_OK;
    const size_t bytes = (size_t)(r->end - r->begin);
    const double start = gs_seconds();
    if (r->drop)
        madvise(r->begin, bytes, MADV_DONTNEED); /* of a shared mapping nothing is lost */
    else
        fetch(r->begin, r->end, f->page);
    const double end = gs_seconds();
    if (r->watch.moved)
        r->watch.moved(r->watch.context, r->watch.step,
                       &(gs_away_move){start, end, bytes, r->kind, !r->drop});
    f->times.busy += end - start;
    if (!r->drop) f->times.bytes += (double)bytes;
    return GS_OK;
}

gs_status gs_fetcher_create(gs_fetcher **out) {
    gs_fetcher *f = *out = calloc(1, sizeof *f);
    if (!f) return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of pages");
    f->page = (size_t)sysconf(_SC_PAGESIZE);
    const gs_status status = gs_context(gs_jobs_create(ROOM, &f->jobs), "--offload");
    if (status == GS_OK) return GS_OK;
    free(f);
    *out = NULL;
    return status;
}

void gs_fetcher_free(gs_fetcher *f) {
    if (!f) return;
    gs_jobs_free(f->jobs);
    free(f);
}

void gs_fetcher_watch(gs_fetcher *f, gs_away_watch watch, int kind) {
    f->watch = watch;
    f->kind = kind;
}

static uint64_t give(gs_fetcher *f, range r) {
    uint64_t ticket;
    const int at = (int)(++f->given % RANGES);
    r.watch = f->watch;
    r.kind = f->kind;
    f->range[at] = r;
    gs_jobs_give(f->jobs, (gs_job){.run = run, .context = f, .unit = at}, &ticket); /* these cannot fail */
    return ticket;
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
    if (gs_jobs_is_done(f->jobs, number)) return;
    const double start = gs_seconds();
    gs_jobs_wait(f->jobs, number);
    f->times.waited += gs_seconds() - start;
}

void gs_fetcher_settle(gs_fetcher *f) {
    gs_jobs_wait_for_all(f->jobs);
}

gs_fetcher_times gs_fetcher_measured(const gs_fetcher *f) {
    return f->times;
}
