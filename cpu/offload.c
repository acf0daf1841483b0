/* Memory in a mapped file (io/mapped.h), on which operators work directly. A thread fetches its pages before they are
 * needed and drops them afterwards, in the order of the requests:
 *
 *     worker      | use 0       | use 1           | use 2           |
 *     its thread  | fetch 1     | drop 0, fetch 2 | drop 1, fetch 3 |
 *
 * The requests do not change the data: a page that was not fetched is read when it is touched, and one that was dropped
 * too early is read again. Only the time depends on the requests. */
#include "cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/jobs.h"
#include "io/mapped.h"

enum { ROOM = 64, RANGES = ROOM + 1 /* a job's range is recorded before the job may wait for room */ };

/* Pages to fetch or to drop. */
typedef struct range {
    char *begin, *end;
    bool fetched;
    int kind;
    gs_offload_watcher watch;
} range;

struct gs_cpu_offloader {
    gs_jobs *jobs;
    size_t page;
    range range[RANGES]; /* job n is at n % RANGES */
    uint64_t given;
    gs_offload_times times; /* waited is the worker's time, the rest the thread's */
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Not MADV_WILLNEED: on ext4 (Linux 6.18) it creates 4 kB pages, where page faults create larger ones. Fetching 100 MB
 * from the system's page cache took 58 ms with it, and 10 ms without it. On an older system, each page is read, never
 * written, because the worker may be writing there. */
static void fetch(char *begin, char *end, size_t page) {
    if (madvise(begin, (size_t)(end - begin), MADV_POPULATE_WRITE) == 0) return;
    for (const volatile char *at = begin; at < end; at += page) (void)*at;
}

static gs_status run(void *offloader, const gs_job *job) {
    struct gs_cpu_offloader *a = offloader;
    const range *r = &a->range[job->unit];
    if (r->begin >= r->end) return GS_OK;
    const size_t bytes = (size_t)(r->end - r->begin);
    const double start = gs_seconds();
    if (r->fetched)
        fetch(r->begin, r->end, a->page);
    else
        madvise(r->begin, bytes, MADV_DONTNEED); /* a shared mapping loses nothing */
    const double end = gs_seconds();
    if (r->watch.moved)
        r->watch.moved(r->watch.context, r->watch.step,
                       &(gs_offload_transfer){start, end, bytes, r->kind, r->fetched});
    a->times.busy += end - start;
    if (r->fetched) a->times.bytes += (double)bytes;
    return GS_OK;
}

static gs_status begin(struct gs_cpu_offloader **out) {
    struct gs_cpu_offloader *a = *out = calloc(1, sizeof *a);
    if (!a) return gs_fail(GS_E_MEMORY, "--offload: no memory for a list of pages");
    a->page = (size_t)sysconf(_SC_PAGESIZE);
    const gs_status status = gs_context(gs_jobs_create(ROOM, &a->jobs), "--offload");
    if (status == GS_OK) return GS_OK;
    free(a);
    *out = NULL;
    return status;
}

void gs_cpu_offload_close(gs_cpu *cpu) {
    if (cpu->offloader) gs_jobs_free(cpu->offloader->jobs);
    free(cpu->offloader);
}

/* The start of the page that contains `memory`. */
static char *page_of(const struct gs_cpu_offloader *a, char *memory) {
    return memory - (uintptr_t)memory % a->page;
}

/* Fetch all pages that contain these bytes, or drop those that contain only these bytes. *number = the job's number. */
static gs_status move(gs_device *d, void *host, size_t bytes, bool fetched, uint64_t *number) {
    gs_cpu *cpu = gs_cpu_of(d);
    *number = 0;
    gs_ledger_pages(&d->memory, host, bytes, fetched);
    if (d->dry || (fetched && bytes == 0)) return GS_OK;
    if (!cpu->offloader) GS_TRY(begin(&cpu->offloader));
    struct gs_cpu_offloader *a = cpu->offloader;
    char *memory = host;
    const size_t up = a->page - 1;
    const int at = (int)(++a->given % RANGES);
    a->range[at] = (range){
        page_of(a, memory + (fetched ? 0 : up)), page_of(a, memory + bytes + (fetched ? up : 0)), fetched,
        d->offload_watcher.moved ? (int)gs_ledger_offloaded_kind(&d->memory, host) : 0, d->offload_watcher};
    return gs_jobs_give(a->jobs, (gs_job){.run = run, .context = a, .unit = at}, number);
}

gs_status gs_cpu_fetch(gs_device *d, gs_mem to, void *host, size_t bytes, uint64_t *number) {
    (void)to;
    return move(d, host, bytes, true, number);
}

gs_status gs_cpu_offload(gs_device *d, void *host, gs_mem from, size_t bytes, uint64_t *number) {
    uint64_t nobody_asks;
    (void)from;
    return move(d, host, bytes, false, number ? number : &nobody_asks);
}

gs_status gs_cpu_await(gs_device *d, uint64_t number) {
    struct gs_cpu_offloader *a = gs_cpu_of(d)->offloader;
    if (!a || gs_jobs_is_done(a->jobs, number)) return GS_OK;
    const double start = gs_seconds();
    const gs_status status = gs_jobs_wait(a->jobs, number);
    a->times.waited += gs_seconds() - start;
    return status;
}

/* This wait is not counted, because no step needs it. */
gs_status gs_cpu_settle(gs_device *d) {
    struct gs_cpu_offloader *a = gs_cpu_of(d)->offloader;
    if (!a) return GS_OK;
    GS_TRY(gs_jobs_wait_for_all(a->jobs));
    d->offload_times = a->times;
    return GS_OK;
}

gs_status gs_cpu_alloc_offloaded(gs_device *d, size_t bytes, void **host) {
    const size_t whole = bytes ? bytes : 1;
    *host = NULL;
    if (!d->dry)
        GS_TRY(gs_mapped_create(d->offload_folder, whole, host));
    else if (!(*host = gs_dry_alloc(whole)))
        return gs_fail(GS_E_MEMORY, "cpu: no addresses for %zu bytes", whole);
    const gs_status status = gs_ledger_add(&d->memory, GS_OFFLOADED, d->kind, *host, whole);
    if (status == GS_OK) return GS_OK;
    gs_mapped_free(*host, whole);
    *host = NULL;
    return status;
}

void gs_cpu_free_offloaded(gs_device *d, void *host) {
    const size_t bytes = gs_ledger_remove(&d->memory, host);
    gs_cpu_settle(d); /* the thread may be using it */
    if (host) gs_mapped_free(host, bytes);
}
