/* Check the connections between the machines of a run in advance (`gradsum doctor --meet`), with one process on each:
 *
 *     1. all        meet like the ranks of a run (rendezvous/rendezvous.h), and exchange their facts
 *     2. roll       lists all machines, or those that have come when the first one has waited long enough
 *     3. all        connect pairwise, like the ranks of a run (mesh.h), and tell which machines they could not reach
 *     4. pairs      measure round trip and bandwidth, in rounds with one partner each, and tell the results
 *
 * An absent or unreachable machine is a finding, not an error.
 */
#pragma once

#include "comm/mesh.h"

/* A machine, as it reports itself. */
typedef struct gs_probe_host {
    bool came;
    char name[64];
    char address[GS_ADDRESS]; /* where its ranks would listen */
    char facts[1000];         /* lines "name value" */
} gs_probe_host;

/* Between ranks a < b. */
typedef struct gs_probe_link {
    bool known; /* false: one of the two never came, or ended too early */
    bool works;
    double round_trip; /* s, the median */
    double rate;       /* bytes/s, the mean of both directions */
    char why[GS_MESH_WHY];
} gs_probe_link;

typedef struct gs_probe {
    int size, rank;
    char strangers[300]; /* rejected callers, as text; "": none */
    gs_probe_host *host; /* [size] */
    gs_probe_link *link; /* [size * size]: ranks a < b are at a * size + b */
} gs_probe;

/* Called once if a machine is missing after a short while, with those that have come and the seconds left to wait. */
typedef void gs_probe_waits(void *context, const gs_probe *, double left);

/* facts: lines about this machine. Every machine gets the facts of all, each with two more lines: "interface", and
 * "route", the address from which that machine reaches the store. The rendezvous has one process on each node; its
 * timeout limits the wait for missing machines. Errors: this machine cannot meet the others (no such interface, no
 * store, another secret, a rank that came twice or too late); the message says why. */
gs_status gs_probe_run(const gs_rendezvous *, const char *facts, gs_probe_waits *waits, void *context,
                       gs_probe **out);

void gs_probe_free(gs_probe *); /* NULL is allowed */
