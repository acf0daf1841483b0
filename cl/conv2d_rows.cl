#define POOLS_FLOATS
#include "conv2d_rows.clh"
#include "conv2d_sum.clh"
#include "max_pool2d_2x2.clh"

/* Convolution on a CPU, as in cpu/conv2d.c: image by image, so that the image a work-item is processing stays in its
 * cache. cpu/conv2d_rows.h explains the planes of an image, which hold the rows X[at[k] + p] of the matrix of patches;
 * cpu/conv2d.c explains the products with that matrix, which are the same here.
 *
 * If relu and a max pooling follow, y is four times smaller. Forward then computes one image's y in separate memory,
 * and pools it while it is still cached. Backward spreads an image's dy to the elements of y that the pooling selected,
 * and also uses the result while it is still cached. */

/* ---- y = w X, and dX = w^T dy ---- */

enum { WIDE = 3 }; /* maximum number of vectors in a row of a tile */

typedef struct product {
    int rows, depth, columns;
    size_t y_row;               /* distance between rows of y, in floats */
    __global const float *w;    /* tiles of rows, see pack */
    __global const float *bias; /* NULL, or one per row */
    __global const int *place;  /* for each k: where its row of X starts, and its index in a row of w */
    int relu;
} product;

/* to[tile][k][i] = w(tile high + i, k), preceded by the biases of the tile's rows, so that a tile is read in one
 * stream; past the end, the last row is repeated. row: where each row of w starts. */
static void pack(__global float *to, __global const stored *w, __global const int *row, product p, int high) {
    for (int first = 0; first < p.rows; first += high, to += high * (p.depth + 1))
        for (int i = 0; i < high; i++) {
            const int from = min(first + i, p.rows - 1);
            to[i] = p.bias ? p.bias[from] : 0;
            for (int k = 0; k < p.depth; k++)
                to[(k + 1) * high + i] = number(w[row[from] + p.place[2 * k + 1]]);
        }
}

/* All rows of y for `wide` vectors of columns, in tiles of `high` rows ("broadcast" in tile.clh). at: where the vectors
 * start. always_inline makes high and wide constants, so the unrolled loops keep only iterations below them. */
#define EACH_ROW _Pragma("unroll") for (int i = 0; i < GS_ROWS; i++) if (i < high)
#define EACH_VECTOR _Pragma("unroll") for (int j = 0; j < WIDE; j++) if (j < wide)
__attribute__((always_inline)) static void strip(__global float *y, __global const float *x, product p,
                                                 const int column, const int high, const int wide) {
    const int last = max(p.columns - GS_VECTOR, 0);
    __global const float *a = p.w;
    int at[WIDE];
    EACH_VECTOR at[j] = min(column + j * GS_VECTOR, last);
    for (int row = 0; row < p.rows; row += high) {
        vec sum[GS_ROWS][WIDE];
        EACH_ROW EACH_VECTOR sum[i][j] = (vec)(a[i]);
        a += high;
        __global const int *place = p.place, *end = place + 2 * p.depth;
#pragma unroll GS_UNROLL
        for (; place < end; place += 2, a += high) {
            vec b[WIDE];
            EACH_VECTOR b[j] = load(x + *place + at[j]);
            EACH_ROW EACH_VECTOR sum[i][j] = fma((vec)(a[i]), b[j], sum[i][j]);
        }
        if (p.relu) {
            EACH_ROW EACH_VECTOR sum[i][j] = sum[i][j] < 0 ? 0 : sum[i][j];
        }
        __global float *to = y + row * p.y_row;
        if (wide > 1 || p.columns >= GS_VECTOR) {
            EACH_ROW if (row + i < p.rows) {
                EACH_VECTOR store(sum[i][j], to + i * p.y_row + at[j]);
            }
        } else { /* narrower than a vector: one element at a time, through memory */
            float part[GS_ROWS][GS_VECTOR];
            EACH_ROW GS_PASTE(vstore, GS_VECTOR)(sum[i][0], 0, part[i]);
#pragma unroll 1
            for (int i = 0; i < min(high, p.rows - row); i++, to += p.y_row)
#pragma unroll 1
                for (int j = 0; j < p.columns; j++) to[j] = part[i][j];
        }
    }
}

/* Strips of `wide` vectors, then strips of one vector at the right edge, where no wider strip fits. A vector that would
 * pass the edge is moved back so that it overlaps the one before it. */
__attribute__((always_inline)) static void tiles(__global float *y, __global const float *x, product p,
                                                 const int high, const int wide) {
    int column = 0;
    for (; column + GS_VECTOR < p.columns; column += wide * GS_VECTOR) strip(y, x, p, column, high, wide);
    if (column < p.columns) strip(y, x, p, column, high, 1);
}

/* Pool one image: compute y and index from the unpooled y, whose buffer extends past its end. */
static void pool_image(__global flow *y, __global int *index, __global const float *unpooled, conv_rows s) {
    const int h = s.out_h / 2, w = s.out_w / 2, rows = s.out_c * h;
    forward_2x2(y, index, unpooled, rows, rows * w, h, w, s.relu);
}

/* A task is one image. The table starts with offsets for y = w X and dw = dy X^T, for w's rows, and for w^T's. */
GS_ONCE void forward_images(__global flow *y, __global int *index, __global const stored *x,
                            __global const stored *w, __global const float *bias, __global float *scratch,
                            __global const int *table, conv_rows s, GS_TASKS) {
    const size_t in = (size_t)s.in_c * s.in_h * s.in_w, out = (size_t)s.out_c * s.out_h * s.out_w;
    const int depth = s.in_c * s.kernel_h * s.kernel_w;
    __global float *planes = scratch + s.slack, *unpooled = planes + s.size + s.slack,
                   *packed = unpooled + s.unpooled;
    const product p = {.rows = s.out_c,
                       .depth = depth,
                       .columns = s.out_h * s.out_w,
                       .y_row = s.out_h * s.out_w,
                       .w = packed,
                       .bias = s.bias ? bias : 0,
                       .place = table,
                       .relu = s.relu};
    clear(scratch, s.size + 2 * s.slack);
    if (s.unpooled) clear(unpooled + out, s.unpooled - out);
    pack(packed, w, table + 2 * depth, p, s.low ? GS_ROWS_LOW : GS_ROWS);
    GS_EACH_TASK(image) {
        planes_from_image(planes, x + image * in, s);
#ifdef ALL_STORED
        __global float *to = unpooled;
#else
        __global float *to = s.pool ? unpooled : y + image * out;
#endif
        if (s.low)
            tiles(to, planes, p, GS_ROWS_LOW, 3);
        else
            tiles(to, planes, p, GS_ROWS, 2);
        if (s.pool) pool_image(y + image * (out / 4), index + image * (out / 4), unpooled, s);
#ifdef ALL_STORED
        if (!s.pool) store_image(y + image * out, unpooled, out, s.relu);
#endif
    }
}

__kernel GS_OF_VECTORS void conv2d_rows_forward(__global flow *y, ulong y_at, __global int *index,
                                                ulong index_at, __global const stored *x, ulong x_at,
                                                __global const stored *w, ulong w_at,
                                                __global const float *bias, ulong bias_at,
                                                __global float *scratch, __global const int *table,
                                                conv_rows s, GS_TASKS) {
    forward_images(y + y_at, index + index_at, x + x_at, w + w_at, bias + bias_at,
                   scratch + get_group_id(0) * s.memory, table, s, next, first, tasks);
}

/* ---- dw and dx ---- */

/* part[o][k] += sum over images and positions of dy[o][position] X[k][position]: the "dot" tile of tile.clh. The last
 * vector extends past the last position, where dy's plane holds zeros. */
static void add_weights(__global float *part, __global const float *dy, __global const float *x,
                        __global const int *place, int images, conv_rows s) {
    const int depth = s.in_c * s.kernel_h * s.kernel_w, positions = s.out_h * s.out_w;
    for (int o = 0; o < s.out_c; o += GS_DOT_ROWS)
        for (int k = 0; k < depth; k += GS_DOT_COLUMNS) {
            size_t a[GS_DOT_ROWS];
            int b[GS_DOT_COLUMNS];
            vec sum[GS_DOT_ROWS][GS_DOT_COLUMNS];
#pragma unroll
            for (int j = 0; j < GS_DOT_COLUMNS; j++) b[j] = place[2 * min(k + j, depth - 1)];
#pragma unroll
            for (int r = 0; r < GS_DOT_ROWS; r++) {
                a[r] = min(o + r, s.out_c - 1) * s.dy_plane;
#pragma unroll
                for (int j = 0; j < GS_DOT_COLUMNS; j++) sum[r][j] = 0;
            }
            for (int i = 0; i < images; i++) {
                __global const float *dy_image = dy + i * s.out_c * s.dy_plane, *x_image = x + i * s.size;
                for (int at = 0; at < positions; at += GS_VECTOR)
                    DOT_STEP(sum, load(dy_image + a[r] + at), load(x_image + b[j] + at))
            }
#pragma unroll
            for (int r = 0; r < GS_DOT_ROWS; r++)
                if (o + r < s.out_c) {
                    float four[4];
                    vstore4(sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]), 0, four);
                    __global float *to = part + (o + r) * (depth + s.bias);
#pragma unroll
                    for (int j = 0; j < GS_DOT_COLUMNS; j++)
                        if (k + j < depth) to[place[2 * (k + j) + 1]] += four[j];
                }
        }
}

/* The sum of a plane of dy: vector by vector, then the remaining elements. */
static float sum_of_plane(__global const float *from, int count) {
    vec sums = 0;
    int i = 0;
    for (; i + GS_VECTOR <= count; i += GS_VECTOR) sums += load(from + i);
    float sum = sum_of(sums);
    for (; i < count; i++) sum += from[i];
    return sum;
}

/* Copy a plane of dy, zeroing the elements that a relu after y blocks. */
static void copy_plane(__global float *to, __global const stored *dy, __global const stored *relu_y,
                       conv_rows s) {
    const int positions = s.out_h * s.out_w;
    int i = 0;
    for (; i + GS_VECTOR <= positions; i += GS_VECTOR) {
        const vec value = load_stored(dy + i);
        store(s.relu ? (passes_stored(relu_y + i) ? value : 0) : value, to + i);
    }
    for (; i < positions; i++) to[i] = s.relu && !passes(relu_y[i]) ? 0 : number(dy[i]);
}

/* copy_plane for pooled dy: each element goes to its index; all others are 0. Only `room` elements of dy may be read,
 * so at the end of the image's last plane there may be short rows too close to the end for a vector load. The vectors
 * of short rows extend past the plane, where there must be zeros. */
static void spread_plane(__global float *to, __global const stored *dy, __global const stored *relu_y,
                         __global const int *index, int room, conv_rows s) {
    const int h = s.out_h / 2, w = s.out_w / 2, rows = min(h, (int)rows_with_room(room, w));
    backward_2x2(to, dy, relu_y, index, rows, h, w);
    if (w >= GS_VECTOR) return;
    clear(to + 4 * w * rows, 4 * w * (h - rows) + 2 * GS_VECTOR);
    for (int i = rows * w; i < h * w; i++) to[index[i]] = passes(relu_y[i]) ? number(dy[i]) : 0;
}

/* Put one image of dy between margins of zeros; add each plane's sum to db, whose elements are db_row floats apart. */
static void copy_dy(__global float *to, __global const stored *dy, __global const stored *relu_y,
                    __global const int *index, __global float *db, size_t db_row, conv_rows s) {
    const int positions = s.out_h * s.out_w, plane = s.pool ? positions / 4 : positions;
    to += s.margin;
    for (int o = 0; o < s.out_c; o++, to += s.dy_plane, dy += plane, relu_y += plane, index += plane) {
        if (s.pool)
            spread_plane(to, dy, relu_y, index, (s.out_c - o) * plane, s);
        else
            copy_plane(to, dy, relu_y, s);
        if (s.bias) db[o * db_row] += sum_of_plane(to, positions);
    }
}

/* One phase of dX. Only its rows first .. end - 1 belong to the image; the others are padding. The phase uses `taps`
 * rows of the kernel. */
typedef struct phase_of {
    int first, end, taps;
} phase_of;
static phase_of find_phase(int number, conv_rows s) {
    const int before = s.pad_h - number, last = s.in_h - 1 + before;
    phase_of f = {before > 0 ? (before + s.stride_h - 1) / s.stride_h : 0,
                  last < 0 ? 0 : last / s.stride_h + 1,
                  number < s.kernel_h ? (s.kernel_h - 1 - number) / s.stride_h + 1 : 0};
    return f;
}

static product find_product(int number, phase_of f, conv_rows s) {
    const product p = {.rows = s.in_c * s.kernel_w,
                       .depth = s.out_c * f.taps,
                       .columns = (f.end - f.first) * s.out_w,
                       .y_row = s.plane};
    return p;
}

static int packed_size(product p) {
    return (p.rows + GS_ROWS_LOW - 1) / GS_ROWS_LOW * GS_ROWS_LOW * (p.depth + 1);
}

static void pack_phases(__global float *to, __global const stored *w, __global const int *row, conv_rows s) {
    __global const int *place = row + s.in_c * s.kernel_w;
    for (int number = 0; number < s.stride_h; number++) {
        product p = find_product(number, find_phase(number, s), s);
        p.place = place;
        pack(to, w, row, p, GS_ROWS_LOW);
        place += 2 * p.depth;
        to += packed_size(p);
    }
}

static void image_gradient(__global flow *dx, __global float *planes, __global float *room,
                           __global const float *dy, __global const float *packed, __global const int *place,
                           conv_rows s) {
    for (int number = 0; number < s.stride_h; number++) {
        const phase_of f = find_phase(number, s);
        product p = find_product(number, f, s);
        p.place = place;
        p.w = packed;
        tiles(planes + number * s.phase + f.first * s.out_w, dy, p, GS_ROWS_LOW, 3);
        place += 2 * p.depth;
        packed += packed_size(p);
    }
    image_from_planes(dx, planes, room, s);
}

/* Computes dx, and part[task]: dw summed over the task's images, each row followed by its element of db.
 * conv2d_weights_sum adds up the parts. */
GS_ONCE void backward_images(__global flow *dx, __global float *part, __global const stored *dy,
                             __global const stored *relu_y, __global const int *index,
                             __global const stored *x, __global const stored *w, __global float *scratch,
                             __global const int *table, conv_rows s, GS_TASKS) {
    const size_t in = (size_t)s.in_c * s.in_h * s.in_w,
                 out = (size_t)s.out_c * s.out_h * s.out_w / (s.pool ? 4 : 1); /* of dy */
    const size_t depth = (size_t)s.in_c * s.kernel_h * s.kernel_w, dw_row = depth + s.bias;
    __global float *planes = scratch + s.slack;
    __global float *dx_planes = planes + s.samples * s.size + s.slack,
                   *dy_planes = dx_planes + s.size + s.slack,
                   *packed = dy_planes + s.samples * s.out_c * s.dy_plane + s.slack;
    __global const int *row = table + 2 * depth + s.out_c;
    clear(planes - s.slack, packed - (planes - s.slack));
    if (s.has_dx) pack_phases(packed, w, row, s);
    GS_EACH_TASK(task) {
        const size_t end = min((task + 1) * s.group, (ulong)s.images);
        __global float *sums = part + task * s.out_c * dw_row;
        clear(sums, s.out_c * dw_row);
        for (size_t begin = task * s.group; begin < end; begin += s.samples) {
            const int images = min(end - begin, (size_t)s.samples);
            for (int i = 0; i < images; i++) {
                const size_t image = begin + i;
                planes_from_image(planes + i * s.size, x + image * in, s);
                copy_dy(dy_planes + i * s.out_c * s.dy_plane, dy + image * out, relu_y + image * out,
                        index + image * out, sums + depth, dw_row, s);
            }
            add_weights(sums, dy_planes + s.margin, planes, table, images, s);
            if (!s.has_dx) continue;
            for (int i = 0; i < images; i++)
                image_gradient(dx + (begin + i) * in, dx_planes, scratch + (s.memory - s.image),
                               dy_planes + i * s.out_c * s.dy_plane, packed, row + s.in_c * s.kernel_w, s);
        }
    }
}

__kernel GS_OF_VECTORS void
conv2d_rows_backward(__global flow *dx, ulong dx_at, __global float *part, ulong part_at,
                     __global const stored *dy, ulong dy_at, __global const stored *relu_y, ulong relu_y_at,
                     __global const int *index, ulong index_at, __global const stored *x, ulong x_at,
                     __global const stored *w, ulong w_at, __global float *scratch, __global const int *table,
                     conv_rows s, GS_TASKS) {
    backward_images(dx + dx_at, part + part_at, dy + dy_at, relu_y + relu_y_at, index + index_at, x + x_at,
                    w + w_at, scratch + get_group_id(0) * s.memory, table, s, next, first, tasks);
}
