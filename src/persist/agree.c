#include "persist/agree.h"

#include <inttypes.h>
#include <string.h>

/* The last step that all survivors have, and the first of them; -1: there is none. */
static int find_step(const gs_card *all, int size, uint64_t *step) {
    int first = -1;
    for (int r = 0; r < size; r++) {
        const gs_card *its = gs_card_newest(all + (size_t)r * GS_COPIES);
        if (!its) continue;
        if (first < 0 || its->step < *step) *step = its->step;
        if (first < 0) first = r;
    }
    return first;
}

static gs_status compare(const gs_card *all, int size, int first, uint64_t step) {
    const gs_card *wanted = gs_card_of_step(all + (size_t)first * GS_COPIES, step);
    for (int r = 0; r < size; r++) {
        const gs_card *its = gs_card_of_step(all + (size_t)r * GS_COPIES, step);
        if (!gs_card_newest(all + (size_t)r * GS_COPIES)) continue;
        if (!wanted || !its)
            return gs_fail(GS_E_DIFFER, "--elastic: rank %d has no copy of step %" PRIu64, its ? first : r,
                           step);
        if (strncmp(its->hash, wanted->hash, GS_CARD_HASH) != 0)
            return gs_fail(GS_E_DIFFER,
                           "--elastic: after step %" PRIu64 " the states of ranks %d and %d differ (SHA-256 "
                           "%.12s... and %.12s...)",
                           step, first, r, wanted->hash, its->hash);
    }
    return GS_OK;
}

gs_status gs_cards_agree(const gs_card *all, int size, uint64_t *step, int *first) {
    *first = find_step(all, size, step);
    return *first < 0 ? GS_OK : compare(all, size, *first, *step);
}
