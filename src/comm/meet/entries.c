#include "comm/meet/entries.h"

#include <stdlib.h>
#include <string.h>

/* The attempt in whose corner this key is; 0: in none. The first attempt has no corner. */
static int attempt_of(const char *key) {
    char *end;
    if (!strchr(key, '/')) return 1;
    const long attempt = strtol(key, &end, 10);
    return *end == '/' && attempt > 0 && attempt < 1 << 20 ? (int)attempt : 0;
}

static void forget_before(gs_entries *s, int attempt) {
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        const int its = attempt_of(s->entry[i].pair);
        if (its > 0 && its < attempt)
            free(s->entry[i].pair);
        else
            s->entry[kept++] = s->entry[i];
    }
    s->count = kept;
}

const char *gs_entries_find(const gs_entries *s, const char *key) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entry[i].pair, key) == 0) return s->entry[i].pair + strlen(key) + 1;
    return NULL;
}

static bool make_place(gs_entries *s) {
    if (s->count < s->places) return true;
    const int wanted = s->places > 0 ? 2 * s->places : 64;
    gs_entry *more = realloc(s->entry, (size_t)wanted * sizeof *more);
    if (!more) return false;
    s->entry = more;
    s->places = wanted;
    return true;
}

bool gs_entries_add(gs_entries *s, const char *key, const char *value) {
    const size_t k = strlen(key) + 1, v = strlen(value) + 1;
    const int attempt = attempt_of(key);
    if (attempt > s->attempt) {
        s->attempt = attempt;
        forget_before(s, attempt - 1);
    }
    char *pair = make_place(s) ? malloc(k + v) : NULL;
    if (!pair) return false;
    memcpy(pair, key, k);
    memcpy(pair + k, value, v);
    s->entry[s->count++] = (gs_entry){pair, k + v, s->next++};
    return true;
}

const gs_entry *gs_entries_from(const gs_entries *s, long number) {
    int low = 0, high = s->count; /* it is not before low, nor behind high */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (s->entry[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->count ? &s->entry[low] : NULL;
}

void gs_entries_free(gs_entries *s) {
    for (int i = 0; i < s->count; i++) free(s->entry[i].pair);
    free(s->entry);
    *s = (gs_entries){0};
}
