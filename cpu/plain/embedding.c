#include "cpu/plain/plain.h"

/* y[i] = w[x[i] - first]; `other` where x[i] names no row */
gs_status gs_plain_embedding_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, size_t n, int rows, int c,
                                     int first, float other) {
    (void)d;
    float(*y)[c] = gs_plain_at(y_), (*w)[c] = gs_plain_at(w_);
    const float *x = gs_plain_at(x_);
    for (size_t i = 0; i < n; i++) {
        int row = gs_token_row(x[i] - (float)first, rows);
        for (int k = 0; k < c; k++) y[i][k] = row < 0 ? other : w[row][k];
    }
    return GS_OK;
}

/* forward: y[i] = w[x[i] - first], so dw[r] is the sum of dy[i] over the i with x[i] = first + r */
gs_status gs_plain_embedding_backward(gs_device *d, gs_mem dw_, gs_mem dy_, gs_mem x_, size_t n, int rows,
                                      int c, int first, bool add) {
    (void)d;
    float(*dy)[c] = gs_plain_at(dy_), (*dw)[c] = gs_plain_at(dw_);
    const float *x = gs_plain_at(x_);
    for (int row = 0; row < rows && !add; row++)
        for (int k = 0; k < c; k++) dw[row][k] = 0;
    for (size_t i = 0; i < n; i++) {
        int row = gs_token_row(x[i] - (float)first, rows);
        for (int k = 0; k < c && row >= 0; k++) dw[row][k] += dy[i][k];
    }
    return GS_OK;
}
