#include "cpu/cpu.h"

/* The part of a window inside the image: positions begin .. end - 1 on one axis. */
typedef struct mean_window {
    int begin, end;
} mean_window;

static mean_window window_of(int out, int stride, int pad, int kernel, int in) {
    mean_window r = {out * stride - pad, out * stride - pad + kernel};
    if (r.begin < 0) r.begin = 0;
    if (r.end > in) r.end = in;
    return r;
}

/* Planes are divided among the threads. */
typedef struct average_work {
    const gs_pool2d_sizes *s;
    float *x, *y; /* or dx and dy */
    size_t planes;
    int parts;
} average_work;

/* forward: y = (sum of x over the window) / (kernel_h kernel_w), so backward adds dy / (kernel_h kernel_w) to each
 * pixel of the window */
static inline void each_window(const average_work *t, int part, const bool backward) {
    const gs_pool2d_sizes *s = t->s;
    const size_t in = (size_t)s->in_h * (size_t)s->in_w, out = (size_t)s->out_h * (size_t)s->out_w;
    const gs_range planes = gs_cpu_tasks(t->planes, part, t->parts);
    const float scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    float *x = t->x + planes.begin * in, *y = t->y + planes.begin * out;
    for (size_t plane = planes.begin; plane < planes.end; plane++, x += in) {
        for (size_t i = 0; i < in && backward; i++) x[i] = 0;
        for (int r = 0; r < s->out_h; r++)
            for (int o = 0; o < s->out_w; o++, y++) {
                const mean_window h = window_of(r, s->stride_h, s->pad_h, s->kernel_h, s->in_h),
                                  w = window_of(o, s->stride_w, s->pad_w, s->kernel_w, s->in_w);
                float sum = 0;
                const float share = backward ? *y * scale : 0;
                for (int u = h.begin; u < h.end; u++)
                    for (int v = w.begin; v < w.end; v++)
                        if (backward)
                            x[u * s->in_w + v] += share;
                        else
                            sum += x[u * s->in_w + v];
                if (!backward) *y = sum * scale;
            }
    }
}

static void forward_part(void *context, int part) {
    each_window(context, part, false);
}

static void backward_part(void *context, int part) {
    each_window(context, part, true);
}

static gs_status run(gs_device *d, gs_mem x, gs_mem y, size_t n, const gs_pool2d_sizes *s,
                     void (*work)(void *, int)) {
    average_work t = {s, gs_cpu_floats(x), gs_cpu_floats(y), n * (size_t)s->c, 1};
    t.parts = gs_cpu_at_most(t.planes, gs_cpu_parts(d, t.planes * (size_t)(s->in_h * s->in_w), 1 << 12));
    return gs_cpu_run(d, t.parts, work, &t);
}

gs_status GS_ISA(gs_cpu_avg_pool2d_forward)(gs_device *d, gs_mem y, gs_mem x, size_t n,
                                            const gs_pool2d_sizes *s) {
    return run(d, x, y, n, s, forward_part);
}

gs_status GS_ISA(gs_cpu_avg_pool2d_backward)(gs_device *d, gs_mem dx, gs_mem dy, size_t n,
                                             const gs_pool2d_sizes *s) {
    return run(d, dx, dy, n, s, backward_part);
}
