#include "stored.clh"
#include "transpose.clh"

/* Convolution with 3x3 kernels and stride 1 in fewer multiplications. cpu/winograd.h explains y = A^T (u v) A, u = G g
 * G^T, v = B^T d B, and dw; the names are the same, and so are all sums.
 *
 * The fast kernels are for CPUs, with padding 1 and channels that fill vectors. There the lanes of a vector are
 * channels, even in forward. An image is transposed so that its channels are contiguous, and padded with zeros, in
 * memory that stays in the core's cache:
 *
 *     beside    (blocks of GS_VECTOR channels, 2 rows + 2, 2 columns + 2, GS_VECTOR)
 *
 * for `rows` x `columns` tiles. Each step computes with whole vectors, even for small images, and is the same for x,
 * dy, y and dx. Both channel counts are multiples of 16, and an image has at least GS_VECTOR pixels. */

/* Must match the struct in cl/winograd.c. */
typedef struct winograd {
    ulong images;              /* of the whole batch: */
    ulong chunks, first_chunk; /* backward: their chunks (src/conv2d_order.h), and that of the first task */
    ulong memory;              /* floats of scratch per work-group */
    int in_c, out_c, h, w;
    int rows, columns; /* tiles in an image, down and across */
    int band;          /* rows of tiles convolved together */
    int samples, high; /* backward: images, and rows of tiles in each, of a block of dw's sums */
    int bias, relu, has_dx;
} winograd;

enum {
    PLACES = 16,
    HIGH = GS_VECTOR == 16 ? 8 : 4, /* rows of a product's tile, which is at most two vectors wide */
    APART = 16 /* keeps one position in all 16 matrices from mapping to a single L1 cache set */
};

/* Four numbers times B^T; two numbers times A; A^T times four numbers; G^T times four numbers. winograd_weights
 * applies the minus sign in A's last row: here dy's are just dy. */
#define BY_B(to, apart, d0, d1, d2, d3)                                                                      \
    (to)[0] = (d0) - (d2), (to)[apart] = (d1) + (d2), (to)[2 * (apart)] = (d2) - (d1),                       \
    (to)[3 * (apart)] = (d1) - (d3)
#define BY_A(to, apart, dy0, dy1)                                                                            \
    (to)[0] = (dy0), (to)[apart] = (dy0) + (dy1), (to)[2 * (apart)] = (dy0) - (dy1), (to)[3 * (apart)] = (dy1)
#define BY_A_T(to, apart, m0, m1, m2, m3) (to)[0] = (m0) + (m1) + (m2), (to)[apart] = (m1) - (m2) - (m3)
#define BY_G_T(to, apart, u0, u1, u2, u3)                                                                    \
    (to)[0] = (u0) + ((u1) + (u2)) / 2, (to)[apart] = ((u1) - (u2)) / 2,                                     \
    (to)[2 * (apart)] = ((u1) + (u2)) / 2 - (u3)

#if GS_VECTOR > 1

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

/* HIGH rows and `wide` vectors of C = A B, or C += (A B) with `add`: A(i, k) = a[i a_row + k a_k]. always_inline makes
 * constants of `wide`, `add` and any stride that is 1. */
#define EACH_ROW _Pragma("unroll") for (int i = 0; i < HIGH; i++)
#define EACH_VECTOR _Pragma("unroll") for (int j = 0; j < 2; j++) if (j < wide)
__attribute__((always_inline)) static void tile(__global float *c, size_t c_row, __global const float *a,
                                                size_t a_row, size_t a_k, __global const float *b,
                                                size_t b_row, int depth, const int wide, const int add) {
    vec sum[HIGH][2];
    EACH_ROW EACH_VECTOR sum[i][j] = 0;
    for (int k = 0; k < depth; k++, a += a_k, b += b_row) {
        vec x[2];
        EACH_VECTOR x[j] = load(b + j * GS_VECTOR);
        EACH_ROW EACH_VECTOR sum[i][j] = fma((vec)(a[i * a_row]), x[j], sum[i][j]);
    }
    EACH_ROW EACH_VECTOR {
        __global float *to = c + i * c_row + j * GS_VECTOR;
        store(add ? load(to) + sum[i][j] : sum[i][j], to);
    }
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
        BY_B(half_done[0] + j, 4, d0, d1, d2, d3);
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
        BY_A_T(half_done[0] + j, 4, m0, m1, m2, m3);
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

static void dy_to_places(__global float *n, size_t matrix, __global const float *dy, size_t width) {
    vec half_done[4][2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const vec upper = load(dy + j * GS_VECTOR), lower = load(dy + width + j * GS_VECTOR);
        BY_A(half_done[0] + j, 2, upper, lower);
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

/* Compute v and n for rows top .. end - 1 of one image's tiles, starting at tile `first`. */
GS_ONCE void add_tiles(__global float *v, __global float *n, __global const float *x,
                       __global const float *dy, int first, int top, int end, winograd s) {
    const int room = s.samples * s.high * s.columns;
    const size_t width = (size_t)(2 * s.columns + 2) * GS_VECTOR, block = pixels_of(s) * GS_VECTOR,
                 v_matrix = matrix_floats(room, s.in_c), n_matrix = matrix_floats(room, s.out_c);
    dy += width + GS_VECTOR; /* the first pixel */
    for (int r = top; r < end; r++, first += s.columns) {
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

/* A task is a chunk of images: compute their dx and, in part[task], their du. */
GS_ONCE void backward_images(__global flow *dx, __global float *part, __global const stored *dy,
                             __global const stored *x, __global const float *u, __global const int *place,
                             __global float *scratch, winograd s, GS_TASKS) {
    const size_t plane = (size_t)s.h * s.w, origin = s.images * s.first_chunk / s.chunks; /* the image at x */
    const int pairs = s.in_c * s.out_c, room = s.samples * s.high * s.columns, band = s.band * s.columns;
    __global float *end = scratch, *x_beside = take(&end, pixels_of(s) * s.in_c),
                   *dy_beside = take(&end, pixels_of(s) * s.out_c),
                   *v = take(&end, PLACES * matrix_floats(room, s.in_c)),
                   *n = take(&end, PLACES * matrix_floats(room, s.out_c)),
                   *dx_beside = take(&end, s.has_dx ? pixels_of(s) * s.in_c : 0),
                   *dx_v = take(&end, s.has_dx ? PLACES * matrix_floats(band, s.out_c) : 0),
                   *dx_m = take(&end, s.has_dx ? PLACES * matrix_floats(band, s.in_c) : 0);
    clear(scratch, end);
    GS_EACH_TASK(task) {
        const size_t chunk = s.first_chunk + task, last = s.images * (chunk + 1) / s.chunks - origin;
        __global float *du = part + task * PLACES * pairs;
        clear(du, du + (size_t)PLACES * pairs);
        for (size_t begin = s.images * chunk / s.chunks - origin; begin < last; begin += s.samples)
            for (int top = 0; top < s.rows; top += s.high) {
                int held = 0; /* tiles in v and n */
                for (size_t image = begin; image < min(begin + s.samples, last); image++) {
                    const int rows = min(s.high, s.rows - top);
                    if (top == 0) { /* else they are there: blocks of some rows are of one image */
                        put_beside(x_beside, x + image * s.in_c * plane, place, s.in_c, s);
                        put_beside(dy_beside, dy + image * s.out_c * plane, place, s.out_c, s);
                    }
                    add_tiles(v, n, x_beside, dy_beside, held, top, top + rows, s);
                    held += rows * s.columns;
                    if (!s.has_dx || top > 0) continue;
                    convolve(dx_beside, dy_beside, u, 0, s.out_c, s.in_c, dx_v, dx_m, s);
                    take_from_beside(dx + image * s.in_c * plane, dx_beside, place, s.in_c, s);
                }
                for (int p = 0; p < PLACES; p++)
                    add_product(du + p * pairs, n + p * matrix_floats(room, s.out_c),
                                v + p * matrix_floats(room, s.in_c), held, s.in_c, s.out_c);
            }
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

#endif

/* ---- u = G g G^T ---- */

/* Transform the kernel from channel k of d to channel `lane` of y; u is (16, k, lanes), and repeats the last of `count`
 * channels in surplus lanes. The kernel starts at w + lane w_lane + k w_k; if `turned`, it is rotated by 180 degrees.
 * Work-item (lane, k). */
__kernel void winograd_kernels(__global float *u, __global const stored *w, ulong w_at, int w_lane, int w_k,
                               int turned, int lanes, int count) {
    const size_t lane = get_global_id(0), k = get_global_id(1), matrix = lanes * get_global_size(1);
    if (lane >= lanes) return;
    w += w_at + min((int)lane, count - 1) * w_lane + k * w_k;
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

/* ---- dw = G^T du G ---- */

/* dw, for GS_VECTOR pairs of channels, = the sum of the chunks' du in `part`, transformed; += with `add` */
__kernel GS_OF_VECTORS void winograd_weights(__global float *dw, ulong dw_at, __global const float *part,
                                             ulong chunks, int pairs, int add) {
    const size_t at = GS_FIRST;
    if (at >= pairs) return;
    vec u[4][4], half_done[3][4];
    vec g[9];
    for (int p = 0; p < PLACES; p++) {
        vec sum = load(part + p * (size_t)pairs + at);
        for (size_t c = 1; c < chunks; c++) sum += load(part + (c * PLACES + p) * pairs + at);
        u[p / 4][p % 4] = sum;
    }
    for (int j = 0; j < 4; j++) BY_G_T(half_done[0] + j, 4, u[0][j], u[1][j], u[2][j], u[3][j]);
    for (int r = 0; r < 3; r++)
        BY_G_T(g + 3 * r, 1, half_done[r][0], half_done[r][1], half_done[r][2], half_done[r][3]);
    dw += dw_at + 9 * at;
    for (int i = 0; i < GS_VECTOR; i++)
        for (int k = 0; k < 9; k++) dw[9 * i + k] = (add ? dw[9 * i + k] : 0) + ((const float *)&g[k])[i];
}

/* ---- all shapes, on all devices, tile by tile ---- */

/* Must match any_shape in cl/winograd.c. */
typedef struct any_shape {
    ulong images, chunks;
    int in_c, in_h, in_w, out_c, out_h, out_w, pad_h, pad_w;
    int lanes;         /* of u: channels of y, rounded up */
    int samples, high; /* dw: as above */
    int bias, relu;
} any_shape;

/* to = the square of `side` x `side` pixels at (h, w); 0 outside the plane */
static void square_of(float *to, const int side, __global const stored *plane, int height, int width, int h,
                      int w) {
    for (int i = h; i < h + side; i++)
        for (int j = w; j < w + side; j++)
            *to++ = i >= 0 && i < height && j >= 0 && j < width ? number(plane[i * width + j]) : 0;
}

/* v = B^T d B of the tile of x whose outputs start at (r, s) */
static void inputs_of(float v[4][4], __global const stored *plane, int r, int s, any_shape t) {
    float d[4][4], half_done[4][4];
    square_of(d[0], 4, plane, t.in_h, t.in_w, r - t.pad_h, s - t.pad_w);
    for (int j = 0; j < 4; j++) BY_B(half_done[0] + j, 4, d[0][j], d[1][j], d[2][j], d[3][j]);
    for (int i = 0; i < 4; i++)
        BY_B(v[i], 1, half_done[i][0], half_done[i][1], half_done[i][2], half_done[i][3]);
}

/* y for GS_VECTOR channels; work-item (tile, channels of an image) */
__kernel GS_OF_VECTORS void winograd_any_forward(__global flow *y, ulong y_at, __global const stored *x,
                                                 ulong x_at, __global const float *u,
                                                 __global const float *bias, ulong bias_at, any_shape t) {
    const int columns = (t.out_w + 1) / 2, blocks = (t.out_c + GS_VECTOR - 1) / GS_VECTOR,
              tile = get_global_id(0), down = tile / columns, r = 2 * down, s = 2 * (tile - down * columns);
    if (r >= t.out_h) return;
    for (size_t row = get_global_id(1); row < t.images * blocks; row += get_global_size(1)) {
        const size_t image = row / blocks;
        const int o = (int)(row - image * blocks) * GS_VECTOR;
        vec m[4][4], half_done[2][4], out[2][2];
        for (int p = 0; p < PLACES; p++) m[p / 4][p % 4] = 0;
        for (int c = 0; c < t.in_c; c++) {
            float v[4][4];
            inputs_of(v, x + x_at + (image * t.in_c + c) * t.in_h * t.in_w, r, s, t);
            for (int p = 0; p < PLACES; p++)
                m[p / 4][p % 4] = fma((vec)(v[p / 4][p % 4]),
                                      load(u + ((size_t)p * t.in_c + c) * t.lanes + o), m[p / 4][p % 4]);
        }
        for (int j = 0; j < 4; j++) BY_A_T(half_done[0] + j, 4, m[0][j], m[1][j], m[2][j], m[3][j]);
        for (int i = 0; i < 2; i++)
            BY_A_T(out[i], 1, half_done[i][0], half_done[i][1], half_done[i][2], half_done[i][3]);
        for (int i = 0; i < 2 && r + i < t.out_h; i++)
            for (int k = 0; k < 2 && s + k < t.out_w; k++)
                for (int j = 0; j < GS_VECTOR && o + j < t.out_c; j++) {
                    const float value = ((const float *)&out[i][k])[j] + (t.bias ? bias[bias_at + o + j] : 0);
                    store_one(t.relu ? OF_RELU(value < 0 ? 0 : value) : value,
                              y + y_at + ((image * t.out_c + o + j) * t.out_h + r + i) * t.out_w + s + k);
                }
    }
}

/* part[chunk] = du; work-item (pair of channels, chunk) */
__kernel void winograd_any_weights(__global float *part, __global const stored *dy, ulong dy_at,
                                   __global const stored *x, ulong x_at, any_shape t) {
    const size_t pair = get_global_id(0), pairs = (size_t)t.in_c * t.out_c, chunk = get_global_id(1),
                 last = t.images * (chunk + 1) / t.chunks;
    if (pair >= pairs) return;
    const size_t o = pair / t.in_c, c = pair - o * t.in_c;
    float du[PLACES] = {0};
    for (size_t begin = t.images * chunk / t.chunks; begin < last; begin += t.samples)
        for (int top = 0; top < t.out_h; top += 2 * t.high) {
            float sum[PLACES] = {0};
            for (size_t image = begin; image < min(begin + t.samples, last); image++)
                for (int r = top; r < min(top + 2 * t.high, t.out_h); r += 2)
                    for (int s = 0; s < t.out_w; s += 2) {
                        float v[4][4], g[2][2], half_done[4][2], n[4][4];
                        inputs_of(v, x + x_at + (image * t.in_c + c) * t.in_h * t.in_w, r, s, t);
                        square_of(g[0], 2, dy + dy_at + (image * t.out_c + o) * t.out_h * t.out_w, t.out_h,
                                  t.out_w, r, s);
                        for (int j = 0; j < 2; j++) BY_A(half_done[0] + j, 2, g[0][j], g[1][j]);
                        for (int i = 0; i < 4; i++) BY_A(n[i], 1, half_done[i][0], half_done[i][1]);
                        for (int p = 0; p < PLACES; p++)
                            sum[p] = fma(n[p / 4][p % 4], v[p / 4][p % 4], sum[p]);
                    }
            for (int p = 0; p < PLACES; p++) du[p] += sum[p];
        }
    for (int p = 0; p < PLACES; p++) part[(chunk * PLACES + p) * pairs + pair] = du[p];
}
