#include "comm/virtual/play.h"

#include <stdlib.h>

static const double PS = 1e12; /* in a second */

/* A message under way. It is in two queues: that of its sender and receiver, and while it waits for a shared line in
 * that of a source. 0 is none. */
typedef struct under_way {
    double time; /* as `stage` says */
    double takes;
    uint32_t next, next_in_source;
    int32_t from, to;
    int32_t stage;
} under_way;

enum {
    STAGE_LEFT,    /* onto a line of its own at `time`: the receiver computes when it arrives */
    STAGE_INSIDE,  /* the same, inside a host */
    STAGE_OUT,     /* wants its host's line out at `time` */
    STAGE_IN,      /* wants the receiving host's line in at `time` */
    STAGE_ARRIVES, /* at `time` */
};

typedef struct message_queue {
    uint32_t head, tail;
} message_queue;

/* A source, and when its first message wants its line. */
typedef struct wanted {
    double time;
    int source;
} wanted;

/* The messages to a rank, by sender. */
typedef struct message_inbox {
    int *from; /* [count] */
    message_queue *queue;
    int count, room, last; /* last: that was looked at */
    int *place;            /* [ranks]: which one is of that sender, from 1; NULL while there are few */
} message_inbox;

/* What every move touches comes first. */
typedef struct virtual_rank {
    double clock, out, out_inside; /* ps; when its own lines out are free again */
    uint64_t turn;                 /* of the run ... */
    uint32_t run, place;           /* ... in the list at its place in the script */
    int at;                        /* in its script */
    int waits_for;                 /* a rank; -1: it does not wait */
    bool ready;                    /* it is in the queue of those that can go on */
    message_inbox inbox;
    gs_virtual_account account;
    double item_began;              /* ps; below 0: it has not */
    double work;                    /* ps: the clock of the thread that works, */
    double noted[GS_VIRTUAL_SLOTS]; /* and what it may wait for */
    gs_port in_inside, in;
} virtual_rank;

struct gs_virtual {
    gs_virtual_cluster cluster;
    int ranks, each;                                      /* each: ranks of a host */
    double alpha, beta, alpha_inside, beta_inside, gamma; /* ps, and ps a byte */
    virtual_rank *rank;
    const gs_virtual_script *script;
    /* messages */
    under_way *message; /* [0] is not used */
    uint32_t messages, message_room, spare;
    /* those that can go on, in a ring of `ranks` places */
    int *ready, ready_first, ready_count;
    /* shared lines: [hosts]; sources: those of ranks, then the lines out of hosts */
    double *out_free, *in_free;
    message_queue *source;
    wanted *heap; /* of sources */
    int heap_count;
    gs_virtual_line *line;
    gs_virtual_account *account; /* [ranks], for who asks */
    gs_virtual_watch watch;
    double moves, moved, told; /* of this play; moved, when progress was told last */
    gs_status failed;
};

/* Whole picoseconds. */
static inline double whole_ps(double x) {
    return (double)(int64_t)(x + 0.5);
}

static void wake(gs_virtual *v, int r) {
    if (v->rank[r].ready) return;
    v->rank[r].ready = true;
    int at = v->ready_first + v->ready_count++;
    v->ready[at < v->ranks ? at : at - v->ranks] = r;
}

/* ---- lines that several ranks share, in the order of time ----
 *
 * A source holds messages that want a line, in the order in which they do so: source r < N what rank r has sent, source
 * N + h what has passed the line out of host h. A heap holds the sources by the time of their first message, so it has
 * at most N + hosts entries, however many messages are under way. */

static bool is_before(const wanted *a, const wanted *b) {
    return a->time < b->time || (a->time <= b->time && a->source < b->source);
}

/* A source wants its line at `time`. */
static void wish(gs_virtual *v, double time, int source) {
    const wanted w = {time, source};
    int at = v->heap_count++;
    for (; at > 0 && is_before(&w, &v->heap[(at - 1) / 2]); at = (at - 1) / 2)
        v->heap[at] = v->heap[(at - 1) / 2];
    v->heap[at] = w;
}

/* In place of the first one. */
static void replace_first(gs_virtual *v, wanted w) {
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= v->heap_count) break;
        if (child + 1 < v->heap_count && is_before(&v->heap[child + 1], &v->heap[child])) child++;
        if (!is_before(&v->heap[child], &w)) break;
        v->heap[at] = v->heap[child];
        at = child;
    }
    v->heap[at] = w;
}

static void drop_first(gs_virtual *v) {
    if (--v->heap_count > 0) replace_first(v, v->heap[v->heap_count]);
}

static void share(gs_virtual *v, uint32_t m, int source) {
    message_queue *q = &v->source[source];
    const bool first = !q->tail;
    v->message[m].next_in_source = 0;
    *(first ? &q->head : &v->message[q->tail].next_in_source) = m;
    q->tail = m;
    if (first) wish(v, v->message[m].time, source);
}

/* Remove the earliest message from its source. */
static uint32_t take(gs_virtual *v) {
    const int source = v->heap[0].source;
    message_queue *q = &v->source[source];
    const uint32_t m = q->head;
    q->head = v->message[m].next_in_source;
    if (q->head) {
        replace_first(v, (wanted){v->message[q->head].time, source});
        return m;
    }
    q->tail = 0;
    drop_first(v);
    return m;
}

static void carry(under_way *w, double *line_free, double *busy) {
    if (w->time < *line_free) w->time = *line_free;
    *line_free = w->time + w->takes;
    *busy += w->takes;
}

/* Let the earliest through. False: there is none. */
static bool let_through(gs_virtual *v) {
    if (v->heap_count == 0) return false;
    const uint32_t m = take(v);
    under_way *w = &v->message[m];
    if (w->stage == STAGE_OUT) {
        const int host = w->from / v->each;
        carry(w, &v->out_free[host], &v->line[host].out);
        w->time += v->alpha;
        w->stage = STAGE_IN;
        share(v, m, v->ranks + host);
        return true;
    }
    const int host = w->to / v->each;
    carry(w, &v->in_free[host], &v->line[host].in);
    w->time += w->takes;
    w->stage = STAGE_ARRIVES;
    if (v->rank[w->to].waits_for == w->from) wake(v, w->to);
    return true;
}
/* ---- messages under way: who has sent what to whom, and when it arrives ---- */

enum { FEW = 40 /* senders among which we look for one: more than the rounds of a scheme of log2 N */ };

static void no_memory(gs_virtual *v) {
    v->failed = gs_fail(GS_E_MEMORY, "no memory for %u messages under way", v->messages);
}

static uint32_t new_message(gs_virtual *v) {
    uint32_t m = v->spare;
    if (m) {
        v->spare = v->message[m].next;
        return m;
    }
    if (v->messages + 1 >= v->message_room) {
        const uint32_t room = v->message_room < 1024 ? 1024 : 2 * v->message_room;
        under_way *more = room > v->message_room ? realloc(v->message, room * sizeof *more) : NULL;
        if (!more) return 0;
        v->message = more;
        v->message_room = room;
    }
    return ++v->messages;
}

static void free_inbox(message_inbox *b) {
    free(b->from);
    free(b->queue);
    free(b->place);
}

static bool add_sender(message_inbox *b, int from) {
    if (b->count == b->room) {
        const int room = b->room ? 2 * b->room : 4;
        int *names = realloc(b->from, (size_t)room * sizeof *names);
        if (!names) return false;
        b->from = names;
        message_queue *queues = realloc(b->queue, (size_t)room * sizeof *queues);
        if (!queues) return false;
        b->queue = queues;
        b->room = room;
    }
    b->from[b->count] = from;
    b->queue[b->count++] = (message_queue){0, 0};
    if (b->place) b->place[from] = b->count;
    return true;
}

/* Once a rank has many senders, a table says where each is. */
static bool make_table(message_inbox *b, int ranks) {
    if (!(b->place = calloc((size_t)ranks, sizeof *b->place))) return false;
    for (int i = 0; i < b->count; i++) b->place[b->from[i]] = i + 1;
    return true;
}

/* NULL: no memory; or, unless `make`, no such sender. */
static message_queue *queue_from(message_inbox *b, int from, int ranks, bool make) {
    if (b->last < b->count && b->from[b->last] == from) return &b->queue[b->last];
    if (b->place) {
        b->last = b->place[from] - 1;
    } else {
        for (b->last = 0; b->last < b->count && b->from[b->last] != from;) b->last++;
        if (b->last == b->count) b->last = -1;
    }
    if (b->last >= 0) return &b->queue[b->last];
    b->last = 0;
    if (!make || (b->count == FEW && !b->place && !make_table(b, ranks)) || !add_sender(b, from)) return NULL;
    b->last = b->count - 1;
    return &b->queue[b->last];
}

/* False: no memory (v->failed). */
static bool send_message(gs_virtual *v, int from, int to, double bytes) {
    virtual_rank *k = &v->rank[from], *receiver = &v->rank[to];
    const int host = from / v->each;
    const bool inside = host == to / v->each && from != to;
    message_queue *queue = queue_from(&receiver->inbox, from, v->ranks, true);
    const uint32_t m = queue ? new_message(v) : 0;
    if (!m) {
        no_memory(v);
        return false;
    }
    under_way *w = &v->message[m];
    *w = (under_way){.time = k->clock, .from = from, .to = to};
    w->takes = whole_ps(bytes * (inside ? v->beta_inside : v->beta));
    k->account.sent[inside] += bytes;
    if (queue->tail)
        v->message[queue->tail].next = m;
    else
        queue->head = m;
    queue->tail = m;
    if (!inside && v->each > 1) {
        w->stage = STAGE_OUT;
        share(v, m, from);
        return true;
    }
    double *out = inside ? &k->out_inside : &k->out;
    if (w->time < *out) w->time = *out;
    *out = w->time + w->takes;
    w->stage = inside ? STAGE_INSIDE : STAGE_LEFT;
    if (!inside) {
        v->line[host].out += w->takes;
        v->line[to / v->each].in += w->takes;
    }
    if (receiver->waits_for == from) wake(v, to);
    return true;
}

static double arrival(const gs_virtual *v, virtual_rank *k, const under_way *w) {
    switch (w->stage) {
    case STAGE_LEFT:
        return gs_port_take(&k->in, w->time + v->alpha, w->takes) + w->takes;
    case STAGE_INSIDE:
        return gs_port_take(&k->in_inside, w->time + v->alpha_inside, w->takes) + w->takes;
    default:
        return w->time;
    }
}

/* Receive the first message from there, if it has come: the clock moves on. False: it has not. */
static bool receive_message(gs_virtual *v, int r, int from) {
    virtual_rank *k = &v->rank[r];
    message_queue *queue = queue_from(&k->inbox, from, v->ranks, false);
    const uint32_t m = queue ? queue->head : 0;
    if (!m) return false;
    under_way *w = &v->message[m];
    if (w->stage >= STAGE_OUT && w->stage != STAGE_ARRIVES) return false;
    const double arrives = arrival(v, k, w);
    if (arrives > k->clock) k->clock = arrives;
    queue->head = w->next;
    if (!queue->head) queue->tail = 0;
    w->next = v->spare;
    v->spare = m;
    return true;
}
/* A rank goes on for so many moves at most before others get their turn: else the first ranks of a ring would run far
 * ahead, and what they have sent would fill the memory. */
enum { TURN = 256 };

enum { TOLD = 1 << 20 /* moves from one word of progress to the next: some 0.05 s */ };

/* ---- a rank goes on ---- */

typedef enum outcome { DONE, WAITS, PAUSES, FAILED } outcome;

static outcome send(gs_virtual *v, int r, int to, double bytes) {
    return send_message(v, r, to, bytes) ? DONE : FAILED;
}

static outcome receive(gs_virtual *v, virtual_rank *k, int r, int from) {
    if (receive_message(v, r, from)) return DONE;
    k->waits_for = from;
    return WAITS;
}

static const gs_virtual_list *list_of(const gs_virtual_item *item, int r) {
    return &item->list[r / item->stride % item->list->ranks];
}

static outcome play_list(gs_virtual *v, virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    const gs_virtual_list *l = list_of(item, r);
    const int size = l->ranks, base = r - r / item->stride % size * item->stride;
    for (; k->run < l->runs; k->run++, k->turn = 0) {
        const gs_virtual_run *u = &l->run[k->run];
        const gs_virtual_move *moves = l->move + u->first;
        for (; k->turn < u->times; k->turn++, k->place = 0) {
            if (*left <= 0) return PAUSES;
            for (; k->place < u->period; k->place++) {
                const gs_virtual_move *m = &moves[k->place];
                if (m->deed == GS_VIRTUAL_ADD) {
                    k->clock += whole_ps((double)m->bytes * v->gamma);
                    continue;
                }
                int peer = m->peer;
                if (m->step) peer = (int)(((uint64_t)peer + k->turn * (uint64_t)m->step) % (uint64_t)size);
                peer = base + peer * item->stride;
                --*left;
                const outcome o =
                    m->deed == GS_VIRTUAL_SEND ? send(v, r, peer, (double)m->bytes) : receive(v, k, r, peer);
                if (o != DONE) return o;
            }
            v->moved += u->period;
        }
    }
    k->run = k->place = 0;
    k->turn = 0;
    return DONE;
}

/* Seconds pass for the rank, or for its thread that works. */
static void pass(gs_virtual *v, virtual_rank *k, int r, const gs_virtual_item *item) {
    double *clock = item->what == GS_VIRTUAL_WORK ? &k->work : &k->clock;
    const double began = *clock;
    *clock += whole_ps((item->what == GS_VIRTUAL_BEGIN ? v->script[r].pause : item->seconds) * PS);
    if (item->what == GS_VIRTUAL_BEGIN) k->work = k->clock;
    if (item->what == GS_VIRTUAL_WORK && v->watch.passed && *clock > began)
        v->watch.passed(v->watch.context, r, item, began / PS, *clock / PS);
}

/* The two threads of a rank. */
static void meet(virtual_rank *k, const gs_virtual_item *item) {
    if (item->what == GS_VIRTUAL_NOTE)
        k->noted[item->slot] = k->clock;
    else if (item->what == GS_VIRTUAL_AWAIT)
        k->work = k->work < k->noted[item->slot] ? k->noted[item->slot] : k->work;
    else if (k->clock < k->work) /* ASK, JOIN */
        k->clock = k->work;
    if (item->what == GS_VIRTUAL_JOIN) k->work = k->clock;
}

static outcome play_item(gs_virtual *v, virtual_rank *k, int r, const gs_virtual_item *item, int *left) {
    switch (item->what) {
    case GS_VIRTUAL_BEGIN:
    case GS_VIRTUAL_PASS:
    case GS_VIRTUAL_WORK:
        pass(v, k, r, item);
        return DONE;
    case GS_VIRTUAL_ASK:
    case GS_VIRTUAL_NOTE:
    case GS_VIRTUAL_AWAIT:
    case GS_VIRTUAL_JOIN:
        meet(k, item);
        return DONE;
    case GS_VIRTUAL_LIST:
        return play_list(v, k, r, item, left);
    case GS_VIRTUAL_SEND_ONE:
        return send(v, r, r + item->peer, (double)item->bytes);
    default:
        return receive(v, k, r, r + item->peer);
    }
}

static bool communicates(const gs_virtual_item *item) {
    return item->what >= GS_VIRTUAL_LIST;
}

static outcome play_rank(gs_virtual *v, int r) {
    virtual_rank *k = &v->rank[r];
    const gs_virtual_script *s = &v->script[r];
    int left = TURN;
    k->waits_for = -1;
    for (; k->at < s->items; k->at++) {
        const gs_virtual_item *item = &s->item[k->at];
        if (k->item_began < 0) k->item_began = k->clock;
        const outcome o = play_item(v, k, r, item, &left);
        if (o != DONE) return o;
        if (communicates(item)) {
            if (k->account.first_sum < 0) k->account.first_sum = k->item_began / PS;
            k->account.communicating += (k->clock - k->item_began) / PS;
        }
        if (v->watch.passed && k->clock > k->item_began &&
            (communicates(item) || item->what <= GS_VIRTUAL_PASS))
            v->watch.passed(v->watch.context, r, item, k->item_began / PS, k->clock / PS);
        k->item_began = -1;
    }
    return DONE;
}

/* ---- all ranks ---- */

static double count_moves(const gs_virtual *v) {
    double moves = 0;
    for (int r = 0; r < v->ranks; r++)
        for (int i = 0; i < v->script[r].items; i++) {
            const gs_virtual_item *item = &v->script[r].item[i];
            const gs_virtual_list *l = item->list ? list_of(item, r) : NULL;
            for (uint32_t k = 0; l && k < l->runs; k++) moves += (double)l->run[k].times * l->run[k].period;
        }
    return moves;
}

static void tell_progress(gs_virtual *v) {
    if (!v->watch.progress || v->moved < v->told + TOLD) return;
    v->told = v->moved;
    v->watch.progress(v->watch.context, v->moved / v->moves);
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
    v->failed = GS_OK;
    v->moves = v->watch.progress ? count_moves(v) : 0;
    v->moved = v->told = 0;
    for (int h = 0; h < v->cluster.hosts; h++) v->line[h] = (gs_virtual_line){0, 0};
    for (int r = 0; r < v->ranks; r++) {
        virtual_rank *k = &v->rank[r];
        k->at = 0;
        k->run = k->place = 0;
        k->turn = 0;
        k->item_began = -1;
        k->account = (gs_virtual_account){.began = k->clock / PS, .first_sum = -1};
        wake(v, r);
    }
}

gs_status gs_virtual_play(gs_virtual *v, const gs_virtual_script *scripts) {
    begin(v, scripts);
    do {
        while (v->ready_count > 0) {
            const int r = next_ready(v);
            const outcome o = play_rank(v, r);
            if (o == FAILED) return v->failed;
            if (o == PAUSES) wake(v, r);
            tell_progress(v);
        }
    } while (let_through(v));
    GS_TRY(is_stuck(v));
    for (int h = 0; h < v->cluster.hosts; h++) {
        v->line[h].out /= PS;
        v->line[h].in /= PS;
    }
    for (int r = 0; r < v->ranks; r++) {
        v->account[r] = v->rank[r].account;
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
    v->out_free = calloc(hosts, sizeof *v->out_free);
    v->in_free = calloc(hosts, sizeof *v->in_free);
    v->source = calloc(n + hosts, sizeof *v->source);
    v->heap = calloc(n + hosts, sizeof *v->heap);
    v->line = calloc(hosts, sizeof *v->line);
    v->account = calloc(n, sizeof *v->account);
    return v->rank && v->ready && v->out_free && v->in_free && v->source && v->heap && v->line && v->account;
}

gs_status gs_virtual_create(const gs_virtual_cluster *c, gs_virtual_watch watch, gs_virtual **out) {
    gs_virtual *v = calloc(1, sizeof *v);
    if (!v) return gs_fail(GS_E_MEMORY, "no memory for a cluster of %d workers", c->ranks);
    v->cluster = *c;
    v->watch = watch;
    v->ranks = c->ranks;
    v->each = c->ranks / c->hosts;
    set_link(&c->between, &v->alpha, &v->beta);
    set_link(&c->inside, &v->alpha_inside, &v->beta_inside);
    v->gamma = c->gamma * PS;
    if (!allocate(v)) {
        gs_virtual_free(v);
        return gs_fail(GS_E_MEMORY, "no memory for a cluster of %d workers", c->ranks);
    }
    *out = v;
    return GS_OK;
}

void gs_virtual_free(gs_virtual *v) {
    if (!v) return;
    for (int r = 0; v->rank && r < v->ranks; r++) free_inbox(&v->rank[r].inbox);
    free(v->rank);
    free(v->message);
    free(v->ready);
    free(v->out_free);
    free(v->in_free);
    free(v->source);
    free(v->heap);
    free(v->line);
    free(v->account);
    free(v);
}
