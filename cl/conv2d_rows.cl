#define POOLS_FLOATS
#include "conv2d_rows.clh"
#include "conv2d_sum.clh"
#include "max_pool2d_2x2.clh"
#include "transpose.clh"

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

/* part[o][k] += sum over images and positions of dy[o][position] X[k][position], in the lanes of src/conv2d_order.h:
 * the "dot" tile of tile.clh, once for each vector of lanes. The last vectors extend past the last position, where
 * dy's plane holds zeros. */
enum { PARTS = LANES / GS_VECTOR };

static void add_weights(__global float *part, __global const float *dy, __global const float *x,
                        __global const int *place, int images, conv_rows s) {
    const int depth = s.in_c * s.kernel_h * s.kernel_w, positions = s.out_h * s.out_w;
    for (int o = 0; o < s.out_c; o += GS_DOT_ROWS)
        for (int k = 0; k < depth; k += GS_DOT_COLUMNS) {
            size_t a[GS_DOT_ROWS];
            int b[GS_DOT_COLUMNS];
            vec sum[PARTS][GS_DOT_ROWS][GS_DOT_COLUMNS];
#pragma unroll
            for (int j = 0; j < GS_DOT_COLUMNS; j++) b[j] = place[2 * min(k + j, depth - 1)];
#pragma unroll
            for (int r = 0; r < GS_DOT_ROWS; r++) a[r] = min(o + r, s.out_c - 1) * s.dy_plane;
#pragma unroll
            for (int h = 0; h < PARTS; h++) {
                EACH_DOT sum[h][r][j] = 0;
                for (int i = 0; i < images; i++) {
                    __global const float *dy_image = dy + i * s.out_c * s.dy_plane, *x_image = x + i * s.size;
                    for (int at = h * GS_VECTOR; at < positions; at += LANES)
                        DOT_STEP(sum[h], load(dy_image + a[r] + at), load(x_image + b[j] + at))
                }
            }
#pragma unroll
            for (int apart = PARTS / 2; apart > 0; apart /= 2)
#pragma unroll
                for (int h = 0; h < apart; h++) EACH_DOT sum[h][r][j] += sum[h + apart][r][j];
#pragma unroll
            for (int r = 0; r < GS_DOT_ROWS; r++)
                if (o + r < s.out_c) {
                    float four[4];
                    vstore4(sums(sum[0][r][0], sum[0][r][1], sum[0][r][2], sum[0][r][3]), 0, four);
                    __global float *to = part + (o + r) * (depth + s.bias);
#pragma unroll
                    for (int j = 0; j < GS_DOT_COLUMNS; j++)
                        if (k + j < depth) to[place[2 * (k + j) + 1]] += four[j];
                }
        }
}

/* to[position][j] = dy[o + j][from + position] for `wide` vectors of channels and `count` positions of each image. What
 * is written past the last position of an image is overwritten by the next one, or there is room for it. */
static void turn(__global float *to, __global const float *dy, int o, int from, int count, int images,
                 const int wide, conv_rows s) {
    for (int i = 0; i < images; i++, dy += s.out_c * s.dy_plane, to += count * wide * GS_VECTOR)
        for (int v = 0; v < wide; v++)
            for (int p = 0; p < count; p += GS_VECTOR) {
                vec square[GS_VECTOR];
#pragma unroll
                for (int j = 0; j < GS_VECTOR; j++)
                    square[j] = load(dy + min(o + v * GS_VECTOR + j, s.out_c - 1) * s.dy_plane + from + p);
                transpose(square);
#pragma unroll
                for (int j = 0; j < GS_VECTOR; j++) store(square[j], to + ((p + j) * wide + v) * GS_VECTOR);
            }
}

/* sums[k][o + j] += the chain over the positions that `turned` holds, for `wide` vectors of channels: the "broadcast"
 * tile, in which X's numbers are broadcast. */
__attribute__((always_inline)) static void chains(__global float *sums, __global const float *turned,
                                                  __global const float *x, __global const int *place,
                                                  int count, int images, const int wide, conv_rows s) {
    const int depth = s.in_c * s.kernel_h * s.kernel_w, high = GS_ROWS;
    for (int k = 0; k < depth; k += high) {
        __global const float *at = turned;
        vec sum[GS_ROWS][WIDE];
        EACH_ROW EACH_VECTOR sum[i][j] = 0;
        for (int image = 0; image < images; image++) {
            __global const float *from[GS_ROWS];
            EACH_ROW from[i] = x + image * s.size + place[2 * min(k + i, depth - 1)];
#pragma unroll GS_UNROLL
            for (int p = 0; p < count; p++, at += wide * GS_VECTOR) {
                vec b[WIDE];
                EACH_VECTOR b[j] = load(at + j * GS_VECTOR);
                EACH_ROW EACH_VECTOR sum[i][j] = fma((vec)(from[i][p]), b[j], sum[i][j]);
            }
        }
        EACH_ROW if (k + i < depth) {
            __global float *to = sums + (k + i) * s.chain_row;
            EACH_VECTOR store(load(to + j * GS_VECTOR) + sum[i][j], to + j * GS_VECTOR);
        }
    }
}

/* The same sums as add_weights' with many channels: a chain for each, in blocks of positions. Here dw is transposed. */
static void add_chains(__global float *sums, __global float *turned, __global const float *dy,
                       __global const float *x, __global const int *place, int images, conv_rows s) {
    const int positions = s.out_h * s.out_w;
    for (int from = 0; from < positions; from += s.block) {
        const int count = min(s.block, positions - from);
        for (int o = 0; o < s.out_c; o += 2 * GS_VECTOR)
            if (o + GS_VECTOR < s.out_c) {
                turn(turned, dy, o, from, count, images, 2, s);
                chains(sums + o, turned, x + from, place, count, images, 2, s);
            } else {
                turn(turned, dy, o, from, count, images, 1, s);
                chains(sums + o, turned, x + from, place, count, images, 1, s);
            }
    }
}

/* The sum of a plane of dy, in the order of src/conv2d_order.h; zeros follow the plane. */
static float sum_of_plane(__global const float *from, int count) {
    vec lane[PARTS], none = 0;
    float four[4];
#pragma unroll
    for (int h = 0; h < PARTS; h++) {
        lane[h] = 0;
        for (int i = h * GS_VECTOR; i < count; i += LANES) lane[h] += load(from + i);
    }
#pragma unroll
    for (int apart = PARTS / 2; apart > 0; apart /= 2)
#pragma unroll
        for (int h = 0; h < apart; h++) lane[h] += lane[h + apart];
    vstore4(sums(lane[0], none, none, none), 0, four);
    return four[0];
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

/* A task is a chunk of images: computes their dx, and part[task], their dw, each row followed by its element of db.
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
                   *turned = dy_planes + s.samples * s.out_c * s.dy_plane + s.slack,
                   *transposed = turned + 2 * GS_VECTOR * (s.block + GS_VECTOR), *packed = turned + s.chains;
    __global const int *row = table + 2 * depth + s.out_c;
    clear(planes - s.slack, packed - (planes - s.slack));
    if (s.has_dx) pack_phases(packed, w, row, s);
    const size_t origin = s.images * s.first_chunk / s.chunks; /* the image at x and dy */
    GS_EACH_TASK(task) {
        const size_t chunk = s.first_chunk + task, end = s.images * (chunk + 1) / s.chunks - origin;
        __global float *sums = part + task * s.out_c * dw_row;
        clear(s.block ? transposed : sums, s.block ? dw_row * s.chain_row : s.out_c * dw_row);
        for (size_t begin = s.images * chunk / s.chunks - origin; begin < end; begin += s.samples) {
            const int images = min(end - begin, (size_t)s.samples);
            for (int i = 0; i < images; i++) {
                const size_t image = begin + i;
                planes_from_image(planes + i * s.size, x + image * in, s);
                copy_dy(dy_planes + i * s.out_c * s.dy_plane, dy + image * out, relu_y + image * out,
                        index + image * out, s.block ? transposed + depth * s.chain_row : sums + depth,
                        s.block ? 1 : dw_row, s);
            }
            if (s.block)
                add_chains(transposed, turned, dy_planes + s.margin, planes, table, images, s);
            else
                add_weights(sums, dy_planes + s.margin, planes, table, images, s);
            if (!s.has_dx) continue;
            for (int i = 0; i < images; i++)
                image_gradient(dx + (begin + i) * in, dx_planes, scratch + (s.memory - s.image),
                               dy_planes + i * s.out_c * s.dy_plane, packed, row + s.in_c * s.kernel_w, s);
        }
        for (size_t k = 0; k < dw_row && s.block; k++)
            for (int o = 0; o < s.out_c; o++)
                sums[o * dw_row + (k < depth ? table[2 * k + 1] : k)] = transposed[k * s.chain_row + o];
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
