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

/* A call as the ranks show it to each other: six i64, so that it is the same on every machine. */
enum { OPERATION, COUNT, TYPE, REDUCTION, ROOT, NUMBER, FIELDS };
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

/* "message 7", or "messages 6 and 7". */
static const char *number_text(const char *noun, int64_t a, int64_t b, char text[64]) {
    if (a == b)
        snprintf(text, 64, "%s %" PRId64, noun, a);
    else
        snprintf(text, 64, "%ss %" PRId64 " and %" PRId64, noun, a, b);
    return text;
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
        return gs_fail(GS_E_USAGE, "rank %d calls %s, rank 0 %s, %s", r, b, a,
                       number_text("call", other[NUMBER], first[NUMBER], number));
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

/* ---- messages: a notice goes ahead ---- */

/* Of a message: its bytes, and its number among those of this pair of ranks. Of a part of a collective: the call, and
 * its bytes as the number. */
static void write_notice(const gs_envelope *e, size_t bytes, int64_t number, notice out) {
    const gs_call part = *e->call, message = {GS_SEND, bytes, GS_U8, GS_SUM, 0};
    const gs_call *call = gs_is_part(e) ? &part : &message;
    const notice n = {call->operation, (int64_t)call->count, call->type,
                      call->reduction, call->root,           gs_is_part(e) ? (int64_t)bytes : number};
    memcpy(out, n, sizeof n);
}

static gs_status checked_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    checked *k = c->state;
    gs_comm *inner = k->around.inner;
    notice n;
    GS_TRY(enter(c));
    write_notice(e, bytes, gs_is_part(e) ? 0 : ++k->sent[e->peer], n);
    GS_TRY(keep(k, inner->ops->send(inner, e, n, sizeof n)));
    return keep(k, inner->ops->send(inner, e, data, bytes));
}

/* What was waited for, and why it did not come. What does not speak of a message is another failure, of which all ranks
 * say the same. */
static gs_status no_message(gs_status status, const gs_comm *c, const gs_envelope *e, const notice wanted) {
    char own[160];
    const char *cause = gs_message();
    const int length = snprintf(own, sizeof own, "rank %d: %s: ", c->rank, gs_call_text(e->call, false));
    if (!strstr(cause, ": recv of ")) return status;
    if (strncmp(cause, own, (size_t)length) == 0) cause += length;
    return gs_fail(status, "rank %d waits for message %" PRId64 " from rank %d (%" PRId64 " byte%s): %s",
                   c->rank, wanted[NUMBER], e->peer, wanted[COUNT], gs_s((unsigned long long)wanted[COUNT]),
                   cause);
}

/* Tell all that the message is not the one that is wanted. */
static gs_status other_message(gs_comm *c, const gs_envelope *e, const notice theirs, const notice wanted) {
    const checked *k = c->state;
    char a[96], b[96], number[64], sentence[300];
    describe(wanted, true, a, sizeof a);
    describe(theirs, true, b, sizeof b);
    if (gs_is_part(e))
        snprintf(sentence, sizeof sentence, "rank %d calls %s, rank %d %s, among some of the ranks", c->rank,
                 a, e->peer, b);
    else
        snprintf(sentence, sizeof sentence,
                 "rank %d calls recv of %" PRId64 " bytes from rank %d, rank %d send of %" PRId64
                 " bytes to rank %d, %s",
                 c->rank, wanted[COUNT], e->peer, e->peer, theirs[COUNT], c->rank,
                 number_text("message", wanted[NUMBER], theirs[NUMBER], number));
    gs_comm_abort(k->around.inner, sentence);
    return keep(c->state, gs_fail(GS_E_USAGE, "%s", sentence));
}

static gs_status checked_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    checked *k = c->state;
    gs_comm *inner = k->around.inner;
    notice theirs, wanted;
    GS_TRY(enter(c));
    write_notice(e, bytes, k->got[e->peer] + 1, wanted);
    gs_status status = inner->ops->recv(inner, e, theirs, sizeof theirs);
    if (status != GS_OK) return keep(k, gs_is_part(e) ? status : no_message(status, c, e, wanted));
    if (memcmp(theirs, wanted, sizeof wanted) != 0) return other_message(c, e, theirs, wanted);
    if (!gs_is_part(e)) k->got[e->peer]++;
    return keep(k, inner->ops->recv(inner, e, data, bytes));
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

gs_status gs_comm_check_if_wanted(int count, gs_comm **comms) {
    const char *value = getenv("GRADSUM_CHECK");
    if (!value || !*value || strcmp(value, "0") == 0) return GS_OK;
    if (strcmp(value, "1") != 0)
        return gs_fail(GS_E_USAGE, "GRADSUM_CHECK is '%s'; it must be 1 (check each call) or 0", value);
    for (int i = 0; i < count; i++) GS_TRY(gs_comm_checked_create(comms[i], &comms[i]));
    return GS_OK;
}
