/* Messages over Gloo that the sender need not wait for. A piece leaves once the receiver has asked for it (pieces.h),
 * so send leaves a copy in a mailbox and returns. If COPIES are already under way, it waits for the oldest one.
 *
 * The copies in a mailbox take turns. Their memory, and the Gloo buffers over it, are reused as long as the messages
 * have the same length. Short messages have copies of their own, twice as many, because the checking mode sends a
 * length before each message.
 */
#include "comm/gloo/state.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 2, SHORT_COPIES = 2 * COPIES, SHORT = 64 /* bytes */ };

/* A message that was sent, and is kept until the peer has it. */
typedef struct copy {
    char *pieces;           /* each behind its head */
    size_t bytes;           /* of the message */
    gs_gloo_buffer *buffer; /* over pieces */
    size_t under_way;       /* pieces */
} copy;

/* For one peer, on one slot, which only one thread uses: to send, or to receive. */
struct gs_gloo_mailbox {
    int peer;
    uint32_t slot;
    copy copies[COPIES + SHORT_COPIES];
    unsigned next, next_short;
    gs_gloo_spares spares;
    struct gs_gloo_mailbox *rest;
};

static void empty(copy *k) {
    gs_gloo_buffer_free(k->buffer);
    free(k->pieces);
    *k = (copy){0};
}

void gs_gloo_free_mailboxes(gs_gloo_state *s) {
    while (s->mailboxes) {
        gs_gloo_mailbox *box = s->mailboxes;
        s->mailboxes = box->rest;
        for (int i = 0; i < COPIES + SHORT_COPIES; i++) empty(&box->copies[i]);
        gs_gloo_spares_free(&box->spares);
        free(box);
    }
}

/* Parts of collectives have slots of their own, so a message that nobody has received yet is not mistaken for one. */
static uint32_t slot_of(const gs_envelope *e) {
    return (uint32_t)gs_is_part(e) << 31 | (uint32_t)e->from << 16 | (uint32_t)e->to;
}

/* NULL: there is no memory. */
static gs_gloo_mailbox *mailbox_of(gs_gloo_state *s, int peer, uint32_t slot) {
    pthread_mutex_lock(&s->list);
    gs_gloo_mailbox *box = s->mailboxes;
    while (box && (box->peer != peer || box->slot != slot)) box = box->rest;
    if (!box && (box = calloc(1, sizeof *box))) {
        box->peer = peer;
        box->slot = slot;
        box->rest = s->mailboxes;
        s->mailboxes = box;
    }
    pthread_mutex_unlock(&s->list);
    return box;
}

static copy *next_copy(gs_gloo_mailbox *box, size_t bytes) {
    return &box->copies[bytes > SHORT ? box->next++ % COPIES : COPIES + box->next_short++ % SHORT_COPIES];
}

static gs_gloo_code make_room(gs_gloo *g, copy *k, size_t bytes, gs_gloo_error *e) {
    if (k->buffer && k->bytes == bytes) return GS_GLOO_OK;
    const size_t size = bytes + gs_gloo_pieces_of(bytes) * GS_GLOO_HEAD;
    empty(k);
    k->pieces = malloc(size);
    k->bytes = bytes;
    if (!k->pieces) return gs_gloo_explain(e, GS_GLOO_MEMORY, "out of memory");
    return gs_gloo_buffer_create(g, k->pieces, size, true, &k->buffer, e);
}

static gs_gloo_code wait_for_copy(copy *k, int timeout_ms, gs_gloo_error *e) {
    for (; k->under_way > 0; k->under_way--) {
        gs_gloo_code code = gs_gloo_wait_send(k->buffer, timeout_ms, e);
        if (code != GS_GLOO_OK) return code;
    }
    return GS_GLOO_OK;
}

gs_gloo_code gs_gloo_send(gs_gloo_state *s, const gs_envelope *envelope, const void *data, size_t bytes,
                          int timeout_ms, gs_gloo_error *e) {
    const uint32_t slot = slot_of(envelope);
    const uint64_t head = bytes;
    gs_gloo_mailbox *box = mailbox_of(s, envelope->peer, slot);
    if (!box) return gs_gloo_explain(e, GS_GLOO_MEMORY, "out of memory");
    copy *k = next_copy(box, bytes);
    gs_gloo_code code = wait_for_copy(k, timeout_ms, e);
    if (code == GS_GLOO_OK) code = make_room(s->gloo, k, bytes, e);
    for (size_t i = 0; code == GS_GLOO_OK && i < gs_gloo_pieces_of(bytes); i++) {
        const size_t at = i * GS_GLOO_PIECE, load = gs_gloo_load_of(bytes, i);
        memcpy(k->pieces + at, &head, GS_GLOO_HEAD);
        memcpy(k->pieces + at + GS_GLOO_HEAD, (const char *)data + i * GS_GLOO_LOAD, load);
        code = gs_gloo_begin_send(k->buffer, envelope->peer, GS_GLOO_MESSAGE_SLOTS | slot, at,
                                  GS_GLOO_HEAD + load, e);
        k->under_way += code == GS_GLOO_OK;
    }
    return code;
}

gs_gloo_code gs_gloo_recv(gs_gloo_state *s, const gs_envelope *envelope, void *data, size_t bytes,
                          int timeout_ms, gs_gloo_error *e) {
    const uint32_t slot = slot_of(envelope);
    gs_gloo_mailbox *box = mailbox_of(s, envelope->peer, slot);
    if (!box) return gs_gloo_explain(e, GS_GLOO_MEMORY, "out of memory");
    const bool ahead = s->process[envelope->peer] < 0; /* on another machine */
    return gs_gloo_spares_receive(&box->spares, s->gloo, ahead, envelope->peer, GS_GLOO_MESSAGE_SLOTS | slot,
                                  data, bytes, timeout_ms, e);
}
