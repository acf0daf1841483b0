#include "persist/snapshot_id.h"

#include <inttypes.h>
#include <string.h>

/* *step: the last step that all survivors hold. Returns the first survivor; -1: none. */
static int find_step(const gs_snapshot_id *all, int size, uint64_t *step) {
    int first = -1;
    for (int r = 0; r < size; r++) {
        const gs_snapshot_id *its = gs_snapshot_id_newest(all + (size_t)r * GS_SNAPSHOTS);
        if (!its) continue;
        if (first < 0 || its->step < *step) *step = its->step;
        if (first < 0) first = r;
    }
    return first;
}

static gs_status compare(const gs_snapshot_id *all, int size, int first, uint64_t step) {
    const gs_snapshot_id *wanted = gs_snapshot_id_of_step(all + (size_t)first * GS_SNAPSHOTS, step);
    for (int r = 0; r < size; r++) {
        const gs_snapshot_id *its = gs_snapshot_id_of_step(all + (size_t)r * GS_SNAPSHOTS, step);
        if (!gs_snapshot_id_newest(all + (size_t)r * GS_SNAPSHOTS)) continue;
        if (!wanted || !its)
            return gs_fail(GS_E_DIFFER, "--elastic: rank %d has no copy of step %" PRIu64, its ? first : r,
                           step);
        if (strncmp(its->hash, wanted->hash, GS_SNAPSHOT_HASH) != 0)
            return gs_fail(GS_E_DIFFER,
                           "--elastic: after step %" PRIu64 " the states of ranks %d and %d differ (SHA-256 "
                           "%.12s... and %.12s...)",
                           step, first, r, wanted->hash, its->hash);
    }
    return GS_OK;
}

gs_status gs_snapshots_agree(const gs_snapshot_id *all, int size, uint64_t *step, int *first) {
    *first = find_step(all, size, step);
    return *first < 0 ? GS_OK : compare(all, size, *first, *step);
}
