#include "pool2d.clh"

/* Forward: y = the largest x of the window, index = its place h in_w + w in the plane. The first in reading order wins a
 * tie; a NaN wins over numbers; padding never wins (a window of nothing else gives -infinity and index -1).
 * Backward: forward is y = x[index], so each dy goes to its index; where windows overlap they add up. */

#ifdef GS_GPU

/* one work-item for each y, or for several that lie GS_LANES or GS_ROW_STEP apart */
__kernel void max_pool2d_forward(__global float *y, ulong y_at, __global int *index, ulong index_at,
                                 __global const float *x, ulong x_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    y += y_at + plane * s.out_h * s.out_w;
    index += index_at + plane * s.out_h * s.out_w;
    x += x_at + plane * s.in_h * s.in_w;
    for (int r = GS_ROW; r < s.out_h; r += GS_ROW_STEP) {
        const range h = window_of(r, s.kernel_h, s.stride_h, s.pad_h, s.in_h);
        for (int o = GS_LANE; o < s.out_w; o += GS_LANES) {
            const range w = window_of(o, s.kernel_w, s.stride_w, s.pad_w, s.in_w);
            float best = -INFINITY;
            int where = -1;
            for (int u = h.begin; u < h.end; u++)
                for (int v = w.begin; v < w.end; v++) {
                    const int place = u * s.in_w + v;
                    const float value = x[place];
                    if (value > best || isnan(value) || where < 0) {
                        best = value;
                        where = place;
                    }
                }
            y[r * s.out_w + o] = best;
            index[r * s.out_w + o] = where;
        }
    }
}

/* one work-item for each pixel, which gathers from all windows that contain it */
__kernel void max_pool2d_backward(__global float *dx, ulong dx_at, __global const float *dy, ulong dy_at,
                                  __global const int *index, ulong index_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    dx += dx_at + plane * s.in_h * s.in_w;
    dy += dy_at + plane * s.out_h * s.out_w;
    index += index_at + plane * s.out_h * s.out_w;
    for (int u = GS_ROW; u < s.in_h; u += GS_ROW_STEP) {
        const range h = windows_with(u, s.kernel_h, s.stride_h, s.pad_h, s.out_h);
        for (int v = GS_LANE; v < s.in_w; v += GS_LANES) {
            const range w = windows_with(v, s.kernel_w, s.stride_w, s.pad_w, s.out_w);
            float sum = 0;
            for (int r = h.begin; r < h.end; r++)
                for (int o = w.begin; o < w.end; o++)
                    if (index[r * s.out_w + o] == u * s.in_w + v) sum += dy[r * s.out_w + o];
            dx[u * s.in_w + v] = sum;
        }
    }
}

#else

/* The elements of a row at these places. */
static vec gather(__global const float *row, ivec places) {
    int at[GS_VECTOR];
    float value[GS_VECTOR];
    GS_PASTE(vstore, GS_VECTOR)(places, 0, at);
#pragma unroll
    for (int j = 0; j < GS_VECTOR; j++) value[j] = row[at[j]];
    return GS_PASTE(vload, GS_VECTOR)(0, value);
}

/* The pooling that is met most: windows of 2 x 2 side by side, which cover the whole plane. V outputs come from 2 V
 * neighbours in each of two rows, taken apart into the even and the odd ones; the last V move back until they fit. */
static bool is_2x2(pool2d_sizes s) {
    const bool windows = (s.kernel_h == 2) & (s.kernel_w == 2) & (s.stride_h == 2) & (s.stride_w == 2);
    return windows & (s.in_h == 2 * s.out_h) & (s.in_w == 2 * s.out_w) & (s.out_w >= 4);
}

/* Compilers turn these arrays into shuffles of registers. (x.even would say the same, but Oclgrind 21.10 cannot follow
 * a shuffle that changes the number of lanes.) */
#define DEFINE_PAIRS(V, V2)                                                                                  \
    static void GS_PASTE(apart, V)(__global const float *from, GS_PASTE(float, V) * even,                    \
                                   GS_PASTE(float, V) * odd) {                                               \
        float both[V2], first[V], second[V];                                                                 \
        GS_PASTE(vstore, V2)(GS_PASTE(vload, V2)(0, from), 0, both);                                         \
        _Pragma("unroll") for (int j = 0; j < V; j++) {                                                      \
            first[j] = both[2 * j];                                                                          \
            second[j] = both[2 * j + 1];                                                                     \
        }                                                                                                    \
        *even = GS_PASTE(vload, V)(0, first);                                                                \
        *odd = GS_PASTE(vload, V)(0, second);                                                                \
    }                                                                                                        \
    static void GS_PASTE(together, V)(GS_PASTE(float, V) even, GS_PASTE(float, V) odd, __global float *to) { \
        float both[V2], first[V], second[V];                                                                 \
        GS_PASTE(vstore, V)(even, 0, first);                                                                 \
        GS_PASTE(vstore, V)(odd, 0, second);                                                                 \
        _Pragma("unroll") for (int j = 0; j < V; j++) {                                                      \
            both[2 * j] = first[j];                                                                          \
            both[2 * j + 1] = second[j];                                                                     \
        }                                                                                                    \
        GS_PASTE(vstore, V2)(GS_PASTE(vload, V2)(0, both), 0, to);                                           \
    }
DEFINE_PAIRS(8, 16)
DEFINE_PAIRS(4, 8)

#define TAKE(V, x, at)                                                                                       \
    {                                                                                                        \
        const GS_PASTE(float, V) value = x;                                                                  \
        const GS_PASTE(int, V) wins = (value > best) | isnan(value);                                         \
        best = wins ? value : best;                                                                          \
        where = wins ? (at) : where;                                                                         \
    }
#define FORWARD_2X2(V, lanes)                                                                                \
    for (int i = 0; i < s.out_w; i += V) {                                                                   \
        const int o = min(i, s.out_w - V);                                                                   \
        const GS_PASTE(int, V) place = 2 * (r * s.in_w + o + (lanes));                                       \
        GS_PASTE(float, V) even, odd;                                                                        \
        GS_PASTE(apart, V)(x + 2 * o, &even, &odd);                                                          \
        GS_PASTE(float, V) best = even;                                                                      \
        GS_PASTE(int, V) where = place;                                                                      \
        TAKE(V, odd, place + 1)                                                                              \
        GS_PASTE(apart, V)(x + s.in_w + 2 * o, &even, &odd);                                                 \
        TAKE(V, even, place + s.in_w)                                                                        \
        TAKE(V, odd, place + s.in_w + 1)                                                                     \
        GS_PASTE(vstore, V)(best, 0, y + o);                                                                 \
        GS_PASTE(vstore, V)(where, 0, index + o);                                                            \
    }
static void forward_2x2(__global float *y, __global int *index, __global const float *x, pool2d_sizes s) {
    for (int r = 0; r < s.out_h; r++, y += s.out_w, index += s.out_w, x += 2 * s.in_w)
        if (s.out_w >= 8) {
            FORWARD_2X2(8, (int8)(0, 1, 2, 3, 4, 5, 6, 7))
        } else {
            FORWARD_2X2(4, (int4)(0, 1, 2, 3))
        }
}

/* each dx from its only window: two rows, in which every dy stands twice */
#define BACKWARD_2X2(V, lanes)                                                                               \
    for (int i = 0; i < s.out_w; i += V) {                                                                   \
        const int o = min(i, s.out_w - V);                                                                   \
        const GS_PASTE(float, V) once = GS_PASTE(vload, V)(0, dy + o);                                       \
        const GS_PASTE(int, V) from = GS_PASTE(vload, V)(0, index + o) - 2 * (r * s.in_w + o + (lanes));     \
        GS_PASTE(together, V)(from == 0 ? once : 0, from == 1 ? once : 0, dx + 2 * o);                       \
        GS_PASTE(together, V)                                                                                \
        (from == s.in_w ? once : 0, from == s.in_w + 1 ? once : 0, dx + s.in_w + 2 * o);                     \
    }
static void backward_2x2(__global float *dx, __global const float *dy, __global const int *index,
                         pool2d_sizes s) {
    for (int r = 0; r < s.out_h; r++, dy += s.out_w, index += s.out_w, dx += 2 * s.in_w)
        if (s.out_w >= 8) {
            BACKWARD_2X2(8, (int8)(0, 1, 2, 3, 4, 5, 6, 7))
        } else {
            BACKWARD_2X2(4, (int4)(0, 1, 2, 3))
        }
}

/* GS_VECTOR neighbouring outputs at once, each in a lane of its own */
GS_ONCE void forward_plane(__global float *y, __global int *index, __global const float *x, pool2d_sizes s) {
    if (is_2x2(s)) {
        forward_2x2(y, index, x, s);
        return;
    }
    for (int r = 0; r < s.out_h; r++, y += s.out_w, index += s.out_w) {
        const range h = window_of(r, s.kernel_h, s.stride_h, s.pad_h, s.in_h);
        for (int o = 0; o < s.out_w; o += GS_VECTOR) {
            const ivec first = (o + lane_numbers()) * s.stride_w - s.pad_w;
            vec best = -INFINITY;
            ivec where = -1;
            for (int u = h.begin; u < h.end; u++)
                for (int v = 0; v < s.kernel_w; v++) {
                    const ivec column = first + v, inside = (column >= 0) & (column < s.in_w);
                    const vec value = gather(x + u * s.in_w, clamp(column, (ivec)(0), (ivec)(s.in_w - 1)));
                    const ivec wins = inside & ((value > best) | isnan(value) | (where < 0));
                    best = wins ? value : best;
                    where = wins ? u * s.in_w + column : where;
                }
            store_first(best, y + o, s.out_w - o);
            store_first(GS_PASTE(as_float, GS_VECTOR)(where), (__global float *)index + o, s.out_w - o);
        }
    }
}

/* one work-item a plane */
__kernel void max_pool2d_forward(__global float *y, ulong y_at, __global int *index, ulong index_at,
                                 __global const float *x, ulong x_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE, in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    if (plane < planes)
        forward_plane(y + y_at + plane * out, index + index_at + plane * out, x + x_at + plane * in, s);
}

/* clears the plane and then scatters to it: nobody else writes there */
GS_ONCE void backward_plane(__global float *restrict dx, __global const float *restrict dy,
                            __global const int *restrict index, pool2d_sizes s) {
    const size_t in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    if (is_2x2(s)) {
        backward_2x2(dx, dy, index, s);
        return;
    }
    for (size_t i = 0; i < in; i++) dx[i] = 0;
    for (size_t i = 0; i < out; i++)
        if (index[i] >= 0) dx[index[i]] += dy[i];
}

/* one work-item a plane */
__kernel void max_pool2d_backward(__global float *dx, ulong dx_at, __global const float *dy, ulong dy_at,
                                  __global const int *index, ulong index_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE, in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    if (plane < planes)
        backward_plane(dx + dx_at + plane * in, dy + dy_at + plane * out, index + index_at + plane * out, s);
}

#endif
