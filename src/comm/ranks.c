#include "comm/ranks.h"

#include <stdlib.h>

#include "comm/create.h"
#include "core/clock.h"
#include "core/thread.h"

typedef struct rank {
    gs_rank_work *work;
    void *context;
    int number;
    gs_comm *comm;
    pthread_t thread;
    gs_error error;
} rank;

/* Each rank frees its own comm: freeing Gloo's comm waits for the other ranks, so one thread could not free them all.
 * After a failure freeing does not wait, and gs_ranks_run frees the comm when all ranks have ended. */
static void *rank_main(void *argument) {
    rank *r = argument;
    if (gs_error_keep(&r->error, r->work(r->context, r->number, &r->comm)) == GS_OK) {
        gs_comm_free(r->comm);
        r->comm = NULL;
    } else if (r->comm) {
        gs_comm_abort(r->comm, r->error.message);
    }
    return NULL;
}

static gs_status first_failure(const rank *ranks, int count) {
    const gs_error *first = &ranks->error;
    for (int i = 1; i < count; i++)
        if (gs_error_is_cause(&ranks[i].error, first)) first = &ranks[i].error;
    return gs_error_again(first);
}

gs_status gs_ranks_run(int count, double timeout, gs_rank_work *work, void *context) {
    gs_comm **comms = calloc((size_t)count, sizeof *comms);
    rank *ranks = calloc((size_t)count, sizeof *ranks);
    gs_status status = comms && ranks ? gs_comm_threads_create(count, timeout, comms)
                                      : gs_fail(GS_E_MEMORY, "no memory for %d ranks", count);
    int started = 0;
    for (int i = 0; i < count && status == GS_OK; i++)
        ranks[i] = (rank){.work = work, .context = context, .number = i, .comm = comms[i]};
    while (status == GS_OK && started < count &&
           gs_thread_start(&ranks[started].thread, rank_main, &ranks[started]) == 0)
        started++;
    for (int i = started; i < count && status == GS_OK; i++) gs_comm_abort(comms[i], "cannot start a thread");
    for (int i = 0; i < started; i++) pthread_join(ranks[i].thread, NULL);
    if (status == GS_OK)
        status = started == count
                     ? first_failure(ranks, count)
                     : gs_fail(GS_E_MEMORY, "only %d of %d threads could be started", started, count);
    for (int i = 0; i < count && ranks; i++) gs_comm_free(ranks[i].comm);
    free(comms);
    free(ranks);
    return status;
}

static gs_status begin_over_links(gs_comm *c, double latency, double *start) {
    int rounds = 2; /* the rounds of all_reduce, and one more */
    for (int d = 1; d < c->size; d *= 2) rounds++;
    *start = gs_seconds() + rounds * latency + 1e-3;
    GS_TRY(gs_comm_all_reduce(c, start, 1, GS_F64, GS_MAX));
    gs_sleep_until(*start);
    return GS_OK;
}

gs_status gs_ranks_begin(gs_comm *c, const gs_link *link, double *start) {
    if (gs_link_is_there(link)) return begin_over_links(c, link->latency, start);
    GS_TRY(gs_comm_barrier(c));
    *start = gs_seconds();
    return GS_OK;
}
