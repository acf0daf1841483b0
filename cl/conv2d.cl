#include "tile.clh"

/* Convolution without im2col.
 *
 * The usual way copies every window of x into the column of a matrix and multiplies that by w; for a 3 x 3 kernel the
 * matrix is nine times as large as x, and has to be written and read. But its rows are already in memory, if
 * only x is stored together with its padding: with stride 1, the row for (channel c, kernel place u, v) is the padded
 * plane of c itself, seen from u rows further down and v columns further right. So the product reads B(k, position) at
 *
 *     x[image + place[k] + r grid_w + s]        for k = (c, u, v), position = (r, s)
 *
 * and all that has to be made are the padded planes and the table `place`.
 *
 * With a stride the plane is split into stride_h x stride_w planes ("phases"), one for each remainder of the pixel's
 * place modulo the stride; inside each of them the windows again move by 1:
 *
 *     stride 2, one row of x:    0 1 2 3 4 5 6 7   ->   0 2 4 6   (v = 0, 2, ..)
 *                                                       1 3 5 7   (v = 1, 3, ..)
 *
 * All planes, those of dy too, have the same grid of grid_h x grid_w elements, chosen so large that the zeros at the end
 * of one row (one plane) are the padding before the next. A last plane of ones makes b a weight like the others, whose
 * input is always 1. So there are three products:
 *
 *     y  = w  x     B from x's planes
 *     dw = dy x^T   summed over positions and images; both contiguous along the positions
 *     dx = w^T dy   the same as y, from dy's planes seen from u rows further up and v columns further left, computed
 *                   for each phase of x with the kernel places that fall on it
 */

/* ---- making the planes and the tables ---- */

/* As gs_cl_planes in cl/conv2d.c. */
typedef struct planes {
    ulong plane, image; /* floats from plane to plane, from image to image */
    ulong lead, slack;  /* zeros before the first plane and after the last one */
    int c, h, w;        /* of the tensor that is copied */
    int stride_h, stride_w, pad_h, pad_w;
    int grid_h, grid_w;
    int ones; /* 1: a plane of ones after each image's others */
} planes;

/* to = the planes of `from`, a tensor (n, c, h, w); work-item (plane of the image, row of it, image) */
__kernel void conv2d_planes(__global float *to, __global const float *from, ulong from_at, planes p) {
    const int per_image = p.c * p.stride_h * p.stride_w + p.ones, number = GS_PLANE;
    const size_t image = get_global_id(2), images = get_global_size(2);
    if (number >= per_image) return;
    const int phase = number / p.stride_w, channel = phase / p.stride_h;
    const int phase_h = rest(phase, p.stride_h), phase_w = rest(number, p.stride_w);

    /* columns begin .. end - 1 of the plane lie inside of the tensor */
    const int left = p.pad_w - phase_w, right = p.w + left;
    const int begin = left > 0 ? min((left + p.stride_w - 1) / p.stride_w, p.grid_w) : 0;
    const int end = right > 0 ? min((right + p.stride_w - 1) / p.stride_w, p.grid_w) : 0;
    const float outside = channel >= p.c ? 1.0f : 0.0f;

    __global float *plane = to + p.lead + image * p.image + number * p.plane;
    for (int r = GS_ROW; r < p.grid_h; r += GS_ROW_STEP) {
        const long h = (long)r * p.stride_h + phase_h - p.pad_h;
        const bool inside = h >= 0 && h < p.h && channel < p.c;
        const int b = inside ? begin : p.grid_w, e = inside ? end : p.grid_w;
        __global float *row = plane + (size_t)r * p.grid_w;
        __global const float *x = from + from_at + ((image * p.c + channel) * p.h + h) * p.w;
        if (p.stride_w == 1)
            for (int s = b + GS_LANE; s < e; s += GS_LANES) row[s] = x[s - left];
        else
            for (int s = b + GS_LANE; s < e; s += GS_LANES) row[s] = x[(long)s * p.stride_w - left];
        for (int s = GS_LANE; s < b; s += GS_LANES) row[s] = outside;
        for (int s = e + GS_LANE; s < p.grid_w; s += GS_LANES) row[s] = outside;
    }

    /* what is left of the plane, and of the buffer */
    if (GS_ROW != 0) return;
    for (size_t i = (size_t)p.grid_h * p.grid_w + GS_LANE; i < p.plane; i += GS_LANES) plane[i] = outside;
    if (number != 0 || image != 0) return;
    for (size_t i = GS_LANE; i < p.lead; i += GS_LANES) to[i] = 0;
    for (size_t i = GS_LANE; i < p.slack; i += GS_LANES) to[p.lead + images * p.image + i] = 0;
}

/* place[k] for y and dw, k = (c, u, v); the last one is that of the plane of ones */
__kernel void conv2d_places_x(__global int *place, ulong place_at, int count, int kernel_h, int kernel_w,
                              planes p) {
    const int k = get_global_id(0);
    if (k >= count) return;
    const int row = k / kernel_w, v = rest(k, kernel_w), u = rest(row, kernel_h), channel = row / kernel_h;
    const int number = (channel * p.stride_h + rest(u, p.stride_h)) * p.stride_w + rest(v, p.stride_w);
    place[place_at + k] = k == count - 1 ? p.c * p.stride_h * p.stride_w * (int)p.plane
                                         : number * (int)p.plane + u / p.stride_h * p.grid_w + v / p.stride_w;
}

/* place[k] for dx, k = (o, u, v): u and v count the kernel places that fall on one phase, taps_h x taps_w of them */
__kernel void conv2d_places_dy(__global int *place, ulong place_at, int count, int taps_h, int taps_w,
                               planes p) {
    const int k = get_global_id(0);
    if (k >= count) return;
    const int row = k / taps_w, v = rest(k, taps_w), u = rest(row, taps_h), o = row / taps_h;
    place[place_at + k] = (int)p.lead + o * (int)p.plane - u * p.grid_w - v;
}

/* w^T for dx: row (c, phase_h, phase_w), column (o, u, v) = w[o][c][u stride_h + phase_h][v stride_w + phase_w], or 0
 * where the kernel is smaller than that; work-item (column, row) */
__kernel void conv2d_transpose_w(__global float *to, __global const float *w, ulong w_at, int columns,
                                 int in_c, int kernel_h, int kernel_w, int taps_h, int taps_w, int stride_h,
                                 int stride_w) {
    const int column = get_global_id(0), row = get_global_id(1);
    if (column >= columns) return;
    const int o_u = column / taps_w, c_phase = row / stride_w;
    const int v = rest(column, taps_w) * stride_w + rest(row, stride_w);
    const int u = rest(o_u, taps_h) * stride_h + rest(c_phase, stride_h);
    const size_t o = o_u / taps_h, c = c_phase / stride_h;
    to[(size_t)row * columns + column] =
        u < kernel_h && v < kernel_w ? w[w_at + ((o * in_c + c) * kernel_h + u) * kernel_w + v] : 0.0f;
}

/* ---- y = w x, and dx = w^T dy ---- */

/* As gs_cl_conv2d_product in cl/conv2d.c. */
typedef struct product {
    ulong image;                                          /* floats from image to image in x */
    int m, k;                                             /* rows of w; length of the sum */
    int grid_w, first_row, first_column, rows, columns;   /* the positions that are computed */
    int h, w, stride_h, stride_w, pad_h, pad_w, has_bias; /* of the result, whose planes may be phases */
} product;

/* Where position (r, ..) of row m of the product lies in the result: the start of a row of it, or NULL if outside. */
static __global float *result_row(__global float *y, ulong image, int m, int r, product p) {
    const int phase = m / p.stride_w, channel = phase / p.stride_h;
    const int channels = p.m / (p.stride_h * p.stride_w);
    const int h = r * p.stride_h + rest(phase, p.stride_h) - p.pad_h;
    if (h < 0 || h >= p.h) return 0;
    return y + ((image * channels + channel) * p.h + h) * p.w;
}

#ifdef GS_GPU

__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
conv2d_product(__global float *y, ulong y_at, __global const float *w, ulong w_at, __global const float *bias,
               ulong bias_at, __global const float *x, __global const int *place, ulong place_at, product p) {
    __local float a[STEP][GS_TILE + 1], b[STEP][GS_TILE + 1];
    __local int position[GS_TILE];
    const int n0 = get_group_id(0) * GS_TILE, m0 = get_group_id(1) * GS_TILE, positions = p.rows * p.columns;
    const ulong image = get_group_id(2);
    y += y_at;
    w += w_at;
    x += image * p.image;
    place += place_at;
    for (int j = get_local_id(0); j < GS_TILE; j += GS_GROUP) {
        const int at = min(n0 + j, positions - 1);
        position[j] = (p.first_row + at / p.columns) * p.grid_w + p.first_column + rest(at, p.columns);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum[EACH][EACH] = {{0}};
#define W_AT(row, at) w[(size_t)(row)*p.k + (at)]
#define X_AT(at, column) x[place[at] + position[(column)-n0]]
    TILE_PRODUCT(sum, a, b, m0, n0, p.m, positions, 0, p.k, W_AT, true, X_AT, false)
#undef X_AT
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int m = m0 + TILE_ROW(i), at = n0 + TILE_COLUMN(j);
            if (m >= p.m || at >= positions) continue;
            __global float *to = result_row(y, image, m, p.first_row + at / p.columns, p);
            const int column =
                (p.first_column + rest(at, p.columns)) * p.stride_w + rest(m, p.stride_w) - p.pad_w;
            if (to && column >= 0 && column < p.w)
                to[column] = sum[i][j] + (p.has_bias ? bias[bias_at + m] : 0);
        }
}

#else

/* Store one vector of row m at position (r, s). */
static void store_positions(vec v, __global float *to, int m, int s, product p) {
    const int column = s * p.stride_w + rest(m, p.stride_w) - p.pad_w;
    if (p.stride_w == 1) {
        if (column < p.w) store_first(v, to + column, p.w - column);
        return;
    }
    float part[GS_VECTOR];
    GS_PASTE(vstore, GS_VECTOR)(v, 0, part);
    for (int j = 0; j < GS_VECTOR; j++) {
        const int at = column + j * p.stride_w;
        if (at >= 0 && at < p.w) to[at] = part[j];
    }
}

/* The "broadcast" tile of tile.clh: GS_ROWS rows of the product x two vectors of positions in one image. They are
 * neighbours in one row of the grid, or, if `tall`, lie in two rows of it, one below the other. What is loaded beyond
 * the end of the row, or twice where the rows' number is odd, is computed, and not stored. */
static void product_tile(__global float *y, __global const float *w, __global const float *bias,
                         __global const float *x, __global const int *place, product p, const bool tall) {
    const int wide = tall ? GS_VECTOR : 2 * GS_VECTOR, high = tall ? 2 : 1;
    const int m0 = get_global_id(0) * GS_ROWS, across = (p.columns + wide - 1) / wide;
    const int tile = get_global_id(1), r = p.first_row + tile / across * high,
              s = p.first_column + rest(tile, across) * wide;
    const bool one_row = tall && r + 1 >= p.first_row + p.rows;
    const int second = one_row ? 0 : tall ? p.grid_w : GS_VECTOR;
    const ulong image = get_global_id(2);
    x += image * p.image + (size_t)r * p.grid_w + s;
    __global const float *from[GS_ROWS];
    vec sum[GS_ROWS][2];
#pragma unroll
    for (int i = 0; i < GS_ROWS; i++) {
        const int m = min(m0 + i, p.m - 1);
        from[i] = w + (size_t)m * p.k;
        sum[i][0] = sum[i][1] = (vec)(p.has_bias ? bias[m] : 0);
    }
#pragma unroll GS_UNROLL
    for (int k = 0; k < p.k; k++) {
        const vec b0 = load(x + place[k]), b1 = load(x + place[k] + second);
#pragma unroll
        for (int i = 0; i < GS_ROWS; i++) {
            const vec a = (vec)(from[i][k]);
            sum[i][0] = fma(a, b0, sum[i][0]);
            sum[i][1] = fma(a, b1, sum[i][1]);
        }
    }
#pragma unroll
    for (int i = 0; i < GS_ROWS; i++) {
        if (m0 + i >= p.m) continue;
        __global float *to = result_row(y, image, m0 + i, r, p);
        if (to) store_positions(sum[i][0], to, m0 + i, s, p);
        if (one_row) continue;
        if (tall) to = result_row(y, image, m0 + i, r + 1, p);
        if (to) store_positions(sum[i][1], to, m0 + i, tall ? s : s + GS_VECTOR, p);
    }
}

__kernel void conv2d_product_tall(__global float *y, ulong y_at, __global const float *w, ulong w_at,
                                  __global const float *bias, ulong bias_at, __global const float *x,
                                  __global const int *place, ulong place_at, product p) {
    product_tile(y + y_at, w + w_at, bias + bias_at, x, place + place_at, p, true);
}

__kernel void conv2d_product_wide(__global float *y, ulong y_at, __global const float *w, ulong w_at,
                                  __global const float *bias, ulong bias_at, __global const float *x,
                                  __global const int *place, ulong place_at, product p) {
    product_tile(y + y_at, w + w_at, bias + bias_at, x, place + place_at, p, false);
}

#endif

/* ---- dw = dy x^T ---- */

/* As gs_cl_conv2d_weights in cl/conv2d.c. */
typedef struct weights {
    ulong lead, plane, dy_image, x_image; /* of the two tensors' planes */
    ulong images, group; /* how many, and how many of them to one work-item's (group's) sum */
    int m, n, positions; /* dw's rows and columns, db's column included; length of the sum in an image */
} weights;

/* part[group][o][q] = sum over the group's images and over positions of dy[o][position] x[q][position] */

#ifdef GS_GPU

__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
conv2d_weights(__global float *part, __global const float *dy, __global const float *x,
               __global const int *place, ulong place_at, weights p) {
    __local float a[STEP][GS_TILE + 1], b[STEP][GS_TILE + 1];
    const int n0 = get_group_id(0) * GS_TILE, m0 = get_group_id(1) * GS_TILE;
    const ulong group = get_group_id(2), last = min((group + 1) * p.group, p.images);
    place += place_at;
    float sum[EACH][EACH] = {{0}};
    for (ulong image = group * p.group; image < last; image++) {
        __global const float *dy_image = dy + p.lead + image * p.dy_image, *x_image = x + image * p.x_image;
#define DY_AT(row, at) dy_image[(row)*p.plane + (at)]
#define X_AT(at, column) x_image[place[column] + (at)]
        TILE_PRODUCT(sum, a, b, m0, n0, p.m, p.n, 0, p.positions, DY_AT, true, X_AT, true)
#undef X_AT
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int m = m0 + TILE_ROW(i), n = n0 + TILE_COLUMN(j);
            if (m < p.m && n < p.n) part[(group * p.m + m) * p.n + n] = sum[i][j];
        }
}

#else

/* The "dot" tile of tile.clh. The last vector goes beyond the last position, where dy's plane has zeros. */
__kernel void conv2d_weights(__global float *part, __global const float *dy, __global const float *x,
                             __global const int *place, ulong place_at, weights p) {
    const int n0 = get_global_id(0) * GS_DOT_COLUMNS, m0 = get_global_id(1) * GS_DOT_ROWS;
    const ulong group = get_global_id(2), last = min((group + 1) * p.group, p.images);
    vec sum[GS_DOT_ROWS][GS_DOT_COLUMNS];
    ulong a[GS_DOT_ROWS], b[GS_DOT_COLUMNS];
#pragma unroll
    for (int r = 0; r < GS_DOT_ROWS; r++) {
        a[r] = p.lead + min(m0 + r, p.m - 1) * p.plane;
#pragma unroll
        for (int j = 0; j < GS_DOT_COLUMNS; j++) sum[r][j] = 0;
    }
#pragma unroll
    for (int j = 0; j < GS_DOT_COLUMNS; j++) b[j] = place[place_at + min(n0 + j, p.n - 1)];
    for (ulong image = group * p.group; image < last; image++) {
        __global const float *dy_image = dy + image * p.dy_image, *x_image = x + image * p.x_image;
        for (int k = 0; k < p.positions; k += GS_VECTOR)
            DOT_STEP(sum, load(dy_image + a[r] + k), load(x_image + b[j] + k))
    }
    __global float *to = part + (group * p.m + m0) * p.n + n0;
#pragma unroll
    for (int r = 0; r < GS_DOT_ROWS; r++)
        if (m0 + r < p.m)
            store_first4(sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]), to + (size_t)r * p.n, p.n - n0);
}

#endif

/* dw += the sum of the groups, in order, and db += that of the last column if there is one more than dw has; work-item
 * (column, row) */
__kernel void conv2d_weights_sum(__global float *dw, ulong dw_at, __global float *db, ulong db_at,
                                 __global const float *part, ulong groups, int n, int columns) {
    const size_t column = get_global_id(0), row = get_global_id(1), m = get_global_size(1);
    if (column >= n) return;
    float sum = 0;
    for (ulong g = 0; g < groups; g++) sum += part[(g * m + row) * n + column];
    if (column < columns)
        dw[dw_at + row * columns + column] += sum;
    else
        db[db_at + row] += sum;
}
