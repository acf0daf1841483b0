#include "data/schedule.h"

gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together) {
    if (together <= 1) return gs_shard_of(total, i, n);
    const gs_shard groups = gs_shard_of((total + together - 1) / together, i, n);
    const size_t first = gs_smaller(groups.first * together, total);
    return (gs_shard){.first = first,
                      .count = gs_smaller((groups.first + groups.count) * together, total) - first};
}
