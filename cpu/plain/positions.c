#include "cpu/plain/plain.h"

/* y[i][k] = x[i][k] + w[k] */
gs_status gs_plain_positions_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, size_t n, size_t count) {
    (void)d;
    float(*x)[count] = gs_plain_at(x_), (*y)[count] = gs_plain_at(y_), *w = gs_plain_at(w_);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++) y[i][k] = x[i][k] + w[k];
    return GS_OK;
}

/* forward: y = x + w, so dw[k] = sum_i dy[i][k] */
gs_status gs_plain_positions_backward(gs_device *d, gs_mem dw_, gs_mem dy_, size_t n, size_t count,
                                      bool add) {
    (void)d;
    float(*dy)[count] = gs_plain_at(dy_), *dw = gs_plain_at(dw_);
    for (size_t k = 0; k < count && !add; k++) dw[k] = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count; k++) dw[k] += dy[i][k];
    return GS_OK;
}
