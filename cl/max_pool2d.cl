#include "pool2d.clh"

/* Forward: y = the largest x of the window, index = its place h in_w + w in the plane. The first in reading order wins a
 * tie; a NaN wins over numbers; padding never wins (a window of nothing else gives -infinity and index -1).
 * Backward: forward is y = x[index], so each dy goes to its index; where windows overlap they add up. */

#ifdef GS_GPU

/* one work-item for each y, or for several that lie GS_LANES or GS_ROWS apart */
__kernel void max_pool2d_forward(__global float *y, ulong y_at, __global int *index, ulong index_at,
                                 __global const float *x, ulong x_at, ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    y += y_at + plane * s.out_h * s.out_w;
    index += index_at + plane * s.out_h * s.out_w;
    x += x_at + plane * s.in_h * s.in_w;
    for (int r = GS_ROW; r < s.out_h; r += GS_ROWS) {
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
    for (int u = GS_ROW; u < s.in_h; u += GS_ROWS) {
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

/* One place of the window, for a whole row of outputs: neighbouring outputs are independent, so the compiler turns the
 * loop into vectors; for that, stride is a constant at each call. `from` and `place` are those of output 0. */
static void look(__global float *restrict best, __global int *restrict where,
                 __global const float *restrict from, int place, int begin, int end, int stride) {
    for (int o = begin; o < end; o++) {
        const float value = from[o * stride], old = best[o];
        const bool wins = value > old || isnan(value) || where[o] < 0;
        best[o] = wins ? value : old;
        where[o] = wins ? place + o * stride : where[o];
    }
}

__kernel void max_pool2d_forward(__global float *restrict y, ulong y_at, __global int *restrict index,
                                 ulong index_at, __global const float *restrict x, ulong x_at, ulong planes,
                                 pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    y += y_at + plane * s.out_h * s.out_w;
    index += index_at + plane * s.out_h * s.out_w;
    x += x_at + plane * s.in_h * s.in_w;
    for (int r = 0; r < s.out_h; r++, y += s.out_w, index += s.out_w) {
        for (int o = 0; o < s.out_w; o++) {
            y[o] = -INFINITY;
            index[o] = -1;
        }
        const range h = window_of(r, s.kernel_h, s.stride_h, s.pad_h, s.in_h);
        for (int u = h.begin; u < h.end; u++)
            for (int v = 0; v < s.kernel_w; v++) {
                /* the outputs whose place v lies inside the image: 0 <= o stride_w + first < in_w */
                const int first = v - s.pad_w, room = s.in_w - 1 - first, place = u * s.in_w + first;
                const int begin = first < 0 ? (-first + s.stride_w - 1) / s.stride_w : 0;
                const int end = room < 0 ? 0 : min(room / s.stride_w + 1, s.out_w);
                if (s.stride_w == 1)
                    look(y, index, x + place, place, begin, end, 1);
                else if (s.stride_w == 2)
                    look(y, index, x + place, place, begin, end, 2);
                else
                    look(y, index, x + place, place, begin, end, s.stride_w);
            }
    }
}

/* one work-item a plane, which it clears and then scatters to: nobody else writes there */
__kernel void max_pool2d_backward(__global float *restrict dx, ulong dx_at, __global const float *restrict dy,
                                  ulong dy_at, __global const int *restrict index, ulong index_at,
                                  ulong planes, pool2d_sizes s) {
    const size_t plane = GS_PLANE;
    if (plane >= planes) return;
    const size_t in = (size_t)s.in_h * s.in_w, out = (size_t)s.out_h * s.out_w;
    dx += dx_at + plane * in;
    dy += dy_at + plane * out;
    index += index_at + plane * out;
    for (size_t i = 0; i < in; i++) dx[i] = 0;
    for (size_t i = 0; i < out; i++)
        if (index[i] >= 0) dx[index[i]] += dy[i];
}

#endif
