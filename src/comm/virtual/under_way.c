/* Messages under way in virtual time: who has sent what to whom, and when it arrives. */
#include "comm/virtual/state.h"

#include <stdlib.h>

enum { FEW = 8 /* senders among which we look for one */ };

static void no_memory(gs_virtual *v) {
    v->failed = gs_fail(GS_E_MEMORY, "no memory for %u messages under way", v->messages);
}

/* ---- memory ---- */

static uint32_t new_message(gs_virtual *v) {
    uint32_t m = v->spare;
    if (m) {
        v->spare = v->message[m].next;
        return m;
    }
    if (v->messages + 1 >= v->message_room) {
        const uint32_t room = v->message_room < 1024 ? 1024 : 2 * v->message_room;
        gs_under_way *more = room > v->message_room ? realloc(v->message, room * sizeof *more) : NULL;
        if (!more) return 0;
        v->message = more;
        v->message_room = room;
    }
    return ++v->messages;
}

void gs_virtual_free_inbox(gs_inbox *b) {
    free(b->from);
    free(b->queue);
    free(b->place);
}

static bool add_sender(gs_inbox *b, int from) {
    if (b->count == b->room) {
        const int room = b->room ? 2 * b->room : 4;
        int *names = realloc(b->from, (size_t)room * sizeof *names);
        if (!names) return false;
        b->from = names;
        gs_queue *queues = realloc(b->queue, (size_t)room * sizeof *queues);
        if (!queues) return false;
        b->queue = queues;
        b->room = room;
    }
    b->from[b->count] = from;
    b->queue[b->count++] = (gs_queue){0, 0};
    if (b->place) b->place[from] = b->count;
    return true;
}

/* Once a rank has many senders, a table says where each is. */
static bool make_table(gs_inbox *b, int ranks) {
    if (!(b->place = calloc((size_t)ranks, sizeof *b->place))) return false;
    for (int i = 0; i < b->count; i++) b->place[b->from[i]] = i + 1;
    return true;
}

/* NULL: no memory; or, unless `make`, no such sender. */
static gs_queue *queue_from(gs_inbox *b, int from, int ranks, bool make) {
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

/* ---- those that can go on ---- */

void gs_virtual_wake(gs_virtual *v, int r) {
    if (v->rank[r].ready) return;
    v->rank[r].ready = true;
    int at = v->ready_first + v->ready_count++;
    v->ready[at < v->ranks ? at : at - v->ranks] = r;
}

/* ---- a message ---- */

static bool share_a_line(const gs_virtual *v) {
    return v->each > 1 || v->cluster.tcp;
}

bool gs_virtual_send(gs_virtual *v, int from, int to, double bytes) {
    gs_virtual_rank *k = &v->rank[from], *receiver = &v->rank[to];
    const int host = from / v->each;
    const bool inside = host == to / v->each && from != to;
    gs_queue *queue = queue_from(&receiver->inbox, from, v->ranks, true);
    const uint32_t m = queue ? new_message(v) : 0;
    if (!m) {
        no_memory(v);
        return false;
    }
    gs_under_way *w = &v->message[m];
    *w = (gs_under_way){.time = k->clock, .from = from, .to = to};
    w->takes = w->left = gs_ps(bytes * (inside ? v->beta_inside : v->beta));
    k->account.sent[inside] += bytes;
    const bool first = !queue->tail || v->message[queue->tail].stage == GS_STAGE_ARRIVES;
    if (queue->tail)
        v->message[queue->tail].next = m;
    else
        queue->head = m;
    queue->tail = m;
    if (!inside && share_a_line(v)) {
        w->stage = first || !v->cluster.tcp ? GS_STAGE_OUT : GS_STAGE_AFTER;
        gs_virtual_share(v, m, from);
        return true;
    }
    double *out = inside ? &k->out_inside : &k->out;
    if (w->time < *out) w->time = *out;
    *out = w->time + w->takes;
    w->stage = inside ? GS_STAGE_INSIDE : GS_STAGE_LEFT;
    if (!inside) {
        v->line[host].out += w->takes;
        v->line[to / v->each].in += w->takes;
    }
    if (receiver->waits_for == from) gs_virtual_wake(v, to);
    return true;
}

static double arrival(const gs_virtual *v, gs_virtual_rank *k, const gs_under_way *w) {
    switch (w->stage) {
    case GS_STAGE_LEFT:
        return gs_port_take(&k->in, w->time + v->alpha, w->takes) + w->takes;
    case GS_STAGE_INSIDE:
        return gs_port_take(&k->in_inside, w->time + v->alpha_inside, w->takes) + w->takes;
    default:
        return w->time;
    }
}

bool gs_virtual_receive(gs_virtual *v, int r, int from) {
    gs_virtual_rank *k = &v->rank[r];
    gs_queue *queue = queue_from(&k->inbox, from, v->ranks, false);
    const uint32_t m = queue ? queue->head : 0;
    if (!m) return false;
    gs_under_way *w = &v->message[m];
    if (w->stage >= GS_STAGE_OUT && w->stage != GS_STAGE_ARRIVES) return false;
    const double arrives = arrival(v, k, w);
    if (arrives > k->clock) k->clock = arrives;
    queue->head = w->next;
    if (!queue->head) queue->tail = 0;
    w->next = v->spare;
    v->spare = m;
    return true;
}
