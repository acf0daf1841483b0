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

enum { CREW = 16 /* threads at most: ranks are recorded independently of each other */ };

/* One of `each` threads, which records ranks first, first + each, ... */
typedef struct member {
    entry *e;
    const gs_lists *lists; /* where progress is told; NULL: by another member */
    int first, each;
} member;

/* Buffers that nobody looks into: addresses, and memory only where a scheme copies. */
static void *addresses(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* All members go on alike. */
static void tell(const member *m, int rank) {
    if (m->lists && m->lists->progress) m->lists->progress(m->lists->context, (rank + 1.0) / m->e->key.ranks);
}

/* sync NULL: the collective. */
static gs_status record_ranks(member *m, gs_recorder *r, gs_sync *sync, void *in, void *out) {
    const gs_lists_key *k = &m->e->key;
    for (int rank = m->first; rank < k->ranks; rank += m->each) {
        r->comm.rank = rank;
        r->list = &m->e->list[rank];
        GS_TRY(sync ? gs_sync_run(sync, in, k->array.count) : gs_call_run(&r->comm, &k->call, in, out));
        GS_TRY(gs_virtual_list_end(r->list));
        tell(m, rank);
    }
    return GS_OK;
}

static gs_status record(member *m) {
    const gs_lists_key *k = &m->e->key;
    gs_recorder r;
    gs_sync *sync = NULL;
    gs_recorder_begin(&r, k->ranks);
    const gs_call_bytes call = gs_call_bytes_of(&k->call, 0, k->ranks);
    const size_t wanted = k->scheme            ? k->array.count * sizeof(float)
                          : call.in > call.out ? call.in
                                               : call.out,
                 bytes = (k->call.operation == GS_REDUCE_SCATTER ? k->call.count * 8 : wanted) + 4096;
    void *data = addresses(bytes), *other = addresses(bytes);
    gs_status status =
        data && other ? GS_OK : gs_fail(GS_E_MEMORY, "no addresses for %zu bytes to simulate", bytes);
    if (status == GS_OK && k->scheme) status = gs_sync_create_wire(k->scheme, &r.comm, k->array, &sync);
    if (status == GS_OK) status = record_ranks(m, &r, sync, data, other);
    gs_sync_free(sync);
    if (data) munmap(data, bytes);
    if (other) munmap(other, bytes);
    return status;
}

typedef struct recording {
    entry *e;
    const gs_lists *lists;
    int threads;
} recording;

static gs_status record_some(void *context, int number, gs_comm **comm) {
    const recording *all = context;
    member m = {all->e, number == 0 ? all->lists : NULL, number, all->threads};
    if (comm) GS_TRY(gs_comm_barrier(*comm)); /* all have a thread, or none goes on */
    return record(&m);
}

static gs_status record_all(const gs_lists *lists, entry *e) {
    const int cores = gs_cpu_cores();
    recording all = {e, lists, e->key.ranks < 64 ? 1 : cores < CREW ? cores : CREW};
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
