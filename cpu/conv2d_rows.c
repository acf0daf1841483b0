#include "cpu/conv2d_rows.h"

/* The outputs o for which o stride_w + v - pad_w is in the image: first .. end - 1. */
typedef struct output_span {
    int first, end;
} output_span;

static output_span outputs_inside(const gs_conv2d_sizes *s, int v) {
    int before = s->pad_w - v, room = s->in_w - 1 + before;
    output_span span = {before > 0 ? (before + s->stride_w - 1) / s->stride_w : 0,
                        room < 0 ? 0 : room / s->stride_w + 1};
    if (span.end > s->out_w) span.end = s->out_w;
    if (span.first > span.end) span.first = span.end;
    return span;
}

/* first, first + 1, ... */
static inline gs_vector_int lanes_from(int first) {
    gs_vector_int lane = {0};
    _Pragma("GCC unroll 16") for (int i = 0; i < GS_VECTOR; i++) lane[i] = i;
    return lane + first;
}

/* Copy one vector for shift_plane or halve_plane, float by float. It is a separate function because, if it were
 * inlined, it would use up the registers of their loops. */
static __attribute__((noinline)) void copy_lanes(float *to, const float *from, int step, int first, int end) {
    gs_store(to, (gs_vector){0});
    for (int i = first < 0 ? 0 : first; i < GS_VECTOR && i < end; i++) to[i] = from[i * step];
}

/* With stride 1, copy one plane, whole vectors at a time. Lanes outside the span are written as zeros. A row's last
 * vector extends into the next row, or into the zeros below the last row, so the last vectors of all rows are written
 * first, and then the others, backwards to the starts of the rows. Only the floats from x to x_end may be read. */
static void shift_plane(const gs_conv2d_sizes *s, float *to, const float *from, output_span span,
                        const float *x, const float *x_end) {
    int last = (s->out_w - 1) / GS_VECTOR * GS_VECTOR;
    for (int o = last; o >= 0; o -= GS_VECTOR) {
        gs_vector_int lane = lanes_from(o), inside = (lane >= span.first) & (lane < span.end);
        ptrdiff_t at = o;
        for (int h = 0; h < s->in_h; h++, at += s->in_w) {
            float *place = to + h * s->out_w + o;
            if (at >= x - from && at + GS_VECTOR <= x_end - from)
                gs_store(place, gs_where(inside, gs_load(from + at)));
            else
                copy_lanes(place, from + at, 1, span.first - o, span.end - o);
        }
    }
}

/* With stride_w 2, copy every second float of two vectors. Writes past a phase's last row fall into the next phase,
 * which is written later. */
static void halve_plane(const gs_conv_rows *r, float *plane, const float *from, output_span span,
                        const float *x, const float *x_end) {
    const gs_conv2d_sizes *s = r->s;
    const int out_w = s->out_w, step = s->stride_h, last = (out_w - 1) / GS_VECTOR * GS_VECTOR;
    const ptrdiff_t next = (ptrdiff_t)step * s->in_w;
    for (int o = last; o >= 0; o -= GS_VECTOR) {
        const gs_vector_int lane = lanes_from(o), inside = (lane >= span.first) & (lane < span.end);
        for (int phase = 0; phase < step; phase++) {
            int h =
                (phase + step - s->pad_h % step) % step; /* the first row of the image that is in the phase */
            const float *at = from + (ptrdiff_t)h * s->in_w + 2 * o;
            float *to = plane + gs_conv_row(r, h + s->pad_h) + o;
            for (; h < s->in_h; h += step, at += next, to += out_w)
                if (at >= x && at + 2 * GS_VECTOR <= x_end)
                    gs_store(to, gs_where(inside, gs_even(gs_load(at), gs_load(at + GS_VECTOR))));
                else
                    copy_lanes(to, at, 2, span.first - o, span.end - o);
        }
    }
}

/* The sizes are copied first, so that the compiler knows that no store of a float changes them. */

void GS_ISA(gs_cpu_conv_rows_from_image)(const gs_conv_rows *shape, float *rows, const float *x) {
    const gs_conv2d_sizes s = *shape->s;
    gs_conv_rows r = *shape;
    r.s = &s;
    const float *begin = x, *end = x + (size_t)s.in_c * (size_t)s.in_h * (size_t)s.in_w;
    for (int c = 0; c < s.in_c; c++, x += (size_t)s.in_h * (size_t)s.in_w)
        for (int v = 0; v < s.kernel_w; v++, rows += r.plane) {
            output_span span = outputs_inside(&s, v);
            if (s.stride_h == 1 && s.stride_w == 1) {
                shift_plane(&s, rows + s.pad_h * s.out_w, x + v - s.pad_w, span, begin, end);
                continue;
            }
            if (s.stride_w == 2) {
                halve_plane(&r, rows, x + v - s.pad_w, span, begin, end);
                continue;
            }
            const float *from = x + v - s.pad_w;
            gs_conv_walk walk = gs_conv_walk_from(&r, s.pad_h);
            for (int h = 0; h < s.in_h; h++, from += s.in_w, gs_conv_walk_on(&r, &walk)) {
                float *to = rows + walk.at;
                for (int o = span.first; o < span.end; o++) to[o] = from[o * s.stride_w];
            }
        }
}

/* With stride_w 1: a vector of pixels is the sum of kernel_w vectors, each shifted by its v and masked outside the row.
 * A vector may extend past the row's end, where the next row will overwrite it. */
static void add_up_rows(const gs_conv_rows *shape, float *dx, const float *drows) {
    const gs_conv2d_sizes s = *shape->s;
    gs_conv_rows r = *shape;
    r.s = &s;
    const float *end = dx + (size_t)s.in_c * (size_t)s.in_h * (size_t)s.in_w;
    for (int c = 0; c < s.in_c; c++, drows += (size_t)s.kernel_w * r.plane) {
        gs_conv_walk walk = gs_conv_walk_from(&r, s.pad_h);
        for (int h = 0; h < s.in_h; h++, dx += s.in_w, gs_conv_walk_on(&r, &walk)) {
            const float *row = drows + walk.at;
            for (int w = 0; w < s.in_w; w += GS_VECTOR) {
                gs_vector sum = {0};
                for (int v = 0; v < s.kernel_w; v++) {
                    int o = w + s.pad_w - v;
                    gs_vector_int at = lanes_from(o);
                    sum += gs_where((at >= 0) & (at < s.out_w),
                                    gs_load(row + (size_t)v * r.plane + (ptrdiff_t)o));
                }
                if (dx + w + GS_VECTOR <= end)
                    gs_store(dx + w, sum);
                else
                    for (int i = 0; i < GS_VECTOR && w + i < s.in_w; i++) dx[w + i] = sum[i];
            }
        }
    }
}

/* sum += what the pixels receive through column v of the kernel: the lanes are outputs o, o + 1, ... of a row. */
static inline gs_vector add_outputs(gs_vector sum, const gs_conv2d_sizes *s, const float *row, int o) {
    const gs_vector_int at = lanes_from(o);
    return sum + gs_where((at >= 0) & (at < s->out_w), gs_load(row + (ptrdiff_t)o));
}

/* With stride_w 2: each v contributes to every second pixel. Pixel w + 2 i is seen by output (w + pad_w - v) / 2 + i if
 * that is an integer; else w + 1 + 2 i, by (w + 1 + pad_w - v) / 2 + i. Two vectors of sums give two of pixels. */
static void add_up_halves(const gs_conv_rows *shape, float *dx, const float *drows) {
    const gs_conv2d_sizes s = *shape->s;
    gs_conv_rows r = *shape;
    r.s = &s;
    for (int c = 0; c < s.in_c; c++, drows += (size_t)s.kernel_w * r.plane) {
        gs_conv_walk walk = gs_conv_walk_from(&r, s.pad_h);
        for (int h = 0; h < s.in_h; h++, dx += s.in_w, gs_conv_walk_on(&r, &walk))
            for (int w = 0; w < s.in_w; w += 2 * GS_VECTOR) {
                gs_vector sum[2] = {{0}, {0}};
                for (int v = 0; v < s.kernel_w; v++) {
                    const int odd = (v + s.pad_w) % 2;
                    sum[odd] = add_outputs(sum[odd], &s, drows + walk.at + (size_t)v * r.plane,
                                           (w + odd + s.pad_w - v) / 2);
                }
                const gs_vector both[2] = {gs_low(sum[0], sum[1]), gs_high(sum[0], sum[1])};
                const int left = s.in_w - w;
                memcpy(dx + w, both, (size_t)(left < 2 * GS_VECTOR ? left : 2 * GS_VECTOR) * sizeof *dx);
            }
    }
}

void GS_ISA(gs_cpu_conv_image_from_rows)(const gs_conv_rows *r, float *dx, const float *drows) {
    const gs_conv2d_sizes *s = r->s;
    if (s->stride_w == 1) {
        add_up_rows(r, dx, drows);
        return;
    }
    if (s->stride_w == 2) {
        add_up_halves(r, dx, drows);
        return;
    }
    memset(dx, 0, (size_t)s->in_c * (size_t)s->in_h * (size_t)s->in_w * sizeof(float));
    for (int c = 0; c < s->in_c; c++, dx += (size_t)s->in_h * (size_t)s->in_w)
        for (int v = 0; v < s->kernel_w; v++, drows += r->plane) {
            output_span span = outputs_inside(s, v);
            gs_conv_walk walk = gs_conv_walk_from(r, s->pad_h);
            for (int h = 0; h < s->in_h; h++, gs_conv_walk_on(r, &walk)) {
                const float *from = drows + walk.at;
                float *to = dx + (size_t)h * (size_t)s->in_w;
                for (int o = span.first; o < span.end; o++) to[o * s->stride_w + v - s->pad_w] += from[o];
            }
        }
}
