/* Virtual time: the ranks of a cluster execute their scripts, each with its own clock. The result depends only on the
 * scripts and the cluster's numbers.
 *
 * Links are those of link.h, with the same meaning as in gs_comm_linked_create. A message of b bytes occupies its
 * sender's outgoing line for beta b and, alpha later, its receiver's incoming line for the same time; a sender does not
 * wait. The difference is who owns a line:
 *
 *     host 0                         host 1
 *     rank 0 --+                 +-- rank 2          between hosts: one line out and one in for each host, which
 *              +== line ... line ==+                   its ranks share
 *     rank 1 --+                 +-- rank 3          inside a host: a line out and one in for each rank
 *
 * A line of one rank takes messages as in linked.c (gs_port), in the order in which they are received. A shared line
 * takes the messages of all its ranks in order of time: an outgoing line in order of sending, an incoming line in order
 * of arrival. Of two messages at the same time, the lower rank's goes first.
 *
 * One rank runs at a time, until it needs a message that has not been sent. A message for a shared line waits until no
 * rank can continue; then the earliest such message passes. No earlier message can appear afterwards: the ranks that it
 * wakes continue at a later time (Chandy and Misra's conservative simulation, with one process). Ranks that share a
 * list but no line execute it together, which is much faster and gives the same numbers.
 *
 * Times are whole picoseconds in doubles. Sums are exact up to 2^53 ps, or 2.5 hours, so equal ranks stay equal.
 */
#pragma once

#include <stdint.h>

#include "comm/link.h"
#include "core/error.h"

/* ---- what one rank does in a collective or a scheme (predict/message_lists.h) ---- */

typedef enum gs_virtual_action {
    GS_VIRTUAL_SEND,
    GS_VIRTUAL_RECV,
    GS_VIRTUAL_ADD, /* adds `bytes` bytes to as many others */
} gs_virtual_action;

typedef struct gs_virtual_move {
    union {
        size_t bytes;
        size_t part; /* of a shared list */
    };
    int32_t peer; /* of SEND and RECV: the other rank */
    gs_virtual_action action;
} gs_virtual_move;

typedef struct gs_virtual_list {
    int ranks; /* N */
    uint32_t moves;
    gs_virtual_move *move;
    /* [N] in a shared list, where ranks and parts are counted from the executing rank, modulo N: for each part, the
     * bytes of its message, and those of its floats. NULL: the list belongs to one rank */
    const size_t *message, *added;
} gs_virtual_list;

/* ---- the cluster and its scripts ---- */

typedef struct gs_virtual_cluster {
    int ranks, hosts; /* hosts must divide ranks (callers check this); neighbouring ranks share a host */
    gs_link between;  /* hosts */
    gs_link inside;   /* within a host; none: takes no time */
    double gamma;     /* seconds to add a byte to another */
} gs_virtual_cluster;

typedef enum gs_virtual_op {
    GS_VIRTUAL_LAYERS, /* forward or backward of layers takes `seconds` */
    GS_VIRTUAL_UPDATE, /* the update takes `seconds` */
    /* Jobs of a rank's second thread, done in the order in which the first thread gives them. Lists and messages
     * outside jobs wait until all jobs are done. */
    GS_VIRTUAL_ASK,   /* gives a job: the items up to its NOTE. The job cannot begin earlier */
    GS_VIRTUAL_NOTE,  /* the end of the job; its time is noted in `slot`, below GS_VIRTUAL_SLOTS */
    GS_VIRTUAL_AWAIT, /* wait for the time noted in `slot` */
    GS_VIRTUAL_JOIN,  /* wait for all jobs */
    GS_VIRTUAL_LIST,  /* the rank's list in a group whose ranks are `stride` apart */
    GS_VIRTUAL_SEND_ONE,
    GS_VIRTUAL_RECV_ONE, /* one message of `bytes` to or from rank + `peer` */
} gs_virtual_op;

typedef struct gs_virtual_item {
    gs_virtual_op op;
    int slot, stride, peer;
    double seconds;
    size_t bytes;
    const gs_virtual_list *list; /* [ranks of the group], or [1] if they share it */
    int kind;                    /* for the caller's watch */
} gs_virtual_item;

enum { GS_VIRTUAL_SLOTS = 64 };

/* What a rank does in a step. Ranks may share items. */
typedef struct gs_virtual_script {
    const gs_virtual_item *item;
    int items;
    double pause; /* seconds, before the items */
} gs_virtual_script;

/* The times of one rank in the last gs_virtual_play, in seconds, and the bytes it sent. */
typedef struct gs_virtual_account {
    double ended;         /* since the first gs_virtual_play began */
    double first_sum;     /* when its first list or message began */
    double communicating; /* in lists and messages */
    double sent[2];       /* bytes: to other hosts, and within its own */
} gs_virtual_account;

/* The lines of a host: how many seconds of the last gs_virtual_play they carried messages out of it, and into it. */
typedef struct gs_virtual_line {
    double busy[2];
} gs_virtual_line;

typedef struct gs_virtual gs_virtual;

/* Callbacks; both may be NULL. */
typedef struct gs_virtual_watch {
    /* Called after each item of a rank that takes time; item NULL: after its pause. */
    void (*passed)(void *context, int rank, const gs_virtual_item *, double from, double to);
    /* Called about 20 times a second: the share, 0 to 1, of this play's messages and additions that is done. */
    void (*progress)(void *context, double share);
    void *context;
} gs_virtual_watch;

/* GS_E_MEMORY. */
gs_status gs_virtual_create(const gs_virtual_cluster *, gs_virtual_watch, gs_virtual **out);
void gs_virtual_free(gs_virtual *); /* NULL is allowed */

/* Execute a script for each rank; clocks continue from their current times. GS_E_USAGE: a deadlock; the message names
 * one of its ranks. GS_E_MEMORY. */
gs_status gs_virtual_play(gs_virtual *, const gs_virtual_script *scripts);

const gs_virtual_account *gs_virtual_accounts(const gs_virtual *); /* [ranks] */
const gs_virtual_line *gs_virtual_lines(const gs_virtual *);       /* [hosts] */
