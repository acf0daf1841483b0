/* Lines and cores that several ranks share, in virtual time: in the order of time.
 *
 * A source holds messages that want a line, in the order in which they do so: source r < N what rank r has sent, source
 * N + h what has passed the line out of host h (with tcp: what waits for it, tcp.c). A heap holds the sources by the
 * time of their first message, so it has at most N + hosts entries, however many messages are under way; and N of ranks
 * that want a core.
 */
#include "comm/virtual/state.h"

#include <math.h>

static const double SLICE = 3e9; /* ps: 3 ms, as Linux has it for two cores */

static bool is_before(const gs_wish *a, const gs_wish *b) {
    return a->time < b->time || (a->time <= b->time && a->source < b->source);
}

void gs_virtual_wish(gs_virtual *v, double time, int source) {
    const gs_wish w = {time, source};
    int at = v->heap_count++;
    for (; at > 0 && is_before(&w, &v->heap[(at - 1) / 2]); at = (at - 1) / 2)
        v->heap[at] = v->heap[(at - 1) / 2];
    v->heap[at] = w;
}

/* In place of the first one. */
static void replace_first(gs_virtual *v, gs_wish w) {
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

void gs_virtual_append(gs_virtual *v, gs_queue *q, uint32_t m) {
    v->message[m].next_in_source = 0;
    *(q->tail ? &v->message[q->tail].next_in_source : &q->head) = m;
    q->tail = m;
}

void gs_virtual_share(gs_virtual *v, uint32_t m, int source) {
    gs_queue *q = &v->source[source];
    const bool first = !q->tail;
    gs_virtual_append(v, q, m);
    if (first) gs_virtual_wish(v, v->message[m].time, source);
}

/* Remove the earliest message from its source. */
static uint32_t take(gs_virtual *v) {
    const int source = v->heap[0].source;
    gs_queue *q = &v->source[source];
    const uint32_t m = q->head;
    q->head = v->message[m].next_in_source;
    if (q->head) {
        replace_first(v, (gs_wish){v->message[q->head].time, source});
        return m;
    }
    q->tail = 0;
    drop_first(v);
    return m;
}

static void carry(gs_under_way *w, double *line_free, double *busy) {
    if (w->time < *line_free) w->time = *line_free;
    *line_free = w->time + w->takes;
    *busy += w->takes;
}

void gs_virtual_want_core(gs_virtual *v, int r, double time) {
    gs_virtual_wish(v, time, v->ranks + v->cluster.hosts + r);
}

/* The core of its pool that is free first, for a slice at most. A play of scripts ends when all ranks have executed
 * theirs, at different times; so one may want a core, in the next play, before a moment at which another has had it. */
static void give_core(gs_virtual *v, int r, double time) {
    gs_virtual_rank *k = &v->rank[r];
    gs_port *core = v->core + r / (v->ranks / v->cluster.pools) * v->cluster.cores, *first = core;
    const double takes = k->core_left < SLICE ? k->core_left : SLICE;
    double begins = INFINITY;
    for (int i = 0; i < v->cluster.cores; i++) {
        gs_port tried = core[i];
        const double could = gs_port_take(&tried, time, takes);
        if (!(could < begins)) continue;
        begins = could;
        first = &core[i];
    }
    double *clock = gs_virtual_clock_of(v, r);
    gs_port_take(first, time, takes);
    *clock = begins + takes;
    k->core_left -= takes;
    if (k->core_left > 0)
        gs_virtual_want_core(v, r, *clock);
    else
        gs_virtual_wake(v, r);
}

bool gs_virtual_let_through(gs_virtual *v) {
    if (v->heap_count == 0) return false;
    const gs_wish wish = v->heap[0];
    const int of_host = wish.source - v->ranks, of_rank = of_host - v->cluster.hosts;
    if (of_rank >= 0) {
        drop_first(v);
        give_core(v, of_rank, wish.time);
        return true;
    }
    if (v->cluster.tcp && of_host >= 0) {
        drop_first(v);
        gs_virtual_tcp_next(v, of_host, wish.time);
        return true;
    }
    const uint32_t m = take(v);
    gs_under_way *w = &v->message[m];
    if (v->cluster.tcp) {
        gs_virtual_tcp_wants(v, m);
        return true;
    }
    if (w->stage == GS_STAGE_OUT) {
        const int host = w->from / v->each;
        carry(w, &v->out_free[host], &v->line[host].out);
        w->time += v->alpha;
        w->stage = GS_STAGE_IN;
        gs_virtual_share(v, m, v->ranks + host);
        return true;
    }
    const int host = w->to / v->each;
    carry(w, &v->in_free[host], &v->line[host].in);
    w->time += w->takes;
    w->stage = GS_STAGE_ARRIVES;
    if (v->rank[w->to].waits_for == w->from) gs_virtual_wake(v, w->to);
    return true;
}
