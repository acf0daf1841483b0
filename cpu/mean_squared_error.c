#include "cpu/largest.h"
#include "cpu/sums.h"

/* loss = sum over samples of (1/k) sum_j (x[j] - t[j])^2 */
gs_status GS_ISA(gs_cpu_mean_squared_error_forward)(gs_device *d, gs_mem stats, gs_mem x, gs_mem t, size_t n,
                                                    int k) {
    (void)d;
    const float *from = gs_cpu_floats(x), *target = gs_cpu_floats(t);
    float loss[GS_SUM_LANES] = {0}, correct = 0;
    for (size_t i = 0; i < n; i++, from += k, target += k) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += (from[j] - target[j]) * (from[j] - target[j]);
        loss[i % GS_SUM_LANES] += sum / (float)k;
        correct += largest_of(from, (size_t)k) == largest_of(target, (size_t)k); /* exact */
    }
    gs_cpu_add_stats(stats, gs_sum_around(loss, GS_SUM_LANES, 0), correct, n);
    return GS_OK;
}

/* forward: loss = (1/k) sum_j (x[j] - t[j])^2, so dloss/dx[j] = (2/k) (x[j] - t[j]) */
gs_status GS_ISA(gs_cpu_mean_squared_error_backward)(gs_device *d, gs_mem dx, gs_mem x, gs_mem t, size_t n,
                                                     int k) {
    (void)d;
    const float *from = gs_cpu_floats(x), *target = gs_cpu_floats(t);
    float *to = gs_cpu_floats(dx), scale = 2.0f / (float)k;
    for (size_t i = 0; i < n * (size_t)k; i++) to[i] = scale * (from[i] - target[i]);
    return GS_OK;
}
