/* Ranks as processes of one machine. They share memory, and all data goes through it in blocks.
 *
 * Each rank has a stage there, with two halves. A collective is a sequence of blocks. A rank puts the part of its array
 * that the others need into one half; all meet; then each takes what it needs from the halves of the others. The next
 * block goes through the other half, so one meeting per block is enough: no rank reaches the meeting of block k + 1
 * before it has taken block k, and no rank refills the half of block k before that meeting.
 *
 * all_reduce has two meetings a block. Each rank sums one slice of the block over all ranks, as threads do
 * (threads/threads.c), but the sums go back through the stages. For 2 ranks and a block of slices a, b:
 *
 *                  put          meet   sum, put      meet   take
 *     rank 0       b0 -> stage         a = a0 + a1          b <- stage of rank 1
 *     rank 1       a1 -> stage         b = b0 + b1          a <- stage of rank 0
 *
 * A short array is put as a whole, and every rank sums all of it, which takes one meeting. Both ways add in the order
 * of the ranks. So all ranks get the same bits, and the same as threads of one process get.
 *
 * With N ranks and B bytes a rank copies (N - 1) / N B out, reads B from the stages and its own array to sum,
 * and copies (N - 1) / N B in.
 */
#include "core/shard.h"
#include "comm/shm/shm.h"

enum {
    SHORT = 16 * 1024, /* bytes of an array that every rank sums itself */
    BUILD = 1024,      /* bytes: a sum is built up in a piece that stays in the first-level cache */
};

/* ---- blocks ---- */

static gs_shm *shm_of(const gs_comm *c) {
    return c->state;
}

/* The half of a rank's stage that the current block goes through. */
static unsigned char *half_of(const gs_shm *m, int rank) {
    return m->stage + ((size_t)rank * 2 + m->blocks % 2) * m->half;
}

static unsigned char *place(const void *buffer, size_t at) {
    return (unsigned char *)buffer + at;
}

/* All have put their part of a block; `at` is where in the array the block begins. */
static gs_status all_have_put(gs_comm *c, const gs_call *call, size_t at) {
    gs_shm *m = shm_of(c);
    if (at == 0) gs_shm_show(m, call);
    GS_TRY(gs_shm_meet(m, call, c->timeout));
    if (at == 0) gs_shm_compare(m, call);
    return GS_OK;
}

/* ---- reductions ---- */

/* to = elements of all ranks, reduced in the order of the ranks; those of this rank are `own`, those of the others
 * lie at byte `at` of their halves. `also`, if not NULL, gets the same. */
static void reduce_stages(const gs_shm *m, const gs_call *call, const unsigned char *own, size_t at,
                          unsigned char *to, unsigned char *also, size_t bytes) {
    _Alignas(GS_SHM_LINE) unsigned char sum[BUILD];
    size_t width = gs_type_size(call->type);
    gs_combine combine = gs_combine_of(call->type, call->reduction);
    for (size_t done = 0; done < bytes; done += BUILD) {
        size_t n = gs_smaller(bytes - done, BUILD);
        const unsigned char *so_far = NULL;
        for (int r = 0; r < m->size; r++) {
            const unsigned char *from = r == m->rank ? own + done : half_of(m, r) + at + done;
            if (so_far) combine(sum, so_far, from, n / width);
            so_far = so_far ? sum : from;
        }
        gs_copy_unless_there(to + done, so_far, n);
        if (also) gs_copy_unless_there(also + done, so_far, n);
    }
}

/* Slice r of a block of `bytes` bytes; slices end at cache-line boundaries. */
static gs_shard slice_of(const gs_shm *m, size_t bytes, int r) {
    gs_shard lines = gs_shard_of((bytes + GS_SHM_LINE - 1) / GS_SHM_LINE, r, m->size);
    size_t first = gs_smaller(lines.first * GS_SHM_LINE, bytes);
    return (gs_shard){first, gs_smaller((lines.first + lines.count) * GS_SHM_LINE, bytes) - first};
}

/* One block: each rank reduces its slice, then those that `take` collect all slices. */
static gs_status reduce_block(gs_comm *c, const gs_call *call, unsigned char *data, size_t at, size_t bytes,
                              bool take) {
    gs_shm *m = shm_of(c);
    unsigned char *mine = half_of(m, m->rank);
    gs_shard own = slice_of(m, bytes, m->rank);
    for (int r = 0; r < m->size; r++) {
        gs_shard s = slice_of(m, bytes, r);
        if (r != m->rank) gs_copy_unless_there(mine + s.first, data + s.first, s.count);
    }
    GS_TRY(all_have_put(c, call, at));
    reduce_stages(m, call, data + own.first, own.first, mine + own.first, take ? data + own.first : NULL,
                  own.count);
    GS_TRY(gs_shm_meet(m, call, c->timeout));
    for (int r = 0; take && r < m->size; r++) {
        gs_shard s = slice_of(m, bytes, r);
        if (r != m->rank) gs_copy_unless_there(data + s.first, half_of(m, r) + s.first, s.count);
    }
    m->blocks++;
    return GS_OK;
}

static gs_status reduce_short(gs_comm *c, const gs_call *call, unsigned char *data, size_t bytes, bool take) {
    gs_shm *m = shm_of(c);
    gs_copy_unless_there(half_of(m, m->rank), data, bytes);
    GS_TRY(all_have_put(c, call, 0));
    if (take) reduce_stages(m, call, data, 0, data, NULL, bytes);
    m->blocks++;
    return GS_OK;
}

static gs_status reduce(gs_comm *c, const gs_call *call, void *data, bool take) {
    const gs_shm *m = shm_of(c);
    size_t bytes = call->count * gs_type_size(call->type);
    if (bytes <= SHORT) return reduce_short(c, call, data, bytes, take);
    for (size_t at = 0; at < bytes; at += m->half)
        GS_TRY(reduce_block(c, call, place(data, at), at, gs_smaller(bytes - at, m->half), take));
    return GS_OK;
}

/* How many bytes of each rank's part go through at once, where a half has a place for each rank. */
static size_t part_of_half(const gs_shm *m) {
    return m->half / (size_t)m->size / GS_SHM_LINE * GS_SHM_LINE;
}

static gs_status reduce_scatter(gs_comm *c, const gs_call *call, const void *all, void *mine) {
    gs_shm *m = shm_of(c);
    size_t total = call->count, width = gs_type_size(call->type);
    size_t step = part_of_half(m), longest = gs_shard_of(total, 0, m->size).count;
    gs_shard own = gs_shard_of(total, m->rank, m->size);
    for (size_t at = 0; at < longest * width; at += step) {
        unsigned char *stage = half_of(m, m->rank);
        for (int r = 0; r < m->size; r++) {
            gs_shard s = gs_shard_of(total, r, m->size);
            if (r != m->rank && at < s.count * width)
                gs_copy_unless_there(stage + (size_t)r * step, place(all, s.first * width + at),
                                     gs_smaller(s.count * width - at, step));
        }
        GS_TRY(all_have_put(c, call, at));
        if (at < own.count * width)
            reduce_stages(m, call, place(all, own.first * width + at), (size_t)m->rank * step,
                          place(mine, at), NULL, gs_smaller(own.count * width - at, step));
        m->blocks++;
    }
    return GS_OK;
}

/* ---- moving ---- */

static gs_status broadcast(gs_comm *c, const gs_call *call, void *data) {
    gs_shm *m = shm_of(c);
    size_t bytes = call->count * gs_type_size(call->type);
    int root = call->root;
    for (size_t at = 0; at < bytes; at += m->half) {
        size_t n = gs_smaller(bytes - at, m->half);
        if (m->rank == root) gs_copy_unless_there(half_of(m, root), place(data, at), n);
        GS_TRY(all_have_put(c, call, at));
        if (m->rank != root) gs_copy_unless_there(place(data, at), half_of(m, root), n);
        m->blocks++;
    }
    return GS_OK;
}

/* all_gather, and gather where only the root takes */
static gs_status gather(gs_comm *c, const gs_call *call, const void *mine, void *all, bool take) {
    gs_shm *m = shm_of(c);
    size_t bytes = call->count * gs_type_size(call->type);
    for (size_t at = 0; at < bytes; at += m->half) {
        size_t n = gs_smaller(bytes - at, m->half);
        gs_copy_unless_there(half_of(m, m->rank), place(mine, at), n);
        GS_TRY(all_have_put(c, call, at));
        for (int r = 0; take && r < m->size; r++) {
            unsigned char *to = place(all, (size_t)r * bytes + at);
            gs_copy_unless_there(to, r == m->rank ? place(mine, at) : half_of(m, r), n);
        }
        m->blocks++;
    }
    return GS_OK;
}

/* all_to_all, and scatter where only the root puts: the part for each rank has a place in a half */
static gs_status spread(gs_comm *c, const gs_call *call, const void *from, void *to) {
    gs_shm *m = shm_of(c);
    size_t bytes = call->count * gs_type_size(call->type), step = part_of_half(m);
    bool one = call->operation == GS_SCATTER;
    for (size_t at = 0; at < bytes; at += step) {
        size_t n = gs_smaller(bytes - at, step);
        bool puts = !one || call->root == m->rank;
        for (int r = 0; puts && r < m->size; r++)
            gs_copy_unless_there(half_of(m, m->rank) + (size_t)r * step, place(from, (size_t)r * bytes + at),
                                 n);
        GS_TRY(all_have_put(c, call, at));
        for (int r = one ? call->root : 0; r < (one ? call->root + 1 : m->size); r++)
            gs_copy_unless_there(place(to, (one ? 0 : (size_t)r * bytes) + at),
                                 half_of(m, r) + (size_t)m->rank * step, n);
        m->blocks++;
    }
    return GS_OK;
}

static gs_status shm_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const gs_shm *m = shm_of(c);
    if (gs_shm_has_failed(m)) return gs_shm_failed(m);
    gs_shm_begin(m, call);
    if (call->operation == GS_BARRIER) return all_have_put(c, call, 0);
    if (call->count == 0) return GS_OK;
    switch (call->operation) {
    case GS_ALL_REDUCE:
    case GS_REDUCE:
        return reduce(c, call, out, call->operation == GS_ALL_REDUCE || c->rank == call->root);
    case GS_REDUCE_SCATTER:
        return reduce_scatter(c, call, in, out);
    case GS_BROADCAST:
        return broadcast(c, call, out);
    case GS_ALL_GATHER:
    case GS_GATHER:
        return gather(c, call, in, out, call->operation == GS_ALL_GATHER || c->rank == call->root);
    default:
        return spread(c, call, in, out);
    }
}

/* ---- failing, making and freeing ---- */

static void shm_abort(gs_comm *c, const char *message) {
    gs_shm_fail(shm_of(c), GS_E_PEER, message);
}

static void shm_of_processes(gs_comm *c) {
    shm_of(c)->noun = "process";
}

static void shm_free(gs_comm *c) {
    gs_shm *m = shm_of(c);
    atomic_store(&m->header->seats[m->rank].left, true);
    gs_shm_wake(m);
    gs_shm_close(m);
}

static const gs_transport transport_shm = {
    .name = "shm",
    .send = gs_shm_send,
    .recv = gs_shm_recv,
    .collective = shm_collective,
    .abort = shm_abort,
    .free = shm_free,
    .of_processes = shm_of_processes,
};

gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size) {
    gs_shm *m;
    *out = NULL;
    GS_TRY(gs_shm_open(gloo, &m, why, size));
    if (!m) return GS_OK;
    m->comm = (gs_comm){&transport_shm, gloo->rank, gloo->size, gloo->timeout, m};
    *out = &m->comm;
    return GS_OK;
}
