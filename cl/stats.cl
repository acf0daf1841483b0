#include "sums.clh"

/* stats += (sum of loss, sum of correct, n) from the losses' `part`: n floats of loss, then n of correct. One
 * work-group. */
#define ADD(l, k, left)                                                                                      \
    add_deviations(&a, &unused, l, part + (k), part + n, part, 0, 0, left),                                  \
        add_deviations(&b, &unused, l, part + n + (k), part + 2 * n, part, 0, 0, left)
__kernel OF_SUMMERS void stats_add(__global float *stats, ulong stats_at, __global const float *part,
                                   ulong part_at, ulong n) {
    __local two shown[SUMMERS];
    const int id = SUMMER;
    lanes a = {{0}}, b = {{0}}, unused = {{0}};
    part += part_at;
    stats += stats_at;
    EACH_LINE(id, (int)n, ADD);
    share_lanes(&a, &b, shown, id);
    const two sum = sums_of_lanes(&a, &b, shown, 0);
    if (id != 0) return;
    stats[0] += sum.a;
    stats[1] += sum.b;
    stats[2] += (float)n;
}
