/* Lines as TCP shares them among connections, in virtual time.
 *
 * A rank that has sent to three others has three connections, and each of them has a window of its own. So their packets
 * take turns on the line, and no message waits for one before it to another rank, as it would were they sent one after
 * the other:
 *
 *     rank 0 sends to 4, 2 and 1 at once     one after the other    444422221111    arrives at 4, 8 and 12
 *                                            in turns               421421421421    arrives at 10, 11 and 12
 *
 * The first one's receiver passes it on, and in a tree that decides how long a sum takes. Here pieces take turns: as
 * many bytes as TCP sends of a new connection before it waits for an answer (10 segments: RFC 6928), or a 16th of the
 * message where that is more. On one connection messages follow each other.
 *
 * A piece is given the line in when it is given the line out. Pieces are so in the order of time, and all take as long
 * to arrive: so they come to the line in in that order, too.
 */
#include "comm/virtual/state.h"

/* The acknowledgements that a host owes go ahead of a piece, unless the line has been free for as long as they take.
 * And the piece brings some for the other host to send: 66 bytes for two segments, which are 1,514 bytes each on
 * Ethernet. Returns when the piece begins. */
static double acknowledge(gs_virtual *v, int host, int other, double time, double piece) {
    const double idle = time - v->out_free[host], owed = v->owed[host] - idle;
    v->owed[host] = 0;
    v->owed[other] += gs_ps(piece * 66 / (2 * 1514));
    return owed > 0 ? time + owed : time;
}

static double piece_of(const gs_virtual *v, const gs_under_way *w) {
    const double share = gs_ps(w->takes / 16), piece = share > v->burst ? share : v->burst;
    return w->left < piece ? w->left : piece;
}

/* All of it has begun to leave: the next one of its connection may. */
static void leaves(gs_virtual *v, gs_under_way *w, gs_queue *waiting) {
    gs_under_way *next = w->next ? &v->message[w->next] : NULL;
    w->stage = GS_STAGE_ARRIVES;
    if (next && next->stage == GS_STAGE_BEHIND) gs_virtual_append(v, waiting, w->next);
    if (next) next->stage = GS_STAGE_OUT;
    if (v->rank[w->to].waits_for == w->from) gs_virtual_wake(v, w->to);
}

/* The first one that waits for a line that is free now. */
static void carry_piece(gs_virtual *v, int host, double time) {
    gs_queue *waiting = &v->source[v->ranks + host];
    const uint32_t m = waiting->head;
    gs_under_way *w = &v->message[m];
    const int other = w->to / v->each;
    const double piece = piece_of(v, w), begins = acknowledge(v, host, other, time, piece);
    double in = begins + v->alpha;
    if (in < v->in_free[other]) in = v->in_free[other];
    waiting->head = w->next_in_source;
    if (!waiting->head) waiting->tail = 0;
    w->left -= piece;
    w->time = v->in_free[other] = in + piece;
    v->out_free[host] = begins + piece;
    v->line[host].out += piece;
    v->line[other].in += piece;
    v->busy[host] = true;
    v->carried[host] = w->left > 0 ? m : 0;
    if (!(w->left > 0)) leaves(v, w, waiting);
    gs_virtual_wish(v, v->out_free[host], v->ranks + host);
}

void gs_virtual_tcp_wants(gs_virtual *v, uint32_t m) {
    gs_under_way *w = &v->message[m];
    const int host = w->from / v->each;
    if (w->stage == GS_STAGE_AFTER) {
        w->stage = GS_STAGE_BEHIND;
        return;
    }
    gs_virtual_append(v, &v->source[v->ranks + host], m);
    if (!v->busy[host]) carry_piece(v, host, w->time);
}

void gs_virtual_tcp_next(gs_virtual *v, int host, double time) {
    gs_queue *waiting = &v->source[v->ranks + host];
    v->busy[host] = false;
    if (v->carried[host]) gs_virtual_append(v, waiting, v->carried[host]);
    v->carried[host] = 0;
    if (waiting->head) carry_piece(v, host, time);
}
