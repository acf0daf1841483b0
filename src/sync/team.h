/* A team: the threads of one process that meet in shared memory (team.c) and write each other letters
 * (letters.c). Used by comm_threads.c alone. */
#ifndef GS_SYNC_TEAM_H
#define GS_SYNC_TEAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "sync/call.h"

enum { GS_LINE = 64 /* bytes of a cache line */, GS_TEAM_MESSAGE = 640 };

/* What a rank shows to the others, in cache lines of its own. */
typedef struct gs_seat {
    _Alignas(GS_LINE) gs_call call;
    const void *read;
    void *write;
    _Atomic uint64_t arrivals; /* how often this rank has come to a meeting */
    bool left;                 /* its comm was freed; under the lock */
    int ahead, most_ahead;     /* huge letters sent, less those received: now, at most; likewise */
} gs_seat;

/* A message from one rank to another. */
typedef struct gs_letter {
    struct gs_letter *next;
    size_t bytes, room; /* room: how long it may be */
    _Alignas(GS_LINE) unsigned char data[];
} gs_letter;

/* Received letters, to be used again; all have the same room, that of the longest message so far. */
typedef struct gs_spare {
    gs_letter *letters;
    size_t room;
} gs_spare;

/* The way from one rank to another. All is changed under the lock. */
typedef struct gs_post {
    _Alignas(
        GS_LINE) _Atomic(gs_letter *) first; /* the oldest under way; who waits for it looks without lock */
    gs_letter *last;
    gs_spare small, large; /* its own spare letters */
} gs_post;

typedef struct gs_team {
    int size;
    int first_rank;                        /* messages call thread i "rank first_rank + i" */
    bool crowded;                          /* more ranks than cores */
    _Alignas(GS_LINE) atomic_int arrived;  /* ranks that have come to the present meeting */
    _Alignas(GS_LINE) atomic_uint meeting; /* its number: counts up when all have come */
    atomic_bool failed;                    /* once true, `message` does not change */
    char message[GS_TEAM_MESSAGE];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* meeting, failed, left, or a post */
    int members;            /* comms that are not freed yet; under the lock */
    gs_seat *seats;         /* [size] */
    gs_post *posts;         /* [from * size + to] */
    gs_spare huge;          /* spare letters of all posts; under the lock */
    int huge_made;          /* how many there are, spare or under way, of huge.room; likewise */
    int huge_wanted;        /* the sum of most_ahead; likewise */
    bool *missing;          /* [size], for a message; under the lock */
} gs_team;

/* NULL: out of memory. */
gs_team *gs_team_create(int size, int first_rank);

/* A rank goes; the last one takes the team with it. Whoever still waits for this rank fails. */
void gs_team_leave(gs_team *, int rank);

/* From here on everything fails with `message`; the first message stays. _locked: the caller holds the
 * lock. */
void gs_team_fail(gs_team *, const char *message);
void gs_team_fail_locked(gs_team *, const char *message);

/* GS_E_PEER with the team's message. */
gs_status gs_team_failed(const gs_team *);

/* Wait until all ranks are here. Either all come out of it with GS_OK or none does. A rank that does not come
 * within the timeout, or never can, makes the team fail.
 *
 * leaving: the meeting at the end of an operation that all have begun, where only memory is moved. It is
 * bounded by that and not by the timeout, and a failure does not end it: a rank that went on alone would take
 * its buffers away from under the others. */
gs_status gs_team_meet(gs_comm *, bool leaving);

/* When a wait that begins now must end; NULL: never. */
const struct timespec *gs_team_deadline(const gs_comm *, struct timespec *until);

/* Sleep until something changes; false when the deadline has passed. The caller holds the lock. */
bool gs_team_sleep_locked(gs_team *, const struct timespec *deadline);

/* ---- letters.c: see send and recv in comm.h; the sender never waits ---- */

gs_status gs_team_send(gs_comm *, const void *data, size_t bytes, int to);
gs_status gs_team_recv(gs_comm *, void *data, size_t bytes, int from);
void gs_team_free_letters(gs_team *);

#endif
