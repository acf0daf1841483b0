#include "conv2d_planes.clh"
#include "conv2d_sum.clh"

/* Convolution on a GPU, without im2col. (On a CPU: conv2d_rows.cl.)
 *
 * The usual method copies every window of x into a column of a matrix and multiplies that by w. For a 3 x 3 kernel the
 * matrix is nine times as large as x, and must be written and read. But its rows are already in memory if x is stored
 * with its padding: with stride 1, the row for (channel c, kernel position u, v) is the padded plane of c itself, read
 * u rows further down and v columns further right. So the product reads B(k, position) at
 *
 *     x[image + place[k] + r grid_w + s]        for k = (c, u, v), position = (r, s)
 *
 * and only the padded planes and the table `place` must be computed. Sums are in the order of cpu/plain/conv2d.c.
 *
 * With a stride the plane is split into stride_h x stride_w planes ("phases"), one for each remainder of the pixel's
 * coordinates modulo the stride; within each phase the windows again move by 1:
 *
 *     stride 2, one row of x:    0 1 2 3 4 5 6 7   ->   0 2 4 6   (v = 0, 2, ..)
 *                                                       1 3 5 7   (v = 1, 3, ..)
 *
 * All planes, including those of dy, have the same grid of grid_h x grid_w elements, large enough that the zeros at the
 * end of one row (or plane) are the padding before the next. A final plane of ones turns b into an ordinary weight
 * whose input is always 1. So there are three products:
 *
 *     y  = w  x     B from x's planes
 *     dw = dy x^T   summed over positions and images; dy and x are contiguous along the positions
 *     dx = w^T dy   like y, from dy's planes read u rows further up and v columns further left, computed for
 *                   each phase of x with the kernel positions that fall on it; one part for each v
 */

/* Must match `product` in cl/conv2d.c. */
typedef struct product {
    ulong image;  /* floats from image to image in x */
    int m, w_row; /* rows of w, and from one to the next */
    int first, parts,
        each; /* y = start + the sum of `parts` sums, each of `each` terms, from term `first` on */
    float start;
    int grid_w, first_row, first_column, rows, columns; /* the positions to compute */
    int x_columns; /* part v of column s counts only if x has column s - v: 0 <= s - v < x_columns */
    int h, w;      /* of the result; (r, s) is its row r stride_h + first_h and column s stride_w + first_w */
    int stride_h, stride_w, first_h, first_w;
    int has_bias, relu; /* each sum starts with the bias */
} product;

/* w is in the order of `place`, whose pairs of numbers start with a row of x (fill_places in cl/conv2d.c). */
__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
conv2d_product(__global flow *y, ulong y_at, __global const stored *w, ulong w_at, __global const float *bias,
               ulong bias_at, __global const stored *x, __global const int *place, ulong place_at,
               product p) {
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
    float total[EACH][EACH];
    EACH_ELEMENT total[i][j] = p.start;
#define W_AT(row, at) number(w[(size_t)(row)*p.w_row + (at)])
#define X_AT(at, column) number(x[place[2 * (at)] + position[(column)-n0]])
    for (int v = 0; v < p.parts; v++) {
        float sum[EACH][EACH];
        EACH_ELEMENT sum[i][j] = p.has_bias ? bias[bias_at + min((int)(m0 + TILE_ROW(i)), p.m - 1)] : 0;
        const int begin = p.first + v * p.each;
        TILE_PRODUCT(sum, a, b, m0, n0, p.m, positions, begin, begin + p.each, W_AT, true, X_AT, false)
        EACH_ELEMENT {
            const int s = p.first_column + rest(n0 + TILE_COLUMN(j), p.columns);
            if (s >= v && s - v < p.x_columns) total[i][j] += sum[i][j];
        }
    }
#undef X_AT
    EACH_ELEMENT {
        const int m = m0 + TILE_ROW(i), at = n0 + TILE_COLUMN(j), r = p.first_row + at / p.columns,
                  s = p.first_column + rest(at, p.columns), row = r * p.stride_h + p.first_h,
                  column = s * p.stride_w + p.first_w;
        if (m >= p.m || at >= positions || row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
        const float value = total[i][j];
        store_one(p.relu ? OF_RELU(value < 0 ? 0 : value) : value,
                  y + ((image * p.m + m) * p.h + row) * p.w + column);
    }
}

/* Must match `weights` in cl/conv2d.c. */
typedef struct weights {
    ulong lead, plane, dy_image, x_image; /* for the planes of dy and x */
    ulong images, group;                  /* how many; how many of them each work-group sums */
    int m, n, positions; /* dw's rows and columns, including db's column; length of the sum in an image */
} weights;

/* part[group][o][q] = sum over the group's images and all positions of dy[o][position] x[q][position] */

__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
conv2d_weights(__global float *part, __global const stored *dy, __global const stored *x,
               __global const int *place, ulong place_at, weights p) {
    __local float a[STEP][GS_TILE + 1], b[STEP][GS_TILE + 1];
    const int n0 = get_group_id(0) * GS_TILE, m0 = get_group_id(1) * GS_TILE;
    const ulong group = get_group_id(2), last = min((group + 1) * p.group, p.images);
    place += place_at;
    float sum[EACH][EACH] = {{0}};
    for (ulong image = group * p.group; image < last; image++) {
        __global const stored *dy_image = dy + p.lead + image * p.dy_image, *x_image = x + image * p.x_image;
#define DY_AT(row, at) number(dy_image[(row)*p.plane + (at)])
#define X_AT(at, column) number(x_image[place[2 * (column)] + (at)])
        TILE_PRODUCT(sum, a, b, m0, n0, p.m, p.n, 0, p.positions, DY_AT, true, X_AT, true)
#undef X_AT
    }
    EACH_ELEMENT {
        const int m = m0 + TILE_ROW(i), n = n0 + TILE_COLUMN(j);
        if (m < p.m && n < p.n) part[(group * p.m + m) * p.n + place[2 * n + 1]] = sum[i][j];
    }
}
