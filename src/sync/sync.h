/* The sum of gradients: dW = dW1 + ... + dWN, which every rank receives.
 *
 * Each scheme is one file, to be read alongside the theory. scheme.h has the few functions that schemes are built from:
 *
 *     allreduce.c            the transport's own all-reduce: in shared memory, or over connections
 *     ps.c                   parameter server: rank 0 collects the gradients, sums them, and sends the sum back
 *     sharded_ps.c           every rank is the server of one chunk
 *     ring.c                 reduce-scatter, then all-gather, each rank talking to its two neighbours
 *     tree.c                 binomial tree: reduce to rank 0, then broadcast
 *     recursive_doubling.c   exchange whole arrays with partners at distance 1, 2, 4, ...
 *     halving_doubling.c     the same partners, but exchange halves, quarters, ... (Rabenseifner)
 *     auto.c                 chooses one of these by measuring
 *     wire.c                 f16 and bf16; fold.c: schemes for powers of two, on any number of ranks
 *
 * The sample counts are in the same array (model/model.h). The division follows the sum, so shards of unequal size get
 * the right weights.
 *
 * Every scheme gives every rank the same bits, and the same bits in every run. Schemes differ in the order of the
 * additions, so their results differ by rounding.
 *
 * Values can be sent in 16 bits (wire.h), but sums are always computed in f32. A rank that sends a chunk also rounds
 * its own copy, so sender and receiver continue with the same values, and all ranks end with the same bits. Sample
 * counts must not be rounded (bf16 has no 257), so the last `tail` floats of an array are sent as f32, in the same
 * messages. */
#pragma once

#include "backend.h"
#include "comm/comm.h"
#include "sync/wire.h"

typedef struct gs_sync gs_sync;

/* The array to sum, and how it is sent. */
typedef struct gs_sync_array {
    size_t count; /* floats */
    gs_wire wire;
    size_t tail; /* the last `tail` of them are sent as f32 on any wire */
} gs_sync_array;

/* What one sum costs one rank. A message counts for its sender. */
typedef struct gs_sync_cost {
    size_t rounds, messages, bytes;
} gs_sync_cost;

/* Times in seconds: a message of B bytes takes alpha + beta B; adding B bytes to B others takes gamma B. Hockney, "The
 * communication challenge for MPP" (Parallel Computing 20, 1994). */
typedef struct gs_sync_model {
    double alpha, beta, gamma;
} gs_sync_model;

typedef struct gs_sync_scheme {
    const char *name; /* for --sync: "ring" */
    const char *what; /* one line for --help: 20 to 55 characters */
    /* data[i] = sum over ranks of data[i], the same bits on every rank; for at least 2 ranks and 1 float */
    gs_status (*sum)(gs_sync *, float *data, size_t count);
    /* The formulas in the file's header comment, for at least 2 ranks and 1 float. `cost` is NULL if the messages are
     * the transport's own; then cost_in_16_bits is for a 16-bit wire, where the scheme itself cuts and adds. */
    gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *);
    gs_sync_cost (*cost_in_16_bits)(int ranks, int rank, const gs_sync_array *);
    double (*time)(int ranks, double bytes, const gs_sync_model *); /* bytes: size of the array as f32 */
} gs_sync_scheme;

/* The schemes by name: gs_sync_ring in ring.c, and so on. For a new scheme, add its name here, and its file. allreduce,
 * gloo and hierarchical are three names for one function (allreduce.c). gs_sync_create replaces auto with the fastest
 * scheme. Of equally fast schemes it takes ring if possible, else the last. */
/* clang-format off */
#define GS_SYNC_SCHEMES(X) \
    X(allreduce) X(gloo) X(hierarchical) X(ps) X(sharded_ps) X(ring) X(tree) X(recursive_doubling) \
    X(halving_doubling) X(auto)
/* clang-format on */
#define GS_DECLARE(name) GS_API const gs_sync_scheme gs_sync_##name;
GS_SYNC_SCHEMES(GS_DECLARE)
#undef GS_DECLARE

/* All schemes in this order, NULL-terminated. gs_sync_schemes: with replacements; gs_sync_own: the library's own. */
GS_API const gs_sync_scheme *const *gs_sync_schemes(void);
extern const gs_sync_scheme *const gs_sync_own[];

/* GS_E_USAGE: the message lists the schemes. */
GS_API gs_status gs_sync_find(const char *name, const gs_sync_scheme **out);

/* The same; the message lists `others` too (NULL-terminated). */
gs_status gs_sync_find_or(const char *name, const char *const *others, const gs_sync_scheme **out);

/* Replace the scheme `name` with the caller's in gs_sync_find and gs_sync_schemes, and therefore in --sync. NULL
 * restores the library's own. The scheme must live as long as it is used. This is for trying a scheme in the running
 * framework (lessons/); call it before any other thread is started. `auto` still chooses among the library's own
 * schemes. GS_E_USAGE: no scheme is called `name`, or the new one has another name. */
GS_API gs_status gs_sync_replace(const char *name, const gs_sync_scheme *);

/* The expected cost of gs_sync_run; all 0 if nothing is sent. False: it is unknown, because the messages are the
 * transport's own. */
GS_API bool gs_sync_cost_of(const gs_sync_scheme *, int ranks, int rank, gs_sync_array, gs_sync_cost *);

/* A message as seen by its sender. */
typedef struct gs_sync_message {
    int round; /* from 1 */
    int from, to;
    size_t first, count; /* elements in the array */
    const float *data;   /* the first of these elements; valid only during the call */
} gs_sync_message;

/* A message that was sent or received, as seen by the rank that sent or received it. */
typedef struct gs_sync_move {
    int round; /* from 1 */
    int from, to;
    size_t first, count; /* elements in the array */
    size_t bytes;        /* size of the message */
    bool received;
    double start, end; /* gs_seconds at the start and end of the call, including a receiver's wait */
} gs_sync_move;

/* Callbacks that observe the messages of a sum. Each rank calls them in its own thread. Each may be NULL. */
typedef struct gs_sync_observer {
    void *context;
    /* before a message is sent */
    void (*message)(void *context, const gs_sync_message *);
    /* `rank` has done its part of this round, and `data` is its current array */
    void (*round_done)(void *context, int rank, int round, const float *data, size_t count);
    /* after a message was sent or received; not for the exchanges in allreduce.c, whose messages only the transport
     * sees */
    void (*moved)(void *context, const gs_sync_move *);
} gs_sync_observer;

/* The data of one worker's sums, created once, so that a step allocates nothing. */
struct gs_sync {
    const gs_sync_scheme *scheme;     /* never gs_sync_auto */
    gs_comm *comm;                    /* not owned */
    size_t most;                      /* floats in one sum */
    gs_wire wire;                     /* how the floats are sent */
    size_t tail;                      /* as in gs_sync_array; may be reduced between two sums */
    float *scratch;                   /* gs_sync_scratch_floats(most) floats, for incoming data */
    uint16_t *packed[2];              /* outgoing and incoming messages in 16 bits; NULL if all is f32 */
    const gs_sync_observer *observer; /* may be NULL */
    gs_sync_cost counted;             /* in the last gs_sync_run */
    const float *data;                /* the array of the current sum */
    gs_sync_array array;
    char why[200]; /* the choice of `auto` and its reason; "" for other schemes */
};

/* For sums of up to `most` floats. All ranks call it with the same scheme, because `auto` measures with every rank. */
GS_API gs_status gs_sync_create(const gs_sync_scheme *, gs_comm *, size_t most, gs_sync **out);

/* The same for sums of up to most.count floats, of which all but at most most.tail are sent as most.wire. All ranks
 * pass the same arguments. */
GS_API gs_status gs_sync_create_wire(const gs_sync_scheme *, gs_comm *, gs_sync_array most, gs_sync **out);
/* The bytes that a gs_sync allocates. */
size_t gs_sync_bytes(const gs_sync *);
GS_API void gs_sync_free(gs_sync *); /* NULL is allowed */

/* data[i] = sum over all ranks of data[i]; host memory. */
GS_API gs_status gs_sync_run(gs_sync *, float *data, size_t count);

/* The same for `count` floats in device memory: map, sum, unmap. With one rank it does nothing. */
GS_API gs_status gs_sync_sum(gs_sync *, gs_device *, gs_mem data, size_t count);
