/* Lesson 0: the first lab. The blanks are marked "task 0.1" to "task 0.3"; write your code in their place.
 *
 *     make lab-00                                   builds and grades this file
 *     build/lessons/00/gradsum train --steps 20     the whole program, with your relu in it
 */
#include "tasks.h"

#include "cpu/cpu.h" /* gs_cpu_floats(m): where the floats of a gs_mem begin, on the device "cpu" */
#include "lab.h"

void lab_mean_gradient(size_t count, const float *dw0, double samples0, const float *dw1, double samples1,
                       float *mean) {
    /* task 0.1: for each i, the mean over all samples of both workers. Sums and counts come in; divide once.
     * If there are no samples at all, write zeros. */
    double samples = samples0 + samples1;
    for (size_t i = 0; i < count; i++)
        mean[i] = samples > 0 ? (float)(((double)dw0[i] + (double)dw1[i]) / samples) : 0;
    /* end of task 0.1 */
}

double lab_accuracy(const float *logits, const int32_t *labels, size_t n, int classes) {
    /* task 0.2: in each row find the place of the largest logit, count how often it is the label, and
     * divide by n. If several are largest, the first place counts. */
    size_t correct = 0;
    for (size_t i = 0; i < n; i++) {
        const float *row = logits + i * (size_t)classes;
        int largest = 0;
        for (int k = 1; k < classes; k++)
            if (row[k] > row[largest]) largest = k;
        if (largest == labels[i]) correct++;
    }
    return n > 0 ? (double)correct / (double)n : 0;
    /* end of task 0.2 */
}

/* An operator of the backend: its contract is in src/backend.h; look for relu_forward. */
gs_status relu_forward(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    (void)d; /* it would say how many threads there are */
    /* task 0.3: y[i] = the larger of x[i] and 0, for i < count; return GS_OK. The floats are at gs_cpu_floats(x)
     * and gs_cpu_floats(y), which may be the same place. */
    const float *from = gs_cpu_floats(x);
    float *to = gs_cpu_floats(y);
    for (size_t i = 0; i < count; i++) to[i] = from[i] > 0 ? from[i] : 0;
    return GS_OK;
    /* end of task 0.3 */
}
