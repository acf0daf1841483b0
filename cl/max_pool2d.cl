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

/* ---- the pooling that is met most: windows of 2 x 2 side by side, which cover the whole plane ---- */

/* Then each row of y comes from two rows of x, and all planes are one sequence of such rows. EIGHT outputs at once come from
 * 16 neighbours in each of the two rows, taken apart into the even and the odd ones. (Not GS_VECTOR outputs: no more is
 * gained, since memory is the limit, and most rows are short.) In a long row the last vector is laid over the one before. A
 * row shorter than that is computed with what follows it: this writes nonsense to the next rows, which then overwrite it.
 * So it is for rows with that much behind them only. */
enum { EIGHT = 8 };

static bool is_2x2(pool2d_sizes s) {
    const bool windows = (s.kernel_h == 2) & (s.kernel_w == 2) & (s.stride_h == 2) & (s.stride_w == 2);
    return windows & (s.in_h == 2 * s.out_h) & (s.in_w == 2 * s.out_w);
}

/* How many of so many rows have EIGHT outputs from their beginning on. */
static size_t rows_with_room(size_t rows, pool2d_sizes s) {
    const size_t outputs = rows * s.out_w;
    return outputs < EIGHT ? 0 : (outputs - EIGHT) / s.out_w + 1;
}

/* Compilers turn the loops of these two functions into shuffles of registers. (v.even and v.s00112233 would say the same,
 * but Oclgrind 21.10 cannot follow them.) */
typedef struct two {
    float8 a, b;
} two;

/* 16 neighbours: the even ones, the odd ones */
static two apart(__global const float *from) {
    const two neighbours = {vload8(0, from), vload8(1, from)};
    const float *each = (const float *)&neighbours;
    two sorted;
    float *even = (float *)&sorted.a, *odd = (float *)&sorted.b;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        even[j] = each[2 * j];
        odd[j] = each[2 * j + 1];
    }
    return sorted;
}

/* v0 v0 v1 v1 ... */
static two twice(float8 v) {
    float once[8], each[16];
    vstore8(v, 0, once);
#pragma unroll
    for (int j = 0; j < 16; j++) each[j] = once[j / 2];
    const two all = {vload8(0, each), vload8(1, each)};
    return all;
}

#define TAKE(value, at)                                                                                      \
    {                                                                                                        \
        const int8 wins = ((value) > best) | ((value) != (value)); /* a NaN is not even equal to itself */   \
        best = wins ? (value) : best;                                                                        \
        where = wins ? (at) : where;                                                                         \
    }

/* These two return how many rows they have done. */
static size_t forward_2x2(__global float *y, __global int *index, __global const float *x, size_t rows,
                          pool2d_sizes s) {
    const size_t count = rows_with_room(rows, s);
    const int last = max(s.out_w - EIGHT, 0), in_plane = s.in_h * s.in_w;
    const int8 columns = (int8)(0, 2, 4, 6, 8, 10, 12, 14); /* where the windows begin */
    int place = 0;                                          /* where the row begins in its plane */
    for (size_t row = 0; row < count; row++, y += s.out_w, index += s.out_w, x += 2 * s.in_w) {
        for (int i = 0; i < s.out_w; i += EIGHT) {
            const int o = min(i, last);
            const two top = apart(x + 2 * o), bottom = apart(x + s.in_w + 2 * o);
            const int8 corner = place + 2 * o + columns;
            float8 best = top.a;
            int8 where = corner;
            TAKE(top.b, corner + 1)
            TAKE(bottom.a, corner + s.in_w)
            TAKE(bottom.b, corner + s.in_w + 1)
            vstore8(best, 0, y + o);
            vstore8(where, 0, index + o);
        }
        place += 2 * s.in_w;
        place = place < in_plane ? place : 0;
    }
    return count;
}

/* each dx from its only window: two rows, in which every dy stands twice */
static size_t backward_2x2(__global float *dx, __global const float *dy, __global const int *index,
                           size_t rows, pool2d_sizes s) {
    const size_t count = rows_with_room(rows, s);
    const int last = max(s.out_w - EIGHT, 0), in_plane = s.in_h * s.in_w;
    const int8 columns = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    int place = 0;
    for (size_t row = 0; row < count; row++, dy += s.out_w, index += s.out_w, dx += 2 * s.in_w) {
        for (int i = 0; i < s.out_w; i += EIGHT) {
            const int o = min(i, last);
            const two d = twice(vload8(0, dy + o)), at = twice(as_float8(vload8(0, index + o)));
            const int8 at_left = as_int8(at.a), at_right = as_int8(at.b);
            const int8 left = place + 2 * o + columns, right = left + 8;
            __global float *top = dx + 2 * o, *bottom = top + s.in_w;
            vstore8(at_left == left ? d.a : 0, 0, top);
            vstore8(at_right == right ? d.b : 0, 1, top);
            vstore8(at_left == left + s.in_w ? d.a : 0, 0, bottom);
            vstore8(at_right == right + s.in_w ? d.b : 0, 1, bottom);
        }
        place += 2 * s.in_w;
        place = place < in_plane ? place : 0;
    }
    return count;
}

/* ---- any pooling ---- */

/* The elements of a row at these places. */
static vec gather(__global const float *row, ivec places) {
    int at[GS_VECTOR];
    float value[GS_VECTOR];
    GS_PASTE(vstore, GS_VECTOR)(places, 0, at);
#pragma unroll
    for (int j = 0; j < GS_VECTOR; j++) value[j] = row[at[j]];
    return GS_PASTE(vload, GS_VECTOR)(0, value);
}

/* Row r of plane x: GS_VECTOR neighbouring outputs at once, each in a lane of its own. */
static void forward_row(__global float *y, __global int *index, __global const float *x, int r,
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
        store_first(best, y + o, s.out_w - o);
        store_first(GS_PASTE(as_float, GS_VECTOR)(where), (__global float *)index + o, s.out_w - o);
    }
}

/* Clears `in` elements of dx, of which the first has the index `first`, and then scatters to them. */
static void scatter(__global float *dx, size_t in, int first, __global const float *dy,
                    __global const int *index, size_t out) {
    for (size_t i = 0; i < in; i++) dx[i] = 0;
    for (size_t i = 0; i < out; i++)
        if (index[i] >= 0) dx[index[i] - first] += dy[i];
}

/* ---- tasks ---- */

/* A task is `group` planes, the last one perhaps fewer. */
GS_ONCE void forward_planes(__global float *y, __global int *index, __global const float *x, size_t planes,
                            size_t group, pool2d_sizes s, GS_TASKS) {
    const size_t in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    GS_EACH_TASK(task) {
        const size_t begin = task * group, rows = (min(begin + group, planes) - begin) * s.out_h;
        __global float *to = y + begin * out;
        __global int *to_index = index + begin * out;
        __global const float *from = x + begin * in;
        size_t row = is_2x2(s) ? forward_2x2(to, to_index, from, rows, s) : 0;
        for (; row < rows; row++) {
            const size_t plane = row / s.out_h;
            forward_row(to + row * s.out_w, to_index + row * s.out_w, from + plane * in,
                        row - plane * s.out_h, s);
        }
    }
}

__kernel void max_pool2d_forward(__global float *y, ulong y_at, __global int *index, ulong index_at,
                                 __global const float *x, ulong x_at, ulong planes, ulong group,
                                 pool2d_sizes s, GS_TASKS) {
    forward_planes(y + y_at, index + index_at, x + x_at, planes, group, s, next, first, tasks);
}

/* A piece of dx is two rows where these belong to a row of dy, else a plane. */
GS_ONCE void backward_planes(__global float *dx, __global const float *dy, __global const int *index,
                             size_t planes, size_t group, pool2d_sizes s, GS_TASKS) {
    const bool by_rows = is_2x2(s);
    const size_t pieces = by_rows ? s.out_h : 1;
    const size_t in = (size_t)s.in_h * s.in_w / pieces, out = (size_t)s.out_h * s.out_w / pieces;
    GS_EACH_TASK(task) {
        const size_t begin = task * group * pieces, end = min((task + 1) * group, planes) * pieces;
        size_t piece = begin;
        if (by_rows)
            piece += backward_2x2(dx + begin * in, dy + begin * out, index + begin * out, end - begin, s);
        for (; piece < end; piece++)
            scatter(dx + piece * in, in, piece % pieces * in, dy + piece * out, index + piece * out, out);
    }
}

__kernel void max_pool2d_backward(__global float *dx, ulong dx_at, __global const float *dy, ulong dy_at,
                                  __global const int *index, ulong index_at, ulong planes, ulong group,
                                  pool2d_sizes s, GS_TASKS) {
    backward_planes(dx + dx_at, dy + dy_at, index + index_at, planes, group, s, next, first, tasks);
}

#endif
