#include "core/shape.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(GS_SHAPE_MOST == INT_MAX, "places in a sample are of type int");

bool gs_shape_is_positive(gs_shape s) {
    return s.c >= 1 && s.h >= 1 && s.w >= 1 && s.t >= 0;
}

bool gs_shape_fits(gs_shape s) {
    return (double)s.c * s.h * s.w * gs_shape_tokens(s) <= GS_SHAPE_MOST;
}

static gs_shape_text join(gs_shape s, const char *before, char between, const char *after) {
    gs_shape_text out;
    char tokens[16] = "";
    if (gs_shape_tokens(s) > 1) snprintf(tokens, sizeof tokens, "%d%c", s.t, between);
    snprintf(out.text, sizeof out.text, "%s%s%d%c%d%c%d%s", before, tokens, s.c, between, s.h, between, s.w,
             after);
    return out;
}

gs_shape_text gs_shape_tuple(gs_shape s) {
    return join(s, "(", ',', ")");
}

gs_shape_text gs_shape_product(gs_shape s) {
    return join(s, "", 'x', "");
}

bool gs_shape_parse(const char *text, gs_shape *out) {
    int size[4], count = 0;
    for (bool more = true; more; text++) {
        char *end;
        if (count == 4 || *text < '0' || *text > '9') return false;
        long number = strtol(text, &end, 10);
        if (number < 1 || number > INT_MAX || (*end != 'x' && *end != '\0')) return false;
        size[count++] = (int)number;
        more = *end == 'x';
        text = end;
    }
    if (count < 3) return false;
    const int *c = &size[count - 3];
    *out = (gs_shape){c[0], c[1], c[2], count == 4 ? size[0] : 0};
    return true;
}
