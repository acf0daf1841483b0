/* Gloo behind a C face: gloo_c.cc is the only C++ of gradsum, and every exception ends there.
 *
 * Only what comm_gloo.c needs. Each function returns GS_GLOO_OK, or what went wrong with a sentence in
 * *error. Counts are at least 1 (an empty all_gather divides by zero in Gloo 0.5.0) and timeouts are
 * milliseconds of one wait, at least 1. All ranks must call the same with the same counts: Gloo ends the
 * process, from a thread of its own, when a message does not fit.
 *
 * A peer that dies is noticed at once, also by an operation that was in the middle of a message with it, which Gloo
 * 0.5.0 forgets to wake: gloo_watch.hh does.
 *
 * The library allocates memory in each call: buffers of its collectives, and what it notes of each operation. What
 * is done here for a message is kept and used again (gs_gloo_send), as far as the library lets it.
 *
 * After a failure the connections are as good as gone: ask gs_gloo_peer for the cause, then gs_gloo_close.
 */
#ifndef GS_SYNC_GLOO_C_H
#define GS_SYNC_GLOO_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* Connect `size` >= 2 ranks with each other through the folder, in which all ranks must be already: rank 0
 * keeps the others waiting for 30 s at most, whatever the timeout. Returns when all are connected; this
 * rank's files in the folder are removed again, also on failure. `address` must be one that getaddrinfo
 * knows. */
gs_gloo_code gs_gloo_connect(const char *directory, int rank, int size, const char *address, int timeout_ms,
                             gs_gloo **out, gs_gloo_error *error);

/* Close all connections and wait for Gloo's thread. */
void gs_gloo_free(gs_gloo *);

/* Elements of `width` bytes, 1, 4 or 8; to[i] = a[i] combined with b[i], and `to` may be a. */
typedef struct gs_gloo_reduction {
    size_t width;
    void (*combine)(void *to, const void *a, const void *b, size_t count);
} gs_gloo_reduction;

/* data[i] = data[i] of all ranks, reduced, by a ring: each rank ends up with the same bits. */
gs_gloo_code gs_gloo_all_reduce(gs_gloo *, void *data, size_t count, gs_gloo_reduction, int timeout_ms,
                                gs_gloo_error *error);
/* The same for 2 ranks, on a connection of their own (gloo_direct.hh): they exchange their arrays, and each combines
 * rank 0's with rank 1's. As many bytes as by a ring, in half the rounds. */
gs_gloo_code gs_gloo_exchange(gs_gloo *, void *data, size_t count, gs_gloo_reduction, int timeout_ms,
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

/* Messages of one slot from one rank to another arrive in order. Gloo moves a message only when both sides
 * have called, so send leaves a copy behind and returns; with two copies under way on this slot it waits for
 * the older one. Different slots may be used by several threads at once. */
enum { GS_GLOO_COPIES = 2 };
gs_gloo_code gs_gloo_send(gs_gloo *, const void *data, size_t bytes, int to, uint32_t slot, int timeout_ms,
                          gs_gloo_error *error);
gs_gloo_code gs_gloo_recv(gs_gloo *, void *data, size_t bytes, int from, uint32_t slot, int timeout_ms,
                          gs_gloo_error *error);

/* How the connection to a peer stands, after a failure. One thread at a time. */
typedef enum gs_gloo_peer_state {
    GS_GLOO_CONNECTED,
    GS_GLOO_LAST_WORDS, /* the peer closed it, and said why: text */
    GS_GLOO_BROKEN,     /* the peer is gone: text says how this was seen */
    GS_GLOO_CLOSED,     /* this side closed it */
} gs_gloo_peer_state;
gs_gloo_peer_state gs_gloo_peer(gs_gloo *, int peer, char *text, size_t size);

/* Tell the peers that are still connected why this rank goes, and close all connections: every operation that
 * waits here, in any thread, fails, and so does each at a peer that waits for this rank. */
enum { GS_GLOO_WORDS = 512 };
void gs_gloo_close(gs_gloo *, const char *last_words);

#ifdef __cplusplus
}
#endif

#endif
