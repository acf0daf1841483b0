#include "common.clh"

/* y[i][k] = (labels[i] == k); one work-item per sample */
__kernel void one_hot(__global float *y, ulong y_at, __global const int *labels, ulong labels_at, ulong n,
                      int classes) {
    size_t i = get_global_id(0);
    if (i >= n) return;
    y += y_at + i * classes;
    int label = labels[labels_at + i];
    for (int k = 0; k < classes; k++) y[k] = k == label ? 1.0f : 0.0f;
}
