#include "cpu/plain/plain.h"

#include "cpu/largest.h"

/* loss = sum_i (1/k) sum_j (x[i][j] - t[i][j])^2;  stats += (loss, correct, n) */
gs_status gs_plain_mean_squared_error_forward(gs_device *d, gs_mem stats_, gs_mem x_, gs_mem t_, size_t n,
                                              int k) {
    (void)d;
    float(*x)[k] = gs_plain_at(x_), (*t)[k] = gs_plain_at(t_), *stats = gs_plain_at(stats_);
    float loss[GS_SUM_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += (x[i][j] - t[i][j]) * (x[i][j] - t[i][j]);
        loss[i % GS_SUM_LANES] += sum / (float)k;
        stats[GS_STAT_CORRECT] += largest_of(x[i], (size_t)k) == largest_of(t[i], (size_t)k);
        stats[GS_STAT_SAMPLES] += 1;
    }
    stats[GS_STAT_LOSS] += gs_sum_of_lanes(loss);
    return GS_OK;
}

/* loss = (1/k) sum_j (x[i][j] - t[i][j])^2, so dx[i][j] = (2/k) (x[i][j] - t[i][j]) */
gs_status gs_plain_mean_squared_error_backward(gs_device *d, gs_mem dx_, gs_mem x_, gs_mem t_, size_t n,
                                               int k) {
    (void)d;
    float *dx = gs_plain_at(dx_), *x = gs_plain_at(x_), *t = gs_plain_at(t_);
    for (size_t i = 0; i < n * (size_t)k; i++) dx[i] = 2 / (float)k * (x[i] - t[i]);
    return GS_OK;
}
