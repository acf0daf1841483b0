/* Lines and cores that several ranks share, in virtual time: in the order of time.
 *
 * A source holds messages that want a line, in the order in which they do so: source r < N what rank r has sent, source
 * N + h what has passed the line out of host h. A heap holds the sources by the time of their first message, so it has
 * at most N + hosts entries, however many messages are under way; and N of ranks that want a core.
 */
#include "comm/virtual/state.h"

static const double SLICE = 3e9; /* ps: 3 ms, as Linux has it for two cores */

static bool is_before(const gs_wish *a, const gs_wish *b) {
    return a->time < b->time || (a->time <= b->time && a->source < b->source);
}

static void push(gs_virtual *v, gs_wish w) {
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

void gs_virtual_share(gs_virtual *v, uint32_t m, int source) {
    gs_queue *q = &v->source[source];
    v->message[m].next_in_source = 0;
    if (q->tail) {
        v->message[q->tail].next_in_source = m;
        q->tail = m;
        return;
    }
    q->head = q->tail = m;
    push(v, (gs_wish){v->message[m].time, source});
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
    if (--v->heap_count > 0) replace_first(v, v->heap[v->heap_count]);
    return m;
}

static void carry(gs_under_way *w, double *line_free, double *busy) {
    if (w->time < *line_free) w->time = *line_free;
    *line_free = w->time + w->takes;
    *busy += w->takes;
}

/* Before a message from one host to another takes the line out: the acknowledgements that its host owes go ahead of it,
 * unless the line has been free for as long as they take. And it brings some for the other host to send: 66 bytes for
 * two segments, which are 1,514 bytes each on Ethernet. */
static void acknowledge(gs_virtual *v, const gs_under_way *w) {
    const int host = w->from / v->each, other = w->to / v->each;
    const double idle = w->time - v->out_free[host], owed = v->owed[host] - (idle > 0 ? idle : 0);
    if (owed > 0) v->out_free[host] = (idle > 0 ? w->time : v->out_free[host]) + owed;
    v->owed[host] = 0;
    v->owed[other] += gs_ps(w->takes * 66 / (2 * 1514));
}

void gs_virtual_want_core(gs_virtual *v, int r, double time) {
    push(v, (gs_wish){time, v->ranks + v->cluster.hosts + r});
}

/* The core of its pool that is free first, for a slice at most. */
static void give_core(gs_virtual *v, int r, double time) {
    gs_virtual_rank *k = &v->rank[r];
    double *core = v->core_free + r / (v->ranks / v->cluster.pools) * v->cluster.cores, *first = core;
    for (int i = 1; i < v->cluster.cores; i++)
        if (core[i] < *first) first = &core[i];
    const double begins = time > *first ? time : *first, takes = k->core_left < SLICE ? k->core_left : SLICE;
    double *clock = gs_virtual_clock_of(v, r);
    *first = *clock = begins + takes;
    k->core_left -= takes;
    if (k->core_left > 0)
        gs_virtual_want_core(v, r, *clock);
    else
        gs_virtual_wake(v, r);
}

bool gs_virtual_let_through(gs_virtual *v) {
    if (v->heap_count == 0) return false;
    const gs_wish wish = v->heap[0];
    if (wish.source >= v->ranks + v->cluster.hosts) {
        if (--v->heap_count > 0) replace_first(v, v->heap[v->heap_count]);
        give_core(v, wish.source - v->ranks - v->cluster.hosts, wish.time);
        return true;
    }
    const uint32_t m = take(v);
    gs_under_way *w = &v->message[m];
    if (w->stage == GS_STAGE_OUT) {
        const int host = w->from / v->each;
        if (v->cluster.tcp) acknowledge(v, w);
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
