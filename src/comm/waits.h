/* Who waits for whom, and who is to blame when a wait was too long. All ranks give up at about the same time. If rank 0
 * waits for rank 1, and rank 1 for rank 2, then rank 0 must not take rank 1 for lost:
 *
 *     rank 0 --waits for--> rank 1 --waits for--> rank 2, which waits for nobody: rank 2 is to blame
 *
 * A process that is stopped (SIGSTOP; core/process.h) or has ended is to blame before all others, whatever it waited
 * for. Time in which a process is stopped does not count as its wait (gs_awake_seconds). Next comes a network that
 * is cut (gloo/failure.c): then no rank is to blame.
 *
 * Here is whom to blame, and the sentence that says so, for all transports; over Gloo see gloo/watchdog.c and
 * gloo/failure.c too. Only for src/comm/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GS_ADDRESS = 64, /* bytes of the address of a rank, in numbers */
    GS_HOST = 64,    /* bytes of the name of a host, with its 0 */
};

typedef struct gs_waits {
    const char *noun;    /* what messages call a rank: "rank" or "process" */
    int first;           /* and the number that they give rank 0 */
    int size, rank;      /* of the one that gives up, */
    double timeout;      /* after this many seconds, */
    const bool *awaited; /* [size] whom it waited for, */
    bool one_of;         /* or for only one of them: the library does not say which */
    /* [size * size] age[a * size + b]: seconds that rank a has waited for rank b; 0: it does not; NULL: not known */
    const double *age;
    /* [size] processes of this machine; 0: it runs elsewhere; NULL: all are threads of one */
    const long *pid;
    const bool *silent; /* [size * size] nothing that rank a sends gets through to rank b; NULL: not known */
    const char (*address)[GS_ADDRESS]; /* [size] of each rank, where `silent` is known */
    const char (*host)[GS_HOST];       /* [size] where each rank runs; NULL: known only of those in pid */
    const uint64_t *last; /* [size] the last call that is known of each rank (gs_call_pack), 0: none; NULL */
    const char *did;      /* how it is known: "last began" */
} gs_waits;

/* Append "no answer within 2 s from rank 1, which waits for rank 2 (process 4711 is stopped) on host anna; rank 2 last
 * began all_reduce of 8 f32", or "no answer within 2 s from rank 1; nothing gets through between rank 0 (10.0.0.1) and
 * rank 1 (10.0.0.2): the network is cut there, or a machine is down". */
void gs_waits_explain(const gs_waits *, char *text, size_t size);

/* ---- ranks in messages: "rank 1", "ranks 0, 2 and 3"; and where they run: " on host anna" ---- */

/* Append those of 0 .. count-1 that are marked to `text`, which takes `size` bytes; mark[i] is called
 * first + i, and a rank is called `noun`. Returns how many there are. */
void gs_append_ranks(char *text, size_t size, const char *noun, int first, int count, const bool *mark);

/* Append " on host anna" or " on hosts anna, bert" for those marked; nothing where the names are not known (""). */
void gs_append_hosts(char *text, size_t size, int count, const bool *mark, const char (*host)[GS_HOST]);
