#include "max_pool2d_2x2.clh"
#include "pool2d.clh"

/* Forward: y = the window's largest x, index = its position h in_w + w in the plane. On a tie the first in reading
 * order wins; a NaN beats any number; padding never wins (a window of padding alone gives -infinity and index -1).
 * Backward: because y = x[index], each dy goes to its index; where windows overlap, the dy are added up. */

/* The gradient of pixel (u, v) of a plane: dy summed over the windows in which the pixel is the largest. dy and index
 * start at row `first` of the windows. */
static float sum_at(__global const flow *dy, __global const int *index, int u, int v, int first,
                    pool2d_sizes s) {
    const range h = windows_with(u, s.kernel_h, s.stride_h, s.pad_h, s.out_h),
                w = windows_with(v, s.kernel_w, s.stride_w, s.pad_w, s.out_w);
    float sum = 0;
    for (int r = h.begin - first; r < h.end - first; r++)
        for (int o = w.begin; o < w.end; o++)
            if (index[r * s.out_w + o] == u * s.in_w + v) sum += flowing(dy[r * s.out_w + o]);
    return sum;
}

#ifdef GS_GPU

/* one work-item per element of y, or for several that are GS_LANES or GS_ROW_STEP apart */
__kernel void max_pool2d_forward(__global flow *y, ulong y_at, __global int *index, ulong index_at,
                                 __global const flow *x, ulong x_at, ulong planes, pool2d_sizes s) {
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
                    const float value = flowing(x[place]);
                    if (value > best || isnan(value) || where < 0) {
                        best = value;
                        where = place;
                    }
                }
            store_one(best, y + r * s.out_w + o);
            index[r * s.out_w + o] = where;
        }
    }
}

/* one work-item per pixel, which gathers from all windows that contain it */
__kernel void max_pool2d_backward(__global flow *dx, ulong dx_at, __global const flow *dy, ulong dy_at,
                                  __global const int *index, ulong index_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    dx += dx_at + plane * s.in_h * s.in_w;
    dy += dy_at + plane * s.out_h * s.out_w;
    index += index_at + plane * s.out_h * s.out_w;
    for (int u = GS_ROW; u < s.in_h; u += GS_ROW_STEP)
        for (int v = GS_LANE; v < s.in_w; v += GS_LANES)
            store_one(sum_at(dy, index, u, v, 0, s), dx + u * s.in_w + v);
}

#else

static bool is_2x2(pool2d_sizes s) {
    const bool windows = (s.kernel_h == 2) & (s.kernel_w == 2) & (s.stride_h == 2) & (s.stride_w == 2);
    return windows & (s.in_h == 2 * s.out_h) & (s.in_w == 2 * s.out_w);
}

/* The elements of a row at these positions. */
static vec gather(__global const flow *row, ivec places) {
    int at[GS_VECTOR];
    float value[GS_VECTOR];
    GS_PASTE(vstore, GS_VECTOR)(places, 0, at);
#pragma unroll
    for (int j = 0; j < GS_VECTOR; j++) value[j] = flowing(row[at[j]]);
    return GS_PASTE(vload, GS_VECTOR)(0, value);
}

/* Row r of one plane: GS_VECTOR neighbouring outputs at once, one per lane. */
static void forward_row(__global flow *y, __global int *index, __global const flow *x, int r,
                        pool2d_sizes s) {
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
        store_first_flow(best, y + o, s.out_w - o);
        store_first(GS_PASTE(as_float, GS_VECTOR)(where), (__global float *)index + o, s.out_w - o);
    }
}

/* Clear `in` elements of dx from index `first` on, then scatter dy to them. In 16 bits, where partial sums must not be
 * stored, each of these pixels gathers its sum instead. */
static void scatter(__global flow *dx, size_t in, int first, __global const flow *dy,
                    __global const int *index, size_t out, pool2d_sizes s) {
#ifdef ALL_STORED
    const int rows = (int)(in / s.in_w), row = first / s.in_w;
    for (int u = 0; u < rows; u++)
        for (int v = 0; v < s.in_w; v++)
            store_one(sum_at(dy, index, row + u, v, row / 2, s), dx + u * s.in_w + v);
#else
    for (size_t i = 0; i < in; i++) dx[i] = 0;
    for (size_t i = 0; i < out; i++)
        if (index[i] >= 0) dx[index[i] - first] += dy[i];
#endif
}

/* A task is `group` planes; the last task may have fewer. */
GS_ONCE void forward_planes(__global flow *y, __global int *index, __global const flow *x, size_t planes,
                            size_t group, pool2d_sizes s, GS_TASKS) {
    const size_t in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    GS_EACH_TASK(task) {
        const size_t begin = task * group, rows = (min(begin + group, planes) - begin) * s.out_h;
        __global flow *to = y + begin * out;
        __global int *to_index = index + begin * out;
        __global const flow *from = x + begin * in;
        size_t row = is_2x2(s) ? rows_with_room(rows * s.out_w, s.out_w) : 0;
        forward_2x2(to, to_index, from, row, rows * s.out_w, s.out_h, s.out_w, 0);
        for (; row < rows; row++) {
            const size_t plane = row / s.out_h;
            forward_row(to + row * s.out_w, to_index + row * s.out_w, from + plane * in,
                        row - plane * s.out_h, s);
        }
    }
}

__kernel GS_OF_VECTORS void max_pool2d_forward(__global flow *y, ulong y_at, __global int *index,
                                               ulong index_at, __global const flow *x, ulong x_at,
                                               ulong planes, ulong group, pool2d_sizes s, GS_TASKS) {
    forward_planes(y + y_at, index + index_at, x + x_at, planes, group, s, next, first, tasks);
}

/* dx is processed two rows at a time if each row of dy belongs to two rows of dx, else plane by plane. */
GS_ONCE void backward_planes(__global flow *dx, __global const flow *dy, __global const int *index,
                             size_t planes, size_t group, pool2d_sizes s, GS_TASKS) {
    const bool by_rows = is_2x2(s);
    const size_t pieces = by_rows ? s.out_h : 1;
    const size_t in = (size_t)s.in_h * s.in_w / pieces, out = (size_t)s.out_h * s.out_w / pieces;
    GS_EACH_TASK(task) {
        const size_t begin = task * group * pieces, end = min((task + 1) * group, planes) * pieces;
        const size_t rows = by_rows ? rows_with_room((end - begin) * out, s.out_w) : 0;
        backward_2x2(dx + begin * in, dy + begin * out, 0, index + begin * out, rows, s.out_h, s.out_w);
        for (size_t piece = begin + rows; piece < end; piece++)
            scatter(dx + piece * in, in, piece % pieces * in, dy + piece * out, index + piece * out, out, s);
    }
}

__kernel GS_OF_VECTORS void max_pool2d_backward(__global flow *dx, ulong dx_at, __global const flow *dy,
                                                ulong dy_at, __global const int *index, ulong index_at,
                                                ulong planes, ulong group, pool2d_sizes s, GS_TASKS) {
    backward_planes(dx + dx_at, dy + dy_at, index + index_at, planes, group, s, next, first, tasks);
}

#endif
