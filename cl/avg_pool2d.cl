#include "pool2d.clh"
#include "stored.clh"

/* y = (sum of x over the window) / (kernel_h kernel_w): padding counts as zeros */
__kernel void avg_pool2d_forward(__global flow *y, ulong y_at, __global const flow *x, ulong x_at,
                                 ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    y += y_at + plane * s.out_h * s.out_w;
    x += x_at + plane * s.in_h * s.in_w;
    const float share = 1.0f / ((float)s.kernel_h * s.kernel_w);
    for (int r = GS_ROW; r < s.out_h; r += GS_ROW_STEP) {
        const range h = window_of(r, s.kernel_h, s.stride_h, s.pad_h, s.in_h);
        for (int o = GS_LANE; o < s.out_w; o += GS_LANES) {
            const range w = window_of(o, s.kernel_w, s.stride_w, s.pad_w, s.in_w);
            float sum = 0;
            for (int u = h.begin; u < h.end; u++)
                for (int v = w.begin; v < w.end; v++) sum += flowing(x[u * s.in_w + v]);
            store_one(sum * share, y + r * s.out_w + o);
        }
    }
}

/* forward: y = (sum of x over the window) / (kernel_h kernel_w), so each pixel's gradient is the sum of dy over all
 * windows that contain the pixel, divided by kernel_h kernel_w */
__kernel void avg_pool2d_backward(__global flow *dx, ulong dx_at, __global const flow *dy, ulong dy_at,
                                  ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    dx += dx_at + plane * s.in_h * s.in_w;
    dy += dy_at + plane * s.out_h * s.out_w;
    const float share = 1.0f / ((float)s.kernel_h * s.kernel_w);
    for (int u = GS_ROW; u < s.in_h; u += GS_ROW_STEP) {
        const range h = windows_with(u, s.kernel_h, s.stride_h, s.pad_h, s.out_h);
        for (int v = GS_LANE; v < s.in_w; v += GS_LANES) {
            const range w = windows_with(v, s.kernel_w, s.stride_w, s.pad_w, s.out_w);
            float sum = 0;
            for (int r = h.begin; r < h.end; r++)
                for (int o = w.begin; o < w.end; o++) sum += flowing(dy[r * s.out_w + o]) * share;
            store_one(sum, dx + u * s.in_w + v);
        }
    }
}
