#include "cpu/cpu.h"

#include <math.h>

typedef struct gs_max_pool_work {
    float *y, *dx;
    const float *x, *dy;
    int32_t *index;
    const gs_pool2d_sizes *s;
    size_t planes;
    int parts;
} gs_max_pool_work;

/* One row of outputs: look at the window's places one after the other, each for the whole row, so that the
 * inner loop runs over neighbouring outputs and the compiler can use vectors. stride_w is a constant at each
 * call. */
static inline __attribute__((always_inline)) void pool_row(float *restrict best, int32_t *restrict where,
                                                           const float *restrict x, const gs_pool2d_sizes *s,
                                                           int row, int stride_w) {
    for (int o = 0; o < s->out_w; o++) {
        best[o] = -INFINITY;
        where[o] = -1;
    }
    for (int u = 0; u < s->kernel_h; u++) {
        int h = row * s->stride_h + u - s->pad_h;
        if (h < 0 || h >= s->in_h) continue;
        for (int v = 0; v < s->kernel_w; v++) {
            /* outputs whose place v of the window lies inside the image */
            int first = s->pad_w > v ? (s->pad_w - v + stride_w - 1) / stride_w : 0;
            int room = s->in_w - 1 + s->pad_w - v;
            int end = room < 0 ? 0 : room / stride_w + 1;
            if (end > s->out_w) end = s->out_w;
            const float *from = x + (ptrdiff_t)h * s->in_w + v - s->pad_w;
            int32_t place = h * s->in_w + v - s->pad_w;
            for (int o = first; o < end; o++) {
                float value = from[o * stride_w];
                /* a NaN wins, and stays: nothing is larger than it; the very first place wins over nothing */
                bool wins = value > best[o] || value != value || where[o] < 0;
                best[o] = wins ? value : best[o];
                where[o] = wins ? place + o * stride_w : where[o];
            }
        }
    }
}

static void forward_part(void *context, int part) {
    const gs_max_pool_work *t = context;
    const gs_pool2d_sizes *s = t->s;
    size_t begin = t->planes * (size_t)part / (size_t)t->parts,
           end = t->planes * (size_t)(part + 1) / (size_t)t->parts;
    for (size_t plane = begin; plane < end; plane++) {
        const float *x = t->x + plane * (size_t)s->in_h * (size_t)s->in_w;
        for (int row = 0; row < s->out_h; row++) {
            size_t at = (plane * (size_t)s->out_h + (size_t)row) * (size_t)s->out_w;
            if (s->stride_w == 1)
                pool_row(t->y + at, t->index + at, x, s, row, 1);
            else if (s->stride_w == 2)
                pool_row(t->y + at, t->index + at, x, s, row, 2);
            else
                pool_row(t->y + at, t->index + at, x, s, row, s->stride_w);
        }
    }
}

gs_status GS_ISA(max_pool2d_forward)(gs_device *d, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                     const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    gs_max_pool_work t = {.y = gs_cpu_floats(y),
                          .x = gs_cpu_floats(x),
                          .index = gs_cpu_ints(index),
                          .s = s,
                          .planes = planes,
                          .parts = gs_cpu_parts(d, planes, 16)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, forward_part, &t);
    return GS_OK;
}

/* forward: y = x[index], so each dy goes to its index; windows that overlap add up */
static void backward_part(void *context, int part) {
    const gs_max_pool_work *t = context;
    size_t in = (size_t)t->s->in_h * (size_t)t->s->in_w, out = (size_t)t->s->out_h * (size_t)t->s->out_w;
    size_t begin = t->planes * (size_t)part / (size_t)t->parts,
           end = t->planes * (size_t)(part + 1) / (size_t)t->parts;
    for (size_t plane = begin; plane < end; plane++) {
        float *dx = t->dx + plane * in;
        for (size_t i = 0; i < in; i++) dx[i] = 0;
        for (size_t i = 0; i < out; i++) dx[t->index[plane * out + i]] += t->dy[plane * out + i];
    }
}

gs_status GS_ISA(max_pool2d_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                      const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    gs_max_pool_work t = {.dx = gs_cpu_floats(dx),
                          .dy = gs_cpu_floats(dy),
                          .index = gs_cpu_ints(index),
                          .s = s,
                          .planes = planes,
                          .parts = gs_cpu_parts(d, planes, 16)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    return GS_OK;
}
