#include "comm/link.h"
#include "core/units.h"

#include <stdio.h>

static bool is_valid(const gs_link *l) {
    if (!gs_link_is_there(l)) return l->latency >= 0 && l->bandwidth >= 0; /* false for a NaN */
    return l->latency >= 0 && l->latency <= 10 && l->bandwidth >= 1 && l->bandwidth <= 1e12;
}

bool gs_link_read(const char *text, gs_link *l) {
    gs_link read;
    if (!gs_unit_read(&text, gs_units_time, &read.latency) || *text++ != ',') return false;
    if (!gs_unit_read(&text, gs_units_rate, &read.bandwidth) &&
        !gs_unit_read(&text, gs_units_bits, &read.bandwidth))
        return false;
    if (*text || !gs_link_is_there(&read) || !is_valid(&read)) return false;
    *l = read;
    return true;
}

const char *gs_link_text(const gs_link *l, char *text, size_t size) {
    char latency[40], bandwidth[40];
    gs_unit_print(l->latency, gs_units_time, latency, sizeof latency);
    gs_unit_print(l->bandwidth, gs_units_rate, bandwidth, sizeof bandwidth);
    if (!gs_link_is_there(l) && is_valid(l))
        snprintf(text, size, "none");
    else
        snprintf(text, size, "%s,%s", latency, bandwidth);
    return text;
}

/* ---- a line ---- */

static int at_place(const gs_port *p, int i) {
    return (p->first + i) % GS_PORT_BUSY;
}

static void insert(gs_port *p, int at, double from, double to) {
    if (p->count == GS_PORT_BUSY && at == 0) {
        p->before = to;
        return;
    }
    if (p->count == GS_PORT_BUSY) {
        p->before = p->to[p->first];
        p->first = at_place(p, 1);
        p->count--;
        at--;
    }
    for (int i = p->count++; i > at; i--) {
        p->from[at_place(p, i)] = p->from[at_place(p, i - 1)];
        p->to[at_place(p, i)] = p->to[at_place(p, i - 1)];
    }
    p->from[at_place(p, at)] = from;
    p->to[at_place(p, at)] = to;
}

double gs_port_free(const gs_port *p) {
    return p->count > 0 ? p->to[at_place(p, p->count - 1)] : p->before;
}

double gs_port_take(gs_port *p, double earliest, double seconds) {
    double begin = earliest > p->before ? earliest : p->before;
    int at = gs_port_free(p) <= begin ? p->count : 0; /* usually it follows all others */
    while (at < p->count && p->from[at_place(p, at)] < begin + seconds) {
        if (p->to[at_place(p, at)] > begin) begin = p->to[at_place(p, at)];
        at++;
    }
    if (!(seconds > 0)) return begin;
    if (at > 0 && p->to[at_place(p, at - 1)] >= begin) /* it follows without a gap */
        p->to[at_place(p, at - 1)] = begin + seconds;
    else
        insert(p, at, begin, begin + seconds);
    return begin;
}
