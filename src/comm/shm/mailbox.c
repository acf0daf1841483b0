/* Messages from rank to rank in shared memory. The sender leaves a copy in a mailbox of the two, so it does not wait
 * for the receiver as long as the mailbox holds fewer than GS_SHM_COPIES.
 *
 *     copy     | 7 | 8 |   |   |      sent 9, taken 7: messages 7 and 8 are under way
 *     place    | a | b | c | d |      memory of their own, which grows with the longest message that it held
 *
 * A copy goes to the first free place, not to each in turn: memory that is reused soon is still in the cache.
 */
#include "core/memory.h"
#include "comm/shm/shm.h"
#include "comm/transports.h"

#include <stdio.h>

/* Both sides look for their mailbox, and the first one makes it. NULL: all are taken. The two processes belong to its
 * name: in a collective of processes `from` and `to` are theirs, else those of the world's ranks, which may be the same
 * numbers between other processes. */
static gs_shm_mailbox *mailbox_of(gs_shm *m, const gs_envelope *e, bool sends) {
    _Static_assert(GS_SHM_RANKS <= 1 << 8, "a process has 8 bits of the key");
    const uint64_t from = (uint64_t)(sends ? m->rank : e->peer), to = (uint64_t)(sends ? e->peer : m->rank);
    uint64_t key =
        (uint64_t)gs_is_part(e) << 60 | from << 52 | to << 44 | (uint64_t)e->from << 22 | (uint64_t)e->to;
    uint64_t mixed = (key + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < GS_SHM_MAILBOXES; i++) {
        gs_shm_mailbox *b = &m->mailboxes[((mixed >> 40) + i) % GS_SHM_MAILBOXES];
        uint64_t owner = atomic_load(&b->key);
        if (owner == 0 && atomic_compare_exchange_strong(&b->key, &owner, key + 1)) return b;
        if (owner == key + 1) return b;
    }
    return NULL;
}

static gs_status find_mailbox(gs_shm *m, const gs_envelope *e, bool sends, gs_shm_mailbox **box) {
    if (gs_shm_has_failed(m)) return gs_shm_failed(m);
    gs_shm_begin(m, e->call);
    if ((*box = mailbox_of(m, e, sends))) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s %d: %s: only %d pairs of ranks can send to each other in shared memory",
                   m->noun, m->first + m->rank, gs_operation_name(e->call->operation), GS_SHM_MAILBOXES);
}

/* ---- sending ---- */

static bool has_room(const gs_shm_wait *w, int rank) {
    gs_shm_mailbox *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) - atomic_load(&b->taken) < GS_SHM_COPIES;
}

/* Another process may have written anything here. It must not point outside the mailbox, or outside the segment. */
static bool lies_within(uint64_t at, uint64_t bytes) {
    return at <= GS_SEGMENT_BYTES && bytes <= GS_SEGMENT_BYTES - at;
}

static gs_status damaged(const gs_shm *m, int peer) {
    return gs_fail(GS_E_PEER, "%s %d: its messages shared with %s %d are damaged", m->noun,
                   m->first + m->rank, m->noun, m->first + peer);
}

static int free_place(gs_shm_mailbox *b) {
    bool used[GS_SHM_COPIES] = {false};
    uint32_t sent = atomic_load(&b->sent);
    for (uint32_t i = atomic_load(&b->taken); i != sent; i++)
        used[(unsigned)b->copy[i % GS_SHM_COPIES].slot % GS_SHM_COPIES] = true;
    int place = 0;
    while (place < GS_SHM_COPIES - 1 && used[place]) place++;
    return place;
}

/* Memory for `bytes` in a place; what was there is given back. */
static gs_status grow(gs_shm *m, gs_shm_mailbox *b, int place, size_t bytes) {
    size_t size = gs_segment_pages(bytes + bytes / 4);
    uint64_t at = atomic_fetch_add(&m->header->used, size);
    if (at + size > GS_SEGMENT_BYTES)
        return gs_fail(GS_E_MEMORY, "%s %d: %zu GiB of shared memory are used up", m->noun,
                       m->first + m->rank, GS_SEGMENT_BYTES >> 30);
    GS_TRY(gs_segment_reserve(&m->segment, at, size));
    if (b->place[place].bytes > 0) gs_segment_release(&m->segment, b->place[place].at, b->place[place].bytes);
    b->place[place].at = at;
    b->place[place].bytes = size;
    return GS_OK;
}

gs_status gs_shm_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_shm *m = c->state;
    gs_shm_mailbox *b;
    GS_TRY(find_mailbox(m, e, true, &b));
    gs_shm_wait w = {
        .is = has_room, .shm = m, .from = e->peer, .what = b, .call = e->call, .timeout = c->timeout};
    GS_TRY(gs_shm_wait_for(&w));
    int place = free_place(b);
    uint64_t at = (uint64_t)((unsigned char *)b->small[place] - m->segment.base);
    if (bytes > GS_SHM_SHORT) {
        if (b->place[place].bytes < bytes) GS_TRY(grow(m, b, place, bytes));
        at = b->place[place].at;
    }
    if (!lies_within(at, bytes)) return damaged(m, e->peer);
    gs_copy(m->segment.base + at, data, bytes);
    uint32_t sent = atomic_load(&b->sent);
    b->copy[sent % GS_SHM_COPIES] = (gs_shm_copy){bytes, at, place};
    atomic_store(&b->sent, sent + 1);
    gs_shm_wake(m);
    return GS_OK;
}

/* ---- receiving ---- */

/* One before it was lost, or the ranks make other calls: it cannot be told here, and all say it. */
static gs_status has_other_length(gs_shm *m, const gs_envelope *e, size_t bytes, uint64_t sent) {
    char message[GS_LAST_WORDS];
    const char *what = gs_is_part(e) ? gs_call_text(e->call, false) : gs_operation_name(e->call->operation);
    snprintf(message, sizeof message, "%s %d: %s: " GS_OTHER_LENGTH, m->noun, m->first + m->rank, what, bytes,
             m->noun, m->first + e->peer, (size_t)sent);
    gs_shm_fail(m, GS_E_PEER, message);
    return gs_shm_failed(m);
}

static bool has_copy(const gs_shm_wait *w, int rank) {
    gs_shm_mailbox *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) != atomic_load(&b->taken);
}

gs_status gs_shm_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_shm *m = c->state;
    gs_shm_mailbox *b;
    GS_TRY(find_mailbox(m, e, false, &b));
    gs_shm_wait w = {
        .is = has_copy, .shm = m, .from = e->peer, .what = b, .call = e->call, .timeout = c->timeout};
    GS_TRY(gs_shm_wait_for(&w));
    uint32_t taken = atomic_load(&b->taken);
    const gs_shm_copy *k = &b->copy[taken % GS_SHM_COPIES];
    if (k->bytes != bytes) return has_other_length(m, e, bytes, k->bytes);
    if (!lies_within(k->at, bytes)) return damaged(m, e->peer);
    gs_copy(data, m->segment.base + k->at, bytes);
    atomic_store(&b->taken, taken + 1);
    gs_shm_wake(m);
    return GS_OK;
}
