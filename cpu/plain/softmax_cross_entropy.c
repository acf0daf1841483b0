#include "cpu/plain/plain.h"

#include <math.h>
#include "cpu/largest.h"

/* p[i][k] = exp(x[i][k] - max) / sum;  loss = sum_i -log p[i][label[i]];  stats += (loss, correct, n) */
gs_status gs_plain_softmax_cross_entropy_forward(gs_device *d, gs_mem p_, gs_mem stats_, gs_mem x_,
                                                 gs_mem label_, size_t n, int classes) {
    (void)d;
    float(*p)[classes] = gs_plain_at(p_), (*x)[classes] = gs_plain_at(x_), *stats = gs_plain_at(stats_);
    int32_t *label = gs_plain_at(label_);
    for (size_t i = 0; i < n; i++) {
        size_t largest = largest_of(x[i], (size_t)classes);
        float sum = 0;
        for (int k = 0; k < classes; k++) sum += p[i][k] = expf(x[i][k] - x[i][largest]);
        for (int k = 0; k < classes; k++) p[i][k] /= sum;
        /* cppcheck-suppress invalidFunctionArg; there is a class at least, and the largest x adds 1 */
        stats[GS_STAT_LOSS] += logf(sum) - (x[i][label[i]] - x[i][largest]);
        stats[GS_STAT_CORRECT] += largest == (size_t)label[i];
        stats[GS_STAT_SAMPLES] += 1;
    }
    return GS_OK;
}

/* loss = -log p[i][label[i]], so dx[i][k] = p[i][k] - (k == label[i]) */
gs_status gs_plain_softmax_cross_entropy_backward(gs_device *d, gs_mem dx_, gs_mem p_, gs_mem label_,
                                                  size_t n, int classes) {
    (void)d;
    float(*dx)[classes] = gs_plain_at(dx_), (*p)[classes] = gs_plain_at(p_);
    int32_t *label = gs_plain_at(label_);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < classes; k++) dx[i][k] = p[i][k] - (k == label[i] ? 1.0f : 0.0f);
    return GS_OK;
}
