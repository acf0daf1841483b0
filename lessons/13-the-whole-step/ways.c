/* The table of ways to train, with lab 13's in the place of the synchronous one: instead of src/train/ways/way.c. */
#include <string.h>
#include "train/ways/way.h"

extern const gs_way lab_way; /* given.c */

static const gs_way *const ways[] = {&lab_way,      &gs_way_exact, &gs_way_sharded_update,
                                     &gs_way_local, &gs_way_async, NULL};

const gs_way *const *gs_ways(void) {
    return ways;
}

const gs_way *gs_way_of(const gs_settings *s) {
    if (s->exact) return &gs_way_exact;
    for (const gs_way *const *way = &ways[2]; *way; way++)
        if (strcmp((*way)->name, s->sync) == 0) return *way;
    return &lab_way;
}

gs_status gs_find_scheme(const gs_settings *s, const gs_sync_scheme **out) {
    const char *names[sizeof ways / sizeof *ways] = {NULL};
    for (int i = 0; ways[i + 2]; i++) {
        names[i] = ways[i + 2]->name;
        if (strcmp(names[i], s->sync) == 0) return gs_sync_find(gs_settings_default().sync, out);
    }
    return gs_sync_find_or(s->sync, names, out);
}
