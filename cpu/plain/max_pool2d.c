#include "cpu/plain/plain.h"

/* y[p][r][s] = the largest x[p][h][q] in the window; index[p][r][s] = its position h in_w + q
 * (a plane p is one channel of one sample) */
gs_status gs_plain_max_pool2d_forward(gs_device *d, gs_mem y_, gs_mem index_, gs_mem x_, size_t n,
                                      const gs_pool2d_sizes *z) {
    (void)d;
    float(*y)[z->out_h][z->out_w] = gs_plain_at(y_), (*x)[z->in_h][z->in_w] = gs_plain_at(x_);
    int32_t(*index)[z->out_h][z->out_w] = gs_plain_at(index_);
    for (size_t p = 0; p < n * (size_t)z->c; p++)
        for (int r = 0; r < z->out_h; r++)
            for (int s = 0; s < z->out_w; s++) {
                int32_t best = -1; /* none so far */
                for (int u = 0; u < z->kernel_h; u++)
                    for (int v = 0; v < z->kernel_w; v++) {
                        int h = r * z->stride_h + u - z->pad_h, q = s * z->stride_w + v - z->pad_w;
                        if (h < 0 || h >= z->in_h || q < 0 || q >= z->in_w) continue;
                        /* a NaN, which differs from itself, beats any number */
                        if (best < 0 || x[p][h][q] > y[p][r][s] || x[p][h][q] != x[p][h][q])
                            best = h * z->in_w + q, y[p][r][s] = x[p][h][q];
                    }
                index[p][r][s] = best;
            }
    return GS_OK;
}

/* dx[p][index] sums the dy of all windows with this index; 0 elsewhere */
gs_status gs_plain_max_pool2d_backward(gs_device *d, gs_mem dx_, gs_mem dy_, gs_mem index_, size_t n,
                                       const gs_pool2d_sizes *z) {
    size_t out = (size_t)z->out_h * (size_t)z->out_w, in = (size_t)z->in_h * (size_t)z->in_w;
    size_t planes = n * (size_t)z->c;
    float *dx = gs_plain_at(dx_), *dy = gs_plain_at(dy_);
    int32_t *index = gs_plain_at(index_);
    GS_TRY(gs_cpu_fill(d, dx_, 0, planes * in));
    for (size_t p = 0; p < planes; p++)
        for (size_t j = p * out; j < (p + 1) * out; j++) dx[p * in + (size_t)index[j]] += dy[j];
    return GS_OK;
}
