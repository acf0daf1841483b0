#include "data/schedule.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together) {
    if (together <= 1) return gs_shard_of(total, i, n);
    const gs_shard groups = gs_shard_of((total + together - 1) / together, i, n);
    const size_t first = smaller(groups.first * together, total);
    return (gs_shard){.first = first,
                      .count = smaller((groups.first + groups.count) * together, total) - first};
}
