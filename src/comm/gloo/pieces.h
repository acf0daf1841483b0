/* Messages over Gloo, cut into pieces that the receiver has asked for before they are sent.
 *
 * Gloo moves a message once its receiver has asked for it, and the request is a message too. Had a rank asked only when
 * it receives, its request would wait behind all that the rank itself is sending, and the two directions of a line
 * would take turns. So it asks beforehand: for each sender it keeps spare memory, for which Gloo always has a request.
 *
 *     receiver   recv: piece 0 comes into spare 0 -> the caller's memory; ask again for spare 0; piece 1 ...
 *     sender     send: pieces 0, 1, 2 ... leave at once, as long as there are spares
 *
 * There are spares for two messages, because the requests for the second travel while the receiver's own message of the
 * first round does. There are never more than GS_GLOO_SPARES: a longer message flows as the spares are emptied. Memory
 * that no piece has reached costs nothing.
 *
 * Between processes of one machine nothing waits on a line, and a rank asks when it receives. Asked for earlier, pieces
 * come while the rank takes its next step, and Gloo's thread, which polls for the lock that the rank holds, gets in its
 * way: on two cores a message of 128 KB took twice as long. What pieces cost there is a copy: sums of 2 MB and more
 * take up to 1.5 times as long as without (shared memory, which launch chooses there by itself, is what to use).
 *
 * Each piece begins with the length of its message, so that calls which do not fit together are found. Sender and
 * receiver know where a message ends.
 *
 * Between hosts of name spaces, with lines of 50 Mbit/s each way, a step of lenet with a ring of 4 ranks takes 68 ms.
 * Where ranks asked when they received, it took 119 ms.
 */
#pragma once

#include "comm/gloo/gloo_c.h"

enum {
    GS_GLOO_HEAD = sizeof(uint64_t), /* the bytes of the whole message, without heads */
    GS_GLOO_LOAD = 256 * 1024,       /* bytes */
    GS_GLOO_PIECE = GS_GLOO_HEAD + GS_GLOO_LOAD,
    GS_GLOO_SPARES = 64, /* for one sender: 16 MiB */
};

static inline size_t gs_gloo_pieces_of(size_t bytes) {
    return (bytes + GS_GLOO_LOAD - 1) / GS_GLOO_LOAD;
}

/* Of piece i of a message: bytes without its head. */
static inline size_t gs_gloo_load_of(size_t bytes, size_t i) {
    const size_t rest = bytes - i * GS_GLOO_LOAD;
    return rest < GS_GLOO_LOAD ? rest : GS_GLOO_LOAD;
}

/* The spares for one sender, on one slot. All zero: there are none yet. For one thread at a time. */
typedef struct gs_gloo_spare gs_gloo_spare;
typedef struct gs_gloo_spares {
    gs_gloo_spare *first, *last; /* those that Gloo has a request for, in the order of the requests */
    gs_gloo_spare *idle;
    size_t count, idles;
} gs_gloo_spares;

/* ahead: ask for the next message too. */
gs_gloo_code gs_gloo_spares_receive(gs_gloo_spares *, gs_gloo *, bool ahead, int from, uint64_t slot,
                                    void *data, size_t bytes, int timeout_ms, gs_gloo_error *);
void gs_gloo_spares_free(gs_gloo_spares *);
