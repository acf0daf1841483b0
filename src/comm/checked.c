/* The checking mode (gs_comm_checked_create in create.h). Without it a mismatch between calls ends the process (Gloo's
 * thread throws, and nothing can catch it) or silently gives a wrong result. In this mode it is an error on every rank.
 *
 * Before a collective the ranks show each other their calls, with one small all_gather. If one rank receives while the
 * others are in a collective, only the timeout reveals it. Messages pass unchecked, as do the collectives of split.h,
 * which are made of messages. Each transport detects a wrong length, but Gloo and MPI do not send messages of length 0.
 */
#include "comm/transports.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A call as the ranks show it to each other: packed (gs_call_pack), with the number of the collective. */
typedef struct notice {
    uint64_t call;
    int64_t number;
} notice;

typedef struct checked {
    gs_wrapper wrapper;
    int64_t calls;      /* collectives so far */
    atomic_bool failed; /* a collective has failed; all later calls fail too, in any thread */
    gs_error error;
    notice all[]; /* [size] */
} checked;

static void describe(uint64_t word, bool full, char *text, size_t size) {
    gs_call call;
    snprintf(text, size, "%s",
             gs_call_unpack(word, &call) ? gs_call_text(&call, full)
                                         : "an operation unknown to this program");
}

/* Every rank sees the same notices, so every rank finds the same mismatch. */
static gs_status compare(const checked *k) {
    for (int r = 1; r < k->wrapper.inner->size; r++) {
        const notice *first = &k->all[0], *other = &k->all[r];
        if (memcmp(first, other, sizeof *first) == 0) continue;
        char a[96], b[96];
        describe(first->call, false, a, sizeof a);
        describe(other->call, false, b, sizeof b);
        if (strcmp(a, b) == 0) { /* the calls differ in what the short text omits */
            describe(first->call, true, a, sizeof a);
            describe(other->call, true, b, sizeof b);
        }
        return gs_fail(GS_E_USAGE, "rank %d calls %s, rank 0 %s, call %" PRId64, r, b, a, first->number);
    }
    return GS_OK;
}

static gs_status check_and_run(checked *k, const gs_call *call, const void *in, void *out) {
    gs_comm *inner = k->wrapper.inner;
    const notice mine = {gs_call_pack(call), ++k->calls};
    const gs_status shown = gs_comm_all_gather(inner, &mine, k->all, sizeof mine / sizeof(int64_t), GS_I64);
    if (shown != GS_OK) /* made only now: the failure may have used gs_call_text's buffers */
        return gs_context(shown, "before %s, call %" PRId64, gs_call_text(call, false), k->calls);
    GS_TRY(compare(k));
    return gs_call_run(inner, call, in, out);
}

static gs_status enter(const checked *k) {
    return atomic_load(&k->failed) ? gs_error_again(&k->error) : GS_OK;
}

static gs_status checked_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    checked *k = c->state;
    GS_TRY(enter(k));
    const gs_status status = gs_error_keep(&k->error, check_and_run(k, call, in, out));
    if (status != GS_OK) atomic_store(&k->failed, true);
    return status;
}

static gs_status checked_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    GS_TRY(enter(c->state));
    return gs_wrapper_send(c, e, data, bytes);
}

static gs_status checked_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    GS_TRY(enter(c->state));
    return gs_wrapper_recv(c, e, data, bytes);
}

static void checked_free(gs_comm *c) {
    checked *k = c->state;
    gs_comm_free(k->wrapper.inner);
    free(k);
}

static const gs_transport transport_checked = {
    .send = checked_send,
    .recv = checked_recv,
    .collective = checked_collective,
    .abort = gs_wrapper_abort,
    .free = checked_free,
};

gs_status gs_comm_checked_create(gs_comm *inner, gs_comm **out) {
    checked *k = calloc(1, sizeof *k + (size_t)inner->size * sizeof *k->all);
    if (!k) return gs_fail(GS_E_MEMORY, "no memory to check the calls of %d ranks", inner->size);
    gs_wrapper_begin(&k->wrapper, inner, &transport_checked);
    *out = &k->wrapper.comm;
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
