#include "cpu/plain/plain.h"

/* y[i][o] = b[o] + sum_k x[i][k] w[o][k] */
gs_status gs_plain_linear_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, gs_mem b_, size_t n, int in,
                                  int out, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, NULL); /* empty: nothing is fused */
    float(*y)[out] = gs_plain_at(y_), (*x)[in] = gs_plain_at(x_), (*w)[in] = gs_plain_at(w_),
    *b = gs_plain_at(b_);
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            float sum = b ? b[o] : 0;
            for (int k = 0; k < in; k++) sum += x[i][k] * w[o][k];
            y[i][o] = sum;
        }
    return GS_OK;
}

/* dx[i][k] = sum_o dy[i][o] w[o][k];  dw[o][k] (+)= sum_i dy[i][o] x[i][k];  db[o] (+)= sum_i dy[i][o] */
gs_status gs_plain_linear_backward(gs_device *d, gs_mem dx_, gs_mem dw_, gs_mem db_, gs_mem dy_, gs_mem x_,
                                   gs_mem w_, size_t n, int in, int out, bool add, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, NULL);
    float(*dx)[in] = gs_plain_at(dx_), (*dw)[in] = gs_plain_at(dw_), *db = gs_plain_at(db_);
    float(*dy)[out] = gs_plain_at(dy_), (*x)[in] = gs_plain_at(x_), (*w)[in] = gs_plain_at(w_);
    if (!add) GS_TRY(gs_clear(d, dw_, (size_t)out * (size_t)in, db_, (size_t)out));
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < in && dx; k++) dx[i][k] = 0;
        for (int o = 0; o < out; o++) {
            if (db) db[o] += dy[i][o];
            for (int k = 0; k < in; k++) dw[o][k] += dy[i][o] * x[i][k];
            for (int k = 0; k < in && dx; k++) dx[i][k] += dy[i][o] * w[o][k];
        }
    }
    return GS_OK;
}
