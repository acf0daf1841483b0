#include "cpu/plain/plain.h"

/* sum[0] = sum by, sum[1] = sum by (x - middle) over a channel's planes, in blocks of images; `by` is dy or, without
 * dy, x - middle. x and dy start at the channel's first plane. */
static void two_sums(float sum[2], const float *x, const float *dy, size_t n, const gs_batch_norm_sizes *s,
                     float middle) {
    const size_t sample = (size_t)s->c * (size_t)s->plane, block = gs_batch_norm_block(s);
    sum[0] = sum[1] = 0;
    for (size_t from = 0; from < n; from += block) {
        float lane[2][GS_SUM_LANES] = {{0}};
        for (size_t i = from; i < n && i < from + block; i++)
            for (int p = 0; p < s->plane; p++) {
                const float off = x[i * sample + p] - middle, by = dy ? dy[i * sample + p] : off;
                lane[0][p % GS_SUM_LANES] += by;
                lane[1][p % GS_SUM_LANES] += by * off;
            }
        for (int j = 0; j < 2; j++) sum[j] += gs_sum_of_lanes(lane[j]);
    }
}

/* mean[c] = sum x[.][c][.] / m;  var[c] = sum (x[.][c][.] - mean[c])^2 / m. The sums are of x - middle, where middle is
 * the mean of the first block (cpu/batch_norm.c). */
gs_status gs_plain_batch_norm_statistics(gs_device *d, gs_mem mean_, gs_mem var_, gs_mem x_, size_t n,
                                         const gs_batch_norm_sizes *s) {
    const float *x = gs_plain_at(x_);
    float *mean = gs_plain_at(mean_), *var = gs_plain_at(var_), sum[2];
    const size_t block = gs_batch_norm_block(s), few = n < block ? n : block;
    if (n == 0) return gs_clear(d, mean_, (size_t)s->c, var_, (size_t)s->c);
    for (int c = 0; c < s->c; c++, x += s->plane) {
        two_sums(sum, x, NULL, few, s, 0);
        const float middle = sum[0] / ((float)few * (float)s->plane), m = (float)n * (float)s->plane;
        two_sums(sum, x, NULL, n, s, middle);
        mean[c] = middle + sum[0] / m;
        var[c] = (sum[1] - sum[0] * (sum[0] / m)) / m;
        if (var[c] < 0) var[c] = 0;
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
        float next_mean = samples * ((1 - s->momentum) * running_mean[c] + s->momentum * mean[c]);
        float next_var = samples * ((1 - s->momentum) * running_var[c] + s->momentum * unbiased);
        dmean[c] = add ? dmean[c] + next_mean : next_mean;
        dvar[c] = add ? dvar[c] + next_var : next_var;
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
                y[i][c][p] = (x[i][c][p] - mean[c]) * (w[c] / sqrtf(var[c] + s->eps)) + b[c];
    return GS_OK;
}

/* forward: y = w u + b, so db = sum dy and dw = sum dy u */
gs_status gs_plain_batch_norm_sums(gs_device *d, gs_mem sums_, gs_mem dw_, gs_mem db_, gs_mem dy_, gs_mem x_,
                                   gs_mem mean_, gs_mem var_, size_t n, const gs_batch_norm_sizes *s,
                                   bool add) {
    (void)d;
    const float *x = gs_plain_at(x_), *dy = gs_plain_at(dy_), *mean = gs_plain_at(mean_);
    const float *var = gs_plain_at(var_);
    float *sums = gs_plain_at(sums_), *dw = gs_plain_at(dw_), *db = gs_plain_at(db_), sum[2];
    for (int c = 0; c < s->c; c++, x += s->plane, dy += s->plane) {
        two_sums(sum, x, dy, n, s, mean[c]);
        const float with_u = sum[1] / sqrtf(var[c] + s->eps);
        sums[c] = sum[0];
        sums[s->c + c] = with_u;
        db[c] = add ? db[c] + sum[0] : sum[0];
        dw[c] = add ? dw[c] + with_u : with_u;
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
                const float deviation = sqrtf(var[c] + s->eps), off = x[i][c][p] - mean[c];
                const float of_dy = sums ? sums[c] / m : 0, of_x = sums ? sums[s->c + c] / m / deviation : 0;
                dx[i][c][p] = w[c] / deviation * (dy[i][c][p] - of_dy - off * of_x);
            }
    return GS_OK;
}
