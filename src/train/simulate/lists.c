#include "train/simulate/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "comm/ranks.h"
#include "core/cores.h"

typedef struct gs_lists_entry {
    gs_lists_key key;
    gs_virtual_list *list; /* [ranks] */
    struct gs_lists_entry *next;
} entry;

enum { THREADS = 16 /* at most: ranks are recorded independently of each other */ };

/* Thread t records the ranks t, t + threads, ... */
typedef struct recording {
    entry *e;
    const gs_lists *lists;
    int threads;
} recording;

/* sync NULL: the collective. All threads go on alike, so the first one tells. */
static gs_status record_ranks(const recording *all, int first, gs_recorder *r, gs_sync *sync, void *in,
                              void *out) {
    const gs_lists_key *k = &all->e->key;
    for (int rank = first; rank < k->ranks; rank += all->threads) {
        r->comm.rank = rank;
        r->list = &all->e->list[rank];
        GS_TRY(sync ? gs_sync_run(sync, in, k->array.count) : gs_call_run(&r->comm, &k->call, in, out));
        GS_TRY(gs_virtual_list_end(r->list));
        if (first == 0 && all->lists->progress)
            all->lists->progress(all->lists->context, (rank + 1.0) / k->ranks);
    }
    return GS_OK;
}

/* Nobody looks into the buffers: they are addresses, and memory only where a scheme copies. */
static gs_status record_some(void *context, int first, gs_comm **comm) {
    const recording *all = context;
    const gs_lists_key *k = &all->e->key;
    gs_recorder r;
    gs_sync *sync = NULL;
    gs_recorder_begin(&r, k->ranks);
    if (comm) GS_TRY(gs_comm_barrier(*comm)); /* all have a thread, or none goes on */
    const gs_call_bytes call = gs_call_bytes_of(&k->call, 0, k->ranks);
    const size_t wanted = k->scheme            ? k->array.count * sizeof(float)
                          : call.in > call.out ? call.in
                                               : call.out,
                 bytes = (k->call.operation == GS_REDUCE_SCATTER ? k->call.count * 8 : wanted) / 4096 * 4096 +
                         8192;
    char *data =
        mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return gs_fail(GS_E_MEMORY, "no addresses for %zu bytes to simulate", 2 * bytes);
    gs_status status = k->scheme ? gs_sync_create_wire(k->scheme, &r.comm, k->array, &sync) : GS_OK;
    if (status == GS_OK) status = record_ranks(all, first, &r, sync, data, data + bytes);
    gs_sync_free(sync);
    munmap(data, 2 * bytes);
    return status;
}

static gs_status record_all(const gs_lists *lists, entry *e) {
    const int cores = gs_cpu_cores();
    recording all = {e, lists, e->key.ranks < 64 ? 1 : cores < THREADS ? cores : THREADS};
    return all.threads == 1 ? record_some(&all, 0, NULL)
                            : gs_ranks_run(all.threads, GS_TIMEOUT, record_some, &all);
}

static bool is_same(const gs_lists_key *a, const gs_lists_key *b) {
    return a->scheme == b->scheme && a->ranks == b->ranks && a->array.count == b->array.count &&
           a->array.wire == b->array.wire && a->array.tail == b->array.tail &&
           a->call.operation == b->call.operation && a->call.count == b->call.count;
}

gs_status gs_lists_of(gs_lists *lists, const gs_lists_key *key, const gs_virtual_list **out) {
    entry *e = lists->first;
    while (e && !is_same(&e->key, key)) e = e->next;
    if (!e) {
        e = calloc(1, sizeof *e);
        if (!e) return gs_fail(GS_E_MEMORY, "no memory for the messages of %d workers", key->ranks);
        e->key = *key;
        e->next = lists->first;
        lists->first = e;
        e->list = calloc((size_t)key->ranks, sizeof *e->list);
        if (!e->list) return gs_fail(GS_E_MEMORY, "no memory for the messages of %d workers", key->ranks);
        for (int r = 0; r < key->ranks; r++) e->list[r].ranks = key->ranks;
        GS_TRY(record_all(lists, e));
    }
    *out = e->list;
    return GS_OK;
}

void gs_lists_free(gs_lists *lists) {
    while (lists->first) {
        entry *e = lists->first;
        lists->first = e->next;
        for (int r = 0; e->list && r < e->key.ranks; r++) gs_virtual_list_free(&e->list[r]);
        free(e->list);
        free(e);
    }
}
