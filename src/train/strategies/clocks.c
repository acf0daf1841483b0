#include "train/strategies/clocks.h"

size_t gs_clocks_slowest(const gs_clocks *c) {
    size_t slowest = c->clock[0];
    for (int r = 1; r < c->workers; r++)
        if (c->clock[r] < slowest) slowest = c->clock[r];
    return slowest;
}

bool gs_clocks_may_go_on(const gs_clocks *c, int rank) {
    size_t clock = c->clock[rank];
    size_t bound = clock == c->steps ? 0 : c->bound; /* at the end of an epoch all meet */
    return clock - gs_clocks_slowest(c) <= bound;
}

void gs_clocks_apply(gs_clocks *c, const int *ranks, int n) {
    for (int i = 0; i < n; i++) c->count[c->applied - c->read[ranks[i]]]++;
    c->applied += (uint64_t)n;
}

void gs_clocks_read(gs_clocks *c, int rank) {
    c->read[rank] = c->applied;
}
