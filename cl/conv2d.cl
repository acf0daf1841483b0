#include "conv2d_planes.clh"

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

/* ---- y = w x, and dx = w^T dy ---- */

/* As gs_cl_conv2d_product in cl/conv2d.c. */
typedef struct product {
    ulong image;                                        /* floats from image to image in x */
    int m, k;                                           /* rows of w; length of the sum */
    int grid_w, first_row, first_column, rows, columns; /* the positions that are computed */
    int h, w, stride_h, stride_w, pad_h, pad_w;         /* of the result, whose planes may be phases */
    int has_bias, relu;                                 /* what is done to it at the end */
    int tall, across; /* CPU: tiles are two rows high, or two vectors wide; so many make a row */
    int high;         /* CPU: rows of tiles that one work-item computes */
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
            const float value = sum[i][j] + (p.has_bias ? bias[bias_at + m] : 0);
            if (to && column >= 0 && column < p.w) to[column] = p.relu && value < 0 ? 0 : value;
        }
}

#else

/* Store one vector of row m at position (r, s): what of it lies in the result. */
static void store_positions(const float *part, __global float *y, ulong image, int m, int r, int s,
                            product p) {
    const int column = s * p.stride_w + rest(m, p.stride_w) - p.pad_w;
    __global float *to = result_row(y, image, m, r, p);
    if (!to) return;
    for (int j = 0; j < GS_VECTOR; j++) {
        const int at = column + j * p.stride_w;
        if (at >= 0 && at < p.w) to[at] = part[j];
    }
}

/* What a work-item computes: tiles of `high` rows of the product x two vectors of positions in one image ("broadcast" in
 * tile.clh). The two vectors are neighbours in one row of the grid, or, if `tall`, lie in two rows of it, one below the
 * other. Tiles at the right and the lower edge move back until they fit: what two of them compute is the same. */
typedef struct tile {
    int r[2], s[2]; /* where the two vectors begin */
} tile;
static tile tile_at(int row, int across, product p) {
    const int last_row = p.first_row + p.rows - 1, last = p.first_column + max(p.columns - GS_VECTOR, 0);
    tile t;
    t.r[0] = p.first_row + row * (1 + p.tall);
    t.r[1] = min(t.r[0] + p.tall, last_row);
    t.s[0] = p.first_column + across * GS_VECTOR * (2 - p.tall);
    t.s[1] = min(t.s[0] + GS_VECTOR * (1 - p.tall), last);
    t.s[0] = min(t.s[0], last);
    return t;
}

/* always_inline: `high` is then a constant, and the loops over it can be unrolled */
__attribute__((always_inline)) static void product_tiles(__global float *y, __global const float *w,
                                                         __global const float *bias, __global const float *x,
                                                         __global const int *place, product p,
                                                         const int high) {
    const int m0 = get_global_id(0) * high;
    const ulong image = get_global_id(2);
    x += image * p.image;
    __global const float *from[GS_ROWS];
#pragma unroll
    for (int i = 0; i < high; i++) from[i] = w + (size_t)min(m0 + i, p.m - 1) * p.k;

    int row = get_global_id(1) * p.high, across = 0;
    const int end = min(row + p.high, p.tall ? (p.rows + 1) / 2 : p.rows);
    while (row < end) {
        const tile t = tile_at(row, across, p);
        __global const float *x0 = x + (size_t)t.r[0] * p.grid_w + t.s[0],
                             *x1 = x + (size_t)t.r[1] * p.grid_w + t.s[1];
        vec sum[GS_ROWS][2];
#pragma unroll
        for (int i = 0; i < high; i++)
            sum[i][0] = sum[i][1] = (vec)(p.has_bias ? bias[min(m0 + i, p.m - 1)] : 0);
#pragma unroll GS_UNROLL
        for (int k = 0; k < p.k; k++) {
            const vec b0 = load(x0 + place[k]), b1 = load(x1 + place[k]);
#pragma unroll
            for (int i = 0; i < high; i++) {
                const vec a = (vec)(from[i][k]);
                sum[i][0] = fma(a, b0, sum[i][0]);
                sum[i][1] = fma(a, b1, sum[i][1]);
            }
        }
        if (p.relu) {
#pragma unroll
            for (int i = 0; i < high; i++) {
                sum[i][0] = sum[i][0] < 0 ? 0 : sum[i][0];
                sum[i][1] = sum[i][1] < 0 ? 0 : sum[i][1];
            }
        }
        /* Without strides the rows of the result follow each other: where one is shorter than a vector, what was computed
         * too much falls into the next ones, which this work-item writes later. Else, and at the end: one by one. */
        const int at0 = (t.r[0] - p.pad_h) * p.w + t.s[0] - p.pad_w,
                  at1 = (t.r[1] - p.pad_h) * p.w + t.s[1] - p.pad_w;
        if (p.stride_h == 1 && p.stride_w == 1 && at1 + GS_VECTOR <= p.h * p.w) {
            __global float *to = y + (image * p.m + m0) * p.h * p.w;
#pragma unroll
            for (int i = 0; i < high; i++, to += p.h * p.w)
                if (m0 + i < p.m) {
                    store(sum[i][0], to + at0);
                    store(sum[i][1], to + at1);
                }
        } else {
            float part[GS_ROWS][2][GS_VECTOR];
#pragma unroll
            for (int i = 0; i < high; i++) {
                GS_PASTE(vstore, GS_VECTOR)(sum[i][0], 0, part[i][0]);
                GS_PASTE(vstore, GS_VECTOR)(sum[i][1], 0, part[i][1]);
            }
#pragma unroll 1
            for (int i = 0; i < min(high, p.m - m0); i++)
#pragma unroll 1
                for (int j = 0; j < 2; j++) store_positions(part[i][j], y, image, m0 + i, t.r[j], t.s[j], p);
        }
        if (++across == p.across) {
            across = 0;
            row++;
        }
    }
}

__kernel void conv2d_product(__global float *y, ulong y_at, __global const float *w, ulong w_at,
                             __global const float *bias, ulong bias_at, __global const float *x,
                             __global const int *place, ulong place_at, product p) {
    product_tiles(y + y_at, w + w_at, bias + bias_at, x, place + place_at, p, GS_ROWS);
}

/* lower tiles, for where they fit m better: 6 channels make one of them */
__kernel void conv2d_product_low(__global float *y, ulong y_at, __global const float *w, ulong w_at,
                                 __global const float *bias, ulong bias_at, __global const float *x,
                                 __global const int *place, ulong place_at, product p) {
    product_tiles(y + y_at, w + w_at, bias + bias_at, x, place + place_at, p, GS_ROWS_LOW);
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

/* dw = the sum of the groups, in order, and db = that of the last column if there is one more than dw has, or += with
 * `add`; work-item (GS_VECTOR columns, row) */
__kernel void conv2d_weights_sum(__global float *dw, ulong dw_at, __global float *db, ulong db_at,
                                 __global const float *part, ulong groups, int n, int columns, int add) {
    const size_t column = GS_FIRST, row = get_global_id(1), each = n * get_global_size(1);
    if (column >= n) return;
    part += row * n;
    dw += dw_at + row * columns;
    if (column + GS_VECTOR <= columns) {
        vec sum = 0;
        for (size_t g = 0; g < groups; g++) sum += load(part + g * each + column);
        store(add ? load(dw + column) + sum : sum, dw + column);
        return;
    }
    for (size_t i = column; i < min(column + GS_VECTOR, (size_t)n); i++) {
        float sum = 0;
        for (size_t g = 0; g < groups; g++) sum += part[g * each + i];
        __global float *to = i < columns ? dw + i : db + db_at + row;
        *to = add ? *to + sum : sum;
    }
}
