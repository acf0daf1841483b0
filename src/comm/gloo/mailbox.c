/* Messages over Gloo, in pieces that the receiver requests in advance.
 *
 * Gloo moves a message once its receiver has requested it, and the request is itself a message. A request made in recv
 * would wait behind everything that the rank is sending, and the two directions of a line would alternate. Therefore a
 * rank keeps spare buffers for each sender, which are always requested in advance.
 *
 *     receiver   recv: piece 0 arrives in spare 0 -> the caller's memory; request spare 0 again; piece 1 ...
 *     sender     send: pieces 0, 1, 2 ... leave at once, as long as there are spares
 *
 * There are spares for two messages, because the requests for the second one travel at the same time as the receiver's
 * own first message. There are at most SPARES spares; a longer message flows as they are emptied. Untouched spare
 * memory costs nothing.
 *
 * Between processes of one machine no line is slow, so a rank makes its requests in recv. If it made them earlier,
 * pieces would arrive during its next step, and Gloo's thread would disturb the rank by polling for a lock that the
 * rank holds: on two cores a message of 128 KB took twice as long. Splitting messages into pieces costs one more copy,
 * so sums of 2 MB and more take up to 1.5 times as long (`gradsum launch` uses shared memory there).
 *
 * Each piece begins with the length of its message, so that mismatched calls are detected.
 *
 * Between network namespaces, over lines of 50 Mbit/s each way, a step of lenet with a ring of 4 ranks takes 68 ms,
 * instead of 119 ms with requests in recv.
 */
#include "comm/gloo/state.h"
#include "core/shard.h"

#include <stdio.h>
#include <string.h>

enum {
    HEAD = sizeof(uint64_t), /* of a piece; holds the length of the whole message without heads */
    PIECE = HEAD + GS_GLOO_PAYLOAD,
    SPARES = 64, /* per sender: 16 MiB */
};

static inline size_t pieces_of(size_t bytes) {
    return (bytes + GS_GLOO_PAYLOAD - 1) / GS_GLOO_PAYLOAD;
}

/* Bytes of piece i of a message, without its head. */
static inline size_t load_of(size_t bytes, size_t i) {
    const size_t rest = bytes - i * GS_GLOO_PAYLOAD;
    return rest < GS_GLOO_PAYLOAD ? rest : GS_GLOO_PAYLOAD;
}

typedef struct spare_piece {
    gs_gloo_buffer *buffer; /* over piece */
    struct spare_piece *next;
    unsigned char piece[PIECE];
} spare_piece;

/* The spares for one sender, on one slot. Only one thread at a time may use them. */
typedef struct spares_of_sender {
    spare_piece *first, *last; /* requested, in the order of the requests */
    size_t requested;
    spare_piece *idle;
} spares_of_sender;

/* Add an idle spare. */
static gs_gloo_code add_spare(spares_of_sender *s, gs_gloo *g) {
    spare_piece *spare = malloc(sizeof *spare); /* not calloc, which may touch all of it */
    if (!spare) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    spare->buffer = NULL;
    spare->next = s->idle;
    const gs_gloo_code code = gs_gloo_buffer_create(g, spare->piece, PIECE, true, &spare->buffer);
    if (code == GS_GLOO_OK)
        s->idle = spare;
    else
        free(spare);
    return code;
}

static void free_list(spare_piece *spare) {
    while (spare) {
        spare_piece *next = spare->next;
        gs_gloo_buffer_free(spare->buffer);
        free(spare);
        spare = next;
    }
}

/* Request more spares until `wanted` spares are requested. */
static gs_gloo_code ask(spares_of_sender *s, gs_gloo *g, size_t wanted, int from, uint64_t slot) {
    gs_gloo_code code = GS_GLOO_OK;
    for (; s->requested < wanted; s->requested++) {
        if (!s->idle) code = add_spare(s, g);
        if (code == GS_GLOO_OK) code = gs_gloo_begin_recv(s->idle->buffer, from, slot);
        if (code != GS_GLOO_OK) break;
        spare_piece *spare = s->idle;
        s->idle = spare->next;
        spare->next = NULL;
        *(s->first ? &s->last->next : &s->first) = spare;
        s->last = spare;
    }
    return code;
}

/* The first spare has been emptied: make it idle. */
static void retire_first(spares_of_sender *s) {
    spare_piece *spare = s->first;
    s->first = spare->next;
    s->requested--;
    spare->next = s->idle;
    s->idle = spare;
}

static gs_gloo_code check_length(const spare_piece *spare, int from, size_t bytes) {
    uint64_t theirs;
    char text[300];
    memcpy(&theirs, spare->piece, sizeof theirs);
    if (theirs == bytes) return GS_GLOO_OK;
    snprintf(text, sizeof text, GS_LENGTH_MISMATCH, bytes, "rank", from, (size_t)theirs);
    return gs_gloo_explain(GS_GLOO_OTHER, text);
}

/* Emptied spares are requested again by the next receive. In the middle of a long message many are requested at once,
 * because each request takes the connection's lock, for which Gloo's thread polls while data arrive. If no more can be
 * requested, because the sender has gone or memory is exhausted, the spares requested so far are still read.
 *
 * ahead: request two messages, and the notes before them (linked.c). */
static gs_gloo_code receive_in_spares(spares_of_sender *s, gs_gloo *g, bool ahead, int from, uint64_t slot,
                                      void *data, size_t bytes, int timeout_ms) {
    unsigned char *to = data;
    const size_t pieces = pieces_of(bytes), wanted = 2 * (pieces + 1);
    gs_gloo_code code = GS_GLOO_OK;
    for (size_t i = 0; i < pieces; i++) {
        const size_t most = gs_smaller(ahead ? wanted : pieces - i, SPARES);
        if (i == 0 || !s->first || s->requested + SPARES / 4 <= most) code = ask(s, g, most, from, slot);
        if (!s->first) return code;
        code = gs_gloo_wait_recv(s->first->buffer, timeout_ms);
        if (code == GS_GLOO_OK) code = check_length(s->first, from, bytes);
        if (code != GS_GLOO_OK) return code;
        memcpy(to + i * GS_GLOO_PAYLOAD, s->first->piece + HEAD, load_of(bytes, i));
        retire_first(s);
    }
    return GS_GLOO_OK;
}

/* ---- mailboxes (transports.h); each uses its own slot of Gloo ---- */

/* A sent message, which is kept until the peer has it. */
typedef struct copy {
    char *pieces;           /* each after its head */
    size_t bytes;           /* of the message */
    gs_gloo_buffer *buffer; /* over pieces */
    size_t under_way;       /* pieces */
} copy;

typedef struct mailbox {
    gs_mailbox box;
    copy copies[GS_COPIES];
    spares_of_sender spares;
} mailbox;

static void empty(copy *k) {
    gs_gloo_buffer_free(k->buffer);
    free(k->pieces);
    *k = (copy){0};
}

void gs_gloo_free_mailboxes(gs_gloo_state *s) {
    while (s->mailboxes) {
        mailbox *box = (mailbox *)s->mailboxes;
        s->mailboxes = box->box.next;
        for (int i = 0; i < GS_COPIES; i++) empty(&box->copies[i]);
        free_list(box->spares.first);
        free_list(box->spares.idle);
        free(box);
    }
}

/* A message of the same length reuses the memory, and Gloo's buffer over it. */
static gs_gloo_code make_room(gs_gloo *g, copy *k, size_t bytes) {
    if (k->buffer && k->bytes == bytes) return GS_GLOO_OK;
    const size_t size = bytes + pieces_of(bytes) * HEAD;
    empty(k);
    k->pieces = malloc(size);
    k->bytes = bytes;
    if (!k->pieces) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    return gs_gloo_buffer_create(g, k->pieces, size, true, &k->buffer);
}

static gs_gloo_code wait_for_copy(copy *k, int timeout_ms) {
    for (; k->under_way > 0; k->under_way--) {
        gs_gloo_code code = gs_gloo_wait_send(k->buffer, timeout_ms);
        if (code != GS_GLOO_OK) return code;
    }
    return GS_GLOO_OK;
}

gs_gloo_code gs_gloo_send(gs_gloo_state *s, const gs_envelope *envelope, const void *data, size_t bytes,
                          int timeout_ms) {
    const uint64_t head = bytes;
    mailbox *box = gs_mailbox_of(&s->mailboxes, &s->list, envelope, sizeof *box);
    if (!box) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    copy *k = &box->copies[gs_mailbox_turn(&box->box, bytes)];
    gs_gloo_code code = wait_for_copy(k, timeout_ms);
    if (code == GS_GLOO_OK) code = make_room(s->gloo, k, bytes);
    for (size_t i = 0; code == GS_GLOO_OK && i < pieces_of(bytes); i++) {
        const size_t at = i * PIECE, load = load_of(bytes, i);
        memcpy(k->pieces + at, &head, HEAD);
        memcpy(k->pieces + at + HEAD, (const char *)data + i * GS_GLOO_PAYLOAD, load);
        code = gs_gloo_begin_send(k->buffer, envelope->peer, GS_GLOO_MESSAGE_SLOTS | box->box.name, at,
                                  HEAD + load);
        k->under_way += code == GS_GLOO_OK;
    }
    return code;
}

gs_gloo_code gs_gloo_recv(gs_gloo_state *s, const gs_envelope *envelope, void *data, size_t bytes,
                          int timeout_ms) {
    mailbox *box = gs_mailbox_of(&s->mailboxes, &s->list, envelope, sizeof *box);
    if (!box) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    const bool ahead = s->process[envelope->peer] < 0; /* on another machine */
    return receive_in_spares(&box->spares, s->gloo, ahead, envelope->peer,
                             GS_GLOO_MESSAGE_SLOTS | box->box.name, data, bytes, timeout_ms);
}
