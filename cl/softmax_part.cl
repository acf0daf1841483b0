#include "softmax.clh"

/* softmax_cross_entropy where a rank holds only some of the classes, starting at `first`: backend.h defines the
 * operators. */

__kernel void softmax_part_largest(__global float *most, ulong most_at, __global const float *x, ulong x_at,
                                   ulong n, int classes) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    x += x_at + i * classes;
    most[most_at + i] = x[largest_of(x, classes)];
}

/* The first rank that holds the largest element of row i. */
static int rank_of_largest(__global const float *most, ulong n, size_t i, int ranks) {
    int best = 0;
    for (int r = 1; r < ranks; r++)
        if (!(most[r * n + i] <= most[best * n + i]) && !isnan(most[best * n + i])) best = r;
    return best;
}

enum { LEAVES_MOST = 8 };

/* Must match gs_share in operands.h. */
typedef struct share {
    int rank, ranks, whole, leaves;
} share;

/* The first class of leaf i, of all. */
static int leaf_of(share s, int i) {
    return (int)((long)s.whole * ((long)s.rank * s.leaves + i) / ((long)s.ranks * s.leaves));
}

/* The sum of the leaves, neighbours first. */
GS_ONCE two sum_of_leaves(two *sum, int leaves) {
    for (int h = 1; h < leaves; h *= 2)
        for (int i = 0; i + h < leaves; i += 2 * h) {
            sum[i].a += sum[i + h].a;
            sum[i].b += sum[i + h].b;
        }
    return sum[0];
}

/* One row per sample (gs_cl_rows). */
__kernel OF_SUMMERS void softmax_part_sums(__global float *p, ulong p_at, __global float *sums, ulong sums_at,
                                           __global const float *most, ulong most_at, __global const float *x,
                                           ulong x_at, __global const int *labels, ulong labels_at, ulong n,
                                           int classes, share s, float smoothing, float everywhere) {
    __local two shown[SUMMERS];
    two leaf[LEAVES_MOST];
    const size_t i = BEYOND ? n - 1 : get_global_id(0) / HOLDERS;
    const int id = SUMMER, first = leaf_of(s, 0), label = labels[labels_at + i] - first;
    const int best = rank_of_largest(most + most_at, n, i, s.ranks);
    const float top = most[most_at + best * n + i];
    p += p_at + i * classes;
    x += x_at + i * classes;
    for (int j = 0, begin = 0, end; j < s.leaves; j++, begin = end) {
        end = leaf_of(s, j + 1) - first;
        const two sum = exponentials_of(p + begin, x + begin, x + (n - i) * classes, top,
                                        BEYOND ? 0 : end - begin, shown, id);
        leaf[j].a = sum.a;
        leaf[j].b = smoothing != 0 ? everywhere * sum.b : 0; /* avoids 0 times a sum that may be infinite */
        if (label >= begin && label < end) leaf[j].b += (1 - smoothing) * (x[label] - top);
    }
    if (BEYOND || id % HOLDERS != 0) return;
    const two sum = sum_of_leaves(leaf, s.leaves);
    const int here = label >= 0 && label < classes;
    sums += sums_at;
    sums[i] = sum.a;
    sums[n + i] = sum.b;
    sums[2 * n + i] = here && best == s.rank && label == largest_of(x, classes) ? 1.0f : 0.0f;
}

/* part: n losses, then n flags, 1 (correct) or 0 */
__kernel void softmax_part_end(__global float *p, ulong p_at, __global float *part, ulong part_at,
                               __global const float *sums, ulong sums_at, ulong n, int classes) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    p += p_at + i * classes;
    sums += sums_at;
    part += part_at;
    for (int k = 0; k < classes; k++) p[k] /= sums[i];
    part[i] = first_of(gs_log(sums[i])) - sums[n + i];
    part[n + i] = sums[2 * n + i];
}
