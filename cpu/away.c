/* Memory in a file that is mapped (io/mapped.h): operators work in it, and a thread fetches its pages ahead
 * (io/fetcher.h). */
#include "cpu/cpu.h"

#include "io/fetcher.h"
#include "io/mapped.h"

gs_status gs_cpu_alloc_away(gs_device *d, size_t bytes, void **host) {
    const size_t whole = bytes ? bytes : 1;
    *host = NULL;
    if (!d->rehearses)
        GS_TRY(gs_mapped_create(d->offload_folder, whole, host));
    else if (!(*host = gs_rehearsed_alloc(whole)))
        return gs_fail(GS_E_MEMORY, "cpu: no addresses for %zu bytes", whole);
    const gs_status status = gs_ledger_add(&d->memory, GS_OFFLOADED, d->kind, *host, whole);
    if (status == GS_OK) return GS_OK;
    gs_mapped_free(*host, whole);
    *host = NULL;
    return status;
}

void gs_cpu_free_away(gs_device *d, void *host) {
    const size_t bytes = gs_ledger_remove(&d->memory, host);
    gs_cpu_settle(d); /* the thread may be at it */
    if (host) gs_mapped_free(host, bytes);
}

/* The thread, which is told who watches. */
static gs_status fetcher_of(gs_device *d, const void *host, gs_fetcher **out) {
    gs_cpu *cpu = gs_cpu_of(d);
    if (!cpu->fetcher) GS_TRY(gs_fetcher_create(&cpu->fetcher));
    *out = cpu->fetcher;
    gs_fetcher_watch(*out, d->away_watch,
                     d->away_watch.moved ? (int)gs_ledger_away_kind(&d->memory, host) : 0);
    return GS_OK;
}

gs_status gs_cpu_fetch(gs_device *d, gs_mem to, void *host, size_t bytes, uint64_t *number) {
    gs_fetcher *f;
    (void)to;
    *number = 0;
    gs_ledger_pages(&d->memory, host, bytes, true);
    if (d->rehearses) return GS_OK;
    GS_TRY(fetcher_of(d, host, &f));
    *number = gs_fetcher_fetch(f, host, bytes);
    return GS_OK;
}

gs_status gs_cpu_await(gs_device *d, uint64_t number) {
    if (gs_cpu_of(d)->fetcher) gs_fetcher_wait(gs_cpu_of(d)->fetcher, number);
    return GS_OK;
}

gs_status gs_cpu_put_away(gs_device *d, void *host, gs_mem from, size_t bytes, uint64_t *number) {
    gs_fetcher *f;
    (void)from;
    if (number) *number = 0;
    gs_ledger_pages(&d->memory, host, bytes, false);
    if (d->rehearses) return GS_OK;
    GS_TRY(fetcher_of(d, host, &f));
    const uint64_t dropped = gs_fetcher_drop(f, host, bytes);
    if (number) *number = dropped;
    return GS_OK;
}

/* That is no wait for what a step needs. */
gs_status gs_cpu_settle(gs_device *d) {
    gs_fetcher *f = gs_cpu_of(d)->fetcher;
    if (!f) return GS_OK;
    gs_fetcher_settle(f);
    const gs_fetcher_times t = gs_fetcher_measured(f);
    d->away = (gs_away_times){t.busy, t.waited, t.bytes};
    return GS_OK;
}
