#include "softmax.clh"

/* p = softmax(x), loss = -log p[label], correct = the largest x is at the label; one row per sample (gs_cl_rows). The
 * largest x is subtracted first: exp never overflows, and the loss, log(sum) - (x[label] - max), is exact even where
 * p[label] rounds to 0. With smoothing e, (1 - e) (x[label] - max) + e mean(x - max) replaces x[label] - max: the loss
 * is linear in log p. part: n losses, then n flags, 1 (correct) or 0. */
__kernel OF_SUMMERS void softmax_cross_entropy_forward(__global float *p, ulong p_at, __global float *part,
                                                       ulong part_at, __global const float *x, ulong x_at,
                                                       __global const int *labels, ulong labels_at, ulong n,
                                                       int classes, float smoothing) {
    __local two shown[SUMMERS];
    const size_t i = BEYOND ? n - 1 : get_global_id(0) / HOLDERS;
    const int id = SUMMER, label = labels[labels_at + i];
    x += x_at + i * classes;
    p += p_at + i * classes;
    const int largest = largest_of(x, classes);
    const float top = x[largest];
    const two sum = exponentials_of(p, x, x + (n - i) * classes, top, BEYOND ? 0 : classes, shown, id);
    if (BEYOND) return;
    divide(p, classes, sum.a, id);
    if (id % HOLDERS != 0) return;
    part += part_at;
    float of_labels = x[label] - top;
    if (smoothing != 0)
        of_labels = (1 - smoothing) * of_labels + smoothing / classes * sum.b; /* 0 * infinity */
    part[i] = first_of(gs_log(sum.a)) - of_labels;
    part[n + i] = label == largest ? 1.0f : 0.0f;
}

/* forward: loss = -log softmax(x)[label], so dloss/dx[k] = p[k] - (k == label); with smoothing e the label's 1 becomes
 * 1 - e, and e / classes is added for each class (`everywhere`); one work-item per sample. The classes start at
 * `first`: they are all classes or, if a group of ranks divides these, one rank's. */
__kernel void softmax_cross_entropy_backward(__global float *dx, ulong dx_at, __global const float *p,
                                             ulong p_at, __global const int *labels, ulong labels_at, ulong n,
                                             int classes, int first, float smoothing, float everywhere) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    dx += dx_at + i * classes;
    p += p_at + i * classes;
    const int label = labels[labels_at + i] - first;
    const float at_label = 1 - smoothing;
    for (int k = 0; k < classes; k++) dx[k] = p[k] - (k == label ? at_label + everywhere : everywhere);
}
