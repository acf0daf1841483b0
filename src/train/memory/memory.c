#include "train/memory/memory.h"

#include <stdlib.h>
#include "train/internal.h"
#include "train/run.h"

gs_status gs_book_host(gs_worker *w, gs_memory_kind kind, void *memory, size_t bytes) {
    const gs_memory_place place = w->device->ops->host_memory ? GS_ON_DEVICE : GS_ON_HOST;
    return gs_ledger_add(&w->device->memory, place, kind, memory, bytes);
}

void *gs_host_alloc(gs_worker *w, gs_memory_kind kind, size_t bytes) {
    const bool untouched = w->settings->rehearsal && bytes > GS_REHEARSED_READ;
    void *memory = malloc(untouched ? GS_REHEARSED_READ : bytes + 1);
    if (memory && gs_book_host(w, kind, memory, bytes) == GS_OK) return memory;
    free(memory);
    return NULL;
}

/* ---- plans ---- */

gs_status gs_memory_plan_create(const gs_settings *settings, gs_memory_plan *plan) {
    *plan = (gs_memory_plan){0};
    gs_run *run = calloc(1, sizeof *run);
    if (!run) return gs_fail(GS_E_MEMORY, "no memory for a plan");
    *run = (gs_run){.job = JOB_TRAIN, .settings = *settings};
    gs_status status = gs_run_prepare(run);
    if (status == GS_OK) status = gs_run_rehearse(run, &run->settings, true, plan);
    plan->run = run;
    plan->owns_run = true;
    return status;
}

gs_status gs_memory_plan_again(const gs_memory_plan *of, const gs_settings *s, gs_memory_plan *out) {
    return gs_run_rehearse(of->run, s, of->workers == of->all_workers, out);
}

void gs_memory_plan_free(gs_memory_plan *p) {
    if (p->owns_run) {
        gs_run_free(p->run);
        free(p->run);
    }
    free(p->worker);
    free(p->layer);
    *p = (gs_memory_plan){0};
}

double gs_memory_most(const gs_memory_plan *p, int *worker) {
    double most = 0;
    for (int i = 0; i < p->workers; i++) {
        const double total = gs_memory_total(&p->worker[i].use[GS_ON_DEVICE]);
        if (total <= most) continue;
        most = total;
        if (worker) *worker = i;
    }
    return most;
}
