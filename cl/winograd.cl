#include "stored.clh"
#include "conv2d_sum.clh"
#include "transpose.clh"

/* Convolution on a CPU with 3x3 kernels, stride 1 and padding 1, in fewer multiplications. cpu/winograd.h explains y =
 * A^T (u v) A, u = G g G^T, v = B^T d B, and dw; the names are the same.
 *
 * Here the lanes of a vector are channels, even in forward. An image is transposed so that its channels are contiguous,
 * and padded with zeros, in memory that stays in the core's cache:
 *
 *     beside    (blocks of GS_VECTOR channels, 2 rows + 2, 2 columns + 2, GS_VECTOR)
 *
 * for `rows` x `columns` tiles. Each step computes with whole vectors, even for small images, and is the same for x,
 * dy, y and dx. Both channel counts are multiples of 16, and an image has at least GS_VECTOR pixels. */

/* Must match the struct in cl/winograd.c. */
typedef struct winograd {
    ulong images, group; /* how many; backward: how many of them per task */
    ulong memory;        /* floats of scratch per work-group */
    int in_c, out_c, h, w;
    int rows, columns; /* tiles in an image, down and across */
    int band;          /* rows of tiles convolved together */
    int room;          /* backward: tiles whose part of dw is computed together */
    int bias, relu, has_dx;
} winograd;

enum {
    PLACES = 16,
    HIGH = GS_VECTOR == 16 ? 8 : 4, /* rows of a product's tile, which is at most two vectors wide */
    APART = 16 /* keeps one position in all 16 matrices from mapping to a single L1 cache set */
};

/* ---- a work-group's memory: take returns the next free floats ---- */

static __global float *take(__global float **next, size_t floats) {
    __global float *it = *next;
    *next += floats;
    return it;
}

static size_t pixels_of(winograd s) {
    return (size_t)(2 * s.rows + 2) * (2 * s.columns + 2);
}

/* The floats of one of 16 matrices (tiles, channels), with room for the unused last rows of a product. */
static size_t matrix_floats(int tiles, int channels) {
    return (size_t)(tiles + HIGH) * channels + APART;
}

static void clear(__global float *from, __global float *end) {
    for (; from < end; from++) *from = 0;
}

/* ---- contiguous channels ---- */

/* place: the index of each pixel of an image in the layout `beside`. The last square overlaps the one before it. */
GS_ONCE void put_beside(__global float *to, __global const stored *from, __global const int *place,
                        int channels, winograd s) {
    const int plane = s.h * s.w;
    for (int c = 0; c < channels; c += GS_VECTOR, from += GS_VECTOR * plane, to += GS_VECTOR * pixels_of(s))
        for (int p = 0; p < plane; p += GS_VECTOR) {
            const int first = min(p, plane - GS_VECTOR);
            vec square[GS_VECTOR];
#pragma unroll
            for (int i = 0; i < GS_VECTOR; i++) square[i] = load_stored(from + i * plane + first);
            transpose(square);
#pragma unroll
            for (int i = 0; i < GS_VECTOR; i++) store(square[i], to + place[first + i] * GS_VECTOR);
        }
}

GS_ONCE void take_from_beside(__global flow *to, __global const float *from, __global const int *place,
                              int channels, winograd s) {
    const int plane = s.h * s.w;
    for (int c = 0; c < channels; c += GS_VECTOR, to += GS_VECTOR * plane, from += GS_VECTOR * pixels_of(s))
        for (int p = 0; p < plane; p += GS_VECTOR) {
            const int first = min(p, plane - GS_VECTOR);
            vec square[GS_VECTOR];
#pragma unroll
            for (int i = 0; i < GS_VECTOR; i++) square[i] = load(from + place[first + i] * GS_VECTOR);
            transpose(square);
#pragma unroll
            for (int i = 0; i < GS_VECTOR; i++)
                store_flow(s.relu ? OF_RELU(square[i]) : square[i], to + i * plane + first);
        }
}

/* ---- products ---- */

/* HIGH rows and `wide` vectors of C = A B, or C += A B with `add`: A(i, k) = a[i a_row + k a_k]. always_inline makes
 * constants of `wide`, `add` and any stride that is 1. */
#define EACH_ROW _Pragma("unroll") for (int i = 0; i < HIGH; i++)
#define EACH_VECTOR _Pragma("unroll") for (int j = 0; j < 2; j++) if (j < wide)
__attribute__((always_inline)) static void tile(__global float *c, size_t c_row, __global const float *a,
                                                size_t a_row, size_t a_k, __global const float *b,
                                                size_t b_row, int depth, const int wide, const int add) {
    vec sum[HIGH][2];
    EACH_ROW EACH_VECTOR sum[i][j] = add ? load(c + i * c_row + j * GS_VECTOR) : 0;
    for (int k = 0; k < depth; k++, a += a_k, b += b_row) {
        vec x[2];
        EACH_VECTOR x[j] = load(b + j * GS_VECTOR);
        EACH_ROW EACH_VECTOR sum[i][j] = fma((vec)(a[i * a_row]), x[j], sum[i][j]);
    }
    EACH_ROW EACH_VECTOR store(sum[i][j], c + i * c_row + j * GS_VECTOR);
}

/* m = v u: (tiles, to_c) from (tiles, from_c) and (from_c, to_c). Both v and m have room for HIGH - 1 more tiles. */
GS_ONCE void multiply(__global float *m, __global const float *v, __global const float *u, int tiles,
                      int from_c, int to_c) {
    for (int o = 0; o < to_c; o += 2 * GS_VECTOR)
        for (int t = 0; t < tiles; t += HIGH)
            if (o + GS_VECTOR < to_c)
                tile(m + t * to_c + o, to_c, v + t * from_c, from_c, 1, u + o, to_c, from_c, 2, 0);
            else
                tile(m + t * to_c + o, to_c, v + t * from_c, from_c, 1, u + o, to_c, from_c, 1, 0);
}

/* du += n^T v: (out_c, in_c) from (tiles, out_c) and (tiles, in_c) */
GS_ONCE void add_product(__global float *du, __global const float *n, __global const float *v, int tiles,
                         int in_c, int out_c) {
    for (int c = 0; c < in_c; c += 2 * GS_VECTOR)
        for (int o = 0; o < out_c; o += HIGH)
            if (c + GS_VECTOR < in_c)
                tile(du + o * in_c + c, in_c, n + o, 1, out_c, v + c, in_c, tiles, 2, 1);
            else
                tile(du + o * in_c + c, in_c, n + o, 1, out_c, v + c, in_c, tiles, 1, 1);
}

/* ---- v = B^T d B, y = A^T m A, n = A dy A^T ---- */

/* Transform one tile of GS_VECTOR channels, as all functions here do: d is 4 x 4 vectors of an image. */
static void tile_to_places(__global float *v, size_t matrix, __global const float *d, size_t width) {
    vec half_done[4][4];
#pragma unroll
    for (int j = 0; j < 4; j++, d += GS_VECTOR) {
        const vec d0 = load(d), d1 = load(d + width), d2 = load(d + 2 * width), d3 = load(d + 3 * width);
        half_done[0][j] = d0 - d2;
        half_done[1][j] = d1 + d2;
        half_done[2][j] = d2 - d1;
        half_done[3][j] = d1 - d3;
    }
#pragma unroll
    for (int r = 0; r < 4; r++, v += 4 * matrix) {
        const vec *in = half_done[r];
        store(in[0] - in[2], v);
        store(in[1] + in[2], v + matrix);
        store(in[2] - in[1], v + 2 * matrix);
        store(in[1] - in[3], v + 3 * matrix);
    }
}

static void tile_from_places(__global float *y, size_t width, __global const float *m, size_t matrix,
                             vec bias, int relu) {
    vec half_done[2][4];
#pragma unroll
    for (int j = 0; j < 4; j++, m += matrix) {
        const vec m0 = load(m), m1 = load(m + 4 * matrix), m2 = load(m + 8 * matrix),
                  m3 = load(m + 12 * matrix);
        half_done[0][j] = m0 + m1 + m2;
        half_done[1][j] = m1 - m2 - m3;
    }
#pragma unroll
    for (int r = 0; r < 2; r++, y += width) {
        const vec *in = half_done[r];
        vec even = in[0] + in[1] + in[2] + bias, odd = in[1] - in[2] - in[3] + bias;
        if (relu) {
            even = even < 0 ? 0 : even;
            odd = odd < 0 ? 0 : odd;
        }
        store(even, y);
        store(odd, y + GS_VECTOR);
    }
}

/* weights_from_places applies the minus sign in A's last row, for row and column 3 of n; here, they are just dy. */
static void dy_to_places(__global float *n, size_t matrix, __global const float *dy, size_t width) {
    vec half_done[4][2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const vec upper = load(dy + j * GS_VECTOR), lower = load(dy + width + j * GS_VECTOR);
        half_done[0][j] = upper;
        half_done[1][j] = upper + lower;
        half_done[2][j] = upper - lower;
        half_done[3][j] = lower;
    }
#pragma unroll
    for (int r = 0; r < 4; r++, n += 4 * matrix) {
        const vec left = half_done[r][0], right = half_done[r][1];
        store(left, n);
        store(left + right, n + matrix);
        store(left - right, n + 2 * matrix);
        store(right, n + 3 * matrix);
    }
}

/* ---- u = G g G^T ---- */

/* Transform the kernel from channel k of d to channel `lane` of y; u is (16, k, lanes). The kernel starts at w + lane
 * w_lane + k w_k; if `turned`, it is rotated by 180 degrees. Work-item (lane, k). */
__kernel void winograd_kernels(__global float *u, __global const stored *w, ulong w_at, int w_lane, int w_k,
                               int turned, int lanes) {
    const size_t lane = get_global_id(0), k = get_global_id(1), matrix = lanes * get_global_size(1);
    if (lane >= lanes) return;
    w += w_at + lane * w_lane + k * w_k;
    u += k * lanes + lane;
    float half_done[4][3];
#pragma unroll
    for (int j = 0; j < 3; j++) {
        const float g0 = number(w[turned ? 8 - j : j]), g1 = number(w[turned ? 5 - j : 3 + j]),
                    g2 = number(w[turned ? 2 - j : 6 + j]);
        half_done[0][j] = g0;
        half_done[1][j] = (g0 + g1 + g2) / 2;
        half_done[2][j] = (g0 - g1 + g2) / 2;
        half_done[3][j] = g2;
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float *g = half_done[r];
        u[(4 * r) * matrix] = g[0];
        u[(4 * r + 1) * matrix] = (g[0] + g[1] + g[2]) / 2;
        u[(4 * r + 2) * matrix] = (g[0] - g[1] + g[2]) / 2;
        u[(4 * r + 3) * matrix] = g[2];
    }
}

/* ---- y ---- */

/* One image in the layout `beside`: y (to_c channels) from d (from_c). v and m have room for a band of tiles. */
GS_ONCE void convolve(__global float *y, __global const float *d, __global const float *u,
                      __global const float *bias, int from_c, int to_c, __global float *v, __global float *m,
                      winograd s) {
    const size_t width = (size_t)(2 * s.columns + 2) * GS_VECTOR, block = pixels_of(s) * GS_VECTOR,
                 v_matrix = matrix_floats(s.band * s.columns, from_c),
                 m_matrix = matrix_floats(s.band * s.columns, to_c);
    y += width + GS_VECTOR; /* the first pixel */
    for (int first = 0; first < s.rows; first += s.band) {
        const int rows = min(s.band, s.rows - first);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < from_c; c += GS_VECTOR) {
                __global const float *from = d + c / GS_VECTOR * block + 2 * (first + r) * width;
                __global float *to = v + r * s.columns * from_c + c;
                for (int i = 0; i < s.columns; i++, from += 2 * GS_VECTOR, to += from_c)
                    tile_to_places(to, v_matrix, from, width);
            }
        for (int place = 0; place < PLACES; place++)
            multiply(m + place * m_matrix, v + place * v_matrix, u + place * from_c * to_c, rows * s.columns,
                     from_c, to_c);
        for (int r = 0; r < rows; r++)
            for (int o = 0; o < to_c; o += GS_VECTOR) {
                const vec shift = bias ? load(bias + o) : 0;
                __global const float *from = m + r * s.columns * to_c + o;
                __global float *to = y + o / GS_VECTOR * block + 2 * (first + r) * width;
                for (int i = 0; i < s.columns; i++, from += to_c, to += 2 * GS_VECTOR)
                    tile_from_places(to, width, from, m_matrix, shift, s.relu);
            }
    }
}

/* A task is one image. */
GS_ONCE void forward_images(__global flow *y, __global const stored *x, __global const float *u,
                            __global const float *bias, __global const int *place, __global float *scratch,
                            winograd s, GS_TASKS) {
    const size_t plane = (size_t)s.h * s.w;
    const int band = s.band * s.columns;
    __global float *end = scratch, *x_beside = take(&end, pixels_of(s) * s.in_c),
                   *y_beside = take(&end, pixels_of(s) * s.out_c),
                   *v = take(&end, PLACES * matrix_floats(band, s.in_c)),
                   *m = take(&end, PLACES * matrix_floats(band, s.out_c));
    clear(scratch, end);
    GS_EACH_TASK(image) {
        put_beside(x_beside, x + image * s.in_c * plane, place, s.in_c, s);
        convolve(y_beside, x_beside, u, bias, s.in_c, s.out_c, v, m, s);
        take_from_beside(y + image * s.out_c * plane, y_beside, place, s.out_c, s);
    }
}

__kernel GS_OF_VECTORS void winograd_forward(__global flow *y, ulong y_at, __global const stored *x,
                                             ulong x_at, __global const float *u, __global const float *bias,
                                             ulong bias_at, __global const int *place,
                                             __global float *scratch, winograd s, GS_TASKS) {
    forward_images(y + y_at, x + x_at, u, s.bias ? bias + bias_at : 0, place,
                   scratch + get_group_id(0) * s.memory, s, next, first, tasks);
}

/* ---- dx and dw ---- */

/* Compute v and n for one image's tiles, starting at tile `first`. */
GS_ONCE void add_tiles(__global float *v, __global float *n, __global const float *x,
                       __global const float *dy, int first, winograd s) {
    const size_t width = (size_t)(2 * s.columns + 2) * GS_VECTOR, block = pixels_of(s) * GS_VECTOR,
                 v_matrix = matrix_floats(s.room, s.in_c), n_matrix = matrix_floats(s.room, s.out_c);
    dy += width + GS_VECTOR; /* the first pixel */
    for (int r = 0; r < s.rows; r++, first += s.columns) {
        for (int c = 0; c < s.in_c; c += GS_VECTOR) {
            __global const float *from = x + c / GS_VECTOR * block + 2 * r * width;
            __global float *to = v + first * s.in_c + c;
            for (int i = 0; i < s.columns; i++, from += 2 * GS_VECTOR, to += s.in_c)
                tile_to_places(to, v_matrix, from, width);
        }
        for (int o = 0; o < s.out_c; o += GS_VECTOR) {
            __global const float *from = dy + o / GS_VECTOR * block + 2 * r * width;
            __global float *to = n + first * s.out_c + o;
            for (int i = 0; i < s.columns; i++, from += 2 * GS_VECTOR, to += s.out_c)
                dy_to_places(to, n_matrix, from, width);
        }
    }
}

/* dw = G^T du G for GS_VECTOR input channels at once, whose kernels are contiguous. */
GS_ONCE void weights_from_places(__global float *dw, __global const float *du, int pairs) {
    for (int at = 0; at < pairs; at += GS_VECTOR, dw += 9 * GS_VECTOR) {
        vec half_done[3][4];
        float g[3][3][GS_VECTOR];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            __global const float *from = du + j * pairs + at;
            const vec u0 = load(from), u1 = load(from + 4 * pairs), u2 = load(from + 8 * pairs),
                      u3 = load(from + 12 * pairs);
            half_done[0][j] = u0 + (u1 + u2) / 2;
            half_done[1][j] = (u1 - u2) / 2;
            half_done[2][j] = (u1 + u2) / 2 - u3;
        }
#pragma unroll
        for (int r = 0; r < 3; r++) {
            const vec *u = half_done[r];
            GS_PASTE(vstore, GS_VECTOR)(u[0] + (u[1] + u[2]) / 2, 0, g[r][0]);
            GS_PASTE(vstore, GS_VECTOR)((u[1] - u[2]) / 2, 0, g[r][1]);
            GS_PASTE(vstore, GS_VECTOR)((u[1] + u[2]) / 2 - u[3], 0, g[r][2]);
        }
#pragma unroll 1
        for (int i = 0; i < GS_VECTOR; i++)
#pragma unroll
            for (int k = 0; k < 9; k++) dw[9 * i + k] = g[k / 3][k % 3][i];
    }
}

/* A task is a group of images: compute their dx and, in part[task], the sum of their dw (see conv2d_weights_sum). */
GS_ONCE void backward_images(__global flow *dx, __global float *part, __global const stored *dy,
                             __global const stored *x, __global const float *u, __global const int *place,
                             __global float *scratch, winograd s, GS_TASKS) {
    const size_t plane = (size_t)s.h * s.w;
    const int pairs = s.in_c * s.out_c, tiles = s.rows * s.columns, band = s.band * s.columns;
    __global float *end = scratch, *x_beside = take(&end, pixels_of(s) * s.in_c),
                   *dy_beside = take(&end, pixels_of(s) * s.out_c),
                   *v = take(&end, PLACES * matrix_floats(s.room, s.in_c)),
                   *n = take(&end, PLACES * matrix_floats(s.room, s.out_c)),
                   *du = take(&end, (size_t)PLACES * pairs),
                   *dx_beside = take(&end, s.has_dx ? pixels_of(s) * s.in_c : 0),
                   *dx_v = take(&end, s.has_dx ? PLACES * matrix_floats(band, s.out_c) : 0),
                   *dx_m = take(&end, s.has_dx ? PLACES * matrix_floats(band, s.in_c) : 0);
    clear(scratch, end);
    GS_EACH_TASK(task) {
        const size_t last = min((task + 1) * s.group, (ulong)s.images);
        int held = 0; /* tiles in v and n */
        clear(du, du + (size_t)PLACES * pairs);
        for (size_t image = task * s.group; image < last; image++) {
            put_beside(x_beside, x + image * s.in_c * plane, place, s.in_c, s);
            put_beside(dy_beside, dy + image * s.out_c * plane, place, s.out_c, s);
            add_tiles(v, n, x_beside, dy_beside, held, s);
            held += tiles;
            if (held + tiles > s.room || image + 1 == last) {
                for (int p = 0; p < PLACES; p++)
                    add_product(du + p * pairs, n + p * matrix_floats(s.room, s.out_c),
                                v + p * matrix_floats(s.room, s.in_c), held, s.in_c, s.out_c);
                held = 0;
            }
            if (!s.has_dx) continue;
            convolve(dx_beside, dy_beside, u, 0, s.out_c, s.in_c, dx_v, dx_m, s);
            take_from_beside(dx + image * s.in_c * plane, dx_beside, place, s.in_c, s);
        }
        weights_from_places(part + (size_t)task * 9 * pairs, du, pairs);
    }
}

__kernel GS_OF_VECTORS void winograd_backward(__global flow *dx, ulong dx_at, __global float *part,
                                              ulong part_at, __global const stored *dy, ulong dy_at,
                                              __global const stored *x, ulong x_at, __global const float *u,
                                              __global const int *place, __global float *scratch, winograd s,
                                              GS_TASKS) {
    backward_images(dx + dx_at, part + part_at, dy + dy_at, x + x_at, u, place,
                    scratch + get_group_id(0) * s.memory, s, next, first, tasks);
}
