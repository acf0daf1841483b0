/* Processes of one machine in shared memory: what comm_shm.c, shm_seats.c and shm_letters.c share.
 *
 *     segment   | header: seats, failure | letter boxes | stage 0 | stage 1 | ... | letters ...
 */
#ifndef GS_SYNC_SHM_H
#define GS_SYNC_SHM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "sync/segment.h"
#include "sync/transports.h"

enum {
    GS_SHM_RANKS = 256, /* processes at most */
    GS_SHM_LINE = 64,   /* bytes of a cache line */
    GS_SHM_MESSAGE = 640,
    GS_SHM_BOXES = 2048, /* pairs of ranks that may send to each other, of all processes */
    GS_SHM_LETTERS = 4,  /* under way from one rank to another */
    GS_SHM_SHORT = 64,   /* bytes that a letter box itself holds of a letter */
};

/* What a process shows to the others, in cache lines of its own. */
typedef struct gs_shm_seat {
    _Alignas(GS_SHM_LINE) _Atomic uint32_t arrived; /* meetings that it has come to */
    atomic_bool left;                               /* its comm was freed */
    gs_call call[2];                                /* of the last two collectives */
} gs_shm_seat;

typedef struct gs_shm_letter {
    uint64_t bytes, at; /* where in the segment: for short letters in the box */
    int slot;           /* which of the box's places that is */
} gs_shm_letter;

/* Letters from one rank to another. The sender alone writes `place` and `letter`. */
typedef struct gs_shm_box {
    _Alignas(GS_SHM_LINE) _Atomic uint64_t key; /* whose box it is; 0: nobody's yet */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t sent;
    _Alignas(GS_SHM_LINE) _Atomic uint32_t taken;
    gs_shm_letter letter[GS_SHM_LETTERS]; /* letter i is in [i % GS_SHM_LETTERS] */
    struct {
        uint64_t at, bytes; /* memory for long letters */
    } place[GS_SHM_LETTERS];
    _Alignas(GS_SHM_LINE) unsigned char small[GS_SHM_LETTERS][GS_SHM_SHORT];
} gs_shm_box;

typedef struct gs_shm_header {
    _Alignas(GS_SHM_LINE) atomic_int failed; /* 0; 1: somebody writes the message; 2: it is there */
    gs_status code;
    char message[GS_SHM_MESSAGE];
    _Alignas(GS_SHM_LINE) atomic_int sleepers; /* those that wait for `events` to change */
    _Alignas(GS_SHM_LINE) _Atomic uint32_t events;
    _Alignas(GS_SHM_LINE) _Atomic uint64_t used; /* bytes of the segment */
    gs_shm_seat seats[];                         /* [size] */
} gs_shm_header;

/* One process's view. */
typedef struct gs_shm {
    gs_segment segment;
    gs_shm_header *header;
    gs_shm_box *boxes;    /* [GS_SHM_BOXES] */
    unsigned char *stage; /* of rank 0; that of rank r is r * 2 * half further on */
    size_t half;          /* bytes of one half of a stage */
    int rank, size;
    const char *noun;  /* what messages call a rank: "rank" or "process" */
    bool spins;        /* there is a core for each process */
    int *watch;        /* [size] a descriptor that says when the process has ended; -1: this one */
    long *pid;         /* [size] */
    uint32_t meetings; /* that this process has come to */
    uint32_t calls;    /* collectives begun */
    uint32_t blocks;   /* that have gone through its stage: they take turns in the halves */
} gs_shm;

/* ---- shm_seats.c: waiting and failing ---- */

/* What a rank waits for: is(context, rank) tells whether it is there, for each rank that is looked at. */
typedef struct gs_shm_wait {
    bool (*is)(const struct gs_shm_wait *, int rank);
    gs_shm *shm;
    int from;            /* the only rank that is looked at; -1: all */
    uint32_t want;       /* for `is` */
    void *what;          /* for `is` */
    const gs_call *call; /* for messages: what waits */
    double timeout;
} gs_shm_wait;

/* Return when all are there. Not GS_OK: a rank was lost, or did not come within the timeout, or somebody has
 * failed; then all have. */
gs_status gs_shm_wait_for(const gs_shm_wait *);

/* Tell those who sleep that something has changed. */
void gs_shm_wake(gs_shm *);

/* From here on everything fails with this message; the first one stays. */
void gs_shm_fail(gs_shm *, gs_status code, const char *message);
bool gs_shm_has_failed(const gs_shm *);
gs_status gs_shm_failed(const gs_shm *); /* the failure */

/* All processes are here. */
gs_status gs_shm_meet(gs_shm *, const gs_call *, double timeout);

/* A collective begins: show the call to the others, and after the first meeting look whether all call the same.
 * Anything else is a mistake in the program. */
void gs_shm_show(gs_shm *, const gs_call *);
void gs_shm_compare(const gs_shm *, const gs_call *);

/* ---- shm_letters.c ---- */

gs_status gs_shm_send(gs_shm *, uint64_t key, const void *data, size_t bytes, int to, const gs_call *,
                      double timeout);
gs_status gs_shm_recv(gs_shm *, uint64_t key, void *data, size_t bytes, int from, const gs_call *,
                      double timeout);

/* ---- shm_open.c ---- */

/* Connect the processes of `gloo`, which stays as it is. *why is set where that cannot be, on all of them, and
 * *out is NULL then: they are not on one machine, say. Other failures are those of gloo. */
gs_status gs_shm_open(gs_comm *gloo, gs_shm **out, char *why, size_t size);
void gs_shm_close(gs_shm *);

#endif
