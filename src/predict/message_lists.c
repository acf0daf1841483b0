#include "predict/message_lists.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/memory.h"
#include "sync/scheme.h"

typedef struct gs_message_lists_entry {
    gs_message_lists_key key;
    gs_virtual_list *list; /* [ranks], or one shared by all ranks */
    size_t *parts;         /* [2 ranks], for a shared list: bytes in each part's message, and bytes it adds */
    struct gs_message_lists_entry *next;
} entry;

/* A comm that records the messages of rank comm.rank. */
typedef struct recorder {
    gs_comm comm;
    const gs_message_lists_key *key;
    gs_sync *sync; /* NULL: record the collective */
    gs_virtual_list *list;
    size_t room;
    char *array; /* for its addresses: it is never read, and only a scheme that copies touches its memory */
    size_t count, width; /* number of the array's elements, and bytes of each */
    /* For a shared list: the part sent last and the part received last, relative to the rank. */
    int sent, came;
    bool differs; /* true: the rank did something that a shared list cannot express */
} recorder;

/* ---- the comm ---- */

/* The part that begins at `data`; -1: no part begins there. */
static int part_at(const recorder *r, const char *data) {
    const size_t n = (size_t)r->comm.size, short_ones = r->count / n, longer = r->count % n,
                 at = (size_t)(data - r->array) / r->width, all_longer = longer * (short_ones + 1);
    if (data < r->array || at >= r->count || short_ones == 0) return -1;
    const size_t part = at < all_longer ? at / (short_ones + 1) : longer + (at - all_longer) / short_ones;
    return gs_shard_of(r->count, (int)part, (int)n).first * r->width == (size_t)(data - r->array) ? (int)part
                                                                                                  : -1;
}

/* The distance from this rank to another rank or part. */
static int distance(const gs_comm *c, int rank_or_part) {
    return (rank_or_part - c->rank + c->size) % c->size;
}

static gs_status record(recorder *r, gs_virtual_action action, int peer, int part, size_t bytes) {
    gs_virtual_list *l = r->list;
    const gs_comm *c = &r->comm;
    gs_virtual_move move = {{bytes}, peer, action};
    if (l->message) {
        r->differs |= part < 0 || (action == GS_VIRTUAL_ADD ? l->added : l->message)[part] != bytes;
        if (r->differs) return GS_OK;
        move.part = (size_t)distance(c, part);
        move.peer = action == GS_VIRTUAL_ADD ? 0 : distance(c, peer);
    }
    if (!gs_grow(&l->move, l->moves, &r->room, sizeof *l->move))
        return gs_fail(GS_E_MEMORY, "no memory for the messages of a scheme");
    l->move[l->moves++] = move;
    return GS_OK;
}

static gs_status record_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    recorder *r = c->state;
    const int part = r->list->message ? part_at(r, data) : 0;
    r->sent = distance(c, part);
    return record(r, GS_VIRTUAL_SEND, e->peer, part, bytes);
}

/* The part that the peer sends is as far from the peer as this rank's last sent part is from this rank. */
static gs_status record_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    recorder *r = c->state;
    (void)data;
    r->came = (r->sent + e->peer) % c->size;
    return record(r, GS_VIRTUAL_RECV, e->peer, r->came, bytes);
}

static gs_status record_added(gs_comm *c, size_t bytes) {
    recorder *r = c->state;
    return record(r, GS_VIRTUAL_ADD, 0, r->came, bytes);
}

static void record_abort(gs_comm *c, const char *message) {
    gs_bug("rank %d of a recording is aborted: %s", c->rank, message);
}

static const gs_transport transport_recorder = {
    .name = "virtual",
    .send = record_send,
    .recv = record_recv,
    .collective = gs_collective_by_messages,
    .abort = record_abort,
    .added = record_added,
};

/* ---- the lists of all ranks ---- */

static void free_list(gs_virtual_list *l) {
    free(l->move);
    l->move = NULL;
    l->moves = 0;
}

static gs_status record_rank(recorder *r, int rank, gs_virtual_list *out) {
    r->comm.rank = rank;
    r->list = out;
    r->room = 0;
    return r->sync ? gs_sync_run(r->sync, (float *)(void *)r->array, r->key->array.count)
                   : gs_call_run(&r->comm, &r->key->call, r->array, r->array);
}

static gs_status record_each(recorder *r, entry *e) {
    const int n = e->key.ranks;
    for (int rank = 0; rank < n; rank++) {
        e->list[rank] = (gs_virtual_list){.ranks = n};
        GS_TRY(record_rank(r, rank, &e->list[rank]));
    }
    return GS_OK;
}

/* Record how the array is cut. False: it is not cut into one part per rank. */
static bool cut(recorder *r, entry *e) {
    const gs_message_lists_key *k = &e->key;
    const size_t n = (size_t)k->ranks;
    const gs_operation o = k->call.operation;
    if (!k->scheme && o != GS_ALL_GATHER && o != GS_ALL_TO_ALL && o != GS_REDUCE_SCATTER) return false;
    if (!(e->parts = malloc(2 * n * sizeof *e->parts))) return false;
    for (size_t p = 0; p < n; p++) {
        const gs_shard part = gs_shard_of(r->count, (int)p, (int)n);
        e->parts[n + p] = part.count * r->width;
        e->parts[p] = k->scheme ? gs_sync_message_bytes(&k->array, part) : e->parts[n + p];
    }
    return true;
}

static bool are_same(const gs_virtual_list *a, const gs_virtual_list *b) {
    return a->moves == b->moves && a->moves > 0 && memcmp(a->move, b->move, a->moves * sizeof *a->move) == 0;
}

/* Record one list for all ranks if their lists agree. Compares all ranks, or at least 64, even and odd. */
static gs_status record_shared(recorder *r, entry *e, bool *shared) {
    enum { ASKED = 64 };
    const int n = e->key.ranks, apart = n < 2 * ASKED ? 1 : (n / ASKED - 1) | 1;
    gs_status status = GS_OK;
    *shared = cut(r, e);
    for (int rank = 0; rank < n && *shared && status == GS_OK; rank += apart) {
        gs_virtual_list of_one = {.ranks = n, .message = e->parts, .added = e->parts + n};
        status = record_rank(r, rank, &of_one);
        r->list = NULL; /* of_one goes out of scope here */
        *shared = !r->differs && (rank == 0 || are_same(e->list, &of_one));
        if (rank == 0)
            *e->list = of_one;
        else
            free_list(&of_one);
    }
    if (!*shared) free_list(e->list);
    return status;
}

static gs_status record_all(entry *e, bool may_share) {
    const gs_message_lists_key *k = &e->key;
    const gs_operation o = k->call.operation;
    const size_t parts = o == GS_ALL_GATHER || o == GS_GATHER || o == GS_SCATTER || o == GS_ALL_TO_ALL
                             ? (size_t)k->ranks
                             : 1; /* number of parts, each of call.count elements */
    recorder r = {.comm = {&transport_recorder, 0, k->ranks, GS_TIMEOUT, &r},
                  .key = k,
                  .count = k->scheme ? k->array.count : k->call.count * parts,
                  .width = k->scheme ? sizeof(float) : gs_type_size(k->call.type)};
    const size_t bytes = r.count * sizeof(double) + 8192;
    bool shared = false;
    r.array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.array == MAP_FAILED) return gs_fail(GS_E_MEMORY, "no addresses for %zu bytes to simulate", bytes);
    gs_status status = k->scheme ? gs_sync_create_wire(k->scheme, &r.comm, k->array, &r.sync) : GS_OK;
    if (status == GS_OK && may_share) status = record_shared(&r, e, &shared);
    if (status == GS_OK && !shared) status = record_each(&r, e);
    gs_sync_free(r.sync);
    munmap(r.array, bytes);
    return status;
}

/* ---- recorded lists ---- */

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
        GS_TRY(record_all(e, !lists->apart));
    }
    *out = e->list;
    return GS_OK;
}

void gs_message_lists_free(gs_message_lists *lists) {
    while (lists->first) {
        entry *e = lists->first;
        lists->first = e->next;
        for (int r = 0; e->list && r < e->key.ranks; r++) free_list(&e->list[r]);
        free(e->list);
        free(e->parts);
        free(e);
    }
}
