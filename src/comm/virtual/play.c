#include "comm/virtual/play.h"

#include <stdlib.h>
#include <string.h>

static const double PS = 1e12; /* per second */

/* A message under way; number 0 is none. */
typedef struct under_way {
    double time; /* as `stage` says */
    double takes;
    uint32_t next; /* the next message in its chain */
    int32_t from, to;
    int16_t stage, inside; /* inside: 1 if it stays inside a host, else 0 */
} under_way;

enum {
    STAGE_LEFT,    /* has left on its sender's own line at `time`: the receiver computes its arrival */
    STAGE_OUT,     /* wants its host's outgoing line at `time` */
    STAGE_IN,      /* wants the receiving host's incoming line at `time` */
    STAGE_ARRIVES, /* at `time` */
};

/* A message that wants a shared line. If two want it at once, the lower source goes first. Source r < N is rank r,
 * whose message wants an outgoing line; N + h is host h's outgoing line, whose message wants an incoming line. */
typedef struct wanted {
    double time;
    uint64_t order; /* order among messages of one source */
    int source;
    uint32_t message;
} wanted;

/* The members that every move touches come first. Line 0 leads to other hosts, line 1 stays inside the host. */
typedef struct virtual_rank {
    double clock;   /* ps: of the thread that sends and receives */
    double out[2];  /* ps: when its own outgoing lines are free again */
    uint32_t place; /* index of its next move in the current list */
    int at;         /* index of its item in the script */
    int waits_for;  /* a rank; -1: it does not wait */
    bool ready;     /* it is in the queue of ranks that can go on */
    /* The list that it is waiting to execute together with all ranks; NULL: none. */
    const gs_virtual_list *meets;
    bool met;                       /* the list was executed together, or could not be */
    bool in_job;                    /* its item belongs to a job */
    double item_began;              /* ps; below 0: it has not begun */
    double work;                    /* ps: the clock of the worker's thread, */
    double noted[GS_VIRTUAL_SLOTS]; /* and the moments that it may wait for */
    gs_port in[2];
} virtual_rank;

struct gs_virtual {
    gs_virtual_cluster cluster;
    int ranks, each;                 /* each: ranks per host */
    double alpha[2], beta[2], gamma; /* ps; ps per byte; ps per byte */
    virtual_rank *rank;
    const gs_virtual_script *script;
    /* [message_room] messages, a power of two; [0] is unused. The messages from one sender to one receiver are in one
     * chain, in order. Few are under way at a time, so chains are short. */
    under_way *message;
    uint32_t *chain;
    uint32_t messages, message_room, spare;
    /* ranks that can continue: a ring buffer of `ranks` entries */
    int *ready, ready_first, ready_count;
    /* shared lines: [hosts] */
    double (*free)[2]; /* ps: when the outgoing and the incoming line are free again */
    wanted *heap;      /* as many entries as `message` */
    uint32_t heap_count;
    uint64_t order;
    gs_virtual_line *line;
    gs_virtual_account *account; /* [ranks] */
    gs_virtual_watch watch;
    /* Moves of this play: their total, those done, and those done when progress was last reported. */
    double moves, moved, told;
};

/* Whole picoseconds. */
static inline double whole_ps(double x) {
    return (double)(int64_t)(x + 0.5);
}

static inline double later(double a, double b) {
    return a > b ? a : b;
}

static void wake(gs_virtual *v, int r) {
    if (v->rank[r].ready) return;
    v->rank[r].ready = true;
    int at = v->ready_first + v->ready_count++;
    v->ready[at < v->ranks ? at : at - v->ranks] = r;
}

/* ---- lines that several ranks share, in order of time ---- */

static bool is_before(const wanted *a, const wanted *b) {
    if (a->time < b->time || a->time > b->time) return a->time < b->time;
    return a->source < b->source || (a->source == b->source && a->order < b->order);
}

static void want(gs_virtual *v, uint32_t m, int source) {
    const wanted w = {v->message[m].time, v->order++, source, m};
    uint32_t at = v->heap_count++;
    for (; at > 0 && is_before(&w, &v->heap[(at - 1) / 2]); at = (at - 1) / 2)
        v->heap[at] = v->heap[(at - 1) / 2];
    v->heap[at] = w;
}

/* Remove and return the earliest message. */
static uint32_t take(gs_virtual *v) {
    const uint32_t m = v->heap[0].message, count = --v->heap_count;
    const wanted last = v->heap[count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(&v->heap[child + 1], &v->heap[child])) child++;
        if (!is_before(&v->heap[child], &last)) break;
        v->heap[at] = v->heap[child];
        at = child;
    }
    v->heap[at] = last;
    return m;
}

/* Let the earliest message pass its line. False: there is none. */
static bool let_through(gs_virtual *v) {
    if (v->heap_count == 0) return false;
    const uint32_t m = take(v);
    under_way *w = &v->message[m];
    const int in = w->stage == STAGE_IN, host = (in ? w->to : w->from) / v->each;
    w->time = later(w->time, v->free[host][in]);
    v->free[host][in] = w->time + w->takes;
    v->line[host].busy[in] += w->takes;
    if (in) {
        w->time += w->takes;
        w->stage = STAGE_ARRIVES;
        if (v->rank[w->to].waits_for == w->from) wake(v, w->to);
    } else {
        w->time += v->alpha[0];
        w->stage = STAGE_IN;
        want(v, m, v->ranks + host);
    }
    return true;
}

/* ---- messages under way ---- */

/* If neighbouring ranks send to neighbours, their chains are neighbours in memory. */
static uint32_t *chain_of(const gs_virtual *v, int from, int to) {
    const uint32_t hash = (uint32_t)to + (uint32_t)(to - from) * 0x9e3779b1u;
    return &v->chain[hash & (v->message_room - 1)];
}

/* The link to the first message between these ranks; the link is 0 if there is none. */
static uint32_t *first_from(const gs_virtual *v, int from, int to) {
    uint32_t *link = chain_of(v, from, to);
    while (*link && (v->message[*link].from != from || v->message[*link].to != to))
        link = &v->message[*link].next;
    return link;
}

static void append(gs_virtual *v, uint32_t m) {
    uint32_t *link = chain_of(v, v->message[m].from, v->message[m].to);
    while (*link) link = &v->message[*link].next;
    *link = m;
    v->message[m].next = 0;
}

/* Double the room for messages. */
static bool grow(gs_virtual *v) {
    const uint32_t before = v->message_room, room = before ? 2 * before : 1024;
    uint32_t *chain = room > before ? calloc(room, sizeof *chain) : NULL, *old = v->chain;
    under_way *message = chain ? realloc(v->message, room * sizeof *message) : NULL;
    if (message) v->message = message;
    wanted *heap = message ? realloc(v->heap, room * sizeof *heap) : NULL;
    if (!heap) {
        free(chain);
        return false;
    }
    v->heap = heap;
    v->chain = chain;
    v->message_room = room;
    for (uint32_t c = 0, m; c < before; c++)
        while ((m = old[c])) {
            old[c] = v->message[m].next;
            append(v, m);
        }
    free(old);
    return true;
}

/* Returns 0 if memory is exhausted. */
static uint32_t new_message(gs_virtual *v) {
    const uint32_t m = v->spare;
    if (m) {
        v->spare = v->message[m].next;
        return m;
    }
    return v->messages + 1 < v->message_room || grow(v) ? ++v->messages : 0;
}

typedef enum outcome { DONE, WAITS, PAUSES, FAILED /* out of memory */ } outcome;

static outcome send_message(gs_virtual *v, int from, int to, double bytes) {
    virtual_rank *k = &v->rank[from], *receiver = &v->rank[to];
    const int host = from / v->each;
    const bool inside = host == to / v->each && from != to;
    const uint32_t m = new_message(v);
    if (!m) {
        (void)gs_fail(GS_E_MEMORY, "no memory for %u messages under way", v->messages);
        return FAILED;
    }
    under_way *w = &v->message[m];
    *w = (under_way){.time = k->clock, .from = from, .to = to, .inside = inside};
    w->takes = whole_ps(bytes * v->beta[inside]);
    v->account[from].sent[inside] += bytes;
    append(v, m);
    if (!inside && v->each > 1) {
        w->stage = STAGE_OUT;
        want(v, m, from);
        return DONE;
    }
    w->time = later(w->time, k->out[inside]);
    k->out[inside] = w->time + w->takes;
    w->stage = STAGE_LEFT;
    if (!inside) {
        v->line[host].busy[0] += w->takes;
        v->line[to / v->each].busy[1] += w->takes;
    }
    if (receiver->waits_for == from) wake(v, to);
    return DONE;
}

/* Receive the first message from rank `from` if it is there; the clock advances to its arrival. */
static outcome receive_message(gs_virtual *v, int r, int from) {
    virtual_rank *k = &v->rank[r];
    uint32_t *link = first_from(v, from, r);
    const uint32_t m = *link;
    k->waits_for = from;
    if (!m) return WAITS;
    under_way *w = &v->message[m];
    if (w->stage == STAGE_OUT || w->stage == STAGE_IN) return WAITS;
    k->waits_for = -1;
    double arrives = w->time;
    if (w->stage == STAGE_LEFT)
        arrives = gs_port_take(&k->in[w->inside], w->time + v->alpha[w->inside], w->takes) + w->takes;
    k->clock = later(k->clock, arrives);
    *link = w->next;
    w->next = v->spare;
    v->spare = m;
    return DONE;
}

/* A rank makes at most TURN moves before others get their turn; otherwise the first ranks of a ring would run far
 * ahead, and their messages would fill the memory. */
enum { TURN = 256 };

enum { TOLD = 1 << 20 /* moves between two reports of progress: some 0.05 s */ };

static void tell_progress(gs_virtual *v) {
    if (!v->watch.progress || v->moved < v->told + TOLD) return;
    v->told = v->moved;
    v->watch.progress(v->watch.context, v->moved / v->moves);
}

/* ---- all ranks together ----
 *
 * If all ranks share a list, do not share lines, and in each turn send one message and receive one, they go through the
 * list together, turn by turn:
 *
 *     to rank r + d                  out[r]   = max(clock[r], out[r]) + takes
 *     from rank r - d                comes[r] = out[r - d] + alpha
 *                                    clock[r] = max(clock[r], comes[r]) + adds
 *
 * These are three passes over arrays, so the 8.6 billion messages of a ring of 65,536 ranks take half a minute. The
 * numbers are the same, because what a rank finds on its lines does not depend on which rank is played first. While the
 * sender stays the same, each message reaches a line after all earlier ones. A turn with another sender, or with an
 * early message that may find a gap, first tells the lines' gs_ports what came meanwhile, and then asks them. */

/* A port remembers only the last KNOWN messages; KEPT counts those of this turn too. */
enum { KNOWN = GS_PORT_BUSY + 1, KEPT = KNOWN + 1 };

/* Arrays of [ranks]. Arrays indexed by part have [2 ranks], because part p is also found at p + ranks. */
typedef struct together {
    int ranks, line;                        /* line: which of a rank's two */
    double alpha, *clock, *out, *in;        /* in: when the incoming line is free */
    double *takes, *adds, *nothing, *bytes; /* by part; nothing: zeros */
    double *comes[KEPT];                    /* [t % KEPT] when the messages of turn t have arrived, */
    const double *took[KEPT];               /* and how long each occupied the line */
    int turn, told;                         /* the ports know the messages of all turns before `told` */
} together;

static void tell_ports(gs_virtual *v, together *g) {
    for (int t = g->turn < g->told + KNOWN ? g->told : g->turn - KNOWN; t < g->turn; t++)
        for (int r = 0; r < g->ranks; r++) {
            const double takes = g->took[t % KEPT][r];
            gs_port_take(&v->rank[r].in[g->line], g->comes[t % KEPT][r] - takes, takes);
        }
    g->told = g->turn;
}

static void ask_ports(gs_virtual *v, together *g, double *comes, const double *takes) {
    tell_ports(v, g);
    for (int r = 0; r < g->ranks; r++) {
        gs_port *port = &v->rank[r].in[g->line];
        comes[r] = gs_port_take(port, comes[r] - takes[r], takes[r]) + takes[r];
        g->in[r] = gs_port_free(port);
    }
    g->told = g->turn + 1;
}

static void send_all(const together *g, const double *restrict takes) {
    double *restrict out = g->out;
    const double *restrict clock = g->clock;
    for (int r = 0; r < g->ranks; r++) out[r] = (clock[r] > out[r] ? clock[r] : out[r]) + takes[r];
}

/* Let the messages from ranks r + `from` arrive at ranks r = first .. end - 1. True: one of them is early. */
static bool arrive(const together *g, double *restrict comes, const double *restrict takes, int first,
                   int end, int from) {
    const double *restrict out = g->out, *restrict in = g->in, alpha = g->alpha;
    int64_t early = 0;
    for (int r = first; r < end; r++) {
        comes[r] = out[r + from] + alpha;
        early |= comes[r] - takes[r] < in[r];
    }
    return early;
}

static void receive_all(const together *g, const double *restrict comes, const double *restrict adds) {
    double *restrict clock = g->clock, *restrict in = g->in;
    for (int r = 0; r < g->ranks; r++) {
        in[r] = in[r] > comes[r] ? in[r] : comes[r];
        clock[r] = (clock[r] > comes[r] ? clock[r] : comes[r]) + adds[r];
    }
}

/* m: rank 0's send and receive. adds: each rank adds what it receives. */
static void make_turn(gs_virtual *v, together *g, const gs_virtual_move *m, bool same_sender, bool adds) {
    const int n = g->ranks, d = m->peer, at = g->turn % KEPT;
    double *comes = g->comes[at];
    const double *takes = g->took[at] = g->takes + m[1].part;
    send_all(g, g->takes + m[0].part);
    bool early = arrive(g, comes, takes, d, n, -d);
    early |= arrive(g, comes, takes, 0, d, n - d);
    if (early || !same_sender) ask_ports(v, g, comes, takes);
    receive_all(g, comes, adds ? g->adds + m[1].part : g->nothing);
}

static void play_together(gs_virtual *v, const gs_virtual_list *l, together *g) {
    uint32_t i = 0;
    for (int before = 0; i < l->moves; g->turn++) {
        const gs_virtual_move *m = &l->move[i];
        const bool adds = i + 2 < l->moves && m[2].action == GS_VIRTUAL_ADD;
        make_turn(v, g, m, m->peer == before, adds);
        before = m->peer;
        i += adds ? 3 : 2;
        v->moved += (adds ? 3.0 : 2.0) * g->ranks;
        tell_progress(v);
    }
    tell_ports(v, g);
}

/* sum[r] = sum of x over the parts that rank r sends or receives, as `action` says. */
static void add_up(const gs_virtual_list *l, gs_virtual_action action, const double *x, double *sum) {
    enum { BLOCK = 512 /* ranks at a time, so that their sums stay in the cache */ };
    memset(sum, 0, (size_t)l->ranks * sizeof *sum);
    for (int first = 0; first < l->ranks; first += BLOCK)
        for (const gs_virtual_move *m = l->move; m < l->move + l->moves; m++) {
            if (m->action != action) continue;
            for (int r = first; r < first + BLOCK && r < l->ranks; r++) sum[r] += x[m->part + (size_t)r];
        }
}

static void hand_back(gs_virtual *v, const gs_virtual_list *l, const together *g) {
    double *sum = g->comes[0];
    for (int r = 0; r < g->ranks; r++) {
        v->rank[r].clock = g->clock[r];
        v->rank[r].out[g->line] = g->out[r];
        v->rank[r].place = l->moves;
    }
    add_up(l, GS_VIRTUAL_SEND, g->bytes, sum);
    for (int r = 0; r < g->ranks; r++) v->account[r].sent[g->line] += sum[r];
    if (g->line == 1) return; /* gs_virtual_line: only between hosts */
    add_up(l, GS_VIRTUAL_SEND, g->takes, sum);
    for (int r = 0; r < g->ranks; r++) v->line[r].busy[0] += sum[r];
    add_up(l, GS_VIRTUAL_RECV, g->takes, sum);
    for (int r = 0; r < g->ranks; r++) v->line[r].busy[1] += sum[r];
}

/* Execute a list when all ranks are at its beginning. If memory is short they stay there, and are played one by one. */
static void go_through(gs_virtual *v, const gs_virtual_list *l) {
    const size_t n = (size_t)v->ranks;
    const int line = v->cluster.hosts == 1;
    double *x = calloc((11 + KEPT) * n, sizeof *x);
    if (!x) return;
    together g = {.ranks = v->ranks,
                  .line = line,
                  .alpha = v->alpha[line],
                  .clock = x,
                  .out = x + n,
                  .in = x + 2 * n,
                  .takes = x + 3 * n,
                  .adds = x + 5 * n,
                  .nothing = x + 7 * n,
                  .bytes = x + 9 * n};
    for (size_t t = 0; t < KEPT; t++) g.comes[t] = x + (11 + t) * n;
    for (size_t p = 0; p < 2 * n; p++) {
        g.bytes[p] = (double)l->message[p % n];
        g.takes[p] = whole_ps(g.bytes[p] * v->beta[line]);
        g.adds[p] = whole_ps((double)l->added[p % n] * v->gamma);
    }
    for (int r = 0; r < v->ranks; r++) {
        g.clock[r] = v->rank[r].clock;
        g.out[r] = v->rank[r].out[line];
        g.in[r] = gs_port_free(&v->rank[r].in[line]);
    }
    play_together(v, l, &g);
    hand_back(v, l, &g);
    free(x);
}

/* True if the list has only turns: send to rank r + d, receive from rank r - d, and perhaps add. */
static bool is_in_turns(const gs_virtual_list *l) {
    uint32_t i = 0;
    while (i + 1 < l->moves && l->move[i].action == GS_VIRTUAL_SEND &&
           l->move[i + 1].action == GS_VIRTUAL_RECV && l->move[i].peer + l->move[i + 1].peer == l->ranks)
        i += i + 2 < l->moves && l->move[i + 2].action == GS_VIRTUAL_ADD ? 3 : 2;
    return i > 0 && i == l->moves;
}

/* No rank can continue alone: if all wait for one list in turns, execute it; release those that wait. False: none. */
static bool go_together(gs_virtual *v) {
    const gs_virtual_list *l = v->rank[0].meets;
    bool all = l && is_in_turns(l), any = false;
    for (int r = 0; r < v->ranks; r++) all &= v->rank[r].meets == l;
    if (all) go_through(v, l);
    for (int r = 0; r < v->ranks; r++) {
        if (!v->rank[r].meets) continue;
        v->rank[r].meets = NULL;
        v->rank[r].met = any = true;
        wake(v, r);
    }
    return any;
}

/* ---- executing the items of a rank ---- */

static outcome play_list(gs_virtual *v, virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    const gs_virtual_list *l = item->list;
    const int size = l->ranks, me = r / item->stride % size, base = r - me * item->stride;
    const bool shared = l->message != NULL;
    if (!shared) l += me;
    if (shared && !k->met && size == v->ranks && (v->each == 1 || v->cluster.hosts == 1)) {
        k->meets = l;
        return WAITS;
    }
    for (; k->place < l->moves; k->place++) {
        const gs_virtual_move *m = &l->move[k->place];
        const size_t part = shared ? (m->part + (size_t)me) % (size_t)size : 0;
        if (m->action == GS_VIRTUAL_ADD) {
            k->clock += whole_ps((double)(shared ? l->added[part] : m->bytes) * v->gamma);
            v->moved++;
            continue;
        }
        if (--*left < 0) return PAUSES;
        const int peer = base + (shared ? (m->peer + me) % size : m->peer) * item->stride;
        const double bytes = (double)(shared ? l->message[part] : m->bytes);
        const outcome o =
            m->action == GS_VIRTUAL_SEND ? send_message(v, r, peer, bytes) : receive_message(v, r, peer);
        if (o != DONE) return o;
        v->moved++;
    }
    k->place = 0;
    k->met = false;
    return DONE;
}

/* The rank's two threads wait for each other. */
static void join(virtual_rank *k) {
    k->clock = k->work = later(k->clock, k->work);
}

static outcome play_item(gs_virtual *v, virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    switch (item->op) {
    case GS_VIRTUAL_LAYERS:
    case GS_VIRTUAL_UPDATE:
        *(k->in_job ? &k->clock : &k->work) += whole_ps(item->seconds * PS);
        return DONE;
    case GS_VIRTUAL_ASK:
        k->clock = later(k->clock, k->work);
        k->in_job = true;
        return DONE;
    case GS_VIRTUAL_NOTE:
        k->noted[item->slot] = k->clock;
        k->in_job = false;
        return DONE;
    case GS_VIRTUAL_AWAIT:
        k->work = later(k->work, k->noted[item->slot]);
        return DONE;
    case GS_VIRTUAL_JOIN:
        join(k);
        return DONE;
    case GS_VIRTUAL_LIST:
        return play_list(v, k, r, item, left);
    case GS_VIRTUAL_SEND_ONE:
        return send_message(v, r, r + item->peer, (double)item->bytes);
    default:
        return receive_message(v, r, r + item->peer);
    }
}

static void has_passed(gs_virtual *v, int r, const gs_virtual_item *item, double from, double to) {
    if (v->watch.passed && to > from) v->watch.passed(v->watch.context, r, item, from / PS, to / PS);
}

static outcome play_rank(gs_virtual *v, int r) {
    virtual_rank *k = &v->rank[r];
    const gs_virtual_script *s = &v->script[r];
    int left = TURN;
    k->waits_for = -1;
    for (; k->at < s->items; k->at++) {
        const gs_virtual_item *item = &s->item[k->at];
        const bool talks = item->op >= GS_VIRTUAL_LIST;
        const double *clock = k->in_job ? &k->clock : &k->work;
        if (k->item_began < 0) {
            if (talks && !k->in_job) join(k);
            k->item_began = *clock;
        }
        const outcome o = play_item(v, k, r, item, &left);
        if (o != DONE) return o;
        if (talks) {
            gs_virtual_account *a = &v->account[r];
            if (a->first_sum < 0) a->first_sum = k->item_began / PS;
            a->communicating += (k->clock - k->item_began) / PS;
            if (!k->in_job) join(k);
        }
        if (talks || item->op <= GS_VIRTUAL_UPDATE) has_passed(v, r, item, k->item_began, *clock);
        k->item_began = -1;
    }
    join(k);
    return DONE;
}

/* ---- all ranks ---- */

static double count_moves(const gs_virtual *v) {
    double moves = 0;
    for (int r = 0; r < v->ranks; r++)
        for (int i = 0; i < v->script[r].items; i++) {
            const gs_virtual_item *item = &v->script[r].item[i];
            if (!item->list) continue;
            moves += item->list[item->list->message ? 0 : r / item->stride % item->list->ranks].moves;
        }
    return moves;
}

static gs_status is_stuck(const gs_virtual *v) {
    for (int r = 0; r < v->ranks; r++)
        if (v->rank[r].at < v->script[r].items)
            return gs_fail(GS_E_USAGE, "a deadlock: rank %d waits forever for a message from rank %d", r,
                           v->rank[r].waits_for);
    return GS_OK;
}

static int next_ready(gs_virtual *v) {
    const int r = v->ready[v->ready_first];
    v->ready_first = v->ready_first + 1 < v->ranks ? v->ready_first + 1 : 0;
    v->ready_count--;
    v->rank[r].ready = false;
    return r;
}

static void begin(gs_virtual *v, const gs_virtual_script *scripts) {
    v->script = scripts;
    v->moves = v->watch.progress ? count_moves(v) : 0;
    v->moved = v->told = 0;
    for (int h = 0; h < v->cluster.hosts; h++) v->line[h] = (gs_virtual_line){{0, 0}};
    for (int r = 0; r < v->ranks; r++) {
        virtual_rank *k = &v->rank[r];
        k->at = 0;
        k->place = 0;
        k->met = false;
        k->meets = NULL;
        k->in_job = false;
        k->item_began = -1;
        k->work += whole_ps(scripts[r].pause * PS);
        has_passed(v, r, NULL, k->clock, k->work);
        v->account[r] = (gs_virtual_account){.first_sum = -1};
        wake(v, r);
    }
}

gs_status gs_virtual_play(gs_virtual *v, const gs_virtual_script *scripts) {
    begin(v, scripts);
    do {
        while (v->ready_count > 0) {
            const int r = next_ready(v);
            const outcome o = play_rank(v, r);
            if (o == FAILED) return GS_E_MEMORY;
            if (o == PAUSES) wake(v, r);
            tell_progress(v);
        }
    } while (let_through(v) || go_together(v));
    GS_TRY(is_stuck(v));
    for (int h = 0; h < v->cluster.hosts; h++) {
        v->line[h].busy[0] /= PS;
        v->line[h].busy[1] /= PS;
    }
    for (int r = 0; r < v->ranks; r++) {
        v->account[r].ended = v->rank[r].clock / PS;
        if (v->account[r].first_sum < 0) v->account[r].first_sum = v->account[r].ended;
    }
    return GS_OK;
}

const gs_virtual_account *gs_virtual_accounts(const gs_virtual *v) {
    return v->account;
}

const gs_virtual_line *gs_virtual_lines(const gs_virtual *v) {
    return v->line;
}

/* ---- making and freeing ---- */

static void set_link(const gs_link *l, double *alpha, double *beta) {
    *alpha = whole_ps(l->latency * PS);
    *beta = l->bandwidth > 0 ? PS / l->bandwidth : 0;
}

static bool allocate(gs_virtual *v) {
    const size_t n = (size_t)v->ranks, hosts = (size_t)v->cluster.hosts;
    v->rank = calloc(n, sizeof *v->rank);
    v->ready = calloc(n, sizeof *v->ready);
    v->free = calloc(hosts, sizeof *v->free);
    v->line = calloc(hosts, sizeof *v->line);
    v->account = calloc(n, sizeof *v->account);
    return v->rank && v->ready && v->free && v->line && v->account && grow(v);
}

gs_status gs_virtual_create(const gs_virtual_cluster *c, gs_virtual_watch watch, gs_virtual **out) {
    gs_virtual *v = calloc(1, sizeof *v);
    if (v)
        *v = (gs_virtual){.cluster = *c,
                          .watch = watch,
                          .ranks = c->ranks,
                          .each = c->ranks / c->hosts,
                          .gamma = c->gamma * PS};
    if (!v || !allocate(v)) {
        gs_virtual_free(v);
        return gs_fail(GS_E_MEMORY, "no memory for a cluster of %d workers", c->ranks);
    }
    set_link(&c->between, &v->alpha[0], &v->beta[0]);
    set_link(&c->inside, &v->alpha[1], &v->beta[1]);
    *out = v;
    return GS_OK;
}

void gs_virtual_free(gs_virtual *v) {
    if (!v) return;
    free(v->rank);
    free(v->message);
    free(v->chain);
    free(v->ready);
    free(v->free);
    free(v->heap);
    free(v->line);
    free(v->account);
    free(v);
}
