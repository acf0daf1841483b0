#include "train/ways/pipeline_tree.h"

#include <stdlib.h>
#include <string.h>

#include "sync/scheme.h"

enum { LEVELS_MOST = 16 };

struct gs_leaf_sums {
    int levels;
    float *level[LEVELS_MOST + 1];
};

gs_status gs_leaf_sums_create(int levels, size_t count, gs_leaf_sums **out) {
    gs_leaf_sums *s = *out = calloc(1, sizeof *s);
    if (levels > LEVELS_MOST) gs_bug("a tree of %d levels", levels);
    if (!s) return gs_fail(GS_E_MEMORY, "--exact: no memory for sums");
    s->levels = levels;
    for (int i = 0; i <= levels; i++)
        if (!(s->level[i] = calloc(count + 1, sizeof(float))))
            return gs_fail(GS_E_MEMORY, "--exact: no memory for %d sums of %zu floats", levels + 1, count);
    return GS_OK;
}

void gs_leaf_sums_free(gs_leaf_sums *s) {
    for (int i = 0; s && i <= LEVELS_MOST; i++) free(s->level[i]);
    free(s);
}

int gs_leaf_join(float *const *level, size_t at, size_t count, int k, float *x) {
    int i = 0;
    for (; k >> i & 1; i++) gs_sync_add(x, level[i] + at, count);
    return i;
}

void gs_leaf_sums_add(gs_leaf_sums *s, gs_shard r, int k, float *x) {
    const int level = gs_leaf_join(s->level, r.first, r.count, k, x);
    memcpy(s->level[level] + r.first, x, r.count * sizeof *x);
}

float *gs_leaf_sums_result(gs_leaf_sums *s) {
    return s->level[s->levels];
}

void gs_add_neighbours(float *x, size_t count, int workers) {
    for (int distance = 1; distance < workers; distance *= 2)
        for (int i = 0; i + distance < workers; i += 2 * distance)
            gs_sync_add(x + (size_t)i * count, x + (size_t)(i + distance) * count, count);
}
