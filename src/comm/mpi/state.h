/* A comm over MPI: what its files share. mpi.c is the table, move.c and reduce.c are the collectives,
 * mailbox.c messages, wait.c waiting and failing; session.c begins and ends MPI. */
#pragma once

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include "comm/transports.h"

enum {
    GS_MPI_COPIES = 2, /* messages of a pair of ranks that may be under way */
    GS_MPI_SHORT_COPIES = 2 * GS_MPI_COPIES,
    GS_MPI_SHORT = 64,    /* bytes of a message that is kept apart */
    GS_MPI_TAG_BITS = 11, /* of a rank in a tag: a process holds at most 2048 workers */
};

/* Each has a communicator of its own, so that none takes what was meant for another. */
typedef enum gs_mpi_channel {
    GS_MPI_MESSAGES,
    GS_MPI_COLLECTIVES,
    GS_MPI_LAST_WORDS,
    GS_MPI_CHANNELS
} gs_mpi_channel;

enum { GS_MPI_EXCHANGE = 0 /* a tag that no pair of ranks has: see mailbox.c */ };

/* Most elements that one call of MPI moves: MPI counts with int. Tests make it small. */
extern size_t gs_mpi_most;

/* A message that was sent, and is kept until the peer has it: in pieces of at most gs_mpi_most bytes. */
typedef struct gs_mpi_copy {
    unsigned char *data;
    size_t room;
    MPI_Request *pieces;
    int count, pieces_room; /* 0: not under way */
} gs_mpi_copy;

/* Messages from one rank to another. Short ones have copies of their own, twice as many: the checking mode
 * sends a length before each message. Only one thread sends by it. */
typedef struct gs_mpi_mailbox {
    struct gs_mpi_mailbox *next;
    gs_mpi_channel channel;
    int tag;
    gs_mpi_copy copies[GS_MPI_COPIES + GS_MPI_SHORT_COPIES];
    unsigned turn, short_turn;
} gs_mpi_mailbox;

typedef struct gs_mpi {
    gs_comm comm;
    const char *noun; /* what messages call a rank: "rank" or "process" */
    long *pid;        /* [size] processes of this machine; 0: elsewhere */
    int level;        /* what MPI allows to threads */
    MPI_Comm channel[GS_MPI_CHANNELS];
    atomic_int waiting;   /* threads that let MPI work */
    pthread_mutex_t lock; /* guards all that follows but `failed` and the last two lines */
    atomic_bool failed;   /* once true, code and message do not change */
    gs_status code;
    char message[GS_LAST_WORDS];
    MPI_Request ear; /* where the last words of any rank arrive */
    char heard[GS_LAST_WORDS];
    gs_mpi_mailbox **mailboxes; /* [size], a list for each peer */
    gs_scratch scratch;         /* of the collective under way */
    size_t *first;              /* [size] of the collective under way: where a part begins, */
    int *count, *place;         /* [size] how long it is, and `first` as MPI is told */
} gs_mpi;

/* ---- wait.c ---- */

/* GS_E_PEER (or what it was) with the first message. */
gs_status gs_mpi_failed(const gs_mpi *);

/* From here on everything fails with `message`, here and, if `tell`, on all other ranks; the first one stays. */
void gs_mpi_fail(gs_comm *, gs_status code, const char *message, bool tell);

/* Has another rank failed? Then so has this one. Only one thread looks at a time. */
void gs_mpi_listen(gs_comm *);

/* As gs_mpi_fail, for a call of this rank: "rank 0: all_reduce of 5 f32: why". Returns the first failure. */
gs_status gs_mpi_fail_call(gs_comm *, const gs_call *call, const char *why);

/* `error` is what a call of MPI returned: anything but MPI_SUCCESS becomes a failure of `call`. */
gs_status gs_mpi_check(gs_comm *, const gs_call *call, int error);

/* Wait for what belongs to `call`. `peer` is the rank that it is done with, or -1: any. The status is that of the
 * last request, or MPI_STATUS_IGNORE. */
gs_status gs_mpi_wait(gs_comm *, const gs_call *call, int peer, int count, MPI_Request *, MPI_Status *);

/* ---- move.c ---- */

MPI_Datatype gs_mpi_unit(gs_type); /* moved, never combined */

/* broadcast (of `out`), all_gather, gather, scatter, all_to_all */
gs_status gs_mpi_move(gs_comm *, const gs_call *, const void *in, void *out);

/* ---- reduce.c ---- */

/* data = data of all ranks, reduced: on `root`, or with -1 on all */
gs_status gs_mpi_reduce(gs_comm *, const gs_call *, void *data, int root);
gs_status gs_mpi_reduce_scatter(gs_comm *, const gs_call *, const void *all, void *mine);

/* ---- mailbox.c: see gs_transport ---- */

gs_status gs_mpi_send(gs_comm *, const gs_envelope *, const void *data, size_t bytes);
gs_status gs_mpi_recv(gs_comm *, const gs_envelope *, void *data, size_t bytes);

/* Wait until all that was sent has left. */
gs_status gs_mpi_flush(gs_comm *);
void gs_mpi_free_mailboxes(gs_mpi *, int size);
