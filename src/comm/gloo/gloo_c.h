/* Gloo behind a C face: gloo_c.cc is the only C++ of gradsum, and every exception ends there.
 *
 *     ../mesh.h   connections that are proven before Gloo gets them
 *     socket.h    how Gloo gets them
 *     watch.h     wakes waiting ranks when a peer dies in the middle of a message, which Gloo 0.5.0 forgets
 *     mailbox.c   messages that the sender need not wait for
 *     pieces.h    and that the receiver has asked for beforehand
 *     peer.c      how the connection to a peer stands, and its last words; explain.c: what a sentence of Gloo means
 *     direct.h    two ranks exchange arrays on a connection of their own, without Gloo
 *
 * Declares only what these files and gloo.c need. Each function returns GS_GLOO_OK, or a code for what went wrong,
 * with a sentence in *error. Counts are at least 1 (an empty all_gather divides by zero in Gloo 0.5.0). A timeout
 * limits one wait, in milliseconds, and is at least 1. All ranks must make the same calls with the same counts: when a
 * message does not fit, a thread of Gloo's own ends the process.
 *
 * The library allocates memory in each call: buffers for its collectives, and its record of each operation.
 *
 * After a failure the connections are as good as gone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/call.h"

typedef struct gs_gloo gs_gloo;

typedef enum gs_gloo_code {
    GS_GLOO_OK,
    GS_GLOO_LOST,    /* a connection was closed or broke */
    GS_GLOO_TIMEOUT, /* a peer did not take part in time */
    GS_GLOO_MEMORY,
    GS_GLOO_OTHER,
} gs_gloo_code;

typedef struct gs_gloo_error {
    gs_gloo_code code;
    char text[400];
} gs_gloo_error;

/* Interpret a sentence of Gloo's. Puts it into *error without the leading "[/path/of/a/file.cc:123] ", and returns the
 * code: GS_GLOO_LOST becomes GS_GLOO_TIMEOUT if the sentence reports a wait that was too long. In explain.c. */
gs_gloo_code gs_gloo_explain(gs_gloo_error *error, gs_gloo_code code, const char *what);

/* Was the connection closed by this side? */
bool gs_gloo_closed_here(const gs_gloo_error *error);

/* ---- connections ---- */

/* Let Gloo use existing connections: socket[r] leads to rank r of `size` >= 2, and is -1 for r = rank. They are taken
 * over, even on failure. (Gloo alone would take the first caller for its peer, and end the process if that is a
 * stranger who talks nonsense.) */
gs_gloo_code gs_gloo_connect(int rank, int size, const int *socket, int timeout_ms, gs_gloo **out,
                             gs_gloo_error *error);

/* A wait that is under way. */
typedef struct gs_gloo_buffer gs_gloo_buffer;
typedef struct gs_gloo_wait {
    gs_gloo_buffer *buffer;
    bool sends;
    double deadline; /* of gs_awake_seconds; 0: there is none */
    bool late;       /* set by the watch, which wakes it because of the deadline */
    bool long_ago;   /* for the watch */
    struct gs_gloo_wait *before, *next;
} gs_gloo_wait;

/* From here on the watch is told of each wait, of collectives too, when it begins and ends. It must live as long as the
 * connections. */
struct gs_watch;
gs_gloo_code gs_gloo_be_watched(gs_gloo *, struct gs_watch *, gs_gloo_error *error);

/* Close all connections, and wait for Gloo's thread. NULL is allowed. */
void gs_gloo_free(gs_gloo *);

/* ---- collectives ---- */

/* Gloo's own: all_reduce by a ring, reduce, broadcast, all_gather, all_to_all, barrier; gather, scatter and
 * reduce_scatter are not here. Buffers as in gs_call_run, but reduce overwrites `out` of the ranks that are not the
 * root. */
gs_gloo_code gs_gloo_collective(gs_gloo *, const gs_call *, const void *in, void *out, int timeout_ms,
                                gs_gloo_error *error);

/* ---- messages ---- */

/* Memory that is sent or received as one message. Gloo moves it only when both sides have begun; messages of one slot
 * from one rank to another arrive in order. Slots are channels: Gloo's collectives use 1 to 8 as their first byte. */
#define GS_GLOO_SLOT(kind) ((uint64_t)(kind) << 56)
#define GS_GLOO_MESSAGE_SLOTS GS_GLOO_SLOT(0x20)
#define GS_GLOO_WORDS_SLOT GS_GLOO_SLOT(0x21)
#define GS_GLOO_WATCH_SLOT GS_GLOO_SLOT(0x22)

/* `watched`: waits for it end when any connection breaks, not only the one that it uses. */
gs_gloo_code gs_gloo_buffer_create(gs_gloo *, void *data, size_t bytes, bool watched, gs_gloo_buffer **out,
                                   gs_gloo_error *error);
void gs_gloo_buffer_free(gs_gloo_buffer *); /* NULL is allowed */

/* bytes[at .. at + bytes - 1] of the buffer as one message. What receives it may be longer. */
gs_gloo_code gs_gloo_begin_send(gs_gloo_buffer *, int to, uint64_t slot, size_t at, size_t bytes,
                                gs_gloo_error *error);
gs_gloo_code gs_gloo_begin_recv(gs_gloo_buffer *, int from, uint64_t slot, gs_gloo_error *error);

/* Return when the message has been sent or received, or when woken. A wait that is too long closes all connections, and
 * all operations on them fail. */
gs_gloo_code gs_gloo_wait_send(gs_gloo_buffer *, int timeout_ms, gs_gloo_error *error);
gs_gloo_code gs_gloo_wait_recv(gs_gloo_buffer *, int timeout_ms, gs_gloo_error *error);

/* End the wait for this buffer that is under way; if there is none, the next one returns at once. */
void gs_gloo_wake(gs_gloo_buffer *, bool sends);
