/* What the files of this folder share: the ranks, the messages under way, the lines. See play.h. */
#pragma once

#include "comm/port.h"
#include "comm/virtual/play.h"

/* A message under way. It is in two queues: that of its sender and receiver, and while it waits for a shared line in
 * that of a source. 0 is none. */
typedef struct gs_under_way {
    double time; /* as `stage` says */
    double takes;
    double left; /* of that, with tcp: what has not begun to leave */
    uint32_t next, next_in_source;
    int32_t from, to;
    int32_t stage;
} gs_under_way;

enum {
    GS_STAGE_LEFT,    /* onto a line of its own at `time`: the receiver computes when it arrives */
    GS_STAGE_INSIDE,  /* the same, inside a host */
    GS_STAGE_OUT,     /* wants its host's line out at `time` */
    GS_STAGE_AFTER,   /* the same, of tcp, but the one before it on its connection has yet to leave ... */
    GS_STAGE_BEHIND,  /* ... and `time` has come */
    GS_STAGE_IN,      /* wants the receiving host's line in at `time` */
    GS_STAGE_ARRIVES, /* at `time` */
};

typedef struct gs_queue {
    uint32_t head, tail;
} gs_queue;

/* A source, and when its first message wants its line. */
typedef struct gs_wish {
    double time;
    int source;
} gs_wish;

/* The messages to a rank, by sender. */
typedef struct gs_inbox {
    int *from; /* [count] */
    gs_queue *queue;
    int count, room, last; /* last: that was looked at */
    int *place;            /* [ranks]: which one is of that sender, from 1; NULL while there are few */
} gs_inbox;

/* What every move touches comes first. */
typedef struct gs_virtual_rank {
    double clock, out, out_inside; /* ps; when its own lines out are free again */
    uint64_t turn;                 /* of the run ... */
    uint32_t run, place;           /* ... in the list at its place in the script */
    int at;                        /* in its script */
    int waits_for;                 /* a rank; -1: it does not wait */
    bool ready;                    /* it is in the queue of those that can go on */
    gs_inbox inbox;
    gs_virtual_account account;
    double item_began;              /* ps; below 0: it has not */
    double work, work_began;        /* ps: the clock of the thread that works, */
    double noted[GS_VIRTUAL_SLOTS]; /* and what it may wait for */
    double core_left;               /* ps that it still needs a core for; below 0: it needs none */
    gs_port in_inside, in;
} gs_virtual_rank;

struct gs_virtual {
    gs_virtual_cluster cluster;
    int ranks, each;                                      /* each: ranks of a host */
    double alpha, beta, alpha_inside, beta_inside, gamma; /* ps, and ps a byte */
    double segment_core;                                  /* ps */
    gs_virtual_rank *rank;
    const gs_virtual_script *script;
    /* messages */
    gs_under_way *message; /* [0] is not used */
    uint32_t messages, message_room, spare;
    /* those that can go on, in a ring of `ranks` places */
    int *ready, ready_first, ready_count;
    /* shared lines: [hosts]; sources: those of ranks, then the lines out of hosts */
    double *out_free, *in_free, *owed; /* owed: ps of acknowledgements, with tcp */
    bool *busy;                        /* with tcp: a piece is on the line out, */
    uint32_t *carried;                 /* of a message that has more of them; 0: it was the last */
    double piece;                      /* ps that a piece takes */
    gs_port *in_port;                  /* with tcp: the lines in */
    gs_port *core;                     /* [pools * cores]; NULL: nobody shares one */
    gs_queue *source;
    gs_wish *heap; /* of sources; behind them, source ranks + hosts + r is rank r, which wants a core */
    int heap_count;
    gs_virtual_line *line;
    gs_virtual_account *account; /* [ranks], for who asks */
    gs_virtual_watch watch;
    void *context;
    gs_virtual_progress progress;
    void *progress_context;
    double moves, moved, told; /* of this play; moved, when progress was told last */
    gs_status failed;
};

/* Of what the rank does now: of its thread that works, or of the one that there is. */
static inline double *gs_virtual_clock_of(gs_virtual *v, int r) {
    gs_virtual_rank *k = &v->rank[r];
    return v->script[r].item[k->at].what == GS_VIRTUAL_WORK ? &k->work : &k->clock;
}

/* Whole picoseconds. */
static inline double gs_ps(double x) {
    return (double)(int64_t)(x + 0.5);
}

/* ---- under_way.c ---- */

/* False: no memory (v->failed). */
bool gs_virtual_send(gs_virtual *, int from, int to, double bytes);
/* Receive the first message from there, if it has come: the clock moves on. False: it has not. */
bool gs_virtual_receive(gs_virtual *, int rank, int from);
void gs_virtual_wake(gs_virtual *, int rank);
void gs_virtual_free_inbox(gs_inbox *);

/* ---- shared.c ---- */

void gs_virtual_share(gs_virtual *, uint32_t message, int source);
void gs_virtual_append(gs_virtual *, gs_queue *, uint32_t message); /* to a source */
/* A source wants something at `time`. */
void gs_virtual_wish(gs_virtual *, double time, int source);
/* Rank r wants a core from `time` on, for core_left. It is woken when it has had it; its clock of PASS, or of WORK, has
 * moved on by then. */
void gs_virtual_want_core(gs_virtual *, int r, double time);
/* Let the earliest through. False: there is none. */
bool gs_virtual_let_through(gs_virtual *);

/* ---- tcp.c ---- */

/* Bytes of a message that leave before another connection has its turn. */
double gs_virtual_tcp_piece(const gs_link *);
/* The message's time has come: it wants its host's line out. */
void gs_virtual_tcp_wants(gs_virtual *, uint32_t message);
/* The piece that was on the line out of a host has left. */
void gs_virtual_tcp_next(gs_virtual *, int host, double time);
