#include "comm/split.h"

#include "comm/transports.h"

typedef struct split {
    gs_comm comm, *parent;
    gs_transport ops;
    int member[]; /* [size]: ranks of the parent */
} split;

/* ---- messages: those of the parent ---- */

/* The envelope as the parent sees it; *call becomes its call. */
static gs_envelope in_parent(const split *s, const gs_envelope *e, gs_call *call) {
    *call = *e->call;
    if (!gs_is_collective(e) || gs_operation_has_root(call->operation)) call->root = s->member[call->root];
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

static int split_reported_rank(const gs_comm *c) {
    const split *s = c->state;
    return gs_comm_reported_rank(s->parent);
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
    .reported_rank = split_reported_rank,
};

/* ---- of a dry parent (predict/dry_run.c) ---- */

static gs_status split_dry(gs_comm *c, const gs_comm *part, const gs_call *call, const struct gs_sync *sum) {
    gs_comm *parent = ((const split *)c->state)->parent;
    return parent->ops->dry(parent, part, call, sum);
}

static gs_status dry_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    (void)in, (void)out;
    return split_dry(c, c, call, NULL);
}

int gs_comm_rank_in_parent(const gs_comm *c, int r) {
    if (c->ops->send != split_send || r < 0 || r >= c->size)
        gs_bug("rank %d of %d of a '%s' comm has no place in a parent", r, c->size, c->ops->name);
    return ((const split *)c->state)->member[r];
}

/* list: the ranks; NULL: first, first + stride, ... */
static gs_status create(gs_comm *parent, const int *list, int first, int stride, int size, gs_comm **out) {
    split *s = calloc(1, sizeof *s + (size_t)size * sizeof *s->member);
    *out = NULL;
    if (!s) return gs_fail(GS_E_MEMORY, "no memory for a part of %d ranks", size);
    s->parent = parent;
    s->ops = transport_split;
    if (parent->ops->dry) {
        s->ops.collective = dry_collective;
        s->ops.dry = split_dry;
    }
    s->comm = (gs_comm){&s->ops, -1, size, parent->timeout, s};
    for (int r = 0; r < size; r++) {
        s->member[r] = list ? list[r] : first + r * stride;
        if (s->member[r] == parent->rank) s->comm.rank = r;
    }
    if (s->comm.rank >= 0)
        *out = &s->comm;
    else
        free(s);
    return GS_OK;
}

gs_status gs_comm_split(gs_comm *parent, int first, int stride, int size, gs_comm **out) {
    return create(parent, NULL, first, stride, size, out);
}

gs_status gs_comm_split_ranks(gs_comm *parent, const int *ranks, int size, gs_comm **out) {
    return create(parent, ranks, 0, 0, size, out);
}
