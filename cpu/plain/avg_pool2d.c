#include "cpu/plain/plain.h"

/* y[p][r][s] = (sum of x[p] over the window) times 1 / (kernel_h kernel_w); outside the image x is 0 */
gs_status gs_plain_avg_pool2d_forward(gs_device *d, gs_mem y_, gs_mem x_, size_t n,
                                      const gs_pool2d_sizes *z) {
    (void)d;
    float(*y)[z->out_h][z->out_w] = gs_plain_at(y_), (*x)[z->in_h][z->in_w] = gs_plain_at(x_);
    const float share = 1.0f / (float)(z->kernel_h * z->kernel_w);
    for (size_t p = 0; p < n * (size_t)z->c; p++)
        for (int r = 0; r < z->out_h; r++)
            for (int s = 0; s < z->out_w; s++) {
                float sum = 0;
                for (int u = 0; u < z->kernel_h; u++)
                    for (int v = 0; v < z->kernel_w; v++) {
                        int h = r * z->stride_h + u - z->pad_h, q = s * z->stride_w + v - z->pad_w;
                        if (h >= 0 && h < z->in_h && q >= 0 && q < z->in_w) sum += x[p][h][q];
                    }
                y[p][r][s] = sum * share;
            }
    return GS_OK;
}

/* dx[p][h][q] = the sum of dy[p] times 1 / (kernel_h kernel_w) over the windows that contain the pixel */
gs_status gs_plain_avg_pool2d_backward(gs_device *d, gs_mem dx_, gs_mem dy_, size_t n,
                                       const gs_pool2d_sizes *z) {
    float(*dy)[z->out_h][z->out_w] = gs_plain_at(dy_), (*dx)[z->in_h][z->in_w] = gs_plain_at(dx_);
    const float share = 1.0f / (float)(z->kernel_h * z->kernel_w);
    GS_TRY(gs_cpu_fill(d, dx_, 0, n * (size_t)z->c * sizeof *dx / sizeof(float)));
    for (size_t p = 0; p < n * (size_t)z->c; p++)
        for (int r = 0; r < z->out_h; r++)
            for (int s = 0; s < z->out_w; s++)
                for (int u = 0; u < z->kernel_h; u++)
                    for (int v = 0; v < z->kernel_w; v++) {
                        int h = r * z->stride_h + u - z->pad_h, q = s * z->stride_w + v - z->pad_w;
                        if (h >= 0 && h < z->in_h && q >= 0 && q < z->in_w)
                            dx[p][h][q] += dy[p][r][s] * share;
                    }
    return GS_OK;
}
