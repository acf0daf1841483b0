/* Ranks as processes of one machine. They move all data through shared memory, in blocks.
 *
 * Each rank has a stage in shared memory, with two halves. A collective is a sequence of blocks. In each block a rank
 * puts the part of its array that the others need into one half; all ranks meet at a barrier; then each takes what it
 * needs from the others' halves. The next block uses the other halves, so one barrier per block is enough: a rank takes
 * block k before the barrier of block k + 1, and no half is refilled before that barrier.
 *
 * all_reduce has two barriers per block. Each rank sums one slice of the block over all ranks, like threads
 * (threads/threads.c), and the sums return through the stages. For 2 ranks and a block of slices a, b:
 *
 *                  put          meet   sum, put      meet   take
 *     rank 0       b0 -> stage         a = a0 + a1          b <- stage of rank 1
 *     rank 1       a1 -> stage         b = b0 + b1          a <- stage of rank 0
 *
 * A short array takes one barrier: it is put whole, and every rank sums all of it. Both methods add in rank order, so
 * all ranks get the same bits, which are also those of threads/threads.c.
 *
 * With N ranks and B bytes a rank copies (N - 1) / N B bytes out, reads B bytes to sum, from the stages and its own
 * array, and copies (N - 1) / N B bytes in.
 */
#include "core/process.h"
#include "comm/gloo/state.h"
#include "comm/rank_info.h"
#include "comm/shm/shm.h"
#include "core/clock.h"
#include "core/shard.h"
#include "core/text.h"
#include "core/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SHORT = 16 * 1024, /* maximum size of an array that every rank sums itself, in bytes */
    BUILD = 1024,      /* bytes of a sum built up at a time; they fit into the first-level cache */
    SLICE_MS = 100,    /* of sleep between checks for lost ranks */
};

/* ---- memory that several processes of one machine share ----
 *
 * A memfd (Linux 3.17) is a file without a name, which another process opens as /proc/PID/fd/N. Unlike a file in
 * /dev/shm it cannot be left behind: it vanishes with the last process that uses it, even if that process is killed.
 */

/* Address space; pages are allocated when they are reserved. */
#define SEGMENT_BYTES ((size_t)1 << 36)

/* Round up to whole pages. */
static size_t pages(size_t bytes) {
    return (bytes + 4095) / 4096 * 4096;
}

static gs_status map(gs_segment *s, int file) {
    void *base = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED) {
        gs_status status = gs_fail(GS_E_MEMORY, "cannot map %zu GiB of addresses for shared memory: %s",
                                   SEGMENT_BYTES >> 30, strerror(errno));
        close(file);
        return status;
    }
    *s = (gs_segment){base, file};
    return GS_OK;
}

/* Make a segment, filled with zeros. */
static gs_status create_segment(gs_segment *s) {
    const int file = memfd_create("gradsum", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)SEGMENT_BYTES) == 0) return map(s, file);
    const gs_status status = gs_fail(GS_E_MEMORY, "cannot make shared memory: %s", strerror(errno));
    if (file >= 0) close(file);
    return status;
}

/* Map the segment that process `pid` has open as `file`. GS_E_FILE: it is missing or not permitted. */
static gs_status open_segment(gs_segment *s, long pid, int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, file);
    int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return gs_fail(GS_E_FILE, "cannot open the shared memory of process %ld: %s", pid, strerror(errno));
    return map(s, own);
}

/* Allocate memory for these bytes now; otherwise a process that touches them when memory is exhausted would be killed.
 * Reserving bytes again is harmless. GS_E_MEMORY. */
static gs_status reserve(const gs_segment *s, size_t at, size_t bytes) {
    int failed;
    do failed = fallocate(s->file, 0, (off_t)at, (off_t)bytes);
    while (failed && errno == EINTR);
    if (!failed) return GS_OK;
    return gs_fail(GS_E_MEMORY, "cannot get %zu bytes of shared memory: %s", bytes, strerror(errno));
}

/* Release the whole pages among these bytes. */
static void release(const gs_segment *s, size_t at, size_t bytes) {
    /* if this fails, the memory is released at the end of the run */
    (void)!fallocate(s->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

/* ---- waiting and failing ----
 *
 * A waiting rank spins briefly (core/wait.h), because the others usually arrive within microseconds; then it sleeps. A
 * rank that changes something wakes the sleepers. A killed process wakes no one, so a sleeper wakes up ten times a
 * second by itself and checks that the awaited ranks are alive.
 */

/* A wait for ranks; is(wait, rank) says whether the wait for `rank` is over. */
typedef struct shm_wait {
    bool (*is)(const struct shm_wait *, int rank);
    gs_shm *shm;
    int from;            /* the only awaited rank; -1: all */
    uint32_t want;       /* for `is` */
    void *what;          /* for `is` */
    const gs_call *call; /* the waiting operation, for messages */
    double timeout;
} shm_wait;

/* ---- sleeping: `events` counts changes, and sleepers wait until it changes ---- */

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time) {
    syscall(SYS_futex, (uint32_t *)word, operation, value, time, NULL, 0);
}

/* Called when something has changed: wake the sleepers. */
static void wake(gs_shm *m) {
    gs_shm_header *h = m->header;
    if (atomic_load(&h->sleepers) == 0) return;
    atomic_fetch_add(&h->events, 1);
    futex(&h->events, FUTEX_WAKE, INT32_MAX, NULL);
}

/* ---- failing ---- */

static bool has_failed(const gs_shm *m) {
    return atomic_load(&m->header->failed) != 0;
}

static gs_status failure(const gs_shm *m) {
    const gs_shm_header *h = m->header;
    for (int i = 0; atomic_load(&h->failed) == 1 && i < 1000; i++) sched_yield();
    if (atomic_load(&h->failed) == 2) return gs_fail(h->code, "%s", h->message);
    return gs_fail(GS_E_PEER, "%s %d: another %s failed and was lost before it could say why", m->noun,
                   m->first + m->rank, m->noun);
}

/* Make every later call fail with this message; the first message is kept. */
static void fail(gs_shm *m, gs_status code, const char *message) {
    gs_shm_header *h = m->header;
    int none = 0;
    if (atomic_compare_exchange_strong(&h->failed, &none, 1)) {
        h->code = code;
        snprintf(h->message, sizeof h->message, "%s", message);
        atomic_store(&h->failed, 2);
    }
    wake(m);
}

static bool is_there(const shm_wait *w) {
    if (w->from >= 0) return w->is(w, w->from);
    for (int r = 0; r < w->shm->size; r++)
        if (!w->is(w, r)) return false;
    return true;
}

static bool is_over(const shm_wait *w) {
    return is_there(w) || has_failed(w->shm);
}

/* Sleep until something changes, or for a slice. */
static void sleep_once(const shm_wait *w) {
    gs_shm_header *h = w->shm->header;
    atomic_fetch_add(&h->sleepers, 1);
    uint32_t events = atomic_load(&h->events);
    if (!is_over(w))
        futex(&h->events, FUTEX_WAIT, events, &(struct timespec){.tv_nsec = SLICE_MS * 1000000L});
    atomic_fetch_sub(&h->sleepers, 1);
}

/* ---- which ranks are missing, and why ---- */

static bool is_awaited(const shm_wait *w, int rank) {
    return rank != w->shm->rank && (w->from < 0 || w->from == rank) && !w->is(w, rank);
}

/* Show this wait to the others. This is done again whenever a sleeper wakes up, because several threads of a process
 * may wait, and one that finishes hides the process's waits. */
static void show_waits(const shm_wait *w, double begin) {
    const gs_shm *m = w->shm;
    for (int r = 0; r < m->size; r++) {
        if (r == m->rank || (w->from >= 0 && w->from != r)) continue;
        _Atomic uint64_t *since = &m->waits[m->rank * m->size + r];
        if (w->is(w, r))
            atomic_store(since, 0);
        else if (atomic_load(since) == 0)
            atomic_store(since, (uint64_t)(begin * 1e9));
    }
}

static void explain_late(const shm_wait *w, const bool *awaited, char *message, size_t size) {
    const gs_shm *m = w->shm;
    size_t pairs = (size_t)m->size * (size_t)m->size;
    _Atomic uint64_t last[GS_SHM_RANKS];
    double now = gs_seconds(), *age = calloc(pairs, sizeof *age);
    for (size_t i = 0; age && i < pairs; i++) {
        uint64_t since = atomic_load(&m->waits[i]);
        age[i] = since == 0 ? 0 : now - (double)since * 1e-9;
    }
    for (int r = 0; r < m->size; r++) last[r] = atomic_load(&m->header->slots[r].last);
    const gs_waits late = {.noun = m->noun,
                           .first = m->first,
                           .size = m->size,
                           .rank = m->rank,
                           .timeout = w->timeout < m->comm.timeout ? w->timeout : m->comm.timeout,
                           .awaited = awaited,
                           .age = age,
                           .pid = m->pid,
                           .last = last,
                           .did = "last began"};
    if (age) gs_waits_explain(&late, message, size);
    free(age);
}

/* True if the wait has lasted too long and must be given up. *told: the others have been told of it. They are told
 * after the comm's timeout, even if this wait may take longer. */
static bool is_late(const shm_wait *w, double waited, bool *told) {
    gs_shm *m = w->shm;
    bool stopped = false;
    int awaited[GS_SHM_RANKS], count = 0;
    if (waited < w->timeout && waited < m->comm.timeout) return false;
    for (int r = 0; r < m->size && m->all; r++) {
        if (!is_awaited(w, r)) continue;
        stopped = stopped || gs_process_is_stopped(m->pid[r]);
        awaited[count++] = m->first + r;
    }
    if (!*told && count > 0) gs_gloo_tell_wait(m->all, awaited, count);
    *told = true;
    if (m->all && gs_gloo_check_peers(m->all) != GS_OK) fail(m, GS_E_PEER, gs_message());
    return stopped || waited >= w->timeout + m->grace;
}

/* Make all ranks fail if an awaited rank has left, was lost, or is late. */
static void look_for_losses(const shm_wait *w, bool late) {
    gs_shm *m = w->shm;
    bool awaited[GS_SHM_RANKS], left[GS_SHM_RANKS], ended[GS_SHM_RANKS];
    int missing = 0, gone = 0, lost = 0;
    char where[GS_HOST] = "?", message[GS_FAILURE_TEXT];
    for (int r = 0; r < m->size; r++) {
        awaited[r] = is_awaited(w, r);
        left[r] = awaited[r] && atomic_load(&m->header->slots[r].left);
        ended[r] = awaited[r] && gs_process_watched_has_ended(m->watch[r]);
        awaited[r] = awaited[r] && is_awaited(w, r); /* again: it may have arrived before it left */
        missing += awaited[r];
        gone += left[r] = left[r] && awaited[r];
        lost += ended[r] = ended[r] && awaited[r];
    }
    if (gone + lost == 0 && !(late && missing > 0)) return;
    snprintf(message, sizeof message, "%s %d: %s: ", m->noun, m->first + m->rank,
             gs_call_text(w->call, false));
    if (gone > 0) {
        gs_append_ranks(message, sizeof message, m->noun, m->first, m->size, left);
        gs_append(message, sizeof message, " ended without it");
    } else if (lost > 0) {
        gethostname(where, sizeof where - 1);
        gs_append_ranks(message, sizeof message, m->noun, m->first, m->size, ended);
        gs_append(message, sizeof message, " %s lost (the process has ended) on host %s",
                  lost > 1 ? "were" : "was", where);
    } else {
        explain_late(w, awaited, message, sizeof message);
    }
    fail(m, GS_E_PEER, message);
}

/* ---- waiting ---- */

/* Wait. If a rank is lost, fails, or does not arrive within the timeout, all ranks fail. */
static gs_status wait_for(const shm_wait *w) {
    const gs_shm *m = w->shm;
    gs_wait wait = gs_wait_begin(!m->spins);
    bool told = false;
    do {
        if (is_over(w)) goto over;
    } while (gs_wait_a_moment(&wait));
    const double begin = gs_awake_seconds();
    for (double waited = 0; !is_over(w);) {
        show_waits(w, gs_seconds() - waited);
        sleep_once(w);
        waited = gs_awake_seconds() - begin;
        if (!is_over(w)) look_for_losses(w, is_late(w, waited, &told));
    }
    for (int r = 0; r < m->size; r++)
        if (w->from < 0 || w->from == r) atomic_store(&m->waits[m->rank * m->size + r], 0);
over:
    return is_there(w) ? GS_OK : failure(m);
}

/* ---- barrier ---- */

static bool has_arrived(const shm_wait *w, int rank) {
    uint32_t arrived = atomic_load(&w->shm->header->slots[rank].arrived);
    return (int32_t)(arrived - w->want) >= 0;
}

/* Wait until all processes are here. */
static gs_status barrier(gs_shm *m, const gs_call *call, double timeout) {
    if (has_failed(m)) return failure(m);
    shm_wait w = {
        .is = has_arrived, .shm = m, .from = -1, .want = ++m->barriers, .call = call, .timeout = timeout};
    atomic_store(&m->header->slots[m->rank].arrived, m->barriers);
    wake(m);
    return wait_for(&w);
}

/* Record the operation that begins, for failure messages. */
static void begin(const gs_shm *m, const gs_call *call) {
    atomic_store_explicit(&m->header->slots[m->rank].last, gs_call_pack(call), memory_order_relaxed);
}

/* Show a collective's call to the others, which compare it after the collective's first barrier. By then a fast rank
 * may already show its next call, so there is room for two; no rank can be two collectives ahead. */
static void show(gs_shm *m, const gs_call *call) {
    m->header->slots[m->rank].call[++m->calls % 2] = *call;
}

static void compare(const gs_shm *m, const gs_call *call) {
    for (int r = 0; r < m->size; r++)
        gs_call_compare(call, &m->header->slots[r].call[m->calls % 2], m->noun, m->first + m->rank,
                        m->first + r);
}

/* ---- messages ----
 *
 * The sender leaves a copy in the mailbox of the two ranks. It waits only if GS_SHM_COPIES copies are already there.
 *
 *     copy     | 7 | 8 |   |   |      sent = 9, taken = 7: messages 7 and 8 are under way
 *     buffer   | a | b | c | d |      each grows to the longest message that it has held
 *
 * A copy uses the first free buffer, not the next one, because memory that is reused soon is still in the cache.
 */

/* The mailbox of a sender and a receiver, made by the first of them to need it. NULL: all mailboxes are taken. The key
 * contains both processes, because `from` and `to` alone are ambiguous: in a collective of processes they are
 * processes, otherwise ranks of the world. */
static gs_shm_mailbox *mailbox_of(gs_shm *m, const gs_envelope *e, bool sends) {
    _Static_assert(GS_SHM_RANKS <= 1 << 8, "a process has 8 bits of the key");
    const uint64_t from = (uint64_t)(sends ? m->rank : e->peer), to = (uint64_t)(sends ? e->peer : m->rank);
    uint64_t key = (uint64_t)gs_is_collective(e) << 60 | from << 52 | to << 44 | (uint64_t)e->from << 22 |
                   (uint64_t)e->to;
    uint64_t mixed = (key + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < GS_SHM_MAILBOXES; i++) {
        gs_shm_mailbox *b = &m->mailboxes[((mixed >> 40) + i) % GS_SHM_MAILBOXES];
        uint64_t owner = atomic_load(&b->key);
        if (owner == 0 && atomic_compare_exchange_strong(&b->key, &owner, key + 1)) return b;
        if (owner == key + 1) return b;
    }
    return NULL;
}

static bool has_room(const shm_wait *w, int rank) {
    gs_shm_mailbox *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) - atomic_load(&b->taken) < GS_SHM_COPIES;
}

static bool has_copy(const shm_wait *w, int rank) {
    gs_shm_mailbox *b = w->what;
    (void)rank;
    return atomic_load(&b->sent) != atomic_load(&b->taken);
}

/* Wait until the mailbox has room for a copy if this rank sends, or else until it contains a copy. */
static gs_status wait_at_mailbox(gs_comm *c, const gs_envelope *e, bool sends, gs_shm_mailbox **box) {
    gs_shm *m = c->state;
    shm_wait w = {.shm = m, .from = e->peer, .call = e->call, .timeout = c->timeout};
    if (has_failed(m)) return failure(m);
    begin(m, e->call);
    w.is = sends ? has_room : has_copy;
    w.what = *box = mailbox_of(m, e, sends);
    if (*box) return wait_for(&w);
    return gs_fail(GS_E_MEMORY, "%s %d: %s: only %d pairs of ranks can send to each other in shared memory",
                   m->noun, m->first + m->rank, gs_operation_name(e->call->operation), GS_SHM_MAILBOXES);
}

/* ---- sending ---- */

/* Check an offset, which another process may have overwritten: it must not point outside the segment. */
static bool lies_within(uint64_t at, uint64_t bytes) {
    return at <= SEGMENT_BYTES && bytes <= SEGMENT_BYTES - at;
}

static gs_status damaged(const gs_shm *m, int peer) {
    return gs_fail(GS_E_PEER, "%s %d: its messages shared with %s %d are damaged", m->noun,
                   m->first + m->rank, m->noun, m->first + peer);
}

static int free_buffer(gs_shm_mailbox *b) {
    bool used[GS_SHM_COPIES] = {false};
    uint32_t sent = atomic_load(&b->sent);
    for (uint32_t i = atomic_load(&b->taken); i != sent; i++)
        used[(unsigned)b->copy[i % GS_SHM_COPIES].buffer % GS_SHM_COPIES] = true;
    int buffer = 0;
    while (buffer < GS_SHM_COPIES - 1 && used[buffer]) buffer++;
    return buffer;
}

/* Give the buffer memory for `bytes` bytes, in place of its old memory. */
static gs_status grow(gs_shm *m, gs_shm_mailbox *b, int buffer, size_t bytes) {
    size_t size = pages(bytes + bytes / 4);
    uint64_t at = atomic_fetch_add(&m->header->used, size);
    if (at + size > SEGMENT_BYTES)
        return gs_fail(GS_E_MEMORY, "%s %d: %zu GiB of shared memory are used up", m->noun,
                       m->first + m->rank, SEGMENT_BYTES >> 30);
    GS_TRY(reserve(&m->segment, at, size));
    if (b->buffer[buffer].bytes > 0) release(&m->segment, b->buffer[buffer].at, b->buffer[buffer].bytes);
    b->buffer[buffer].at = at;
    b->buffer[buffer].bytes = size;
    return GS_OK;
}

static gs_status shm_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    gs_shm *m = c->state;
    gs_shm_mailbox *b = NULL;
    GS_TRY(wait_at_mailbox(c, e, true, &b));
    int buffer = free_buffer(b);
    uint64_t at = (uint64_t)((unsigned char *)b->small[buffer] - m->segment.base);
    if (bytes > GS_SHM_SHORT) {
        if (b->buffer[buffer].bytes < bytes) GS_TRY(grow(m, b, buffer, bytes));
        at = b->buffer[buffer].at;
    }
    if (!lies_within(at, bytes)) return damaged(m, e->peer);
    gs_copy(m->segment.base + at, data, bytes);
    uint32_t sent = atomic_load(&b->sent);
    b->copy[sent % GS_SHM_COPIES] = (gs_shm_copy){bytes, at, buffer};
    atomic_store(&b->sent, sent + 1);
    wake(m);
    return GS_OK;
}

/* ---- receiving ---- */

static gs_status has_other_length(gs_shm *m, const gs_envelope *e, size_t bytes, uint64_t sent) {
    char message[GS_FAILURE_TEXT];
    const char *what =
        gs_is_collective(e) ? gs_call_text(e->call, false) : gs_operation_name(e->call->operation);
    snprintf(message, sizeof message, "%s %d: %s: " GS_LENGTH_MISMATCH, m->noun, m->first + m->rank, what,
             bytes, m->noun, m->first + e->peer, (size_t)sent);
    fail(m, GS_E_PEER, message);
    return failure(m);
}

static gs_status shm_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    gs_shm *m = c->state;
    gs_shm_mailbox *b = NULL;
    GS_TRY(wait_at_mailbox(c, e, false, &b));
    uint32_t taken = atomic_load(&b->taken);
    const gs_shm_copy *k = &b->copy[taken % GS_SHM_COPIES];
    if (k->bytes != bytes) return has_other_length(m, e, bytes, k->bytes);
    if (!lies_within(k->at, bytes)) return damaged(m, e->peer);
    gs_copy(data, m->segment.base + k->at, bytes);
    atomic_store(&b->taken, taken + 1);
    wake(m);
    return GS_OK;
}

/* ---- blocks ---- */

/* The half of a rank's stage for the current block. */
static unsigned char *half_of(const gs_shm *m, int rank) {
    return m->stage + ((size_t)rank * 2 + m->blocks % 2) * m->half;
}

static unsigned char *place(const void *buffer, size_t at) {
    return (unsigned char *)buffer + at;
}

/* Meet after all have put their part of a block, which begins at byte `at` of the array. */
static gs_status all_have_put(gs_comm *c, const gs_call *call, size_t at) {
    gs_shm *m = c->state;
    if (at == 0) show(m, call);
    GS_TRY(barrier(m, call, c->timeout));
    if (at == 0) compare(m, call);
    return GS_OK;
}

/* ---- reductions ---- */

/* Reduce the elements of all ranks, in rank order, into `to`, and into `also` unless that is NULL. This rank's elements
 * are at `own`, the others' at byte `at` of their halves. */
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

/* Reduce one block: each rank reduces its slice, then the ranks that `take` collect all slices. */
static gs_status reduce_block(gs_comm *c, const gs_call *call, unsigned char *data, size_t at, size_t bytes,
                              bool take) {
    gs_shm *m = c->state;
    unsigned char *mine = half_of(m, m->rank);
    gs_shard own = slice_of(m, bytes, m->rank);
    for (int r = 0; r < m->size; r++) {
        gs_shard s = slice_of(m, bytes, r);
        if (r != m->rank) gs_copy_unless_there(mine + s.first, data + s.first, s.count);
    }
    GS_TRY(all_have_put(c, call, at));
    reduce_stages(m, call, data + own.first, own.first, mine + own.first, take ? data + own.first : NULL,
                  own.count);
    GS_TRY(barrier(m, call, c->timeout));
    for (int r = 0; take && r < m->size; r++) {
        gs_shard s = slice_of(m, bytes, r);
        if (r != m->rank) gs_copy_unless_there(data + s.first, half_of(m, r) + s.first, s.count);
    }
    m->blocks++;
    return GS_OK;
}

static gs_status reduce_short(gs_comm *c, const gs_call *call, unsigned char *data, size_t bytes, bool take) {
    gs_shm *m = c->state;
    gs_copy_unless_there(half_of(m, m->rank), data, bytes);
    GS_TRY(all_have_put(c, call, 0));
    if (take) reduce_stages(m, call, data, 0, data, NULL, bytes);
    m->blocks++;
    return GS_OK;
}

static gs_status reduce(gs_comm *c, const gs_call *call, void *data, bool take) {
    const gs_shm *m = c->state;
    size_t bytes = call->count * gs_type_size(call->type);
    if (bytes <= SHORT) return reduce_short(c, call, data, bytes, take);
    for (size_t at = 0; at < bytes; at += m->half)
        GS_TRY(reduce_block(c, call, place(data, at), at, gs_smaller(bytes - at, m->half), take));
    return GS_OK;
}

/* Bytes of each rank's part if a half is divided among all ranks. */
static size_t part_of_half(const gs_shm *m) {
    return m->half / (size_t)m->size / GS_SHM_LINE * GS_SHM_LINE;
}

static gs_status reduce_scatter(gs_comm *c, const gs_call *call, const void *all, void *mine) {
    gs_shm *m = c->state;
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

/* Collectives without reduction: a rank puts into its half either the same data for all, or a part for each. In
 * broadcast and scatter only the root puts data; in gather only the root takes them. */
static gs_status move(gs_comm *c, const gs_call *call, const void *in, void *out) {
    gs_shm *m = c->state;
    const gs_operation o = call->operation;
    const bool each = o == GS_SCATTER || o == GS_ALL_TO_ALL, of_root = o == GS_SCATTER || o == GS_BROADCAST;
    const bool gives = !of_root || m->rank == call->root, takes = o != GS_GATHER || m->rank == call->root;
    const size_t bytes = call->count * gs_type_size(call->type), step = each ? part_of_half(m) : m->half;
    for (size_t at = 0; at < bytes; at += step) {
        const size_t n = gs_smaller(bytes - at, step);
        for (int r = 0; gives && r < (each ? m->size : 1); r++)
            gs_copy_unless_there(half_of(m, m->rank) + (size_t)r * step, place(in, (size_t)r * bytes + at),
                                 n);
        GS_TRY(all_have_put(c, call, at));
        for (int r = 0; takes && r < m->size; r++) {
            const unsigned char *from = each           ? half_of(m, r) + (size_t)m->rank * step
                                        : r == m->rank ? place(in, at)
                                                       : half_of(m, r);
            if (!of_root || r == call->root)
                gs_copy_unless_there(place(out, (of_root ? 0 : (size_t)r * bytes) + at), from, n);
        }
        m->blocks++;
    }
    return GS_OK;
}

static gs_status shm_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const gs_shm *m = c->state;
    if (has_failed(m)) return failure(m);
    begin(m, call);
    if (call->operation == GS_BARRIER) return all_have_put(c, call, 0);
    if (call->count == 0) return GS_OK;
    switch (call->operation) {
    case GS_ALL_REDUCE:
    case GS_REDUCE:
        return reduce(c, call, out, call->operation == GS_ALL_REDUCE || c->rank == call->root);
    case GS_REDUCE_SCATTER:
        return reduce_scatter(c, call, in, out);
    default:
        return move(c, call, in, out);
    }
}

/* ---- opening a segment, by processes that are connected over Gloo ----
 *
 *     1. all        send their machine (gs_machine_id) and process id, to see if they are on one machine
 *     2. rank 0     makes the segment, and sends its file descriptor
 *     3. all        open it, and report whether they could
 */

enum { HALF = 256 * 1024, TEXT = 200 };

/* True if each process has a CPU to itself, so that a spinning process does not slow the others. */
static bool has_a_cpu_each(const gs_process_info *all, int size) {
    cpu_set_t together = all[0].cpus;
    for (int r = 1; r < size; r++) CPU_OR(&together, &together, &all[r].cpus);
    for (int r = 0; r < size; r++)
        if (all[r].quota > 0 && size > all[r].quota) return false;
    return size <= CPU_COUNT(&together);
}

static gs_status learn_machines(gs_comm *gloo, gs_shm *m, char *why, size_t size) {
    gs_process_info *all;
    const gs_status status = gs_processes_learn(gloo, NULL, &all);
    for (int r = 0; status == GS_OK && r < gloo->size; r++) {
        m->pid[r] = (long)all[r].pid;
        if (!gs_is_same_machine(&all[r], &all[0]) && !why[0])
            snprintf(why, size, "rank %d and rank 0 run on different machines, or in different containers",
                     r);
    }
    m->spins = status == GS_OK && has_a_cpu_each(all, gloo->size);
    if (gloo->size > GS_SHM_RANKS)
        snprintf(why, size, "there are %d processes; shared memory supports at most %d", gloo->size,
                 GS_SHM_RANKS);
    free(all);
    return status;
}

static gs_status watch_processes(gs_shm *m) {
    m->watch = gs_processes_watch(m->size, m->pid);
    if (!m->watch) return gs_fail(GS_E_MEMORY, "no memory to watch %d processes", m->size);
    for (int r = 0; r < m->size; r++)
        if (m->watch[r] < 0) return gs_fail(GS_E_FILE, "cannot watch process %ld", m->pid[r]);
    return GS_OK;
}

/* Lay out the segment. Returns the offset of the messages. */
static size_t find_parts(gs_shm *m) {
    const size_t size = (size_t)m->size, slots = size * sizeof(gs_shm_rank_slot);
    const size_t boxes = pages(sizeof(gs_shm_header) + slots),
                 waits = boxes + pages(GS_SHM_MAILBOXES * sizeof(gs_shm_mailbox)),
                 stages = waits + pages(size * size * sizeof(uint64_t));
    unsigned char *base = m->segment.base;
    m->header = (gs_shm_header *)base;
    m->mailboxes = (gs_shm_mailbox *)(base + boxes);
    m->waits = (_Atomic uint64_t *)(base + waits);
    m->stage = base + stages;
    m->half = HALF;
    return stages + size * 2 * HALF;
}

static gs_status make_segment(gs_shm *m) {
    GS_TRY(create_segment(&m->segment));
    const size_t used = find_parts(m);
    GS_TRY(reserve(&m->segment, 0, used));
    atomic_store(&m->header->used, used);
    return GS_OK;
}

/* Find the first rank that cannot open the segment. all: each rank's reason, or "". */
static void hear_answers(char (*all)[TEXT], int ranks, char *why, size_t size) {
    for (int r = 0; r < ranks && !why[0]; r++)
        if (all[r][0]) snprintf(why, size, "rank %d: %.*s", r, TEXT, all[r]);
}

static gs_status share_segment(gs_comm *gloo, gs_shm *m, char *why, size_t size) {
    int32_t file = -1;
    char mine[TEXT] = "", (*all)[TEXT];
    GS_TRY(GS_NEW(all, gloo->size, "the answers of %d processes", gloo->size));
    gs_status can = gloo->rank == 0 ? make_segment(m) : GS_OK;
    if (can == GS_OK && gloo->rank == 0) file = m->segment.file;
    gs_status status = gs_comm_broadcast(gloo, &file, 1, GS_I32, 0);
    if (status == GS_OK && gloo->rank > 0 && file >= 0) can = open_segment(&m->segment, m->pid[0], file);
    if (status == GS_OK && can == GS_OK) can = watch_processes(m);
    if (can != GS_OK) snprintf(mine, sizeof mine, "%s", gs_message());
    if (status == GS_OK) status = gs_comm_all_gather(gloo, mine, all, TEXT, GS_U8);
    if (status == GS_OK) hear_answers(all, gloo->size, why, size);
    free(all);
    if (status == GS_OK && !why[0]) find_parts(m);
    return status;
}

static void close_shared(gs_shm *m) {
    gs_processes_unwatch(m->size, m->watch);
    if (m->segment.base) {
        munmap(m->segment.base, SEGMENT_BYTES);
        close(m->segment.file);
    }
    free(m->pid);
    free(m);
}

/* ---- failing, making and freeing ---- */

static void shm_abort(gs_comm *c, const char *message) {
    fail(c->state, GS_E_PEER, message);
}

static void shm_set_multithreaded(gs_comm *c) {
    ((gs_shm *)c->state)->noun = "process";
}

static void shm_free(gs_comm *c) {
    gs_shm *m = c->state;
    atomic_store(&m->header->slots[m->rank].left, true);
    wake(m);
    close_shared(m);
}

static const gs_transport transport_shm = {
    .name = "shm",
    .send = shm_send,
    .recv = shm_recv,
    .collective = shm_collective,
    .abort = shm_abort,
    .free = shm_free,
    .set_multithreaded = shm_set_multithreaded,
};

gs_status gs_comm_shm_create(gs_comm *gloo, gs_comm **out, char *why, size_t size) {
    gs_shm *m;
    why[0] = '\0';
    *out = NULL;
    GS_TRY(GS_NEW(m, 1, "shared memory"));
    *m = (gs_shm){.comm = {&transport_shm, gloo->rank, gloo->size, gloo->timeout, m},
                  .rank = gloo->rank,
                  .size = gloo->size,
                  .noun = "rank"};
    gs_status status = GS_NEW(m->pid, gloo->size, "the numbers of %d processes", gloo->size);
    if (status == GS_OK) status = learn_machines(gloo, m, why, size);
    if (status == GS_OK && !why[0]) status = share_segment(gloo, m, why, size);
    if (status == GS_OK && !why[0])
        *out = &m->comm;
    else
        close_shared(m);
    return status;
}
