#include "cpu/plain/plain.h"

#include "conv2d_order.h"

/* Along one axis, whose numbers are `step` apart: the rows of B^T, G and A^T, and of A and G^T, as in cpu/winograd.h.
 * A's last row is minus the second number, and G^T takes it off: both minus signs are left out of A. */
typedef void axis(float *to, const float *from, int step);

static void by_b(float *v, const float *d, int k) {
    v[0] = d[0] - d[2 * k], v[k] = d[k] + d[2 * k], v[2 * k] = d[2 * k] - d[k], v[3 * k] = d[k] - d[3 * k];
}

static void by_g(float *u, const float *g, int k) {
    u[0] = g[0], u[k] = (g[0] + g[k] + g[2 * k]) / 2, u[2 * k] = (g[0] - g[k] + g[2 * k]) / 2,
    u[3 * k] = g[2 * k];
}

static void by_a(float *y, const float *m, int k) {
    y[0] = m[0] + m[k] + m[2 * k], y[k] = m[k] - m[2 * k] - m[3 * k];
}

static void by_a_back(float *n, const float *dy, int k) {
    n[0] = dy[0], n[k] = dy[0] + dy[k], n[2 * k] = dy[0] - dy[k], n[3 * k] = dy[k];
}

static void by_g_back(float *dg, const float *du, int k) {
    const float half = (du[k] + du[2 * k]) / 2;
    dg[0] = du[0] + half, dg[k] = (du[k] - du[2 * k]) / 2, dg[2 * k] = half - du[3 * k];
}

/* to (rows, rows) = F from F^T, where from is (columns, columns) */
static void both_axes(axis *f, float *to, int rows, const float *from, int columns) {
    float half[4 * 4];
    for (int j = 0; j < columns; j++) f(half + j, from + j, columns);
    for (int i = 0; i < rows; i++) f(to + i * rows, half + i * columns, 1);
}

/* d = the square of side `side` at (h, w) of a plane; 0 outside */
static void tile_of(float *d, int side, const float *plane, int height, int width, int h, int w) {
    for (int i = h; i < h + side; i++)
        for (int j = w; j < w + side; j++)
            *d++ = i >= 0 && i < height && j >= 0 && j < width ? plane[i * width + j] : 0;
}

void gs_plain_winograd(const gs_conv2d_sizes *z, float *y, const float *x, const float *w, const float *b,
                       size_t n, bool turned) {
    const size_t in_c = (size_t)z->in_c, out_c = (size_t)z->out_c;
    float d[4 * 4], g[3 * 3], u[16], v[16], out[2 * 2];
    for (size_t i = 0; i < n; i++, x += gs_conv2d_x(z))
        for (size_t o = 0; o < out_c; o++, y += z->out_h * z->out_w)
            for (int r = 0; r < z->out_h; r += 2)
                for (int s = 0; s < z->out_w; s += 2) {
                    float m[16] = {0};
                    for (size_t c = 0; c < in_c; c++) {
                        const float *plane = x + c * (size_t)(z->in_h * z->in_w);
                        const float *kernel = w + 9 * (turned ? c * out_c + o : o * in_c + c);
                        for (int k = 0; k < 9; k++) g[k] = kernel[turned ? 8 - k : k];
                        tile_of(d, 4, plane, z->in_h, z->in_w, r - z->pad_h, s - z->pad_w);
                        both_axes(by_b, v, 4, d, 4);
                        both_axes(by_g, u, 4, g, 3);
                        for (int k = 0; k < 16; k++) m[k] = fmaf(u[k], v[k], m[k]);
                    }
                    both_axes(by_a, out, 2, m, 4);
                    for (int k = 0; k < 4; k++)
                        if (r + k / 2 < z->out_h && s + k % 2 < z->out_w)
                            y[(r + k / 2) * z->out_w + s + k % 2] = out[k] + (b ? b[o] : 0);
                }
}

/* du += the blocks of images first .. end - 1, for one pair of channels */
static void add_tiles(float *du, const gs_conv2d_sizes *z, const float *dy, const float *x, size_t first,
                      size_t end) {
    const gs_winograd_order t = gs_winograd_order_of(z);
    float d[4 * 4], g[2 * 2], n[16], v[16];
    for (size_t begin = first; begin < end; begin += (size_t)t.images)
        for (int top = 0; top < z->out_h; top += 2 * t.rows) {
            float block[16] = {0};
            for (size_t i = begin; i < end && i < begin + (size_t)t.images; i++)
                for (int r = top; r < z->out_h && r < top + 2 * t.rows; r += 2)
                    for (int s = 0; s < z->out_w; s += 2) {
                        tile_of(d, 4, x + i * gs_conv2d_x(z), z->in_h, z->in_w, r - z->pad_h, s - z->pad_w);
                        tile_of(g, 2, dy + i * gs_conv2d_y(z, NULL), z->out_h, z->out_w, r, s);
                        both_axes(by_b, v, 4, d, 4);
                        both_axes(by_a_back, n, 4, g, 2);
                        for (int k = 0; k < 16; k++) block[k] = fmaf(n[k], v[k], block[k]);
                    }
            for (int k = 0; k < 16; k++) du[k] += block[k];
        }
}

void gs_plain_winograd_dw(const gs_conv2d_sizes *z, float *dw, const float *dy, const float *x, size_t n) {
    const size_t chunks = gs_conv2d_chunks(z, n);
    for (size_t o = 0; o < (size_t)z->out_c; o++)
        for (size_t c = 0; c < (size_t)z->in_c; c++, dw += 9) {
            float sum[16] = {0}, dg[9];
            for (size_t k = 0; k < chunks; k++) {
                float du[16] = {0};
                add_tiles(du, z, dy + o * (size_t)(z->out_h * z->out_w), x + c * (size_t)(z->in_h * z->in_w),
                          n * k / chunks, n * (k + 1) / chunks);
                for (int e = 0; e < 16; e++) sum[e] += du[e];
            }
            both_axes(by_g_back, dg, 3, sum, 4);
            for (int k = 0; k < 9; k++) dw[k] += dg[k];
        }
}
