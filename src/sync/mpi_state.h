/* A comm over MPI: what its files share. comm_mpi.c is the table, mpi_move.c and mpi_reduce.c are the collectives,
 * mpi_post.c messages, mpi_wait.c waiting and failing. */
#ifndef GS_SYNC_MPI_STATE_H
#define GS_SYNC_MPI_STATE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include "sync/transports.h"

enum {
    GS_MPI_WORDS = 640, /* bytes of a last message, with its 0 */
    GS_MPI_COPIES = 2,  /* messages of a pair of ranks that may be under way */
    GS_MPI_SHORT = 64,  /* bytes of a message that is kept apart */
};

/* Each has a communicator of its own, so that none takes what was meant for another. */
typedef enum gs_mpi_channel {
    GS_MPI_MESSAGES,
    GS_MPI_COLLECTIVES,
    GS_MPI_LAST_WORDS,
    GS_MPI_CHANNELS
} gs_mpi_channel;

/* Tags on GS_MPI_COLLECTIVES; those of messages name a pair of ranks. */
enum { GS_MPI_EXCHANGE = 1, GS_MPI_PART = 2 };

/* Most elements that one call of MPI moves: MPI counts with int. Tests make it small. */
extern size_t gs_mpi_most;

/* A message that was sent, and is kept until the peer has it: in pieces of at most gs_mpi_most bytes. */
typedef struct gs_mpi_copy {
    unsigned char *data;
    size_t room;
    MPI_Request *pieces;
    int count, pieces_room; /* 0: not under way */
} gs_mpi_copy;

/* What one rank sends to another. Short messages have copies of their own, twice as many: the checking mode
 * sends a length before each message. Only one thread sends by it. */
typedef struct gs_mpi_outbox {
    struct gs_mpi_outbox *next;
    gs_mpi_channel channel;
    int tag;
    gs_mpi_copy copies[GS_MPI_COPIES], short_copies[2 * GS_MPI_COPIES];
    unsigned turn, short_turn;
} gs_mpi_outbox;

typedef struct gs_mpi {
    const char *noun; /* what messages call a rank: "rank" or "process" */
    int level;        /* what MPI allows to threads */
    MPI_Comm comm[GS_MPI_CHANNELS];
    atomic_int waiting;   /* threads that let MPI work */
    pthread_mutex_t lock; /* of all that follows but `failed` and the last two lines */
    atomic_bool failed;   /* once true, code and message do not change */
    gs_status code;
    char message[GS_MPI_WORDS];
    MPI_Request ear; /* where the last words of any rank arrive */
    char heard[GS_MPI_WORDS];
    gs_mpi_outbox **outboxes;            /* [size], a list for each peer */
    unsigned char *scratch;              /* of the collective that goes on, kept for the next one */
    size_t scratch_room, *first, *count; /* [size] */
    int *counts, *places;                /* [size] */
} gs_mpi;

/* ---- mpi_wait.c ---- */

/* GS_E_PEER (or what it was) with the first message. */
gs_status gs_mpi_failed(const gs_mpi *);

/* From here on everything fails with `message`, here and, if `tell`, on all other ranks; the first one stays. */
void gs_mpi_fail(gs_comm *, gs_status code, const char *message, bool tell);

/* Has another rank failed? Then so has this one. Only one thread looks at a time. */
void gs_mpi_listen(gs_comm *);

/* The same for a call of this rank: "rank 0: all_reduce of 5 f32: why". Returns the first failure. */
gs_status gs_mpi_fail_call(gs_comm *, const gs_call *call, const char *why);

/* `error` is what a call of MPI returned: anything but MPI_SUCCESS becomes a failure of `call`. */
gs_status gs_mpi_check(gs_comm *, const gs_call *call, int error);

/* Wait for what belongs to `call`. `peer` is the rank that it is done with, or -1: any. The status is that of the
 * last request, or MPI_STATUS_IGNORE. */
gs_status gs_mpi_wait(gs_comm *, const gs_call *call, int peer, int count, MPI_Request *, MPI_Status *);

/* ---- mpi_move.c ---- */

MPI_Datatype gs_mpi_unit(gs_type); /* moved, never combined */

/* broadcast (of `out`), all_gather, gather, scatter, all_to_all */
gs_status gs_mpi_move(gs_comm *, const gs_call *, const void *in, void *out);

/* ---- mpi_reduce.c ---- */

/* data = data of all ranks, reduced: on `root`, or with -1 on all */
gs_status gs_mpi_reduce(gs_comm *, const gs_call *, void *data, int root);
gs_status gs_mpi_reduce_scatter(gs_comm *, const gs_call *, const void *all, void *mine);

/* ---- mpi_post.c ---- */

gs_status gs_mpi_send(gs_comm *, gs_mpi_channel, const gs_call *call, const void *data, size_t bytes,
                      int process, int tag);
gs_status gs_mpi_recv(gs_comm *, gs_mpi_channel, const gs_call *call, void *data, size_t bytes, int process,
                      int tag);

/* Wait until all that was sent has left. */
gs_status gs_mpi_flush(gs_comm *);
void gs_mpi_free_outboxes(gs_mpi *, int size);

#endif
