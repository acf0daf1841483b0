#include "cpu/cpu.h"

#include <math.h>

typedef struct max_pool_work {
    float *y, *dx;
    const float *x, *dy;
    int32_t *index;
    const gs_pool2d_sizes *s;
    size_t planes;
    int parts;
} max_pool_work;

/* One row of outputs: visits the window's positions in order, each for the whole row, so that the inner loop runs over
 * neighbouring outputs and is vectorised. stride_w is a constant at each call. */
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
            /* outputs for which position v of the window is inside the image */
            int first = s->pad_w > v ? (s->pad_w - v + stride_w - 1) / stride_w : 0;
            int room = s->in_w - 1 + s->pad_w - v;
            int end = room < 0 ? 0 : room / stride_w + 1;
            if (end > s->out_w) end = s->out_w;
            const float *from = x + (ptrdiff_t)h * s->in_w + v - s->pad_w;
            int32_t place = h * s->in_w + v - s->pad_w;
            for (int o = first; o < end; o++) {
                float value = from[o * stride_w];
                /* a NaN wins and stays, because nothing compares larger; the first position always wins */
                bool wins = value > best[o] || value != value || where[o] < 0;
                best[o] = wins ? value : best[o];
                where[o] = wins ? place + o * stride_w : where[o];
            }
        }
    }
}

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

/* Rows of a plane, LANES outputs (8 or 4) at a time: splits the four positions of their windows into four vectors, and
 * recombines dx so that every pixel is written once. A row's last vector overlaps the one before it; a row shorter than
 * a vector extends into the next row, which is written later. The sizes are copied first, so that the compiler knows
 * that no store changes them. */
#define FIRST_OF(LANES) (p + LANES <= out_w || out_w < LANES ? p : out_w - LANES)
#define POOL_2X2(LANES)                                                                                      \
    static void pool_2x2_##LANES(const gs_pool2d_sizes *s, int row, int end, float *y, int32_t *index,       \
                                 const float *x) {                                                           \
        typedef gs_float##LANES vector;                                                                      \
        typedef gs_int##LANES ints;                                                                          \
        const int in_w = s->in_w, out_w = s->out_w;                                                          \
        const ints window = {0, 2, 4, 6 REST##LANES}, no = {0};                                              \
        const ints step[3] = {no + 1, no + in_w, no + (in_w + 1)};                                           \
        for (y += row * out_w, index += row * out_w; row < end; row++, y += out_w, index += out_w)           \
            for (int p = 0; p < out_w; p += LANES) {                                                         \
                int o = FIRST_OF(LANES), place = 2 * row * in_w + 2 * o;                                     \
                const vector *top = (const vector *)(x + place);                                             \
                const vector *bottom = (const vector *)(x + place + in_w);                                   \
                vector best = __builtin_shufflevector(top[0], top[1], EVEN##LANES), value[3];                \
                ints where = no;                                                                             \
                value[0] = __builtin_shufflevector(top[0], top[1], ODD##LANES);                              \
                value[1] = __builtin_shufflevector(bottom[0], bottom[1], EVEN##LANES);                       \
                value[2] = __builtin_shufflevector(bottom[0], bottom[1], ODD##LANES);                        \
                _Pragma("GCC unroll 3") for (int i = 0; i < 3; i++) {                                        \
                    ints wins = (value[i] > best) | (value[i] != value[i]); /* a NaN wins, and stays */      \
                    best = (vector)((wins & (ints)value[i]) | (~wins & (ints)best));                         \
                    where = (wins & step[i]) | (~wins & where);                                              \
                }                                                                                            \
                *(vector *)(y + o) = best;                                                                   \
                *(ints *)(index + o) = where + window + place;                                               \
            }                                                                                                \
    }                                                                                                        \
    static void unpool_2x2_##LANES(const gs_pool2d_sizes *s, int row, int end, float *dx, const float *dy,   \
                                   const float *relu_y, const int32_t *index) {                              \
        typedef gs_float##LANES vector;                                                                      \
        typedef gs_int##LANES ints;                                                                          \
        const int in_w = s->in_w, out_w = s->out_w;                                                          \
        const ints window = {0, 2, 4, 6 REST##LANES};                                                        \
        for (dy += row * out_w, index += row * out_w; row < end; row++, dy += out_w, index += out_w) {       \
            for (int p = 0; p < out_w; p += LANES) {                                                         \
                int o = FIRST_OF(LANES), place = 2 * row * in_w + 2 * o;                                     \
                ints d = *(const ints *)(dy + o), at = *(const ints *)(index + o) - window;                  \
                if (relu_y) d &= *(const vector *)(relu_y + row * out_w + o) > 0.0f;                         \
                _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++, place += in_w) {                         \
                    vector even = (vector)(d & (at == place)), odd = (vector)(d & (at == place + 1));        \
                    ((vector *)(dx + place))[0] = __builtin_shufflevector(even, odd, LOW##LANES);            \
                    ((vector *)(dx + place))[1] = __builtin_shufflevector(even, odd, HIGH##LANES);           \
                }                                                                                            \
            }                                                                                                \
            if (in_w > 2 * out_w) dx[(2 * row + 1) * in_w - 1] = dx[(2 * row + 2) * in_w - 1] = 0;           \
        }                                                                                                    \
    }
#define REST4
#define REST8 , 8, 10, 12, 14
POOL_2X2(8) /* pool_2x2_8, unpool_2x2_8 */
POOL_2X2(4) /* pool_2x2_4, unpool_2x2_4 */

/* Rows of fewer than 8 outputs are faster with 8 lanes, too. They then reach into the next row: the last takes 4. */
static int rows_by_8(const gs_pool2d_sizes *s) {
    return s->out_w >= 8 ? s->out_h : s->out_w > 4 ? s->out_h - 1 : 0;
}

void GS_ISA(gs_cpu_max_pool2d_plane)(const gs_pool2d_sizes *s, float *y, int32_t *index, const float *x) {
    if (is_2x2(s)) {
        pool_2x2_8(s, 0, rows_by_8(s), y, index, x);
        pool_2x2_4(s, rows_by_8(s), s->out_h, y, index, x);
        return;
    }
    for (int row = 0; row < s->out_h; row++, y += s->out_w, index += s->out_w)
        if (s->stride_w == 1)
            pool_row(y, index, x, s, row, 1);
        else if (s->stride_w == 2)
            pool_row(y, index, x, s, row, 2);
        else
            pool_row(y, index, x, s, row, s->stride_w);
}

/* forward: y = x[index], so each dy goes to its index; where windows overlap, the dy are added up */
void GS_ISA(gs_cpu_max_unpool2d_plane)(const gs_pool2d_sizes *s, float *dx, const float *dy,
                                       const float *relu_y, const int32_t *index) {
    if (is_2x2(s)) {
        unpool_2x2_8(s, 0, rows_by_8(s), dx, dy, relu_y, index);
        unpool_2x2_4(s, rows_by_8(s), s->out_h, dx, dy, relu_y, index);
        if (s->in_h > 2 * s->out_h) memset(dx + 2 * s->out_h * s->in_w, 0, (size_t)s->in_w * sizeof *dx);
        return;
    }
    size_t in = (size_t)s->in_h * (size_t)s->in_w, out = (size_t)s->out_h * (size_t)s->out_w;
    for (size_t i = 0; i < in; i++) dx[i] = 0;
    for (size_t i = 0; i < out; i++)
        if (!relu_y || relu_y[i] > 0.0f) dx[index[i]] += dy[i];
}

static void forward_part(void *context, int part) {
    const max_pool_work *t = context;
    size_t in = (size_t)t->s->in_h * (size_t)t->s->in_w, out = (size_t)t->s->out_h * (size_t)t->s->out_w;
    const gs_range r = gs_cpu_tasks(t->planes, part, t->parts);
    for (size_t plane = r.begin; plane < r.end; plane++)
        GS_ISA(gs_cpu_max_pool2d_plane)(t->s, t->y + plane * out, t->index + plane * out, t->x + plane * in);
}

static void backward_part(void *context, int part) {
    const max_pool_work *t = context;
    size_t in = (size_t)t->s->in_h * (size_t)t->s->in_w, out = (size_t)t->s->out_h * (size_t)t->s->out_w;
    const gs_range r = gs_cpu_tasks(t->planes, part, t->parts);
    for (size_t plane = r.begin; plane < r.end; plane++) GS_ISA(gs_cpu_max_unpool2d_plane)
    (t->s, t->dx + plane * in, t->dy + plane * out, NULL, t->index + plane * out);
}

static gs_status run(gs_device *d, max_pool_work t, size_t n, void (*work)(void *, int)) {
    t.planes = n * (size_t)t.s->c;
    t.parts = gs_cpu_fine_parts(d, t.planes, 16, 64);
    return gs_cpu_run(d, t.parts, work, &t);
}

gs_status GS_ISA(gs_cpu_max_pool2d_forward)(gs_device *d, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                            const gs_pool2d_sizes *s) {
    const max_pool_work t = {
        .y = gs_cpu_floats(y), .x = gs_cpu_floats(x), .index = gs_cpu_ints(index), .s = s};
    return run(d, t, n, forward_part);
}

gs_status GS_ISA(gs_cpu_max_pool2d_backward)(gs_device *d, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                             const gs_pool2d_sizes *s) {
    const max_pool_work t = {
        .dx = gs_cpu_floats(dx), .dy = gs_cpu_floats(dy), .index = gs_cpu_ints(index), .s = s};
    return run(d, t, n, backward_part);
}
