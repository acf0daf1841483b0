#include "common.clh"

/* stats += (sum of loss, sum of correct, n) from the losses' `part`: n floats of loss, then n of correct. One
 * work-group: each work-item sums every GS_SUM_ITEMS-th sample, and the first one adds up these sums, always in the
 * same order. */
__kernel __attribute__((reqd_work_group_size(GS_SUM_ITEMS, 1, 1))) void
stats_add(__global float *stats, ulong stats_at, __global const float *part, ulong part_at, ulong n) {
    __local float loss[GS_SUM_ITEMS], correct[GS_SUM_ITEMS];
    const size_t id = get_local_id(0);
    stats += stats_at;
    part += part_at;
    float my_loss = 0, my_correct = 0;
    for (size_t i = id; i < n; i += GS_SUM_ITEMS) {
        my_loss += part[i];
        my_correct += part[n + i];
    }
    loss[id] = my_loss;
    correct[id] = my_correct;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id != 0) return;
    my_loss = my_correct = 0;
    for (size_t i = 0; i < GS_SUM_ITEMS; i++) {
        my_loss += loss[i];
        my_correct += correct[i];
    }
    stats[0] += my_loss;
    stats[1] += my_correct;
    stats[2] += (float)n;
}
