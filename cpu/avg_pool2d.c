#include "cpu/cpu.h"

/* The part of a window that lies inside the image: places begin..end-1 of one axis. */
typedef struct gs_window {
    int begin, end;
} gs_window;

static gs_window window_of(int out, int stride, int pad, int kernel, int in) {
    gs_window r = {out * stride - pad, out * stride - pad + kernel};
    if (r.begin < 0) r.begin = 0;
    if (r.end > in) r.end = in;
    return r;
}

/* y = (sum of x over the window) / (kernel_h kernel_w) */
gs_status GS_ISA(avg_pool2d_forward)(gs_device *d, gs_mem y, gs_mem x, size_t n, const gs_pool2d_sizes *s) {
    if (d->rehearses) return GS_OK;
    const float *from = gs_cpu_floats(x), scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    float *to = gs_cpu_floats(y);
    for (size_t plane = 0; plane < n * (size_t)s->c; plane++, from += s->in_h * s->in_w)
        for (int r = 0; r < s->out_h; r++)
            for (int o = 0; o < s->out_w; o++) {
                gs_window h = window_of(r, s->stride_h, s->pad_h, s->kernel_h, s->in_h);
                gs_window w = window_of(o, s->stride_w, s->pad_w, s->kernel_w, s->in_w);
                float sum = 0;
                for (int u = h.begin; u < h.end; u++)
                    for (int v = w.begin; v < w.end; v++) sum += from[u * s->in_w + v];
                *to++ = sum * scale;
            }
    return GS_OK;
}

/* forward: y = (sum of x over the window) / (kernel_h kernel_w), so each pixel of the window gets dy / (their
 * number) */
gs_status GS_ISA(avg_pool2d_backward)(gs_device *d, gs_mem dx, gs_mem dy, size_t n,
                                      const gs_pool2d_sizes *s) {
    if (d->rehearses) return GS_OK;
    const float *from = gs_cpu_floats(dy), scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    float *to = gs_cpu_floats(dx);
    for (size_t plane = 0; plane < n * (size_t)s->c; plane++, to += s->in_h * s->in_w) {
        for (int i = 0; i < s->in_h * s->in_w; i++) to[i] = 0;
        for (int r = 0; r < s->out_h; r++)
            for (int o = 0; o < s->out_w; o++) {
                gs_window h = window_of(r, s->stride_h, s->pad_h, s->kernel_h, s->in_h);
                gs_window w = window_of(o, s->stride_w, s->pad_w, s->kernel_w, s->in_w);
                float share = *from++ * scale;
                for (int u = h.begin; u < h.end; u++)
                    for (int v = w.begin; v < w.end; v++) to[u * s->in_w + v] += share;
            }
    }
    return GS_OK;
}
