/* Ranks as threads of one process: they see each other's memory, so nothing is sent, only pointers are shown.
 *
 * Each collective has the same shape: every rank shows its buffer, all meet, every rank does its part of the
 * work on everybody's buffers, all meet again, so that nobody changes a buffer that another still reads.
 *
 * all_reduce, for 3 ranks: each sums one slice over all ranks and writes the sum to all of them.
 *
 *     rank 0  | a0 | b0 | c0 |        | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *     rank 1  | a1 | b1 | c1 |   ->   | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *     rank 2  | a2 | b2 | c2 |        | a0+a1+a2 | b0+b1+b2 | c0+c1+c2 |
 *               ^    ^    ^
 *               |    |    rank 2 sums this slice
 *               |    rank 1
 *               rank 0
 *
 * Each sum is computed once, in the order of the ranks, so every rank gets the same bits.
 */
#include "sync/team.h"
#include "sync/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_FLOATS = GS_LINE / 4, /* slices end on whole cache lines, or two cores would fight over one */
    BLOCK_FLOATS = 2048,       /* a sum is built up in 8 KiB, which stay in the first-level cache */
};

/* ---- meeting ---- */

static void show(gs_comm *c, const char *operation, const void *read, void *write, size_t bytes, int root) {
    gs_seat *mine = &((gs_team *)c->state)->seats[c->rank];
    mine->operation = operation;
    mine->read = read;
    mine->write = write;
    mine->bytes = bytes;
    mine->root = root;
}

/* Show what this rank brings, meet, and check that all call the same: anything else is a mistake in the
 * program. */
static gs_status begin(gs_comm *c, const char *operation, const void *read, void *write, size_t bytes,
                       int root) {
    gs_team *t = c->state;
    show(c, operation, read, write, bytes, root);
    GS_TRY(gs_team_meet(c, false));
    for (int r = 0; r < t->size; r++) {
        const gs_seat *s = &t->seats[r];
        if (strcmp(s->operation, operation) == 0 && s->bytes == bytes && s->root == root) continue;
        char mine[80], other[80];
        gs_seat_describe(&t->seats[c->rank], mine, sizeof mine);
        gs_seat_describe(s, other, sizeof other);
        gs_bug("rank %d calls %s (root %d), rank %d calls %s (root %d)", t->first_rank + c->rank, mine, root,
               t->first_rank + r, other, s->root);
    }
    return GS_OK;
}

/* All have done their part. */
static gs_status end(gs_comm *c) {
    return gs_team_meet(c, true);
}

/* ---- collectives ---- */

/* Sum elements first .. last-1 over all ranks, and write the sum to ranks 0 .. targets-1. */
static void sum_slice(const gs_team *t, size_t first, size_t last, int targets) {
    _Alignas(GS_LINE) float sum[BLOCK_FLOATS];
    for (size_t at = first; at < last; at += BLOCK_FLOATS) {
        size_t n = last - at < BLOCK_FLOATS ? last - at : BLOCK_FLOATS;
        memcpy(sum, (const float *)t->seats[0].read + at, n * sizeof *sum);
        for (int r = 1; r < t->size; r++) {
            const float *x = (const float *)t->seats[r].read + at;
            for (size_t i = 0; i < n; i++) sum[i] += x[i];
        }
        for (int r = 0; r < targets; r++) memcpy((float *)t->seats[r].write + at, sum, n * sizeof *sum);
    }
}

static gs_status reduce(gs_comm *c, float *data, size_t count, int targets) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, "all_reduce", data, data, count * sizeof *data, 0));
    size_t lines = (count + LINE_FLOATS - 1) / LINE_FLOATS;
    size_t first = lines * (size_t)c->rank / (size_t)t->size * LINE_FLOATS;
    size_t last = lines * ((size_t)c->rank + 1) / (size_t)t->size * LINE_FLOATS;
    if (t->size > 1) sum_slice(t, first, last < count ? last : count, targets);
    return end(c);
}

static gs_status threads_all_reduce(gs_comm *c, float *data, size_t count) {
    return reduce(c, data, count, c->size);
}

gs_status gs_threads_reduce(gs_comm *c, float *data, size_t count) {
    return reduce(c, data, count, 1);
}

static gs_status threads_broadcast(gs_comm *c, void *data, size_t bytes, int root) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, "broadcast", data, data, bytes, root));
    if (c->rank != root && bytes > 0) memcpy(data, t->seats[root].read, bytes);
    return end(c);
}

static gs_status threads_all_gather(gs_comm *c, const void *mine, void *all, size_t bytes) {
    const gs_team *t = c->state;
    GS_TRY(begin(c, "all_gather", mine, all, bytes, 0));
    for (int r = 0; r < t->size && bytes > 0; r++) {
        unsigned char *to = (unsigned char *)all + (size_t)r * bytes;
        if (to != t->seats[r].read) memcpy(to, t->seats[r].read, bytes);
    }
    return end(c);
}

static gs_status threads_barrier(gs_comm *c) {
    show(c, "barrier", NULL, NULL, 0, 0);
    return gs_team_meet(c, false);
}

/* ---- from rank to rank: the sender leaves a copy, so it never waits ---- */

static gs_status threads_send(gs_comm *c, const void *data, size_t bytes, int to) {
    gs_team *t = c->state;
    gs_check_peer(c, "sends to", to);
    if (atomic_load(&t->failed)) return gs_team_failed(t);
    gs_letter *l = malloc(sizeof *l + bytes);
    if (!l)
        return gs_fail(GS_E_MEMORY, "rank %d: no memory for a message of %zu bytes to rank %d",
                       t->first_rank + c->rank, bytes, t->first_rank + to);
    l->next = NULL;
    l->bytes = bytes;
    if (bytes > 0) memcpy(l->data, data, bytes);
    pthread_mutex_lock(&t->lock);
    gs_post *p = &t->posts[c->rank * t->size + to];
    if (p->first)
        p->last->next = l;
    else
        p->first = l;
    p->last = l;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return GS_OK;
}

/* The oldest letter from rank `from`; NULL when the team has failed. */
static gs_letter *wait_for_letter(gs_comm *c, size_t bytes, int from) {
    gs_team *t = c->state;
    gs_post *p = &t->posts[from * t->size + c->rank];
    struct timespec until;
    const struct timespec *deadline = gs_team_deadline(c, &until);
    bool in_time = true;
    pthread_mutex_lock(&t->lock);
    while (!p->first && !atomic_load(&t->failed)) {
        bool gone = t->seats[from].left;
        if (in_time && !gone) {
            in_time = gs_team_sleep_locked(t, deadline);
            continue;
        }
        char message[GS_TEAM_MESSAGE], within[40] = "";
        if (!gone) snprintf(within, sizeof within, " within %g s", c->timeout);
        snprintf(message, sizeof message, "rank %d: recv of %zu bytes: rank %d %s%s", t->first_rank + c->rank,
                 bytes, t->first_rank + from, gone ? "ended without sending" : "sent nothing", within);
        gs_team_fail_locked(t, message);
    }
    gs_letter *l = atomic_load(&t->failed) ? NULL : p->first;
    if (l) p->first = l->next;
    pthread_mutex_unlock(&t->lock);
    return l;
}

static gs_status threads_recv(gs_comm *c, void *data, size_t bytes, int from) {
    const gs_team *t = c->state;
    gs_check_peer(c, "receives from", from);
    gs_letter *l = wait_for_letter(c, bytes, from);
    if (!l) return gs_team_failed(t);
    if (l->bytes != bytes)
        gs_bug("rank %d receives %zu bytes from rank %d, which sent %zu", t->first_rank + c->rank, bytes,
               t->first_rank + from, l->bytes);
    if (bytes > 0) memcpy(data, l->data, bytes);
    free(l);
    return GS_OK;
}

/* ---- failing, making and freeing ---- */

void gs_threads_fail(gs_comm *c, const char *message) {
    gs_team_fail(c->state, message);
}

gs_status gs_threads_failed(const gs_comm *c) {
    return gs_team_failed(c->state);
}

static void threads_abort(gs_comm *c, const char *reason) {
    gs_team *t = c->state;
    char message[GS_TEAM_MESSAGE];
    snprintf(message, sizeof message, "rank %d: %s", t->first_rank + c->rank, reason);
    gs_team_fail(t, message);
}

static void threads_free(gs_comm *c) {
    gs_team_leave(c->state, c->rank);
    free(c);
}

static const gs_transport transport_threads = {
    .name = "threads",
    .send = threads_send,
    .recv = threads_recv,
    .broadcast = threads_broadcast,
    .all_reduce = threads_all_reduce,
    .all_gather = threads_all_gather,
    .barrier = threads_barrier,
    .abort = threads_abort,
    .free = threads_free,
};

gs_status gs_threads_create(int size, int first, double timeout, gs_comm **comms) {
    if (size < 1) gs_bug("gs_comm_threads_create: size is %d", size);
    if (!(timeout > 0)) return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", timeout);
    gs_team *t = gs_team_create(size, first);
    int made = 0;
    while (t && made < size && (comms[made] = malloc(sizeof *comms[made]))) {
        *comms[made] = (gs_comm){&transport_threads, made, size, timeout, t};
        made++;
    }
    if (made == size) return GS_OK;
    for (int r = 0; t && r < size; r++) gs_team_leave(t, r);
    while (made > 0) free(comms[--made]);
    return gs_fail(GS_E_MEMORY, "no memory for a team of %d threads", size);
}

gs_status gs_comm_threads_create(int size, double timeout, gs_comm **comms) {
    return gs_threads_create(size, 0, timeout, comms);
}
