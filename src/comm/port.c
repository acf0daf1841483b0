#include "comm/port.h"

#include <string.h>

static void forget_first(gs_port *p) {
    p->before = p->to[0];
    p->count--;
    memmove(p->from, p->from + 1, (size_t)p->count * sizeof *p->from);
    memmove(p->to, p->to + 1, (size_t)p->count * sizeof *p->to);
}

static void insert(gs_port *p, int at, double from, double to) {
    if (p->count == GS_PORT_BUSY && at == 0) {
        p->before = to;
        return;
    }
    if (p->count == GS_PORT_BUSY) {
        forget_first(p);
        at--;
    }
    memmove(p->from + at + 1, p->from + at, (size_t)(p->count - at) * sizeof *p->from);
    memmove(p->to + at + 1, p->to + at, (size_t)(p->count - at) * sizeof *p->to);
    p->from[at] = from;
    p->to[at] = to;
    p->count++;
}

double gs_port_take(gs_port *p, double earliest, double seconds) {
    double begin = earliest > p->before ? earliest : p->before;
    int at =
        p->count > 0 && p->to[p->count - 1] <= begin ? p->count : 0; /* mostly it comes after all others */
    while (at < p->count && p->from[at] < begin + seconds) {
        if (p->to[at] > begin) begin = p->to[at];
        at++;
    }
    if (!(seconds > 0)) return begin;
    if (at > 0 && p->to[at - 1] >= begin) /* it follows without a gap */
        p->to[at - 1] = begin + seconds;
    else
        insert(p, at, begin, begin + seconds);
    return begin;
}
