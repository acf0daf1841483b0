/* A team: the threads of one process that meet in shared memory and leave each other messages (team.c). Used by
 * threads.c alone. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "comm/transports.h"

enum { GS_LINE = 64 /* bytes of a cache line */ };

/* What a rank shows to the others, in cache lines of its own. */
typedef struct gs_seat {
    _Alignas(GS_LINE) gs_call call;
    const void *read;
    void *write;
    _Atomic uint64_t arrivals; /* how often this rank has arrived at a meeting */
    bool left;                 /* its comm was freed; under the lock */
    double since;              /* when it went to sleep at a meeting; 0: it does not sleep there; likewise */
    int ahead, most_ahead;     /* huge messages sent, less those received: now, most so far; likewise */
} gs_seat;

/* The copy of a message that is under way, or room for one. */
typedef struct gs_team_copy {
    struct gs_team_copy *next;
    size_t bytes, room; /* room: how long it may be */
    _Alignas(GS_LINE) unsigned char data[];
} gs_team_copy;

/* Copies to be used again; all have the same room, that of the longest message so far. */
typedef struct gs_spare {
    gs_team_copy *copies;
    size_t room;
} gs_spare;

/* From one rank to another. All is changed under the lock. */
typedef struct gs_mailbox {
    /* the oldest message under way; the receiver looks without the lock */
    _Alignas(GS_LINE) _Atomic(gs_team_copy *) first;
    gs_team_copy *last;
    double since;          /* when the receiver went to sleep for it; 0: it does not */
    gs_spare small, large; /* its own spare copies */
} gs_mailbox;

typedef struct gs_team {
    int size;
    int first_rank;                        /* messages call thread i "rank first_rank + i" */
    bool crowded;                          /* more ranks than cores */
    _Alignas(GS_LINE) atomic_int arrived;  /* ranks at the current meeting */
    _Alignas(GS_LINE) atomic_uint meeting; /* its number: counts up when all have come */
    atomic_bool failed;                    /* once true, `message` does not change */
    char message[GS_LAST_WORDS];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* meeting, failed, left, or a mailbox */
    int members;            /* comms that are not freed yet; under the lock */
    gs_seat *seats;         /* [size] */
    gs_mailbox *mailboxes;  /* [(part of a collective * size + from) * size + to] */
    gs_spare huge;          /* spare copies of all mailboxes; under the lock */
    int huge_made;          /* how many there are, spare or under way, of huge.room; likewise */
    int huge_wanted;        /* the sum of most_ahead; likewise */
    bool *missing;          /* [size], for a message; under the lock */
} gs_team;

/* NULL: out of memory. */
gs_team *gs_team_create(int size, int first_rank);

/* A rank leaves; the last one frees the team. Any rank that still waits for this one fails. */
void gs_team_leave(gs_team *, int rank);

/* From here on everything fails with `message`; the first message stays. */
void gs_team_fail(gs_team *, const char *message);

/* GS_E_PEER with the team's message. */
gs_status gs_team_failed(const gs_team *);

/* Wait until all ranks are here. Either all return GS_OK or none does. A rank that does not arrive within the timeout,
 * or never can, makes the team fail.
 *
 * leaving: the meeting at the end of an operation that all have begun and that only moves memory. That bounds the wait,
 * not the timeout, and a failure does not end it: a rank that went on alone would take its buffers away from under the
 * others. */
gs_status gs_team_meet(gs_comm *, bool leaving);

/* See gs_transport; the sender never waits. */
gs_status gs_team_send(gs_comm *, const gs_envelope *, const void *data, size_t bytes);
gs_status gs_team_recv(gs_comm *, const gs_envelope *, void *data, size_t bytes);
