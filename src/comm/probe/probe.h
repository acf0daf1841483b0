/* What the machines of a run see of each other, before there is a run: `gradsum doctor --meet`. One process on each:
 *
 *     1. all        meet as the ranks of a run do (rendezvous/rendezvous.h), and tell what they are
 *     2. who comes  all of them; or those that are there when the first of them has waited long enough ("roll")
 *     3. all        connect, each with each, as the ranks of a run do (mesh.h), and tell whom they could not reach
 *     4. pairs      measure round trip and bandwidth, in rounds in which each has one partner, and tell them
 *
 * An absent or closed machine ends nothing here: finding it is the purpose.
 */
#pragma once

#include "comm/create.h"
#include "comm/mesh.h"

/* A machine, as it tells. */
typedef struct gs_probe_host {
    bool came;
    char name[64];
    char address[GS_ADDRESS]; /* where its ranks would listen */
    char facts[1000];         /* lines "name value" */
} gs_probe_host;

/* Between ranks a < b. */
typedef struct gs_probe_link {
    bool known; /* else one of them never came, or ended too early */
    bool works;
    double round_trip; /* s, the median */
    double rate;       /* bytes/s, the mean of both directions */
    char why[GS_MESH_WHY];
} gs_probe_link;

typedef struct gs_probe {
    int size, rank;
    char strangers[300]; /* who else came; "" */
    gs_probe_host *host; /* [size] */
    gs_probe_link *link; /* [size * size]: a < b is at a * size + b */
} gs_probe;

/* Called once, where somebody has not come after a short while: who has, and for how many seconds the wait goes on. */
typedef void gs_probe_waits(void *context, const gs_probe *, double left);

/* facts: lines of this machine; every machine gets those of all, with two more: "interface" and "route", the address by
 * which it reaches the place where all meet. The rendezvous is that of one process on each node; its timeout is the
 * wait for latecomers. Errors: this machine cannot meet the others at all (no such interface, no store, another secret,
 * a rank that has come twice, or too late); the message says why. */
gs_status gs_probe_run(const gs_rendezvous *, const char *facts, gs_probe_waits *waits, void *context,
                       gs_probe **out);

void gs_probe_free(gs_probe *); /* NULL is allowed */
