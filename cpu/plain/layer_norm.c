#include "cpu/plain/plain.h"

enum { LANES = GS_SUM_LANES };

/* y = w u + b; u = (x - mean) rstd; mean and rstd are per row, corrected by the sum of x - first (cpu/batch_norm.c) */
gs_status gs_plain_layer_norm_forward(gs_device *d, gs_mem y_, gs_mem mean_, gs_mem rstd_, gs_mem x_,
                                      gs_mem w_, gs_mem b_, size_t n, int c, float eps) {
    (void)d;
    float(*x)[c] = gs_plain_at(x_), (*y)[c] = gs_plain_at(y_);
    float *mean = gs_plain_at(mean_), *rstd = gs_plain_at(rstd_), count = (float)c;
    const float *w = gs_plain_at(w_), *b = gs_plain_at(b_);
    for (size_t i = 0; i < n; i++) {
        float sum[LANES] = {0}, rest[LANES] = {0}, squares[LANES] = {0};
        for (int k = 0; k < c; k++) sum[k % LANES] += x[i][k];
        const float first = gs_sum_of_lanes(sum) / count;
        for (int k = 0; k < c; k++) {
            rest[k % LANES] += x[i][k] - first;
            squares[k % LANES] += (x[i][k] - first) * (x[i][k] - first);
        }
        const float off = gs_sum_of_lanes(rest), share = off / count;
        const float var = (gs_sum_of_lanes(squares) - off * share) / count;
        mean[i] = first + share;
        rstd[i] = 1 / sqrtf((var < 0 ? 0 : var) + eps);
        for (int k = 0; k < c; k++) y[i][k] = w[k] * ((x[i][k] - mean[i]) * rstd[i]) + b[k];
    }
    return GS_OK;
}

/* forward: y = w u + b, so db = sum dy and dw = sum dy u; and every x of a row affects its mean and rstd, and so every
 * u in the row: dx = rstd (g - the mean of g - u times the mean of g u), g = dy w */
gs_status gs_plain_layer_norm_backward(gs_device *d, gs_mem dx_, gs_mem dw_, gs_mem db_, gs_mem dy_,
                                       gs_mem x_, gs_mem w_, gs_mem mean_, gs_mem rstd_, size_t n, int c,
                                       bool add) {
    (void)d;
    float(*x)[c] = gs_plain_at(x_), (*dy)[c] = gs_plain_at(dy_), (*dx)[c] = gs_plain_at(dx_);
    float *dw = gs_plain_at(dw_), *db = gs_plain_at(db_);
    const float *w = gs_plain_at(w_), *mean = gs_plain_at(mean_), *rstd = gs_plain_at(rstd_);
    const size_t block = gs_layer_norm_block(n);
    for (int k = 0; k < c; k++) {
        float sum = 0, with_u = 0;
        for (size_t from = 0; from < n; from += block) {
            float part = 0, part_with_u = 0;
            for (size_t i = from; i < n && i < from + block; i++) {
                part += dy[i][k];
                part_with_u += dy[i][k] * ((x[i][k] - mean[i]) * rstd[i]);
            }
            sum += part, with_u += part_with_u;
        }
        db[k] = add ? db[k] + sum : sum;
        dw[k] = add ? dw[k] + with_u : with_u;
    }
    for (size_t i = 0; i < n && dx; i++) {
        float sum[LANES] = {0}, with_u[LANES] = {0};
        for (int k = 0; k < c; k++) {
            sum[k % LANES] += dy[i][k] * w[k];
            with_u[k % LANES] += dy[i][k] * w[k] * ((x[i][k] - mean[i]) * rstd[i]);
        }
        const float of_g = gs_sum_of_lanes(sum) / (float)c, of_gu = gs_sum_of_lanes(with_u) / (float)c;
        for (int k = 0; k < c; k++)
            dx[i][k] = rstd[i] * (dy[i][k] * w[k] - of_g - (x[i][k] - mean[i]) * rstd[i] * of_gu);
    }
    return GS_OK;
}
