/* Processes of one machine that share memory; for shm.c and two_level/.
 *
 *     segment   | header: failure, slots | mailboxes | waits | stage 0 | stage 1 | ... | messages ...
 */
#pragma once

#include <stdatomic.h>
#include "comm/transports.h"

/* Memory that several processes of one machine share, without a file name. */
typedef struct gs_segment {
    unsigned char *base; /* differs between processes, so they exchange offsets from it */
    int file;
} gs_segment;

/* ---- its contents ---- */

enum {
    GS_SHM_RANKS = 256,      /* maximum number of processes */
    GS_SHM_LINE = 64,        /* bytes of a cache line */
    GS_SHM_MAILBOXES = 2048, /* maximum number of sender-receiver pairs, over all processes */
    GS_SHM_COPIES = 4,       /* maximum number of messages under way from one rank to another */
    GS_SHM_SHORT = 64,       /* maximum bytes of a message that the mailbox itself holds */
};

/* What a process shows to the others, in separate cache lines. */
typedef struct gs_shm_rank_slot {
    _Alignas(GS_SHM_LINE) _Atomic uint32_t arrived; /* barriers that it has reached */
    atomic_bool left;                               /* its comm was freed */
    gs_call call[2];                                /* the last two collectives' calls */
    _Atomic uint64_t last; /* the last operation that it has begun (gs_call_pack), for failure messages */
} gs_shm_rank_slot;

/* A copy of a message. */
typedef struct gs_shm_copy {
    uint64_t bytes, at; /* at: offset in the segment; short messages stay in the mailbox */
    int buffer;         /* its index in the mailbox */
} gs_shm_copy;

/* Messages from one rank to another. Only the sender writes `buffer` and `copy`. */
typedef struct gs_shm_mailbox {
    _Alignas(GS_SHM_LINE) _Atomic uint64_t key; /* made of sender and receiver; 0: free */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t sent;
    _Alignas(GS_SHM_LINE) _Atomic uint32_t taken;
    gs_shm_copy copy[GS_SHM_COPIES]; /* message i is in copy[i % GS_SHM_COPIES] */
    struct {
        uint64_t at, bytes; /* memory for long messages */
    } buffer[GS_SHM_COPIES];
    _Alignas(GS_SHM_LINE) unsigned char small[GS_SHM_COPIES][GS_SHM_SHORT];
} gs_shm_mailbox;

typedef struct gs_shm_header {
    _Alignas(GS_SHM_LINE) atomic_int failed; /* 0; 1: the message is being written; 2: it is there */
    gs_status code;
    char message[GS_FAILURE_TEXT];
    _Alignas(GS_SHM_LINE) atomic_int sleepers; /* ranks that wait for `events` to change */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t events;
    _Alignas(GS_SHM_LINE) _Atomic uint64_t used; /* bytes of the segment in use */
    gs_shm_rank_slot slots[];                    /* [size] */
} gs_shm_header;

/* One process's view. */
typedef struct gs_shm {
    gs_comm comm;
    gs_segment segment;
    gs_shm_header *header;
    gs_shm_mailbox *mailboxes; /* [GS_SHM_MAILBOXES] */
    _Atomic uint64_t
        *waits; /* [size * size] when rank a began to wait for rank b, in ns (see waits.h); 0: it does not */
    unsigned char *stage; /* rank 0's stage; that of rank r is r * 2 * half bytes further on */
    size_t half;          /* bytes of one half of a stage */
    int rank, size;
    int first; /* the number of rank 0 in messages; nonzero only in two_level/ */
    /* In two_level/ an awaited rank may itself be waiting for one on another machine. Therefore a rank that waits too
     * long tells all others, and waits `grace` seconds more, unless an awaited rank is stopped, or the run has failed
     * on another machine. */
    double grace;
    gs_comm *all;      /* in two_level/: the ranks of all machines, over Gloo; else NULL */
    const char *noun;  /* what messages call a rank: "rank" or "process" */
    bool spins;        /* there is a core for each process */
    int *watch;        /* [size] descriptors that tell when a process has ended */
    long *pid;         /* [size] */
    uint32_t barriers; /* barriers that this process has reached */
    uint32_t calls;    /* collectives begun */
    uint32_t blocks;   /* blocks that have passed through its stage; they alternate between the halves */
} gs_shm;
