#include "comm/meet/seen.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Where it is, or would be. */
static char *place_of(const gs_seen *s, const char *key) {
    uint64_t hash = 14695981039346656037U;
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211U;
    size_t at = (size_t)hash & (s->places - 1);
    while (s->key[at][0] && strcmp(s->key[at], key) != 0) at = (at + 1) & (s->places - 1);
    return s->key[at];
}

bool gs_seen_has(const gs_seen *s, const char *key) {
    return s->places > 0 && *place_of(s, key);
}

static bool grow(gs_seen *s) {
    gs_seen more = {.count = s->count, .places = s->places > 0 ? 2 * s->places : 64};
    more.key = calloc(more.places, sizeof *more.key);
    if (!more.key) return false;
    for (size_t i = 0; i < s->places; i++)
        if (s->key[i][0]) memcpy(place_of(&more, s->key[i]), s->key[i], GS_STORE_KEY);
    free(s->key);
    *s = more;
    return true;
}

bool gs_seen_add(gs_seen *s, const char *key) {
    if (2 * (s->count + 1) > s->places && !grow(s)) return false;
    snprintf(place_of(s, key), GS_STORE_KEY, "%s", key);
    s->count++;
    return true;
}

void gs_seen_free(gs_seen *s) {
    free(s->key);
    *s = (gs_seen){0};
}
