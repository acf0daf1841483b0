#include "comm/link.h"
#include "core/units.h"

#include <stdio.h>

bool gs_link_is_valid(const gs_link *l) {
    if (!gs_link_is_there(l)) return l->latency >= 0 && l->bandwidth >= 0; /* and none is a NaN */
    return l->latency >= 0 && l->latency <= 10 && l->bandwidth >= 1 && l->bandwidth <= 1e12;
}

bool gs_link_read(const char *text, gs_link *l) {
    gs_link read;
    if (!gs_unit_read(&text, gs_units_time, &read.latency) || *text++ != ',') return false;
    if (!gs_unit_read(&text, gs_units_rate, &read.bandwidth) &&
        !gs_unit_read(&text, gs_units_bits, &read.bandwidth))
        return false;
    if (*text || !gs_link_is_there(&read) || !gs_link_is_valid(&read)) return false;
    *l = read;
    return true;
}

const char *gs_link_text(const gs_link *l, char *text, size_t size) {
    char latency[40], bandwidth[40];
    gs_unit_print(l->latency, gs_units_time, latency, sizeof latency);
    gs_unit_print(l->bandwidth, gs_units_rate, bandwidth, sizeof bandwidth);
    if (gs_link_is_there(l))
        snprintf(text, size, "%s,%s", latency, bandwidth);
    else
        snprintf(text, size, "none");
    return text;
}
