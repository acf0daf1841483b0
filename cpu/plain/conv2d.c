#include "cpu/plain/plain.h"

static bool is_inside(const gs_conv2d_sizes *z, int h, int w) {
    return h >= 0 && h < z->in_h && w >= 0 && w < z->in_w;
}

/* y[i][o][r][s] = b[o] + sum_{c,u,v} x[i][first + c][r stride_h + u dilation_h - pad_h]
 * [s stride_w + v dilation_w - pad_w] w[o][c][u][v], first: the first channel of o's group */
gs_status gs_plain_conv2d_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, gs_mem b_, size_t n,
                                  const gs_conv2d_sizes *sizes, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, sizes); /* empty: nothing is fused */
    const gs_conv2d_sizes full = gs_conv2d_full(sizes), *z = &full;
    const int each_in = z->in_c / z->groups, each_out = z->out_c / z->groups; /* channels per group */
    float(*y)[z->out_c][z->out_h][z->out_w] = gs_plain_at(y_),
    (*x)[z->in_c][z->in_h][z->in_w] = gs_plain_at(x_);
    float(*w)[each_in][z->kernel_h][z->kernel_w] = gs_plain_at(w_), *b = gs_plain_at(b_);
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < z->out_c; o++)
            for (int r = 0; r < z->out_h; r++)
                for (int s = 0; s < z->out_w; s++) {
                    const int first = o / each_out * each_in;
                    float sum = b ? b[o] : 0;
                    for (int c = 0; c < each_in; c++)
                        for (int u = 0; u < z->kernel_h; u++)
                            for (int v = 0; v < z->kernel_w; v++) {
                                int h = r * z->stride_h + u * z->dilation_h - z->pad_h;
                                int q = s * z->stride_w + v * z->dilation_w - z->pad_w;
                                if (is_inside(z, h, q)) sum += x[i][first + c][h][q] * w[o][c][u][v];
                            }
                    y[i][o][r][s] = sum;
                }
    return GS_OK;
}

/* The same loops as in forward: where forward adds x w to y, backward adds dy w to dx, dy x to dw, and dy to db. */
gs_status gs_plain_conv2d_backward(gs_device *d, gs_mem dx_, gs_mem dw_, gs_mem db_, gs_mem dy_, gs_mem x_,
                                   gs_mem w_, size_t n, const gs_conv2d_sizes *sizes, bool add,
                                   const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, sizes);
    const gs_conv2d_sizes full = gs_conv2d_full(sizes), *z = &full;
    const int each_in = z->in_c / z->groups, each_out = z->out_c / z->groups;
    float(*dx)[z->in_c][z->in_h][z->in_w] = gs_plain_at(dx_),
    (*x)[z->in_c][z->in_h][z->in_w] = gs_plain_at(x_);
    float(*dw)[each_in][z->kernel_h][z->kernel_w] = gs_plain_at(dw_), *db = gs_plain_at(db_);
    float(*w)[each_in][z->kernel_h][z->kernel_w] = gs_plain_at(w_);
    float(*dy)[z->out_c][z->out_h][z->out_w] = gs_plain_at(dy_);
    if (!add) GS_TRY(gs_clear(d, dw_, (size_t)z->out_c * sizeof *w / sizeof(float), db_, (size_t)z->out_c));
    if (dx) GS_TRY(gs_cpu_fill(d, dx_, 0, n * sizeof *x / sizeof(float)));
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < z->out_c; o++)
            for (int r = 0; r < z->out_h; r++)
                for (int s = 0; s < z->out_w; s++) {
                    const int first = o / each_out * each_in;
                    if (db) db[o] += dy[i][o][r][s];
                    for (int c = 0; c < each_in; c++)
                        for (int u = 0; u < z->kernel_h; u++)
                            for (int v = 0; v < z->kernel_w; v++) {
                                int h = r * z->stride_h + u * z->dilation_h - z->pad_h;
                                int q = s * z->stride_w + v * z->dilation_w - z->pad_w;
                                if (!is_inside(z, h, q)) continue;
                                dw[o][c][u][v] += dy[i][o][r][s] * x[i][first + c][h][q];
                                if (dx) dx[i][first + c][h][q] += dy[i][o][r][s] * w[o][c][u][v];
                            }
                }
    return GS_OK;
}
