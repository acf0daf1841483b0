#include "comm/virtual/list.h"

#include <stdlib.h>

#include "core/shard.h"

gs_status gs_virtual_list_add(gs_virtual_list *l, gs_virtual_move m) {
    if (l->moves == l->room) {
        const uint32_t room = l->room < 8 ? 16 : 2 * l->room;
        gs_virtual_move *larger = realloc(l->move, room * sizeof *larger);
        if (!larger) return gs_fail(GS_E_MEMORY, "no memory for the messages of a scheme");
        l->move = larger;
        l->room = room;
    }
    l->move[l->moves++] = m;
    return GS_OK;
}

void gs_virtual_list_free(gs_virtual_list *l) {
    free(l->move);
    *l = (gs_virtual_list){.ranks = l->ranks};
}

/* ---- a recorder ---- */

/* The part that begins there; -1: none does. */
static int part_at(const gs_recorder *r, const char *data) {
    const size_t n = (size_t)r->comm.size, short_ones = r->count / n, longer = r->count % n,
                 at = (size_t)(data - r->array) / r->width, all_longer = longer * (short_ones + 1);
    if (data < r->array || at >= r->count || short_ones == 0) return -1;
    const size_t part = at < all_longer ? at / (short_ones + 1) : longer + (at - all_longer) / short_ones;
    return gs_shard_of(r->count, (int)part, (int)n).first * r->width == (size_t)(data - r->array) ? (int)part
                                                                                                  : -1;
}

/* Counted from this rank. */
static int distance(const gs_comm *c, int rank_or_part) {
    return (rank_or_part - c->rank + c->size) % c->size;
}

static gs_status record(gs_recorder *r, gs_virtual_action action, int peer, int part, size_t bytes) {
    gs_virtual_list *l = r->list;
    const gs_comm *c = &r->comm;
    if (!l->message) return gs_virtual_list_add(l, (gs_virtual_move){{bytes}, peer, action});
    r->differs |= part < 0 || (action == GS_VIRTUAL_ADD ? l->added : l->message)[part] != bytes;
    if (r->differs) return GS_OK;
    return gs_virtual_list_add(l, (gs_virtual_move){{(size_t)distance(c, part)},
                                                    action == GS_VIRTUAL_ADD ? 0 : distance(c, peer),
                                                    action});
}

static gs_status record_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_recorder *r = c->state;
    const int part = r->list->message ? part_at(r, data) : 0;
    r->sent = distance(c, part);
    return record(r, GS_VIRTUAL_SEND, e->peer, part, bytes);
}

/* The other rank sends the part that is as far from it as the one that went out here. */
static gs_status record_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_recorder *r = c->state;
    (void)data;
    r->came = (r->sent + e->peer) % c->size;
    return record(r, GS_VIRTUAL_RECV, e->peer, r->came, bytes);
}

static gs_status record_added(gs_comm *c, size_t bytes) {
    gs_recorder *r = c->state;
    return record(r, GS_VIRTUAL_ADD, 0, r->came, bytes);
}

static void record_abort(gs_comm *c, const char *message) {
    gs_bug("rank %d of a recording is aborted: %s", c->rank, message);
}

static void record_free(gs_comm *c) {
    (void)c;
}

static const gs_transport transport_recorder = {
    .name = "virtual",
    .send = record_send,
    .recv = record_recv,
    .collective = gs_collective_by_messages,
    .abort = record_abort,
    .free = record_free,
    .added = record_added,
};

void gs_recorder_begin(gs_recorder *r, int ranks) {
    *r = (gs_recorder){.comm = {&transport_recorder, 0, ranks, GS_TIMEOUT, r}};
}
