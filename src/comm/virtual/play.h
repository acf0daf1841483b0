/* Virtual time: the ranks of a cluster execute their lists (list.h), each with a clock of its own, and nothing else
 * happens. What comes out depends on the lists and on the numbers here alone.
 *
 * Links are those of link.h, and mean the same as in gs_comm_linked_create. A message of b bytes occupies its sender's
 * line out for beta b, and alpha later its receiver's line in for as long; a sender does not wait. What differs is who
 * has a line:
 *
 *     host 0                         host 1
 *     rank 0 --+                 +-- rank 2          between hosts: one line out and one in for each host, which
 *              +== line ... line ==+                   its ranks share
 *     rank 1 --+                 +-- rank 3          inside a host: a line out and one in for each rank
 *
 * A line of one rank takes messages as linked.c does (gs_port), in the order in which they are received. A line that
 * several ranks share takes them in the order of time, across ranks: a host's outgoing line in order of sending, its
 * incoming line in the order of arrival; of two at the same moment that of the lower rank goes first.
 *
 * Ranks are executed one after the other, each until it has to wait for a message that has not been sent. A message
 * that wants a shared line waits until no rank can go on; then the earliest is let through. Nothing can come before it
 * any more: whoever goes on because of it does so later. (Chandy and Misra's conservative simulation, with one
 * process.) Ranks that share a list and no line are executed all together, which is much faster and gives the same.
 *
 * Times are whole picoseconds in doubles: sums are exact up to 2^53 ps, 2.5 hours, so that equal ranks stay equal.
 */
#pragma once

#include "comm/link.h"
#include "comm/virtual/list.h"

typedef struct gs_virtual_cluster {
    int ranks, hosts; /* hosts divides ranks; neighbouring ranks share one. Callers have checked that */
    gs_link between;  /* hosts */
    gs_link inside;   /* of a host; none: no time at all */
    double gamma;     /* seconds to add a byte to another */
} gs_virtual_cluster;

typedef enum gs_virtual_op {
    GS_VIRTUAL_BEGIN, /* of a step: the pause of the script passes, and the rank's clock starts after it */
    GS_VIRTUAL_PASS,  /* `seconds` pass */
    /* Of a rank with two threads: one works, the other has the messages, and does them in the order in which the first
     * one asks for them. */
    GS_VIRTUAL_WORK,  /* `seconds` pass for the thread that works */
    GS_VIRTUAL_ASK,   /* what follows begins when this moment of the working thread has come */
    GS_VIRTUAL_NOTE,  /* what came before is done: noted in `slot`, below GS_VIRTUAL_SLOTS */
    GS_VIRTUAL_AWAIT, /* the working thread waits for what `slot` notes */
    GS_VIRTUAL_JOIN,  /* each thread waits for the other */
    GS_VIRTUAL_LIST,  /* the rank's list of those of a group, whose ranks are `stride` apart */
    GS_VIRTUAL_SEND_ONE,
    GS_VIRTUAL_RECV_ONE, /* one message to or from the rank that is `peer` further, of `bytes` */
} gs_virtual_op;

typedef struct gs_virtual_item {
    gs_virtual_op op;
    int slot, stride, peer;
    double seconds;
    size_t bytes;
    const gs_virtual_list *list; /* [ranks of the group], or [1] that they share */
    int kind;                    /* the caller's: what it is, for who watches */
} gs_virtual_item;

enum { GS_VIRTUAL_SLOTS = 64 };

/* What a rank does in a step. Ranks may share items. */
typedef struct gs_virtual_script {
    const gs_virtual_item *item;
    int items;
    double pause; /* seconds, of BEGIN */
} gs_virtual_script;

/* Of one rank, since the last gs_virtual_play began; seconds, but for sent. */
typedef struct gs_virtual_account {
    double began, ended;  /* since the very beginning */
    double first_sum;     /* when its first list or message began */
    double communicating; /* in lists and messages */
    double sent[2];       /* bytes: to other hosts, inside its own */
} gs_virtual_account;

/* A line, since the last gs_virtual_play began: seconds that it carried messages. */
typedef struct gs_virtual_line {
    double out, in;
} gs_virtual_line;

typedef struct gs_virtual gs_virtual;

/* Both may be NULL. */
typedef struct gs_virtual_watch {
    /* After each item of a rank that takes time. */
    void (*passed)(void *context, int rank, const gs_virtual_item *, double from, double to);
    /* Now and then: which share of the messages and additions of this gs_virtual_play is done, 0 to 1. */
    void (*progress)(void *context, double share);
    void *context;
} gs_virtual_watch;

/* GS_E_MEMORY. */
gs_status gs_virtual_create(const gs_virtual_cluster *, gs_virtual_watch, gs_virtual **out);
void gs_virtual_free(gs_virtual *); /* NULL is allowed */

/* Execute a script for each rank, from where their clocks stand. GS_E_USAGE: they end in a deadlock, of which the
 * message names a rank; GS_E_MEMORY. */
gs_status gs_virtual_play(gs_virtual *, const gs_virtual_script *scripts);

const gs_virtual_account *gs_virtual_accounts(const gs_virtual *); /* [ranks] */
const gs_virtual_line *gs_virtual_lines(const gs_virtual *);       /* [hosts] */
