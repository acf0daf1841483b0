/* Gloo behind a C face: gloo_c.cc is the only C++ of gradsum, and every exception ends there.
 *
 *     ../mesh.h   authenticated connections, which Gloo then uses
 *     watchdog.c  wakes waiting ranks when a peer dies in the middle of a message; Gloo 0.5.0 does not
 *     mailbox.c   messages, which the receiver requests in advance, so that the sender need not wait
 *     failure.c   finds the cause of a failure: states of connections, failure messages, lost ranks
 *     direct.c    two ranks exchange arrays over a separate connection, without Gloo
 *
 * Each function returns GS_GLOO_OK or an error code, with a sentence in gs_gloo_error_text(). Counts are at least 1 (an
 * empty all_gather divides by zero in Gloo 0.5.0). A timeout limits each wait; it is in milliseconds, and at least 1.
 * All ranks must make the same calls with the same counts: on a mismatch, Gloo's thread ends the process.
 *
 * Gloo allocates memory in each call. After a failure the connections are unusable.
 */
#pragma once

#include "comm/call.h"

typedef struct gs_gloo gs_gloo;

typedef enum gs_gloo_code {
    GS_GLOO_OK,
    GS_GLOO_LOST,    /* a connection was closed or broke */
    GS_GLOO_TIMEOUT, /* a peer did not take part in time */
    GS_GLOO_MEMORY,
    GS_GLOO_OTHER,
} gs_gloo_code;

/* Keep Gloo's sentence for this thread, without the leading "[/path/of/a/file.cc:123] ", and return the code;
 * GS_GLOO_LOST becomes GS_GLOO_TIMEOUT if the sentence reports a timeout. In failure.c. */
gs_gloo_code gs_gloo_explain(gs_gloo_code code, const char *what);

/* This thread's last sentence. (Not in gs_message(), because an expected failure must not hide the cause.) */
const char *gs_gloo_error_text(void);
enum { GS_GLOO_ERROR_TEXT = 400 /* bytes of that sentence, with its 0 */ };

/* ---- connections ---- */

/* Let Gloo use existing connections: socket[r] leads to rank r of `size` >= 2, and is -1 for r = rank. Gloo gets
 * duplicates; the caller closes its own sockets. (Left to itself, Gloo takes the first caller for its peer, and ends
 * the process if a stranger sends nonsense.) */
gs_gloo_code gs_gloo_connect(int rank, int size, const int *socket, int timeout_ms, gs_gloo **out);

/* A wait in progress. */
typedef struct gs_gloo_buffer gs_gloo_buffer;
typedef struct gs_gloo_wait {
    gs_gloo_buffer *buffer;
    bool sends;
    double deadline; /* a time of gs_awake_seconds; 0: none */
    bool late;       /* the watchdog woke it at the deadline */
    bool long_ago;   /* for the watchdog: the wait began before the last tick */
    struct gs_gloo_wait *before, *next;
} gs_gloo_wait;

/* ---- watchdog.c ---- */

typedef struct gs_watchdog gs_watchdog;

/* The watchdog watches a rank's connections, and must be freed before they are closed. */
gs_gloo_code gs_watchdog_create(gs_gloo *, int rank, int size, gs_watchdog **out);
void gs_watchdog_free(gs_watchdog *); /* NULL is allowed */

/* GS_GLOO_OK: the connection to `peer` is open. Otherwise gs_gloo_error_text() says how it ended. */
gs_gloo_code gs_watchdog_look(gs_watchdog *, int peer);

/* Register the beginning or end of a wait, in any thread. After a wake-up, gs_watchdog_found gives Gloo's sentence
 * about the broken connection, or "". */
void gs_watchdog_begin(gs_watchdog *, gs_gloo_wait *);
void gs_watchdog_end(gs_watchdog *, gs_gloo_wait *);
void gs_watchdog_found(gs_watchdog *, char found[GS_GLOO_ERROR_TEXT]);

/* From then on the watchdog sees every wait, including those of collectives. It must outlive all waits. */
gs_gloo_code gs_gloo_be_watched(gs_gloo *, gs_watchdog *);

/* Close all connections, and wait for Gloo's thread. NULL is allowed. */
void gs_gloo_free(gs_gloo *);

/* ---- collectives ---- */

/* Gloo's own all_reduce (by a ring), broadcast, all_gather, all_to_all and barrier. Buffers as in gs_call_run. */
gs_gloo_code gs_gloo_collective(gs_gloo *, const gs_call *, const void *in, void *out, int timeout_ms);

/* ---- messages ---- */

/* Memory that is sent or received as one message. Gloo moves it once both sides have begun. A slot is a channel: its
 * messages between two ranks arrive in order. Gloo's collectives use slots whose first byte is 1 to 8. */
#define GS_GLOO_SLOT(kind) ((uint64_t)(kind) << 56)
#define GS_GLOO_MESSAGE_SLOTS GS_GLOO_SLOT(0x20)
#define GS_GLOO_FAILURE_SLOT GS_GLOO_SLOT(0x21)
#define GS_GLOO_WATCH_SLOT GS_GLOO_SLOT(0x22)
#define GS_GLOO_NOTES_SLOT GS_GLOO_SLOT(0x23)

/* watched: a wait for the buffer ends when any connection breaks, not only when the buffer's own one does. */
gs_gloo_code gs_gloo_buffer_create(gs_gloo *, void *data, size_t bytes, bool watched, gs_gloo_buffer **out);
void gs_gloo_buffer_free(gs_gloo_buffer *); /* NULL is allowed */

/* Send bytes at .. at + bytes - 1 of the buffer as one message. The receiving buffer may be longer. */
gs_gloo_code gs_gloo_begin_send(gs_gloo_buffer *, int to, uint64_t slot, size_t at, size_t bytes);
gs_gloo_code gs_gloo_begin_recv(gs_gloo_buffer *, int from, uint64_t slot);

/* Wait until the message has been sent or received, or until woken. A timeout closes all connections, and all
 * operations on them fail. */
gs_gloo_code gs_gloo_wait_send(gs_gloo_buffer *, int timeout_ms);
gs_gloo_code gs_gloo_wait_recv(gs_gloo_buffer *, int timeout_ms);

/* End the current wait for this buffer; if there is none, the next one returns at once. */
void gs_gloo_wake(gs_gloo_buffer *, bool sends);

/* ---- direct.c: a connection between two ranks, on which the calling threads write and read ----
 *
 * Gloo suits any pattern of messages: its own thread moves the bytes, after both sides have announced what they want.
 * For two ranks that exchange arrays of 2 MB this costs too much: four threads on two cores wake each other, and wait
 * for each other's locks. Here the calling thread moves the bytes, on a blocking socket:
 *
 *     rank 0    write piece 0 | read piece 0, combine | write piece 1 | ...
 *     rank 1    write piece 0 | read piece 0, combine | write piece 1 | ...
 *
 * Both ranks write first. This cannot deadlock, because a piece fits into the socket's send buffer. A piece is copied
 * four times; it is small enough to stay in the cores' caches. A reader spins briefly before it sleeps (core/wait.h).
 *
 * Measured between two processes on one machine with two cores (`make bench-sync`; Gloo's ring: 2 MB in 2.0 to 2.7 ms):
 *
 *     2 MB     0.8 ms; 1.2 in pieces of 256 KiB; 1.6 with a buffer that holds only one piece
 *     1 KiB    8 us; 40 if the reader sleeps at once
 */

typedef struct gs_direct gs_direct;

/* Both ranks call it, because they agree over Gloo on the length of a piece. `socket` connects them, and must outlive
 * the connection. Shutting the socket down ends all writes and reads at both ends. */
gs_gloo_code gs_direct_create(gs_gloo *, int socket, int rank, int timeout_ms, gs_direct **out);
void gs_direct_free(gs_direct *); /* NULL is allowed */

/* data[i] = data[i] of rank 0 combined with data[i] of rank 1, on both ranks. GS_GLOO_TIMEOUT: the other rank sent or
 * received nothing for `timeout_ms`. GS_GLOO_OTHER: its count differs. */
gs_gloo_code gs_direct_all_reduce(gs_direct *, const gs_call *, void *data, int timeout_ms);
