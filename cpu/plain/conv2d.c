#include "cpu/plain/plain.h"

#include "conv2d_order.h"

/* One pixel of x, or 0 outside. */
static float pixel(const gs_conv2d_sizes *z, const float *plane, int h, int w) {
    return h >= 0 && h < z->in_h && w >= 0 && w < z->in_w ? plane[h * z->in_w + w] : 0;
}

/* y[i][o][r][s] = b[o] + sum_{c,v,u} x[i][first + c][r stride_h + u dilation_h - pad_h]
 * [s stride_w + v dilation_w - pad_w] w[o][c][u][v], first: the first channel of o's group. One chain of fma from b[o]
 * on, in which a pixel outside of x is 0. */
gs_status gs_plain_conv2d_forward(gs_device *d, gs_mem y_, gs_mem x_, gs_mem w_, gs_mem b_, size_t n,
                                  const gs_conv2d_sizes *sizes, const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, sizes); /* empty: nothing is fused */
    const gs_conv2d_sizes full = gs_conv2d_full(sizes), *z = &full;
    const int each_in = z->in_c / z->groups, each_out = z->out_c / z->groups; /* channels per group */
    float(*y)[z->out_c][z->out_h][z->out_w] = gs_plain_at(y_),
    (*x)[z->in_c][z->in_h][z->in_w] = gs_plain_at(x_);
    float(*w)[each_in][z->kernel_h][z->kernel_w] = gs_plain_at(w_), *b = gs_plain_at(b_);
    if (gs_winograd_pays(z)) {
        gs_plain_winograd(z, gs_plain_at(y_), gs_plain_at(x_), gs_plain_at(w_), b, n, false);
        return GS_OK;
    }
    for (size_t i = 0; i < n; i++)
        for (int o = 0; o < z->out_c; o++)
            for (int r = 0; r < z->out_h; r++)
                for (int s = 0; s < z->out_w; s++) {
                    const int first = o / each_out * each_in;
                    float sum = b ? b[o] : 0;
                    for (int c = 0; c < each_in; c++)
                        for (int v = 0; v < z->kernel_w; v++)
                            for (int u = 0; u < z->kernel_h; u++) {
                                int h = r * z->stride_h + u * z->dilation_h - z->pad_h;
                                int q = s * z->stride_w + v * z->dilation_w - z->pad_w;
                                sum = fmaf(w[o][c][u][v], pixel(z, *x[i][first + c], h, q), sum);
                            }
                    y[i][o][r][s] = sum;
                }
    return GS_OK;
}

/* For dw and a kernel position that is `down` and `right` of the output, or for db without x, the sum over images first
 * .. end - 1, as gs_conv2d_order says. */
static float chunk_sum(const gs_conv2d_sizes *z, gs_conv2d_order t, const float *dy, const float *x, int down,
                       int right, size_t first, size_t end) {
    const int all = z->out_h * z->out_w;
    float total = 0;
    for (size_t begin = first; begin < end; begin += (size_t)t.images)
        for (int from = 0; from < all; from += t.positions) {
            float lane[GS_CONV2D_LANES] = {0};
            for (size_t i = begin; i < end && i < begin + (size_t)t.images; i++)
                for (int p = from; p < all && p < from + t.positions; p++) {
                    const int r = p / z->out_w, s = p % z->out_w, at = (r * t.pitch + s) % t.lanes;
                    const float *plane = x ? x + i * gs_conv2d_x(z) : NULL;
                    lane[at] = fmaf(dy[i * gs_conv2d_y(z, NULL) + (size_t)p],
                                    x ? pixel(z, plane, r * z->stride_h + down, s * z->stride_w + right) : 1,
                                    lane[at]);
                }
            for (int h = t.lanes / 2; h > 0; h /= 2)
                for (int j = 0; j < h; j++) lane[j] += lane[j + h];
            total += lane[0];
        }
    return total;
}

static void weights_gradient(const gs_conv2d_sizes *z, float *dw, float *db, const float *dy, const float *x,
                             size_t n) {
    const int each_in = z->in_c / z->groups, each_out = z->out_c / z->groups;
    const size_t chunks = gs_conv2d_chunks(z, n);
    const gs_conv2d_order of_dw = gs_conv2d_order_of(z), of_db = gs_conv2d_order_of_db(z);
    for (size_t k = 0; k < chunks; k++) {
        const size_t first = n * k / chunks, end = n * (k + 1) / chunks;
        float *to = dw;
        for (int o = 0; o < z->out_c; o++) {
            const float *from = dy + (size_t)o * (size_t)(z->out_h * z->out_w);
            if (db) db[o] += chunk_sum(z, of_db, from, NULL, 0, 0, first, end);
            if (gs_winograd_dw_pays(z)) continue;
            for (int c = o / each_out * each_in; c < (o / each_out + 1) * each_in; c++)
                for (int u = 0; u < z->kernel_h; u++)
                    for (int v = 0; v < z->kernel_w; v++)
                        *to++ +=
                            chunk_sum(z, of_dw, from, x + (size_t)c * (size_t)(z->in_h * z->in_w),
                                      u * z->dilation_h - z->pad_h, v * z->dilation_w - z->pad_w, first, end);
        }
    }
}

/* dx[i][c][h][q] = the sum of dy[i][o][r][s] w[o][c][u][v] over all windows that contain the pixel: those with r
 * stride_h + u dilation_h - pad_h = h and s stride_w + v dilation_w - pad_w = q. Each v has a chain of fma over (o, u),
 * from 0 on, in which dy is 0 for an r outside of y; these are added in order. */
static void inputs_gradient(const gs_conv2d_sizes *z, gs_mem dx_, gs_mem dy_, gs_mem w_, size_t n) {
    const int each_in = z->in_c / z->groups, each_out = z->out_c / z->groups;
    float(*dx)[z->in_c][z->in_h][z->in_w] = gs_plain_at(dx_);
    float(*w)[each_in][z->kernel_h][z->kernel_w] = gs_plain_at(w_);
    float(*dy)[z->out_c][z->out_h][z->out_w] = gs_plain_at(dy_);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < z->in_c; c++)
            for (int h = 0; h < z->in_h; h++)
                for (int q = 0; q < z->in_w; q++) {
                    float total = 0;
                    for (int v = 0; v < z->kernel_w; v++) {
                        const int s = q + z->pad_w - v * z->dilation_w;
                        float sum = 0;
                        if (s < 0 || s % z->stride_w || s / z->stride_w >= z->out_w) continue;
                        for (int o = c / each_in * each_out; o < (c / each_in + 1) * each_out; o++)
                            for (int u = 0; u < z->kernel_h; u++) {
                                const int r = h + z->pad_h - u * z->dilation_h;
                                if (r % z->stride_h) continue;
                                const bool in = r >= 0 && r / z->stride_h < z->out_h;
                                sum = fmaf(w[o][c % each_in][u][v],
                                           in ? dy[i][o][r / z->stride_h][s / z->stride_w] : 0, sum);
                            }
                        total += sum;
                    }
                    dx[i][c][h][q] = total;
                }
}

gs_status gs_plain_conv2d_backward(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x,
                                   gs_mem w, size_t n, const gs_conv2d_sizes *sizes, bool add,
                                   const gs_epilogue *then) {
    (void)gs_epilogue_of(d, then, sizes);
    const gs_conv2d_sizes z = gs_conv2d_full(sizes);
    if (!add) GS_TRY(gs_clear(d, dw, gs_conv2d_w(&z), db, (size_t)z.out_c));
    if (gs_winograd_dw_pays(&z))
        gs_plain_winograd_dw(&z, gs_plain_at(dw), gs_plain_at(dy), gs_plain_at(x), n);
    weights_gradient(&z, gs_plain_at(dw), gs_plain_at(db), gs_plain_at(dy), gs_plain_at(x), n);
    if (dx.base && gs_winograd_pays(&z)) {
        const gs_conv2d_sizes back = gs_winograd_back(&z);
        gs_plain_winograd(&back, gs_plain_at(dx), gs_plain_at(dy), gs_plain_at(w), NULL, n, true);
    } else if (dx.base)
        inputs_gradient(&z, dx, dy, w, n);
    return GS_OK;
}
