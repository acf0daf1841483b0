#include "comm/split.h"

#include <stdlib.h>

#include "comm/transports.h"

typedef struct split {
    gs_comm comm, *parent;
    int member[]; /* [size]: ranks of the parent */
} split;

/* ---- messages: those of the parent ---- */

/* The same for the parent. `call`: room for what the message is a part of, for messages of failures. */
static gs_envelope in_parent(const split *s, const gs_envelope *e, gs_call *call) {
    *call = *e->call;
    if (!gs_is_part(e) || gs_operation_has_root(call->operation)) call->root = s->member[call->root];
    return (gs_envelope){s->member[e->peer], s->member[e->from], s->member[e->to], call};
}

static gs_status split_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    const split *s = c->state;
    gs_call call;
    const gs_envelope above = in_parent(s, e, &call);
    return s->parent->ops->send(s->parent, &above, data, bytes);
}

static gs_status split_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    const split *s = c->state;
    gs_call call;
    const gs_envelope above = in_parent(s, e, &call);
    return s->parent->ops->recv(s->parent, &above, data, bytes);
}

static void split_abort(gs_comm *c, const char *message) {
    const split *s = c->state;
    s->parent->ops->abort(s->parent, message);
}

static int split_known_as(const gs_comm *c) {
    const split *s = c->state;
    return gs_comm_known_as(s->parent);
}

static void split_free(gs_comm *c) {
    free(c->state);
}

static const gs_transport transport_split = {
    .name = "split",
    .send = split_send,
    .recv = split_recv,
    .collective = gs_collective_by_messages,
    .abort = split_abort,
    .free = split_free,
    .known_as = split_known_as,
};

int gs_comm_rank_in_parent(const gs_comm *c, int r) {
    if (c->ops != &transport_split || r < 0 || r >= c->size)
        gs_bug("rank %d of %d of a '%s' comm has no place in a parent", r, c->size, c->ops->name);
    return ((const split *)c->state)->member[r];
}

/* ---- who belongs to it ---- */

typedef struct wish {
    int colour, key;
} wish;

static bool comes_before(const wish *all, int a, int b) {
    const int key = all[a].key, other = all[b].key;
    return key == other ? a < b : key < other;
}

/* Each rank's place is the number of those that come before it. */
static void find_members(split *s, const wish *all, int size) {
    const int mine = all[s->parent->rank].colour;
    for (int r = 0; r < size; r++) {
        int place = 0;
        if (all[r].colour != mine) continue;
        for (int other = 0; other < size; other++)
            place += all[other].colour == mine && comes_before(all, other, r);
        s->member[place] = r;
        if (r == s->parent->rank) s->comm.rank = place;
        s->comm.size++;
    }
}

static gs_status check(const wish *all, int size) {
    for (int r = 0; r < size; r++)
        if (all[r].colour < GS_NO_COLOUR)
            return gs_fail(GS_E_USAGE,
                           "gs_comm_split: rank %d has the colour %d; wanted 0 or more, or %d for none", r,
                           all[r].colour, GS_NO_COLOUR);
    return GS_OK;
}

static gs_status make(gs_comm *parent, const wish *all, gs_comm **out) {
    split *s = calloc(1, sizeof *s + (size_t)parent->size * sizeof *s->member);
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for a part of %d ranks", parent->size);
    s->parent = parent;
    s->comm = (gs_comm){.ops = &transport_split, .timeout = parent->timeout, .state = s};
    find_members(s, all, parent->size);
    *out = &s->comm;
    return GS_OK;
}

gs_status gs_comm_split(gs_comm *parent, int colour, int key, gs_comm **out) {
    const wish mine = {colour, key};
    wish *all = calloc((size_t)parent->size, sizeof *all);
    *out = NULL;
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the colours of %d ranks", parent->size);
    gs_status status = gs_comm_all_gather(parent, &mine, all, 2, GS_I32);
    if (status == GS_OK) status = check(all, parent->size);
    if (status == GS_OK && colour != GS_NO_COLOUR) status = make(parent, all, out);
    free(all);
    return status;
}
