#include "predict/message_lists.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sync/scheme.h"

typedef struct gs_message_lists_entry {
    gs_message_lists_key key;
    gs_virtual_list *list; /* [ranks], or [1] that they share */
    size_t *parts;         /* [2 ranks], of a shared list: message and added */
    struct gs_message_lists_entry *next;
} entry;

typedef struct recording {
    const gs_message_lists_key *key;
    gs_recorder recorder;
    gs_sync *sync; /* NULL: the collective */
    void *array;   /* nobody looks into it: it is addresses, and memory only where a scheme copies */
} recording;

static gs_status record_rank(recording *g, int rank, gs_virtual_list *out) {
    g->recorder.comm.rank = rank;
    g->recorder.list = out;
    const gs_status status = g->sync ? gs_sync_run(g->sync, g->array, g->key->array.count)
                                     : gs_call_run(&g->recorder.comm, &g->key->call, g->array, g->array);
    g->recorder.list = NULL;
    return status;
}

static gs_status record_each(recording *g, entry *e) {
    const int n = e->key.ranks;
    for (int rank = 0; rank < n; rank++) {
        e->list[rank] = (gs_virtual_list){.ranks = n};
        GS_TRY(record_rank(g, rank, &e->list[rank]));
    }
    return GS_OK;
}

/* How the array is cut, if into equal parts for all ranks. */
static bool cut(recording *g, entry *e) {
    const gs_message_lists_key *k = &e->key;
    const size_t n = (size_t)k->ranks;
    const bool of_each = k->call.operation == GS_ALL_GATHER || k->call.operation == GS_ALL_TO_ALL;
    if (!k->scheme && !of_each && k->call.operation != GS_REDUCE_SCATTER) return false;
    g->recorder.array = g->array;
    g->recorder.count = k->scheme ? k->array.count : of_each ? k->call.count * n : k->call.count;
    g->recorder.width = k->scheme ? sizeof(float) : gs_type_size(k->call.type);
    if (!(e->parts = malloc(2 * n * sizeof *e->parts))) return false;
    for (size_t p = 0; p < n; p++) {
        const gs_shard part = gs_shard_of(g->recorder.count, (int)p, (int)n);
        e->parts[n + p] = part.count * g->recorder.width;
        e->parts[p] = k->scheme ? gs_sync_message_bytes(&k->array, part) : e->parts[n + p];
    }
    return true;
}

static bool are_same(const gs_virtual_list *a, const gs_virtual_list *b) {
    return a->moves == b->moves && a->moves > 0 && memcmp(a->move, b->move, a->moves * sizeof *a->move) == 0;
}

/* Rank 0's list, if it is that of all: at least 64 are asked, or each one, and odd and even ones. */
static gs_status record_shared(recording *g, entry *e, bool *shared) {
    enum { ASKED = 64 };
    const int n = e->key.ranks, apart = n < 2 * ASKED ? 1 : (n / ASKED - 1) | 1;
    gs_status status = GS_OK;
    *shared = cut(g, e);
    for (int rank = 0; rank < n && *shared && status == GS_OK; rank += apart) {
        gs_virtual_list of_one = {.ranks = n, .message = e->parts, .added = e->parts + n};
        status = record_rank(g, rank, &of_one);
        *shared = !g->recorder.differs && (rank == 0 || are_same(e->list, &of_one));
        if (rank == 0)
            *e->list = of_one;
        else
            gs_virtual_list_free(&of_one);
    }
    if (!*shared) gs_virtual_list_free(e->list);
    return status;
}

static gs_status record_all(entry *e) {
    const gs_message_lists_key *k = &e->key;
    const gs_call_bytes call = gs_call_bytes_of(&k->call, 0, k->ranks);
    const size_t wanted = k->scheme            ? k->array.count * sizeof(float)
                          : call.in > call.out ? call.in
                                               : call.out,
                 bytes = (k->call.operation == GS_REDUCE_SCATTER ? k->call.count * 8 : wanted) + 8192;
    recording g = {.key = k};
    bool shared = false;
    g.array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g.array == MAP_FAILED) return gs_fail(GS_E_MEMORY, "no addresses for %zu bytes to simulate", bytes);
    gs_recorder_begin(&g.recorder, k->ranks);
    gs_status status =
        k->scheme ? gs_sync_create_wire(k->scheme, &g.recorder.comm, k->array, &g.sync) : GS_OK;
    if (status == GS_OK) status = record_shared(&g, e, &shared);
    if (status == GS_OK && !shared) status = record_each(&g, e);
    gs_sync_free(g.sync);
    munmap(g.array, bytes);
    return status;
}

static bool is_same(const gs_message_lists_key *a, const gs_message_lists_key *b) {
    return a->scheme == b->scheme && a->ranks == b->ranks && a->array.count == b->array.count &&
           a->array.wire == b->array.wire && a->array.tail == b->array.tail &&
           a->call.operation == b->call.operation && a->call.count == b->call.count;
}

gs_status gs_message_lists_of(gs_message_lists *lists, const gs_message_lists_key *key,
                              const gs_virtual_list **out) {
    entry *e = lists->first;
    while (e && !is_same(&e->key, key)) e = e->next;
    if (!e) {
        GS_TRY(GS_NEW(e, 1, "the messages of %d workers", key->ranks));
        e->key = *key;
        e->next = lists->first;
        lists->first = e;
        GS_TRY(GS_NEW(e->list, key->ranks, "the messages of %d workers", key->ranks));
        GS_TRY(record_all(e));
    }
    *out = e->list;
    return GS_OK;
}

void gs_message_lists_free(gs_message_lists *lists) {
    while (lists->first) {
        entry *e = lists->first;
        lists->first = e->next;
        for (int r = 0; e->list && r < e->key.ranks; r++) gs_virtual_list_free(&e->list[r]);
        free(e->list);
        free(e->parts);
        free(e);
    }
}
