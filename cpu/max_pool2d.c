#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

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

/* ---- the usual case: windows of 2x2, side by side ---- */

typedef int32_t gs_int4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t gs_int8 __attribute__((vector_size(32), aligned(4), may_alias));

static bool is_2x2(const gs_pool2d_sizes *s) {
    return s->kernel_h == 2 && s->kernel_w == 2 && s->stride_h == 2 && s->stride_w == 2 && s->pad_h == 0 &&
           s->pad_w == 0 && s->out_w >= 4;
}

#define EVEN8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD8 1, 3, 5, 7, 9, 11, 13, 15
#define LOW8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN4 0, 2, 4, 6
#define ODD4 1, 3, 5, 7
#define LOW4 0, 4, 1, 5
#define HIGH4 2, 6, 3, 7

/* LANES outputs (8 or 4) at once: the four places of their windows, taken apart into four vectors; and dx put
 * together again, every pixel of the windows written once. `place` is the first window's place in its plane. */
#define POOL_2X2(LANES)                                                                                      \
    static inline void pool_2x2_##LANES(float *y, int32_t *index, const float *x, int in_w, int32_t place) { \
        const gs_float##LANES *top = (const gs_float##LANES *)x;                                             \
        const gs_float##LANES *bottom = (const gs_float##LANES *)(x + in_w);                                 \
        gs_float##LANES best = __builtin_shufflevector(top[0], top[1], EVEN##LANES), value[3];               \
        gs_int##LANES first = place + (gs_int##LANES){0, 2, 4, 6 REST##LANES}, where = first;                \
        value[0] = __builtin_shufflevector(top[0], top[1], ODD##LANES);                                      \
        value[1] = __builtin_shufflevector(bottom[0], bottom[1], EVEN##LANES);                               \
        value[2] = __builtin_shufflevector(bottom[0], bottom[1], ODD##LANES);                                \
        const int32_t step[3] = {1, in_w, in_w + 1};                                                         \
        _Pragma("GCC unroll 3") for (int i = 0; i < 3; i++) {                                                \
            gs_int##LANES wins = (value[i] > best) | (value[i] != value[i]); /* a NaN wins, and stays */     \
            best = (gs_float##LANES)((wins & (gs_int##LANES)value[i]) | (~wins & (gs_int##LANES)best));      \
            where = (wins & (first + step[i])) | (~wins & where);                                            \
        }                                                                                                    \
        *(gs_float##LANES *)y = best;                                                                        \
        *(gs_int##LANES *)index = where;                                                                     \
    }                                                                                                        \
    static inline void unpool_2x2_##LANES(float *dx, const float *dy, const int32_t *index, int in_w,        \
                                          int32_t place) {                                                   \
        gs_int##LANES where = *(const gs_int##LANES *)index, d = *(const gs_int##LANES *)dy;                 \
        gs_int##LANES first = place + (gs_int##LANES){0, 2, 4, 6 REST##LANES};                               \
        for (int row = 0; row < 2; row++, dx += in_w, first += in_w) {                                       \
            gs_float##LANES even = (gs_float##LANES)(d & (where == first));                                  \
            gs_float##LANES odd = (gs_float##LANES)(d & (where == first + 1));                               \
            ((gs_float##LANES *)dx)[0] = __builtin_shufflevector(even, odd, LOW##LANES);                     \
            ((gs_float##LANES *)dx)[1] = __builtin_shufflevector(even, odd, HIGH##LANES);                    \
        }                                                                                                    \
    }
#define REST4
#define REST8 , 8, 10, 12, 14
POOL_2X2(8)
POOL_2X2(4)

/* One row of outputs; the last vector is laid over the one before. */
static void pool_row_2x2(float *y, int32_t *index, const float *x, const gs_pool2d_sizes *s, int row) {
    int32_t place = 2 * row * s->in_w;
    int lanes = s->out_w >= 8 ? 8 : 4;
    for (int p = 0; p < s->out_w; p += lanes) {
        int o = p + lanes <= s->out_w ? p : s->out_w - lanes;
        if (lanes == 8)
            pool_2x2_8(y + o, index + o, x + place + 2 * o, s->in_w, place + 2 * o);
        else
            pool_2x2_4(y + o, index + o, x + place + 2 * o, s->in_w, place + 2 * o);
    }
}

static void unpool_row_2x2(float *dx, const float *dy, const int32_t *index, const gs_pool2d_sizes *s,
                           int row) {
    int32_t place = 2 * row * s->in_w;
    int lanes = s->out_w >= 8 ? 8 : 4;
    for (int p = 0; p < s->out_w; p += lanes) {
        int o = p + lanes <= s->out_w ? p : s->out_w - lanes;
        if (lanes == 8)
            unpool_2x2_8(dx + place + 2 * o, dy + o, index + o, s->in_w, place + 2 * o);
        else
            unpool_2x2_4(dx + place + 2 * o, dy + o, index + o, s->in_w, place + 2 * o);
    }
    if (s->in_w > 2 * s->out_w) dx[place + s->in_w - 1] = dx[place + 2 * s->in_w - 1] = 0;
}

/* ---- a part of the planes ---- */

static void forward_part(void *context, int part) {
    const gs_max_pool_work *t = context;
    const gs_pool2d_sizes *s = t->s;
    bool fast = is_2x2(s);
    size_t begin = t->planes * (size_t)part / (size_t)t->parts,
           end = t->planes * (size_t)(part + 1) / (size_t)t->parts;
    for (size_t plane = begin; plane < end; plane++) {
        const float *x = t->x + plane * (size_t)s->in_h * (size_t)s->in_w;
        for (int row = 0; row < s->out_h; row++) {
            size_t at = (plane * (size_t)s->out_h + (size_t)row) * (size_t)s->out_w;
            if (fast)
                pool_row_2x2(t->y + at, t->index + at, x, s, row);
            else if (s->stride_w == 1)
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
                          .parts = gs_cpu_fine_parts(d, planes, 16, 64)};
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
        if (is_2x2(t->s)) {
            const gs_pool2d_sizes *s = t->s;
            const float *dy = t->dy + plane * out;
            const int32_t *index = t->index + plane * out;
            for (int row = 0; row < s->out_h; row++, dy += s->out_w, index += s->out_w)
                unpool_row_2x2(dx, dy, index, s, row);
            if (s->in_h > 2 * s->out_h)
                memset(dx + 2 * s->out_h * s->in_w, 0, (size_t)s->in_w * sizeof(float));
            continue;
        }
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
                          .parts = gs_cpu_fine_parts(d, planes, 16, 64)};
    gs_pool_run(gs_cpu_of(d)->pool, t.parts, backward_part, &t);
    return GS_OK;
}
