#include "cpu/plain/plain.h"

#include <math.h>
#include "cpu/largest.h"

/* p[i][k] = exp(x[i][k] - max) / sum;  log p[i][k] = x[i][k] - max - log(sum);
 * loss = sum_i -(1 - smoothing) log p[i][label[i]] - smoothing (mean of log p[i]);  stats += (loss, correct, n) */
gs_status gs_plain_softmax_cross_entropy_forward(gs_device *d, gs_mem p_, gs_mem stats_, gs_mem x_,
                                                 gs_mem label_, size_t n, int classes, float smoothing) {
    (void)d;
    float(*p)[classes] = gs_plain_at(p_), (*x)[classes] = gs_plain_at(x_), *stats = gs_plain_at(stats_);
    int32_t *label = gs_plain_at(label_);
    for (size_t i = 0; i < n; i++) {
        size_t largest = largest_of(x[i], (size_t)classes);
        float sum = 0;
        for (int k = 0; k < classes; k++) sum += p[i][k] = expf(x[i][k] - x[i][largest]);
        for (int k = 0; k < classes; k++) p[i][k] /= sum;
        /* cppcheck-suppress invalidFunctionArg; there is at least one class, and the largest x adds 1 */
        float log_sum = logf(sum), loss = log_sum - (x[i][label[i]] - x[i][largest]), all = 0;
        for (int k = 0; k < classes; k++) all += log_sum - (x[i][k] - x[i][largest]);
        if (smoothing > 0) loss = (1 - smoothing) * loss + smoothing * all / (float)classes;
        stats[GS_STAT_LOSS] += loss;
        stats[GS_STAT_CORRECT] += largest == (size_t)label[i];
        stats[GS_STAT_SAMPLES] += 1;
    }
    return GS_OK;
}

/* loss = sum_k -q[k] log p[i][k], where q is the label's one-hot vector, smoothed; so dx[i][k] = p[i][k] - q[k] */
gs_status gs_plain_softmax_cross_entropy_backward(gs_device *d, gs_mem dx_, gs_mem p_, gs_mem label_,
                                                  size_t n, int classes, float smoothing) {
    (void)d;
    float(*dx)[classes] = gs_plain_at(dx_), (*p)[classes] = gs_plain_at(p_);
    int32_t *label = gs_plain_at(label_);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < classes; k++)
            dx[i][k] =
                p[i][k] - ((1 - smoothing) * (k == label[i] ? 1.0f : 0.0f) + smoothing / (float)classes);
    return GS_OK;
}
