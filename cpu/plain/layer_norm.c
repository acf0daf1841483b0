#include "cpu/plain/plain.h"

#include <math.h>

/* y = w u + b; u = (x - mean) rstd; mean and rstd are per row */
gs_status gs_plain_layer_norm_forward(gs_device *d, gs_mem y_, gs_mem mean_, gs_mem rstd_, gs_mem x_,
                                      gs_mem w_, gs_mem b_, size_t n, int c, float eps) {
    (void)d;
    float(*x)[c] = gs_plain_at(x_), (*y)[c] = gs_plain_at(y_);
    float *mean = gs_plain_at(mean_), *rstd = gs_plain_at(rstd_);
    const float *w = gs_plain_at(w_), *b = gs_plain_at(b_);
    for (size_t i = 0; i < n; i++) {
        double sum = 0, squares = 0;
        for (int k = 0; k < c; k++) sum += (double)x[i][k];
        double middle = sum / c;
        for (int k = 0; k < c; k++) squares += ((double)x[i][k] - middle) * ((double)x[i][k] - middle);
        mean[i] = (float)middle;
        rstd[i] = (float)(1 / sqrt(squares / c + (double)eps));
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
    for (int k = 0; k < c; k++) {
        double sum = 0, with_u = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)dy[i][k];
            with_u += (double)(dy[i][k] * ((x[i][k] - mean[i]) * rstd[i]));
        }
        db[k] = (add ? db[k] : 0) + (float)sum;
        dw[k] = (add ? dw[k] : 0) + (float)with_u;
    }
    for (size_t i = 0; i < n && dx; i++) {
        double sum = 0, with_u = 0;
        for (int k = 0; k < c; k++) {
            sum += (double)(dy[i][k] * w[k]);
            with_u += (double)(dy[i][k] * w[k] * ((x[i][k] - mean[i]) * rstd[i]));
        }
        for (int k = 0; k < c; k++) {
            float u = (x[i][k] - mean[i]) * rstd[i];
            dx[i][k] = rstd[i] * (dy[i][k] * w[k] - (float)(sum / c) - u * (float)(with_u / c));
        }
    }
    return GS_OK;
}
