#include "cpu/cpu.h"

/* The part of a window that lies inside the image: places begin..end-1 of one axis. */
typedef struct mean_window {
    int begin, end;
} mean_window;

static mean_window window_of(int out, int stride, int pad, int kernel, int in) {
    mean_window r = {out * stride - pad, out * stride - pad + kernel};
    if (r.begin < 0) r.begin = 0;
    if (r.end > in) r.end = in;
    return r;
}

/* Planes are cut over the threads. */
typedef struct average_work {
    const gs_pool2d_sizes *s;
    const float *from;
    float *to;
    size_t planes;
    int parts;
} average_work;

/* y = (sum of x over the window) / (kernel_h kernel_w) */
static void forward_part(void *context, int part) {
    const average_work *t = context;
    const gs_pool2d_sizes *s = t->s;
    const size_t in = (size_t)s->in_h * (size_t)s->in_w, out = (size_t)s->out_h * (size_t)s->out_w;
    const gs_range r = gs_cpu_tasks(t->planes, part, t->parts);
    const float *from = t->from + r.begin * in, scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    float *to = t->to + r.begin * out;
    for (size_t plane = r.begin; plane < r.end; plane++, from += in)
        for (int row = 0; row < s->out_h; row++)
            for (int o = 0; o < s->out_w; o++) {
                mean_window h = window_of(row, s->stride_h, s->pad_h, s->kernel_h, s->in_h);
                mean_window w = window_of(o, s->stride_w, s->pad_w, s->kernel_w, s->in_w);
                float sum = 0;
                for (int u = h.begin; u < h.end; u++)
                    for (int v = w.begin; v < w.end; v++) sum += from[u * s->in_w + v];
                *to++ = sum * scale;
            }
}

static gs_status run(gs_device *d, average_work *t, void (*work)(void *, int)) {
    const size_t pixels = t->planes * (size_t)(t->s->in_h * t->s->in_w);
    t->parts = gs_cpu_at_most(t->planes, gs_cpu_parts(d, pixels, 1 << 12));
    return gs_cpu_run(d, t->parts, work, t);
}

gs_status GS_ISA(avg_pool2d_forward)(gs_device *d, gs_mem y, gs_mem x, size_t n, const gs_pool2d_sizes *s) {
    average_work t = {s, gs_cpu_floats(x), gs_cpu_floats(y), n * (size_t)s->c, 1};
    return run(d, &t, forward_part);
}

/* forward: y = (sum of x over the window) / (kernel_h kernel_w), so each pixel of the window gets dy / (their
 * number) */
static void backward_part(void *context, int part) {
    const average_work *t = context;
    const gs_pool2d_sizes *s = t->s;
    const size_t in = (size_t)s->in_h * (size_t)s->in_w, out = (size_t)s->out_h * (size_t)s->out_w;
    const gs_range r = gs_cpu_tasks(t->planes, part, t->parts);
    const float *from = t->from + r.begin * out, scale = 1.0f / (float)(s->kernel_h * s->kernel_w);
    float *to = t->to + r.begin * in;
    for (size_t plane = r.begin; plane < r.end; plane++, to += in) {
        for (int i = 0; i < s->in_h * s->in_w; i++) to[i] = 0;
        for (int row = 0; row < s->out_h; row++)
            for (int o = 0; o < s->out_w; o++) {
                mean_window h = window_of(row, s->stride_h, s->pad_h, s->kernel_h, s->in_h);
                mean_window w = window_of(o, s->stride_w, s->pad_w, s->kernel_w, s->in_w);
                float share = *from++ * scale;
                for (int u = h.begin; u < h.end; u++)
                    for (int v = w.begin; v < w.end; v++) to[u * s->in_w + v] += share;
            }
    }
}

gs_status GS_ISA(avg_pool2d_backward)(gs_device *d, gs_mem dx, gs_mem dy, size_t n,
                                      const gs_pool2d_sizes *s) {
    average_work t = {s, gs_cpu_floats(dy), gs_cpu_floats(dx), n * (size_t)s->c, 1};
    return run(d, &t, backward_part);
}
