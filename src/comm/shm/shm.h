/* Processes of one machine in shared memory: what shm.c shares with two_level/.
 *
 *     segment   | header: slots, failure | mailboxes | who waits | stage 0 | stage 1 | ... | messages ...
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "comm/transports.h"

/* Memory that several processes of one machine share. It has no name and no file. */
typedef struct gs_segment {
    unsigned char *base; /* at another address in each process: refer to a place by its distance from here */
    int file;
} gs_segment;

/* ---- what lies in it ---- */

enum {
    GS_SHM_RANKS = 256,      /* processes at most */
    GS_SHM_LINE = 64,        /* bytes of a cache line */
    GS_SHM_MAILBOXES = 2048, /* pairs of ranks that may send to each other, of all processes */
    GS_SHM_COPIES = 4,       /* messages under way from one rank to another */
    GS_SHM_SHORT = 64,       /* bytes of a message that the mailbox itself holds */
};

/* What a process shows to the others, in cache lines of its own. */
typedef struct gs_shm_rank_slot {
    _Alignas(GS_SHM_LINE) _Atomic uint32_t arrived; /* barriers that it has come to */
    atomic_bool left;                               /* its comm was freed */
    gs_call call[2];                                /* of the last two collectives */
    _Atomic uint64_t last; /* the last operation that it has begun (gs_call_pack), for messages of failures */
} gs_shm_rank_slot;

/* The copy of a message. */
typedef struct gs_shm_copy {
    uint64_t bytes, at; /* where in the segment: short ones are in the mailbox */
    int buffer;         /* which of the mailbox's that is */
} gs_shm_copy;

/* Messages from one rank to another. The sender alone writes `buffer` and `copy`. */
typedef struct gs_shm_mailbox {
    _Alignas(GS_SHM_LINE) _Atomic uint64_t key; /* whose it is; 0: nobody's yet */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t sent;
    _Alignas(GS_SHM_LINE) _Atomic uint32_t taken;
    gs_shm_copy copy[GS_SHM_COPIES]; /* message i is in [i % GS_SHM_COPIES] */
    struct {
        uint64_t at, bytes; /* memory for long messages */
    } buffer[GS_SHM_COPIES];
    _Alignas(GS_SHM_LINE) unsigned char small[GS_SHM_COPIES][GS_SHM_SHORT];
} gs_shm_mailbox;

typedef struct gs_shm_header {
    _Alignas(GS_SHM_LINE) atomic_int failed; /* 0; 1: somebody writes the message; 2: it is there */
    gs_status code;
    char message[GS_FAILURE_TEXT];
    _Alignas(GS_SHM_LINE) atomic_int sleepers; /* those that wait for `events` to change */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t events;
    _Alignas(GS_SHM_LINE) _Atomic uint64_t used; /* bytes of the segment */
    gs_shm_rank_slot slots[];                    /* [size] */
} gs_shm_header;

/* One process's view. */
typedef struct gs_shm {
    gs_comm comm;
    gs_segment segment;
    gs_shm_header *header;
    gs_shm_mailbox *mailboxes; /* [GS_SHM_MAILBOXES] */
    _Atomic uint64_t
        *waits; /* [size * size] since when (ns) rank a waits for rank b: see waits.h; 0: it does not */
    unsigned char *stage; /* of rank 0; that of rank r is r * 2 * half further on */
    size_t half;          /* bytes of one half of a stage */
    int rank, size;
    int first; /* what messages call rank 0: where this is one of several machines (two_level/), else 0 */
    /* Of several machines: a rank here may itself wait for one elsewhere. So one that waits too long tells it to the
     * others, and waits for so many seconds more, unless the one that it waits for is stopped, or ranks elsewhere have
     * ended the run. */
    double grace;
    void (*late)(gs_comm *all, const int *ranks, int count); /* ranks: with `first` */
    gs_status (*check_peers)(
        gs_comm *all); /* fails once the run has ended elsewhere: then so does the wait */
    gs_comm *all;      /* of all machines */
    const char *noun;  /* what messages call a rank: "rank" or "process" */
    bool spins;        /* there is a core for each process */
    int *watch;        /* [size] descriptors that say when a process has ended */
    long *pid;         /* [size] */
    uint32_t barriers; /* that this process has reached */
    uint32_t calls;    /* collectives begun */
    uint32_t blocks;   /* that have gone through its stage: they take turns in the halves */
} gs_shm;
