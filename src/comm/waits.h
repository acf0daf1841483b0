/* Find the rank to blame when a wait has taken too long. All ranks give up at about the same time. If rank 0 waits for
 * rank 1, and rank 1 waits for rank 2, then rank 0 must not report rank 1 as lost:
 *
 *     rank 0 --waits for--> rank 1 --waits for--> rank 2, which waits for nobody: rank 2 is to blame
 *
 * Two rules come first. A process that is stopped (SIGSTOP; core/process.h) or has ended is to blame. (Time during
 * which a process is stopped does not count towards its own wait: gs_awake_seconds.) Next, if the network is cut
 * (gloo/failure.c), no rank is to blame.
 *
 * This is for all transports; the one over Gloo also has gloo/watchdog.c and gloo/failure.c. Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GS_ADDRESS = 64, /* bytes of a rank's numeric address */
    GS_HOST = 64,    /* bytes of a host's name, with its 0 */
};

typedef struct gs_waits {
    const char *noun;    /* what messages call a rank: "rank" or "process" */
    int first;           /* the number of rank 0 in messages */
    int size, rank;      /* rank: the one that gives up */
    double timeout;      /* seconds after which it gives up */
    const bool *awaited; /* [size] the ranks that it waited for */
    bool one_of;         /* it may have waited for only one of them; the library does not say which */
    /* [size * size] age[a * size + b]: seconds that rank a has waited for rank b; 0: it does not wait; NULL: unknown */
    const double *age;
    /* [size] processes of this machine; 0: on another machine; NULL: all are threads of one process */
    const long *pid;
    const bool *silent; /* [size * size] nothing that rank a sends reaches rank b; NULL: unknown */
    const char (*address)[GS_ADDRESS]; /* [size]; NULL only if `silent` is */
    const char (*host)[GS_HOST];       /* [size] where each rank runs; NULL: known only for those in pid */
    /* [size] the last known call of each rank (gs_call_pack); 0: none; may be NULL */
    const _Atomic uint64_t *last;
    const char *did; /* how `last` is known: "last began" */
} gs_waits;

/* Append "no answer within 2 s from rank 1, which waits for rank 2 (process 4711 is stopped) on host anna; rank 2 last
 * began all_reduce of 8 f32", or "no answer within 2 s from rank 1; nothing gets through between rank 0 (10.0.0.1) and
 * rank 1 (10.0.0.2): the network is cut there, or a machine is down". */
void gs_waits_explain(const gs_waits *, char *text, size_t size);

/* ---- ranks in messages: "rank 1", "ranks 0, 2 and 3"; and where they run: " on host anna" ---- */

/* Append those ranks of 0 .. count-1 that are marked to `text` of `size` bytes; rank i is called "`noun` first + i". */
void gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark);

/* Append " on host anna" or " on hosts anna, bert" for the marked ranks; nothing if the names are unknown (""). */
void gs_append_hosts(char *text, size_t size, int count, const bool *mark, const char (*host)[GS_HOST]);
