#include "cpu/plain/plain.h"

#include <math.h>

/* mean[c] = sum x[.][c][.] / m;  var[c] = sum (x[.][c][.] - mean[c])^2 / m */
gs_status gs_plain_batch_norm_statistics(gs_device *d, gs_mem mean_, gs_mem var_, gs_mem x_, size_t n,
                                         const gs_batch_norm_sizes *s) {
    (void)d;
    float(*x)[s->c][s->plane] = gs_plain_at(x_), *mean = gs_plain_at(mean_), *var = gs_plain_at(var_);
    double m = (double)n * s->plane;
    for (int c = 0; c < s->c; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++)
            for (int p = 0; p < s->plane; p++) sum += (double)x[i][c][p];
        double middle = n > 0 ? sum / m : 0;
        for (size_t i = 0; i < n; i++)
            for (int p = 0; p < s->plane; p++)
                squares += ((double)x[i][c][p] - middle) * ((double)x[i][c][p] - middle);
        mean[c] = (float)middle;
        var[c] = n > 0 ? (float)(squares / m) : 0;
    }
    return GS_OK;
}

/* dmean (+)= samples ((1 - momentum) running_mean + momentum mean)
 * dvar (+)= samples ((1 - momentum) running_var + momentum var m / (m - 1)) */
gs_status gs_plain_batch_norm_running(gs_device *d, gs_mem dmean_, gs_mem dvar_, gs_mem running_mean_,
                                      gs_mem running_var_, gs_mem mean_, gs_mem var_, float m, float samples,
                                      const gs_batch_norm_sizes *s, bool add) {
    (void)d;
    const float *running_mean = gs_plain_at(running_mean_), *running_var = gs_plain_at(running_var_);
    const float *mean = gs_plain_at(mean_), *var = gs_plain_at(var_);
    float *dmean = gs_plain_at(dmean_), *dvar = gs_plain_at(dvar_);
    for (int c = 0; c < s->c; c++) {
        float unbiased = m > 1 ? var[c] * (m / (m - 1)) : running_var[c];
        float next_mean = (1 - s->momentum) * running_mean[c] + s->momentum * mean[c];
        float next_var = (1 - s->momentum) * running_var[c] + s->momentum * unbiased;
        dmean[c] = (add ? dmean[c] : 0) + samples * next_mean;
        dvar[c] = (add ? dvar[c] : 0) + samples * next_var;
    }
    return GS_OK;
}

/* y = w u + b;  u = (x - mean) / sqrt(var + eps) */
gs_status gs_plain_batch_norm_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, gs_mem b_, gs_mem mean_,
                                      gs_mem var_, size_t n, const gs_batch_norm_sizes *s) {
    (void)d;
    float(*x)[s->c][s->plane] = gs_plain_at(x_), (*y)[s->c][s->plane] = gs_plain_at(y_);
    const float *w = gs_plain_at(w_), *b = gs_plain_at(b_), *mean = gs_plain_at(mean_);
    const float *var = gs_plain_at(var_);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < s->c; c++)
            for (int p = 0; p < s->plane; p++)
                y[i][c][p] = w[c] * ((x[i][c][p] - mean[c]) / sqrtf(var[c] + s->eps)) + b[c];
    return GS_OK;
}

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
gs_status gs_plain_batch_norm_sums(gs_device *d, gs_mem sums_, gs_mem dw_, gs_mem db_, gs_mem dy_, gs_mem x_,
                                   gs_mem mean_, gs_mem var_, size_t n, const gs_batch_norm_sizes *s,
                                   bool add) {
    (void)d;
    float(*x)[s->c][s->plane] = gs_plain_at(x_), (*dy)[s->c][s->plane] = gs_plain_at(dy_);
    float *sums = gs_plain_at(sums_), *dw = gs_plain_at(dw_), *db = gs_plain_at(db_);
    const float *mean = gs_plain_at(mean_), *var = gs_plain_at(var_);
    for (int c = 0; c < s->c; c++) {
        double sum = 0, with_u = 0;
        for (size_t i = 0; i < n; i++)
            for (int p = 0; p < s->plane; p++) {
                sum += (double)dy[i][c][p];
                with_u += (double)(dy[i][c][p] * ((x[i][c][p] - mean[c]) / sqrtf(var[c] + s->eps)));
            }
        sums[c] = (float)sum;
        sums[s->c + c] = (float)with_u;
        db[c] = (add ? db[c] : 0) + sums[c];
        dw[c] = (add ? dw[c] : 0) + sums[s->c + c];
    }
    return GS_OK;
}

/* forward: y = w u + b, where every x of a channel affects its mean and var, and so every u:
 * dx = w / sqrt(var + eps) (dy - the mean of dy - u times the mean of dy u) */
gs_status gs_plain_batch_norm_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, gs_mem w_,
                                       gs_mem mean_, gs_mem var_, gs_mem sums_, float m, size_t n,
                                       const gs_batch_norm_sizes *s) {
    (void)d;
    float(*x)[s->c][s->plane] = gs_plain_at(x_), (*dy)[s->c][s->plane] = gs_plain_at(dy_);
    float(*dx)[s->c][s->plane] = gs_plain_at(dx_);
    const float *w = gs_plain_at(w_), *mean = gs_plain_at(mean_), *var = gs_plain_at(var_);
    const float *sums = gs_plain_at(sums_);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < s->c; c++)
            for (int p = 0; p < s->plane; p++) {
                float deviation = sqrtf(var[c] + s->eps), u = (x[i][c][p] - mean[c]) / deviation;
                float common = sums ? sums[c] / m + u * (sums[s->c + c] / m) : 0;
                dx[i][c][p] = w[c] / deviation * (dy[i][c][p] - common);
            }
    return GS_OK;
}
