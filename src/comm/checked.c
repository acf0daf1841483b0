/* The checking mode: see gs_comm_checked_create in comm.h. A mistake that would end the process (Gloo's thread throws,
 * and nothing can catch it) or silently give a wrong result becomes an error on every rank.
 *
 * Before a collective the ranks show each other what they are about to do, with one small all_gather. A note goes ahead
 * of each message, with its length and its number among those of this pair of ranks. If one rank receives while the
 * other is in a collective, only the timeout shows it, as without the checking mode.
 *
 * The collectives of some of the ranks (split.h) arrive here as messages. Their notes say which call they belong to.
 */
#include "comm/transports.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call as the ranks show it to each other: eight i64, so that it is the same on every machine. */
enum { OPERATION, COUNT, TYPE, REDUCTION, ROOT, NUMBER, FIELDS = 8 };
typedef int64_t notice[FIELDS];

typedef struct checked {
    gs_around around;
    int64_t calls;        /* collectives so far */
    int64_t *sent, *got;  /* [size]: messages to and from each rank so far */
    pthread_mutex_t lock; /* several threads may send and receive at once, each with its own peer (async.c) */
    gs_error error;       /* the first; under the lock */
    notice all[];         /* [size]; behind them lie `sent` and `got` */
} checked;

/* The result of a step; the first failure stays. */
static gs_status keep(checked *k, gs_status status) {
    if (status == GS_OK) return GS_OK;
    pthread_mutex_lock(&k->lock);
    gs_error_keep(&k->error, status);
    pthread_mutex_unlock(&k->lock);
    return status;
}

static gs_status enter(gs_comm *c) {
    checked *k = c->state;
    pthread_mutex_lock(&k->lock);
    gs_around_inner(c);
    gs_status status = gs_error_again(&k->error);
    pthread_mutex_unlock(&k->lock);
    return status;
}

/* ---- collectives ---- */

static void describe(const notice n, bool full, char *text, size_t size) {
    if (n[OPERATION] < 0 || n[OPERATION] >= GS_OPERATIONS || n[TYPE] < 0 || n[TYPE] >= GS_TYPES ||
        n[REDUCTION] < 0 || n[REDUCTION] >= GS_REDUCTIONS) {
        snprintf(text, size, "an operation unknown to this program (%" PRId64 ")", n[OPERATION]);
        return;
    }
    gs_call call = {(gs_operation)n[OPERATION], (size_t)n[COUNT], (gs_type)n[TYPE],
                    (gs_reduction)n[REDUCTION], (int)n[ROOT]};
    gs_call_describe(&call, full, text, size);
}

/* Every rank sees the same notices, so every rank says the same. */
static gs_status compare(const checked *k) {
    for (int r = 1; r < k->around.inner->size; r++) {
        const int64_t *first = k->all[0], *other = k->all[r];
        if (memcmp(first, other, sizeof(notice)) == 0) continue;
        char a[96], b[96], number[64];
        describe(first, false, a, sizeof a);
        describe(other, false, b, sizeof b);
        if (strcmp(a, b) == 0) { /* the difference is in what was left out */
            describe(first, true, a, sizeof a);
            describe(other, true, b, sizeof b);
        }
        snprintf(number, sizeof number, "call %" PRId64, first[NUMBER]);
        if (first[NUMBER] != other[NUMBER])
            snprintf(number, sizeof number, "calls %" PRId64 " and %" PRId64, other[NUMBER], first[NUMBER]);
        return gs_fail(GS_E_USAGE, "rank %d calls %s, rank 0 %s, %s", r, b, a, number);
    }
    return GS_OK;
}

static gs_status checked_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    checked *k = c->state;
    GS_TRY(enter(c));
    notice mine = {call->operation, (int64_t)call->count, call->type,
                   call->reduction, call->root,           ++k->calls};
    gs_status status = gs_comm_all_gather(k->around.inner, mine, k->all, FIELDS, GS_I64);
    if (status != GS_OK)
        return keep(k, gs_context(status, "before %s, call %" PRId64, gs_call_text(call, false), k->calls));
    GS_TRY(keep(k, compare(k)));
    return keep(k, gs_call_run(k->around.inner, call, in, out));
}

/* ---- parts of a collective of some of the ranks ---- */

static gs_status checked_send_part(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    const checked *k = c->state;
    const notice n = {e->call->operation, (int64_t)e->call->count, e->call->type,
                      e->call->reduction, e->call->root,           (int64_t)bytes};
    GS_TRY(keep(c->state, k->around.inner->ops->send(k->around.inner, e, n, sizeof n)));
    return keep(c->state, k->around.inner->ops->send(k->around.inner, e, data, bytes));
}

static gs_status other_part(gs_comm *c, int from, const notice theirs, const notice mine) {
    const checked *k = c->state;
    char a[96], b[96], sentence[256];
    describe(mine, true, a, sizeof a);
    describe(theirs, true, b, sizeof b);
    snprintf(sentence, sizeof sentence, "rank %d calls %s, rank %d %s, among some of the ranks", c->rank, a,
             from, b);
    gs_comm_abort(k->around.inner, sentence);
    return keep(c->state, gs_fail(GS_E_USAGE, "%s", sentence));
}

static gs_status checked_recv_part(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    const checked *k = c->state;
    const notice mine = {e->call->operation, (int64_t)e->call->count, e->call->type,
                         e->call->reduction, e->call->root,           (int64_t)bytes};
    notice theirs;
    GS_TRY(keep(c->state, k->around.inner->ops->recv(k->around.inner, e, theirs, sizeof theirs)));
    if (memcmp(theirs, mine, sizeof mine) != 0) return other_part(c, e->peer, theirs, mine);
    return keep(c->state, k->around.inner->ops->recv(k->around.inner, e, data, bytes));
}

/* ---- messages: a note goes ahead ---- */

/* Short enough for the transports to treat it as a short message. */
typedef struct note {
    int64_t bytes, number;
} note;

static gs_status checked_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    checked *k = c->state;
    int to = e->peer;
    GS_TRY(enter(c));
    if (gs_is_part(e)) return checked_send_part(c, e, data, bytes);
    note n = {(int64_t)bytes, ++k->sent[to]};
    GS_TRY(keep(k, gs_comm_send(k->around.inner, &n, sizeof n, to)));
    return keep(k, gs_comm_send(k->around.inner, data, bytes, to));
}

/* What was waited for, and why it did not come; without the note's "recv of 16 bytes: ", which nobody has called. What
 * does not speak of that is another failure, of which all ranks say the same. Who gave up first may blame this one. */
static gs_status no_message(gs_status status, int rank, int from, const note *wanted) {
    char call[32], cause[1024], blamed[32], first[48] = "";
    int by;
    snprintf(call, sizeof call, "recv of %zu bytes", sizeof *wanted);
    const char *at = strstr(gs_message(), call), *end = at ? strstr(at, ": ") : NULL;
    if (!at) return status;
    snprintf(cause, sizeof cause, "%s", end ? end + 2 : gs_message());
    const int length = snprintf(blamed, sizeof blamed, "rank %d ", from);
    if (sscanf(gs_message(), "rank %d", &by) == 1 && by != rank &&
        strncmp(cause, blamed, (size_t)length) != 0)
        snprintf(first, sizeof first, ", and rank %d gave up", by);
    return gs_fail(status, "rank %d waits for message %" PRId64 " from rank %d (%" PRId64 " byte%s)%s: %s",
                   rank, wanted->number, from, wanted->bytes, gs_s((unsigned long long)wanted->bytes), first,
                   cause);
}

static gs_status checked_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    checked *k = c->state;
    int from = e->peer;
    note n, wanted = {(int64_t)bytes, k->got[from] + 1};
    GS_TRY(enter(c));
    if (gs_is_part(e)) return checked_recv_part(c, e, data, bytes);
    gs_status status = gs_comm_recv(k->around.inner, &n, sizeof n, from);
    if (status != GS_OK) return keep(k, no_message(status, c->rank, from, &wanted));
    k->got[from]++;
    if (n.bytes == wanted.bytes && n.number == wanted.number)
        return keep(k, gs_comm_recv(k->around.inner, data, bytes, from));
    char number[64], sentence[256];
    snprintf(number, sizeof number, "message %" PRId64, n.number);
    if (n.number != wanted.number)
        snprintf(number, sizeof number, "messages %" PRId64 " and %" PRId64, wanted.number, n.number);
    snprintf(sentence, sizeof sentence,
             "rank %d calls recv of %zu bytes from rank %d, rank %d send of %" PRId64 " bytes to rank %d, %s",
             c->rank, bytes, from, from, n.bytes, c->rank, number);
    gs_comm_abort(k->around.inner, sentence);
    return keep(k, gs_fail(GS_E_USAGE, "%s", sentence));
}

/* ---- the rest ---- */

static void checked_free(gs_comm *c) {
    checked *k = c->state;
    gs_comm_free(k->around.inner);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

static const gs_transport transport_checked = {
    .send = checked_send,
    .recv = checked_recv,
    .collective = checked_collective,
    .abort = gs_around_abort,
    .free = checked_free,
};

gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out) {
    const size_t size = (size_t)inner->size;
    checked *k = calloc(1, sizeof *k + size * (sizeof *k->all + sizeof *k->sent + sizeof *k->got));
    if (!k) return gs_fail(GS_E_MEMORY, "no memory to check the calls of %d ranks", inner->size);
    pthread_mutex_init(&k->lock, NULL);
    k->sent = k->all[size];
    k->got = k->sent + size;
    gs_around_begin(&k->around, inner, &transport_checked);
    *out = &k->around.comm;
    return GS_OK;
}

/* ---- by the environment ---- */

enum { CALLS = 1, BYTES = 2 /* what is checked: calls; these, and the bytes of messages */ };

/* What the environment says: -1 where it makes no sense. */
static int wanted(const char **text) {
    const char *value = getenv("GRADSUM_CHECK");
    *text = value ? value : "";
    if (!**text || strcmp(*text, "0") == 0) return 0;
    if (strcmp(*text, "wire") == 0) return BYTES;
    return strcmp(*text, "1") == 0 ? CALLS : -1;
}

static gs_status makes_no_sense(const char *text) {
    return gs_fail(GS_E_USAGE,
                   "GRADSUM_CHECK is '%s'; it must be 1 (check each call), wire (and the bytes of each "
                   "message) or 0",
                   text);
}

static int word_of(int32_t wish) {
    return wish >= 0 && wish <= BYTES ? wish + 1 : 0;
}

static gs_status compare_wishes(const int32_t *all, int size) {
    static const char *const words[] = {"something other than 0, 1 or wire", "0 or nothing", "1", "wire"};
    for (int p = 1; p < size; p++)
        if (all[p] != all[0])
            return gs_fail(
                GS_E_USAGE,
                "process %d has %s in GRADSUM_CHECK, process 0 has %s: set the same for all processes", p,
                words[word_of(all[p])], words[word_of(all[0])]);
    return GS_OK;
}

gs_status gs_comm_agree_on_check(gs_comm *processes) {
    const char *text;
    int32_t mine = wanted(&text), *all = calloc((size_t)processes->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the wishes of %d processes", processes->size);
    gs_status status = gs_comm_all_gather(processes, &mine, all, 1, GS_I32);
    if (status == GS_OK && mine < 0) status = makes_no_sense(text);
    if (status == GS_OK) status = compare_wishes(all, processes->size);
    free(all);
    return status;
}

gs_status gs_comm_check_if_wanted(int count, gs_comm **comms) {
    const char *text;
    int check = wanted(&text);
    if (check < 0) return makes_no_sense(text);
    for (int i = 0; check && i < count; i++) {
        if (check == BYTES) GS_TRY(gs_comm_sealed_create(comms[i], &comms[i]));
        GS_TRY(gs_comm_checked_create(comms[i], &comms[i]));
    }
    return GS_OK;
}
