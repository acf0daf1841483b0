#include "core/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "core/shard.h"
#include "core/text.h"

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* How many letters of `a` must be changed, added, left out or swapped with the next to make `b`; SIZE_MAX for long
 * words. Source: Damerau 1964, by the table of Wagner and Fischer 1974: d[i][j] is the distance between the first i
 * and the first j letters. */
static size_t distance(const char *a, size_t na, const char *b) {
    enum { LONGEST = 40 };
    size_t d[LONGEST + 1][LONGEST + 1], nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return SIZE_MAX;
    for (size_t i = 0; i <= na; i++) d[i][0] = i;
    for (size_t j = 0; j <= nb; j++) d[0][j] = j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            size_t change = d[i - 1][j - 1] + (lower(a[i - 1]) != b[j - 1]);
            d[i][j] = gs_smaller(change, gs_smaller(d[i - 1][j], d[i][j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == b[j - 2] && lower(a[i - 2]) == b[j - 1];
            if (swapped) d[i][j] = gs_smaller(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

const char *gs_nearest(const char *word, size_t length, const char *const *names) {
    const char *nearest = NULL;
    size_t most = length == 2 ? 1 : length / 3, best = most + 1;
    for (; *names; names++) {
        bool same = strlen(*names) == length && memcmp(*names, word, length) == 0;
        size_t d = distance(word, length, *names);
        if (d >= best || same) continue;
        best = d;
        nearest = *names;
    }
    return nearest;
}

const char *gs_did_you_mean(const char *word, const char *const *names) {
    static _Thread_local char text[96];
    const char *nearest = gs_nearest(word, strlen(word), names);
    if (!nearest) return "";
    snprintf(text, sizeof text, "; did you mean %s?", nearest);
    return text;
}

gs_status gs_no_such(const char *what, const char *word, const char *const *names) {
    char list[400] = "";
    for (size_t i = 0; names[i]; i++) gs_append(list, sizeof list, "%s%s", i ? ", " : "", names[i]);
    return gs_fail(GS_E_USAGE, "unknown %s '%s'; choose one of: %s%s", what, word, list,
                   gs_did_you_mean(word, names));
}
