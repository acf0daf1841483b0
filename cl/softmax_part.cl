#include "common.clh"
#include "largest.clh"

/* softmax_cross_entropy where a rank holds only some of the classes, starting at `first`: backend.h defines the
 * operators. One work-item per sample. */

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

__kernel void softmax_part_sums(__global float *p, ulong p_at, __global float *sums, ulong sums_at,
                                __global const float *most, ulong most_at, __global const float *x,
                                ulong x_at, __global const int *labels, ulong labels_at, ulong n, int classes,
                                int first, int rank, int ranks, float smoothing, float everywhere) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    p += p_at + i * classes;
    x += x_at + i * classes;
    sums += sums_at;
    most += most_at;
    const int best = rank_of_largest(most, n, i, ranks), label = labels[labels_at + i] - first;
    const int here = label >= 0 && label < classes;
    const float top = most[best * n + i];
    float sum = 0, all = 0;
    for (int k = 0; k < classes; k++) {
        const float e = exp(x[k] - top);
        p[k] = e;
        sum += e;
        all += x[k] - top;
    }
    float of_labels = here ? (1 - smoothing) * (x[label] - top) : 0.0f;
    if (smoothing != 0) of_labels += everywhere * all; /* avoids 0 times a sum that may be infinite */
    sums[i] = sum;
    sums[n + i] = of_labels;
    sums[2 * n + i] = here && best == rank && label == largest_of(x, classes) ? 1.0f : 0.0f;
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
    part[i] = log(sums[i]) - sums[n + i];
    part[n + i] = sums[2 * n + i];
}
