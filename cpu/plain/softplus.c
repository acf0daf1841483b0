#include "core/functions.h"
#include "cpu/plain/plain.h"

/* y = log(1 + exp(beta x)) / beta, as max(x, 0) plus a remainder: exp(beta x) alone could overflow */
gs_status gs_plain_softplus_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t count, float beta) {
    (void)d;
    float *y = gs_plain_at(y_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++)
        y[i] = (x[i] < 0 ? 0 : x[i]) + gs_log_of_1_and(gs_exp(gs_minus_size(beta * x[i]))) / beta;
    return GS_OK;
}

/* y = log(1 + exp(beta x)) / beta, so dx = dy / (1 + exp(-beta x)) */
gs_status gs_plain_softplus_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem x_, size_t count,
                                     float beta) {
    (void)d;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_), *x = gs_plain_at(x_);
    for (size_t i = 0; i < count; i++) dx[i] = dy[i] * gs_logistic_of(beta * x[i]).s;
    return GS_OK;
}
