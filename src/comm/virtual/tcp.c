/* Lines as TCP shares them among connections, in virtual time.
 *
 * A rank that has sent to three others has three connections. Each of them puts two packages of up to 64 KiB into the
 * queue of the line, and the next one when one has left ("TCP small queues" of Linux). So pieces of two packages take
 * turns, and no message has the line until all of it has left:
 *
 *     rank 0 sends to 1, 2 and 3 at once     one after the other    111122223333    arrives at 4, 8 and 12
 *     messages of two pieces                 in turns               112233112233    arrives at 8, 10 and 12
 *
 * The first one's receiver passes it on, and in a tree that decides how long a sum takes. On one connection messages
 * follow each other.
 *
 * A piece is given the line in when it is given the line out. Pieces are so in the order of time, and all take as long
 * to arrive: so they come to the line in in that order, too.
 */
#include "comm/virtual/state.h"

#include <math.h>

/* The acknowledgements that a host owes go ahead of a piece, unless the line has been free for as long as they take.
 * And the piece brings some for the other host to send: 66 bytes for two segments, which are 1,514 bytes each on
 * Ethernet. Returns when the piece begins. */
static double acknowledge(gs_virtual *v, int host, int other, double time, double piece) {
    const double idle = time - v->out_free[host], owed = v->owed[host] - idle;
    v->owed[host] = 0;
    v->owed[other] += gs_ps(piece * 66 / (2 * 1514));
    return owed > 0 ? time + owed : time;
}

/* Linux makes packages as large as what a connection sends in a millisecond, and larger where answers come soon: by 64
 * KiB below 512 us, half of that below 1,024 us, and so on (tcp_tso_autosize). */
double gs_virtual_tcp_piece(const gs_link *line) {
    const double most = 65536, turns = floor(2 * line->latency / 512e-6),
                 package = line->bandwidth * 1e-3 + ldexp(most, turns < 60 ? -(int)turns : -60);
    return 2 * (line->bandwidth > 0 && package < most ? package : most);
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
    const double piece = w->left < v->piece ? w->left : v->piece,
                 begins = acknowledge(v, host, other, time, piece);
    const double in = gs_port_take(&v->in_port[other], begins + v->alpha, piece);
    waiting->head = w->next_in_source;
    if (!waiting->head) waiting->tail = 0;
    w->left -= piece;
    w->time = in + piece;
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
