#include "cpu/plain/plain.h"

#include "core/functions.h"
#include "cpu/largest.h"

/* p[i][k] = exp(x[i][k] - max) / sum;  log p[i][k] = x[i][k] - max - log(sum);
 * loss = sum_i -(1 - smoothing) log p[i][label[i]] - smoothing (mean of log p[i]);  stats += (loss, correct, n) */
gs_status gs_plain_softmax_cross_entropy_forward(gs_device *d, gs_mem p_, gs_mem stats_, gs_mem x_,
                                                 gs_mem label_, size_t n, int classes, float smoothing) {
    (void)d;
    float(*p)[classes] = gs_plain_at(p_), (*x)[classes] = gs_plain_at(x_), *stats = gs_plain_at(stats_);
    int32_t *label = gs_plain_at(label_);
    float loss[GS_SUM_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float lane[GS_SUM_LANES] = {0}, rest[GS_SUM_LANES] = {0};
        const size_t largest = largest_of(x[i], (size_t)classes);
        for (int k = 0; k < classes; k++) {
            lane[k % GS_SUM_LANES] += p[i][k] = gs_exp(x[i][k] - x[i][largest]);
            rest[k % GS_SUM_LANES] += x[i][k] - x[i][largest];
        }
        const float sum = gs_sum_of_lanes(lane), all = gs_sum_of_lanes(rest);
        for (int k = 0; k < classes; k++) p[i][k] /= sum;
        float of_labels =
            x[i][label[i]] - x[i][largest]; /* the mean of log p + log(sum) over the smoothed labels */
        if (smoothing > 0) of_labels = (1 - smoothing) * of_labels + smoothing / (float)classes * all;
        loss[i % GS_SUM_LANES] += gs_log(sum) - of_labels;
        stats[GS_STAT_CORRECT] += largest == (size_t)label[i];
    }
    stats[GS_STAT_LOSS] += gs_sum_of_lanes(loss);
    stats[GS_STAT_SAMPLES] += (float)n;
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
            dx[i][k] = p[i][k] - ((k == label[i] ? 1 - smoothing : 0) + smoothing / (float)classes);
    return GS_OK;
}
