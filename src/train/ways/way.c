#include "train/ways/way.h"

#include <string.h>

/* The first is chosen by the name of any scheme, the second by an option of its own, the others by --sync NAME. */
static const gs_way *const ways[] = {&gs_way_synchronous, &gs_way_exact, &gs_way_sharded_update,
                                     &gs_way_local,       &gs_way_async, NULL};
static const gs_way *const *const by_name = &ways[2];

const gs_way *const *gs_ways(void) {
    return ways;
}

const gs_way *gs_way_of(const gs_settings *s) {
    if (s->exact) return &gs_way_exact;
    for (const gs_way *const *way = by_name; *way; way++)
        if (strcmp((*way)->name, s->sync) == 0) return *way;
    return &gs_way_synchronous;
}

gs_status gs_find_scheme(const gs_settings *s, const gs_sync_scheme **out) {
    const char *names[sizeof ways / sizeof *ways] = {NULL};
    for (int i = 0; by_name[i]; i++) {
        names[i] = by_name[i]->name;
        if (strcmp(names[i], s->sync) == 0) return gs_sync_find(gs_settings_default().sync, out);
    }
    return gs_sync_find_or(s->sync, names, out);
}
