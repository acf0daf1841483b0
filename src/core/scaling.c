#include "core/scaling.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/units.h"

bool gs_by_channel_same(const gs_by_channel *a, const gs_by_channel *b) {
    if (a->count != b->count) return false;
    for (int c = 0; c < a->count; c++)
        if (a->of[c] < b->of[c] || a->of[c] > b->of[c]) return false;
    return true;
}

const char *gs_by_channel_text(const gs_by_channel *x, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "nan");
    for (int c = 0; c < x->count && c < GS_CHANNELS && used < size; c++)
        used += (size_t)snprintf(text + used, size - used, "%s%.9g", c ? "," : "",
                                 gs_decimal(x->of[c]) + 0.0); /* -0 becomes 0 */
    return text;
}

bool gs_by_channel_read(const char *text, gs_by_channel *out) {
    gs_by_channel read = {0};
    do {
        char *end;
        if (read.count == GS_CHANNELS || *text == '\0' || !strchr("0123456789.+-", *text)) return false;
        const double value = strtod(text, &end);
        const size_t plain = strspn(text, "0123456789.eE+-"); /* strtod also accepts 0x1p3 and inf */
        if (end == text || end != text + plain || !(fabs(value) <= (double)FLT_MAX)) return false;
        read.of[read.count++] = (float)value;
        text = end;
    } while (*text++ == ',');
    if (text[-1]) return false;
    *out = read;
    return true;
}

bool gs_by_channel_within(const gs_by_channel *x, double low, double high) {
    for (int c = 0; c < x->count; c++)
        if (!(gs_decimal(x->of[c]) >= low && gs_decimal(x->of[c]) <= high)) return false;
    return true;
}
