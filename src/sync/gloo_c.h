/* Gloo behind a C face: gloo_c.cc is the only C++ of gradsum, and every exception ends there.
 *
 *     gloo_watch.h      who waits is woken when a peer dies in the middle of a message, which Gloo 0.5.0 forgets to do
 *     gloo_letters.c    messages that the sender need not wait for
 *     gloo_peer.c       how the connection to a peer stands, and its last words
 *     gloo_direct.h     two ranks exchange arrays on a connection of their own, without Gloo
 *
 * Only what these and comm_gloo.c need. Each function returns GS_GLOO_OK, or what went wrong with a sentence in
 * *error. Counts are at least 1 (an empty all_gather divides by zero in Gloo 0.5.0) and timeouts are
 * milliseconds of one wait, at least 1. All ranks must call the same with the same counts: Gloo ends the
 * process, from a thread of its own, when a message does not fit.
 *
 * The library allocates memory in each call: buffers of its collectives, and what it notes of each operation.
 *
 * After a failure the connections are as good as gone.
 */
#ifndef GS_SYNC_GLOO_C_H
#define GS_SYNC_GLOO_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_gloo gs_gloo;

typedef enum gs_gloo_code {
    GS_GLOO_OK,
    GS_GLOO_LOST,    /* a connection was closed or broke */
    GS_GLOO_TIMEOUT, /* a peer did not take part in time */
    GS_GLOO_ADDRESS, /* this machine has no such address */
    GS_GLOO_MEMORY,
    GS_GLOO_OTHER,
} gs_gloo_code;

typedef struct gs_gloo_error {
    gs_gloo_code code;
    char text[400];
} gs_gloo_error;

/* What a sentence of Gloo means: put it into *error without the "[/path/of/a/file.cc:123] " in front. Of GS_GLOO_LOST
 * those that tell of a wait which was too long become GS_GLOO_TIMEOUT. In gloo_peer.c; returns the code. */
gs_gloo_code gs_gloo_explain(gs_gloo_error *error, gs_gloo_code code, const char *what);

/* "0.5.0": of the headers. */
const char *gs_gloo_version(void);

/* ---- connections ---- */

/* Connect `size` >= 2 ranks with each other through the folder, in which all ranks must be already: rank 0
 * keeps the others waiting for 30 s at most, whatever the timeout. `address` must be one that getaddrinfo knows. */
gs_gloo_code gs_gloo_connect(const char *directory, int rank, int size, const char *address, int timeout_ms,
                             gs_gloo **out, gs_gloo_error *error);

/* Remove this rank's files from the folder: when all ranks have read them, which a barrier tells. */
void gs_gloo_remove_files(gs_gloo *);

/* From here on the watch knows of all waits, of collectives too. It must live as long as they. */
struct gs_watch;
gs_gloo_code gs_gloo_be_watched(gs_gloo *, struct gs_watch *, gs_gloo_error *error);

/* Close all connections, wait for Gloo's thread, and remove this rank's files. NULL is allowed. */
void gs_gloo_free(gs_gloo *);

/* ---- collectives ---- */

/* Elements of `width` bytes, 1, 4 or 8; to[i] = a[i] combined with b[i], and `to` may be a. */
typedef struct gs_gloo_reduction {
    size_t width;
    void (*combine)(void *to, const void *a, const void *b, size_t count);
} gs_gloo_reduction;

/* data[i] = data[i] of all ranks, reduced, by a ring: each rank ends up with the same bits. */
gs_gloo_code gs_gloo_all_reduce(gs_gloo *, void *data, size_t count, gs_gloo_reduction, int timeout_ms,
                                gs_gloo_error *error);
/* The sum of floats as a user of Gloo writes it, to compare with: by its ring, or by its BCUBE (halving and
 * doubling). */
gs_gloo_code gs_gloo_raw_all_reduce(gs_gloo *, float *data, size_t count, int bcube, int timeout_ms,
                                    gs_gloo_error *error);
/* all_reduce on `root` alone; `data` of the others is used up. */
gs_gloo_code gs_gloo_reduce(gs_gloo *, void *data, size_t count, gs_gloo_reduction, int root, int timeout_ms,
                            gs_gloo_error *error);
gs_gloo_code gs_gloo_broadcast(gs_gloo *, void *data, size_t bytes, int root, int timeout_ms,
                               gs_gloo_error *error);
gs_gloo_code gs_gloo_all_gather(gs_gloo *, const void *mine, void *all, size_t bytes, int timeout_ms,
                                gs_gloo_error *error);
/* `all` is used on `root` only. */
gs_gloo_code gs_gloo_gather(gs_gloo *, const void *mine, void *all, size_t bytes, int root, int timeout_ms,
                            gs_gloo_error *error);
gs_gloo_code gs_gloo_scatter(gs_gloo *, const void *all, void *mine, size_t bytes, int root, int timeout_ms,
                             gs_gloo_error *error);
gs_gloo_code gs_gloo_all_to_all(gs_gloo *, const void *from, void *to, size_t bytes, int timeout_ms,
                                gs_gloo_error *error);
gs_gloo_code gs_gloo_barrier(gs_gloo *, int timeout_ms, gs_gloo_error *error);

/* ---- messages ---- */

/* Memory that is sent or received as one message. Gloo moves it only when both sides have begun; messages of one slot
 * from one rank to another arrive in order. Slots are channels: Gloo's collectives use 1 to 8 as their first byte. */
#define GS_GLOO_SLOT(kind) ((uint64_t)(kind) << 56)
#define GS_GLOO_LETTER_SLOTS GS_GLOO_SLOT(0x20)
#define GS_GLOO_WORDS_SLOT GS_GLOO_SLOT(0x21)
#define GS_GLOO_WATCH_SLOT GS_GLOO_SLOT(0x22)

typedef struct gs_gloo_buffer gs_gloo_buffer;

/* `watched`: waits for it end when any connection breaks, not only the one that it uses. */
gs_gloo_code gs_gloo_buffer_create(gs_gloo *, void *data, size_t bytes, bool watched, gs_gloo_buffer **out,
                                   gs_gloo_error *error);
void gs_gloo_buffer_free(gs_gloo_buffer *); /* NULL is allowed */

gs_gloo_code gs_gloo_begin_send(gs_gloo_buffer *, int to, uint64_t slot, gs_gloo_error *error);
gs_gloo_code gs_gloo_begin_recv(gs_gloo_buffer *, int from, uint64_t slot, gs_gloo_error *error);

/* Return when the message has gone or come, or when woken. A wait that is too long closes all connections, and fails
 * all operations on them. */
gs_gloo_code gs_gloo_wait_send(gs_gloo_buffer *, int timeout_ms, gs_gloo_error *error);
gs_gloo_code gs_gloo_wait_recv(gs_gloo_buffer *, int timeout_ms, gs_gloo_error *error);

/* The wait for this buffer that is under way returns; where there is none, the next one does. */
void gs_gloo_wake(gs_gloo_buffer *, bool sends);

#endif
