#include "comm/virtual/list.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 3 /* of what is found to repeat, at most: send, receive, add */ };

static gs_status no_memory(void) {
    return gs_fail(GS_E_MEMORY, "no memory for the messages of a scheme");
}

static gs_status grow(void **array, uint32_t *room, uint32_t wanted, size_t each) {
    if (wanted <= *room) return GS_OK;
    const uint32_t more = *room < 8 ? 16 : 2 * *room;
    void *larger = realloc(*array, more * each);
    if (!larger) return no_memory();
    *array = larger;
    *room = more;
    return GS_OK;
}

static gs_status begin_run(gs_virtual_list *l, uint32_t first, uint32_t period, uint64_t times) {
    GS_TRY(grow((void **)&l->run, &l->run_room, l->runs + 1, sizeof *l->run));
    l->run[l->runs++] = (gs_virtual_run){first, period, times};
    return GS_OK;
}

/* So far they come once; the last run takes them up if it is of such moves. */
static gs_status add_once(gs_virtual_list *l, gs_virtual_move m) {
    GS_TRY(grow((void **)&l->move, &l->move_room, l->moves + 1, sizeof *l->move));
    if (l->runs == 0 || l->run[l->runs - 1].times > 1) GS_TRY(begin_run(l, l->moves, 0, 1));
    l->move[l->moves++] = m;
    l->run[l->runs - 1].period++;
    return GS_OK;
}

static bool are_alike(const gs_virtual_move *a, const gs_virtual_move *b) {
    return a->deed == b->deed && a->bytes == b->bytes;
}

/* Are the last 2 p moves, which come once, p moves twice? Then they become a run that repeats. */
static gs_status fold(gs_virtual_list *l, uint32_t p) {
    gs_virtual_run *last = &l->run[l->runs - 1];
    if (last->period < 2 * p) return GS_OK;
    gs_virtual_move *a = l->move + l->moves - 2 * p, *b = a + p;
    for (uint32_t i = 0; i < p; i++)
        if (!are_alike(&a[i], &b[i])) return GS_OK;
    for (uint32_t i = 0; i < p; i++) a[i].step = (b[i].peer - a[i].peer + l->ranks) % l->ranks;
    l->moves -= p;
    last->period -= 2 * p;
    if (last->period == 0) l->runs--;
    return begin_run(l, l->moves - p, p, 2);
}

/* The peer of a move when its run comes for time `times`, from 0. */
static int peer_at(const gs_virtual_list *l, const gs_virtual_move *m, uint64_t times) {
    return (int)(((uint64_t)m->peer + times * (uint64_t)m->step) % (uint64_t)l->ranks);
}

/* What the last run has begun to repeat, and does not, comes once. */
gs_status gs_virtual_list_end(gs_virtual_list *l) {
    const uint32_t partly = l->partly;
    l->partly = 0;
    if (partly == 0) return GS_OK;
    const gs_virtual_run last = l->run[l->runs - 1];
    for (uint32_t i = 0; i < partly; i++) {
        gs_virtual_move m = l->move[last.first + i];
        m.peer = peer_at(l, &m, last.times);
        m.step = 0;
        GS_TRY(add_once(l, m));
    }
    return GS_OK;
}

static bool goes_on(const gs_virtual_list *l, const gs_virtual_move *m) {
    const gs_virtual_run *last = &l->run[l->runs - 1];
    const gs_virtual_move *next = &l->move[last->first + l->partly];
    return are_alike(next, m) && peer_at(l, next, last->times) == m->peer;
}

gs_status gs_virtual_list_add(gs_virtual_list *l, gs_virtual_deed deed, int peer, size_t bytes) {
    const gs_virtual_move m = {bytes, peer, 0, deed};
    if (l->runs > 0 && l->run[l->runs - 1].times > 1) {
        if (goes_on(l, &m)) {
            if (++l->partly < l->run[l->runs - 1].period) return GS_OK;
            l->run[l->runs - 1].times++;
            l->partly = 0;
            return GS_OK;
        }
        GS_TRY(gs_virtual_list_end(l));
    }
    GS_TRY(add_once(l, m));
    const uint32_t runs = l->runs;
    for (uint32_t p = 1; p <= PERIOD && l->runs == runs && l->run[runs - 1].times == 1; p++)
        GS_TRY(fold(l, p));
    return GS_OK;
}

void gs_virtual_list_free(gs_virtual_list *l) {
    free(l->move);
    free(l->run);
    *l = (gs_virtual_list){.ranks = l->ranks};
}

/* ---- a recorder ---- */

static gs_virtual_list *list_of(const gs_comm *c) {
    return ((const gs_recorder *)c->state)->list;
}

static gs_status record_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    (void)data;
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_SEND, e->peer, bytes);
}

static gs_status record_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    (void)data;
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_RECV, e->peer, bytes);
}

static gs_status record_added(gs_comm *c, size_t bytes) {
    return gs_virtual_list_add(list_of(c), GS_VIRTUAL_ADD, 0, bytes);
}

static void record_abort(gs_comm *c, const char *message) {
    gs_bug("rank %d of a recording is aborted: %s", c->rank, message);
}

static void record_free(gs_comm *c) {
    (void)c;
}

static const gs_transport transport_recorder = {
    .name = "virtual",
    .send = record_send,
    .recv = record_recv,
    .collective = gs_collective_by_messages,
    .abort = record_abort,
    .free = record_free,
    .added = record_added,
};

void gs_recorder_begin(gs_recorder *r, int ranks) {
    *r = (gs_recorder){.comm = {&transport_recorder, 0, ranks, GS_TIMEOUT, r}};
}
