#include "cpu/cpu.h"

#include <math.h>

/* p = softmax(x); stats += (sum of -log p[label], how often the largest x is at the label, n).
 * The largest x is taken off first: exp never overflows, and the loss, log(sum) - (x[label] - max), is exact
 * even where p[label] rounds to 0. */
gs_status GS_ISA(softmax_cross_entropy_forward)(gs_device *d, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                                size_t n, int classes) {
    (void)d;
    const float *from = gs_cpu_floats(x);
    const int32_t *label = gs_cpu_ints(labels);
    float *to = gs_cpu_floats(p), *stat = gs_cpu_floats(stats);
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < n; i++, from += classes, to += classes) {
        int largest = 0;
        for (int k = 1; k < classes; k++)
            if (from[k] > from[largest]) largest = k;
        float sum = to[0] = expf(from[0] - from[largest]);
        for (int k = 1; k < classes; k++) sum += to[k] = expf(from[k] - from[largest]);
        for (int k = 0; k < classes; k++) to[k] /= sum;
        loss += (double)(logf(sum) - (from[label[i]] - from[largest]));
        correct += label[i] == largest;
    }
    stat[GS_STAT_LOSS] += (float)loss;
    stat[GS_STAT_CORRECT] += (float)correct;
    stat[GS_STAT_SAMPLES] += (float)n;
    return GS_OK;
}

/* forward: loss = -log softmax(x)[label], so dloss/dx[k] = p[k] - (k == label) */
gs_status GS_ISA(softmax_cross_entropy_backward)(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                                 int classes) {
    (void)d;
    const float *from = gs_cpu_floats(p);
    const int32_t *label = gs_cpu_ints(labels);
    float *to = gs_cpu_floats(dx);
    for (size_t i = 0; i < n; i++, from += classes, to += classes)
        for (int k = 0; k < classes; k++) to[k] = from[k] - (label[i] == k ? 1.0f : 0.0f);
    return GS_OK;
}
