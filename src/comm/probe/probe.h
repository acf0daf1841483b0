/* What the machines of a run see of each other, before there is a run: `gradsum doctor --meet`. One process on each:
 *
 *     1. all        meet as the ranks of a run do (meet/meeting.h), and tell what they are
 *     2. who comes  all of them; or those that are there when the first of them has waited long enough ("roll")
 *     3. all        connect, each with each, as the ranks of a run do (mesh.h), and tell whom they could not reach
 *     4. pairs      measure round trip, bandwidth and clocks, in rounds in which each has one partner (measure.c)
 *     5. all        tell what they have measured: every machine knows all pairs
 *
 * Nothing here ends because another machine is absent, closed or different: that is what is found out. What is wrong is
 * told as soon as it is known (gs_probe_news), at most 2 s later: measuring many pairs takes longer than that.
 */
#pragma once

#include "comm/comm.h"
#include "comm/mesh.h"

enum { GS_PROBE_FACTS = 900 /* bytes of what a machine tells */ };

/* A machine, as it tells. */
typedef struct gs_probe_host {
    bool came;
    bool late; /* this one, after the others had begun without it */
    char name[64];
    char address[GS_ADDRESS]; /* where its ranks would listen, */
    char interface[40];       /* of this interface: " (eth0)"; "" */
    char route[GS_ADDRESS];   /* the address by which it reaches the place where all meet */
    char facts[GS_PROBE_FACTS];
} gs_probe_host;

/* Between ranks a < b. */
typedef struct gs_probe_link {
    bool known; /* else one of them never came, or ended too early */
    bool works;
    double round_trip; /* s, the median */
    double down, up;   /* bytes/s: from b to a, and from a to b */
    double ahead;      /* s: the clock of a minus that of b */
    char why[GS_MESH_WHY];
} gs_probe_link;

typedef struct gs_probe {
    int size, rank;
    char strangers[300]; /* who else came; "" */
    gs_probe_host *host; /* [size] */
    gs_probe_link *link; /* [size * size]: a < b is at a * size + b */
} gs_probe;

/* What is known before the end. Each is called once at most. left: for so many seconds it goes on waiting. */
typedef struct gs_probe_news {
    void *context;
    /* The place where all meet does not answer; it is tried again. */
    void (*unreached)(void *context, const char *why, double left);
    /* The others that have come so far. */
    void (*waits)(void *context, const gs_probe *, double left);
    /* Who has come, and between whom there is no connection: known, and works is false. Nothing is measured yet. */
    void (*connected)(void *context, const gs_probe *);
} gs_probe_news;

/* facts: lines of this machine, "name value"; every machine gets those of all. The rendezvous is that of one process on
 * each node; its timeout is the wait for latecomers. Errors: this machine cannot meet the others at all (no such
 * interface, no store, another secret, a rank that has come twice); the message says why. */
gs_status gs_probe_run(const gs_rendezvous *, const char *facts, const gs_probe_news *, gs_probe **out);

void gs_probe_free(gs_probe *); /* NULL is allowed */

/* Can processes of this machine share memory? Errors: those of shm/segment.h. bytes: how much they need. */
gs_status gs_probe_shared_memory(size_t bytes);

/* ---- measure.c ---- */

/* Both ends of a connection of two ranks call it, one of them as the caller. GS_E_PEER: it broke, or was too slow. The
 * caller alone gets *out. */
gs_status gs_probe_measure(int socket, bool is_caller, gs_probe_link *out);
