/* From rank to rank in shared memory: the sender leaves a copy in a box of the two, so it does not wait for the
 * receiver as long as fewer than GS_SHM_LETTERS lie there.
 *
 *     letter   | 7 | 8 |   |   |      sent 9, taken 7: letters 7 and 8 are under way
 *     place    | a | b | c | d |      memory of their own, which grows with the longest letter that it held
 *
 * A letter goes to the first place that is free, not around: what is used again soon is in the cache still.
 */
#include "sync/shm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static size_t page(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

/* The box of `key`, which both sides look for, and the first of them makes. NULL: all are taken. */
static gs_shm_box *box_of(gs_shm *m, uint64_t key) {
    uint64_t mixed = (key + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < GS_SHM_BOXES; i++) {
        gs_shm_box *b = &m->boxes[((mixed >> 40) + i) % GS_SHM_BOXES];
        uint64_t owner = atomic_load(&b->key);
        if (owner == 0 && atomic_compare_exchange_strong(&b->key, &owner, key + 1)) return b;
        if (owner == key + 1) return b;
    }
    return NULL;
}

static gs_status find_box(gs_shm *m, uint64_t key, const gs_call *call, gs_shm_box **box) {
    if (gs_shm_has_failed(m)) return gs_shm_failed(m);
    if ((*box = box_of(m, key))) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s %d: %s: only %d pairs of ranks can send to each other in shared memory",
                   m->noun, m->rank, gs_operation_name(call->operation), GS_SHM_BOXES);
}

/* ---- sending ---- */

static bool has_room(const gs_shm_wait *w, int rank) {
    gs_shm_box *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) - atomic_load(&b->taken) < GS_SHM_LETTERS;
}

static int free_place(gs_shm_box *b) {
    bool used[GS_SHM_LETTERS] = {false};
    uint32_t sent = atomic_load(&b->sent);
    for (uint32_t i = atomic_load(&b->taken); i != sent; i++) used[b->letter[i % GS_SHM_LETTERS].slot] = true;
    int place = 0;
    while (used[place]) place++;
    return place;
}

/* Memory for `bytes` in a place; what was there is given back. */
static gs_status grow(gs_shm *m, gs_shm_box *b, int place, size_t bytes) {
    size_t size = page(bytes + bytes / 4);
    uint64_t at = atomic_fetch_add(&m->header->used, size);
    if (at + size > GS_SEGMENT_BYTES)
        return gs_fail(GS_E_MEMORY, "%s %d: %zu GiB of shared memory are used up", m->noun, m->rank,
                       GS_SEGMENT_BYTES >> 30);
    GS_TRY(gs_segment_reserve(&m->segment, at, size));
    if (b->place[place].bytes > 0) gs_segment_release(&m->segment, b->place[place].at, b->place[place].bytes);
    b->place[place].at = at;
    b->place[place].bytes = size;
    return GS_OK;
}

gs_status gs_shm_send(gs_shm *m, uint64_t key, const void *data, size_t bytes, int to, const gs_call *call,
                      double timeout) {
    gs_shm_box *b;
    GS_TRY(find_box(m, key, call, &b));
    gs_shm_wait w = {.is = has_room, .shm = m, .from = to, .what = b, .call = call, .timeout = timeout};
    GS_TRY(gs_shm_wait_for(&w));
    int place = free_place(b);
    uint64_t at = (uint64_t)((unsigned char *)b->small[place] - m->segment.base);
    if (bytes > GS_SHM_SHORT) {
        if (b->place[place].bytes < bytes) GS_TRY(grow(m, b, place, bytes));
        at = b->place[place].at;
    }
    memcpy(m->segment.base + at, data, bytes);
    uint32_t sent = atomic_load(&b->sent);
    b->letter[sent % GS_SHM_LETTERS] = (gs_shm_letter){bytes, at, place};
    atomic_store(&b->sent, sent + 1);
    gs_shm_wake(m);
    return GS_OK;
}

/* ---- receiving ---- */

static bool has_letter(const gs_shm_wait *w, int rank) {
    gs_shm_box *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) != atomic_load(&b->taken);
}

gs_status gs_shm_recv(gs_shm *m, uint64_t key, void *data, size_t bytes, int from, const gs_call *call,
                      double timeout) {
    gs_shm_box *b;
    GS_TRY(find_box(m, key, call, &b));
    gs_shm_wait w = {.is = has_letter, .shm = m, .from = from, .what = b, .call = call, .timeout = timeout};
    GS_TRY(gs_shm_wait_for(&w));
    uint32_t taken = atomic_load(&b->taken);
    const gs_shm_letter *l = &b->letter[taken % GS_SHM_LETTERS];
    if (l->bytes != bytes)
        gs_bug("%s %d receives %zu bytes from %s %d, which sent %" PRIu64, m->noun, m->rank, bytes, m->noun,
               from, l->bytes);
    memcpy(data, m->segment.base + l->at, bytes);
    atomic_store(&b->taken, taken + 1);
    gs_shm_wake(m);
    return GS_OK;
}
