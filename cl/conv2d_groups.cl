#include "stored.clh"
#include "conv2d_sum.clh"

/* Convolution with groups (including depthwise) and dilation, computed directly from the formulas: no matrix, no copy.
 * Sums are in the order of cpu/plain/conv2d.c, in which padding counts as 0.
 *
 *     forward    y[o][r][s] = b[o] + sum_{c,u,v} w[o][c][u][v] x[first + c][r stride_h + u dilation_h - pad_h][...]
 *     backward   dw[o][c][u][v] (+)= sum_{i,r,s} dy[o][r][s] x[first + c][r stride_h + u dilation_h - pad_h][...]
 *                dx[first + c][h][q] = sum_{o,u,v} w[o][c][u][v] dy[o][(h + pad_h - u dilation_h) / stride_h][...],
 *                over the terms whose divisions leave no remainder
 *
 * A work-item handles one or more rows of `block` channels of one group, GS_VECTOR columns at a time. The channels'
 * sums stay in registers, and each loaded element contributes to all of them. If the last block of a group is not full,
 * it computes its last channel repeatedly, but stores it once. Each kernel exists for blocks of 1 and of 4. */

/* Must match gs_conv2d_sizes. */
typedef struct conv2d_sizes {
    int in_c, in_h, in_w, out_c, out_h, out_w;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int groups, dilation_h, dilation_w;
} conv2d_sizes;

enum { MOST = 4 }; /* channels per block */

#if GS_VECTOR == 1
static vec of_lanes(const float *lane) {
    return lane[0];
}
#else
static vec of_lanes(const float *lane) {
    return GS_PASTE(vload, GS_VECTOR)(0, lane);
}
#endif

/* row[at], row[at + step], ..., or 0 outside its `count` elements */
static vec pixels(__global const stored *row, int at, int step, int count) {
    if (step == 1 && at >= 0 && at + GS_VECTOR <= count) return load_stored(row + at);
    float lane[GS_VECTOR];
    for (int k = 0; k < GS_VECTOR; k++, at += step) lane[k] = at >= 0 && at < count ? number(row[at]) : 0;
    return of_lanes(lane);
}

/* True if `at` divided by `step` is one of `count` elements. */
static bool meets(int at, int step, int count) {
    return at >= 0 && rest(at, step) == 0 && at / step < count;
}

/* The inverse of `pixels`: row[at / step], row[(at + 1) / step], ..., or 0 where there is no such element */
static vec spread(__global const stored *row, int at, int step, int count) {
    if (step == 1) return pixels(row, at, 1, count);
    float lane[GS_VECTOR];
    for (int k = 0; k < GS_VECTOR; k++, at++) lane[k] = meets(at, step, count) ? number(row[at / step]) : 0;
    return of_lanes(lane);
}

/* Store the first `count` columns of v, or all of v if it has fewer */
static void put(vec v, __global flow *to, int count) {
#if GS_VECTOR == 1
    store_flow(v, to);
#else
    store_first_flow(v, to, count);
#endif
}

/* a / b. Deliberately signed, whereas `rest` is unsigned: common.clh gives the reason. */
static size_t quotient(size_t a, int b) {
    return (size_t)((long)a / b);
}

/* Block `number`, counted over the blocks of all groups of all images; each group has `channels` channels. */
typedef struct place {
    size_t image;
    int group, first, last; /* of the group's channels: the first in the block, and the last that exists */
} place;
static place place_of(size_t number, int groups, int channels, const int block) {
    const int blocks = (channels + block - 1) / block;
    const size_t group = quotient(number, blocks);
    place p = {quotient(group, groups), (int)(group % groups), (int)(number % blocks) * block, channels - 1};
    return p;
}

/* ---- forward ---- */

static void forward(const int block, size_t unit, int lane, int row, int rows, __global flow *y,
                    __global const stored *x, __global const stored *w, __global const float *b, int has_bias,
                    conv2d_sizes s) {
    const int in_c = s.in_c / s.groups, out_c = s.out_c / s.groups, places = s.kernel_h * s.kernel_w;
    const place p = place_of(unit, s.groups, out_c, block);
    const size_t first_o = (size_t)p.group * out_c;
    x += (p.image * s.in_c + (size_t)p.group * in_c) * s.in_h * s.in_w;
    y += (p.image * s.out_c + first_o + p.first) * s.out_h * s.out_w;
    __global const stored *own_w[MOST];
    for (int j = 0; j < block; j++) own_w[j] = w + (first_o + min(p.first + j, p.last)) * in_c * places;
    for (int r = row; r < s.out_h; r += rows)
        for (int o = lane * GS_VECTOR; o < s.out_w; o += GS_LANES * GS_VECTOR) {
            vec sum[MOST];
            for (int j = 0; j < block; j++) sum[j] = has_bias ? b[first_o + min(p.first + j, p.last)] : 0.0f;
            for (int c = 0; c < in_c; c++)
                for (int v = 0; v < s.kernel_w; v++)
                    for (int u = 0; u < s.kernel_h; u++) {
                        const int h = r * s.stride_h + u * s.dilation_h - s.pad_h;
                        const vec pixel =
                            h < 0 || h >= s.in_h
                                ? 0
                                : pixels(x + ((size_t)c * s.in_h + h) * s.in_w,
                                         o * s.stride_w + v * s.dilation_w - s.pad_w, s.stride_w, s.in_w);
                        const size_t k = (size_t)c * places + u * s.kernel_w + v;
                        for (int j = 0; j < block; j++)
                            sum[j] = fma((vec)(number(own_w[j][k])), pixel, sum[j]);
                    }
            for (int j = 0; j < block && p.first + j <= p.last; j++)
                put(sum[j], y + ((size_t)j * s.out_h + r) * s.out_w + o, s.out_w - o);
        }
}

/* work-item: see gs_cl_planes */
#define FORWARD(name, block)                                                                                 \
    __kernel GS_OF_VECTORS void name(__global flow *y, ulong y_at, __global const stored *x, ulong x_at,     \
                                     __global const stored *w, ulong w_at, __global const float *b,          \
                                     ulong b_at, int has_bias, ulong planes, conv2d_sizes s) {               \
        if (GS_PLANE >= planes) return;                                                                      \
        forward(block, GS_PLANE, GS_LANE, GS_ROW, GS_ROW_STEP, y + y_at, x + x_at, w + w_at, b + b_at,       \
                has_bias, s);                                                                                \
    }
FORWARD(conv2d_groups_forward, 1)
FORWARD(conv2d_groups_forward_4, 4)

/* ---- backward ---- */

static void gradient(const int block, size_t unit, int lane, int row, int rows, __global flow *dx,
                     __global const stored *dy, __global const stored *w, conv2d_sizes s) {
    const int in_c = s.in_c / s.groups, out_c = s.out_c / s.groups, places = s.kernel_h * s.kernel_w;
    const place p = place_of(unit, s.groups, in_c, block);
    const size_t first_o = (size_t)p.group * out_c;
    dx += (p.image * s.in_c + (size_t)p.group * in_c + p.first) * s.in_h * s.in_w;
    dy += (p.image * s.out_c + first_o) * s.out_h * s.out_w;
    w += first_o * in_c * places;
    for (int h = row; h < s.in_h; h += rows)
        for (int q = lane * GS_VECTOR; q < s.in_w; q += GS_LANES * GS_VECTOR) {
            vec total[MOST];
            for (int j = 0; j < block; j++) total[j] = 0;
            for (int v = 0; v < s.kernel_w; v++) {
                const int across = q + s.pad_w - v * s.dilation_w;
                vec sum[MOST];
                for (int j = 0; j < block; j++) sum[j] = 0;
                for (int o = 0; o < out_c; o++)
                    for (int u = 0; u < s.kernel_h; u++) {
                        const int down = h + s.pad_h - u * s.dilation_h, r = down / s.stride_h;
                        if (r * s.stride_h != down) continue;
                        const vec g = r < 0 || r >= s.out_h ? 0
                                                            : spread(dy + ((size_t)o * s.out_h + r) * s.out_w,
                                                                     across, s.stride_w, s.out_w);
                        for (int j = 0; j < block; j++) {
                            const size_t c = (size_t)o * in_c + min(p.first + j, p.last);
                            sum[j] = fma((vec)(number(w[c * places + u * s.kernel_w + v])), g, sum[j]);
                        }
                    }
                float lane[GS_VECTOR];
                for (int k = 0; k < GS_VECTOR; k++) lane[k] = meets(across + k, s.stride_w, s.out_w) ? 1 : 0;
                for (int j = 0; j < block; j++) total[j] += of_lanes(lane) > 0 ? sum[j] : 0;
            }
            for (int j = 0; j < block && p.first + j <= p.last; j++)
                put(total[j], dx + ((size_t)j * s.in_h + h) * s.in_w + q, s.in_w - q);
        }
}

/* work-item: see gs_cl_planes */
#define GRADIENT(name, block)                                                                                \
    __kernel GS_OF_VECTORS void name(__global flow *dx, ulong dx_at, __global const stored *dy, ulong dy_at, \
                                     __global const stored *w, ulong w_at, ulong planes, conv2d_sizes s) {   \
        if (GS_PLANE >= planes) return;                                                                      \
        gradient(block, GS_PLANE, GS_LANE, GS_ROW, GS_ROW_STEP, dx + dx_at, dy + dy_at, w + w_at, s);        \
    }
GRADIENT(conv2d_groups_dx, 1)
GRADIENT(conv2d_groups_dx_4, 4)

/* part[t][o][k] = what part t of dy's rows contributes to dw[o][k], k = (c, u, v), and, in one more column, to db[o];
 * computed for a block of o. dy's rows are those of all images, in order. */
static void weights(const int block, size_t unit, __global float *part, __global const stored *dy,
                    __global const stored *x, int columns, ulong parts, ulong rows, conv2d_sizes s) {
    const int in_c = s.in_c / s.groups, out_c = s.out_c / s.groups, places = s.kernel_h * s.kernel_w;
    const int k = (int)(unit % columns), c = k / places, u = rest(k / s.kernel_w, s.kernel_h),
              v = rest(k, s.kernel_w);
    const place p = place_of(quotient(unit, columns), s.groups, out_c, block); /* p.image is the part */
    const size_t t = p.image, first_o = (size_t)p.group * out_c;
    vec sum[MOST];
    for (int j = 0; j < block; j++) sum[j] = 0;
    for (size_t row = rows * t / parts; row < rows * (t + 1) / parts; row++) {
        const size_t image = quotient(row, s.out_h);
        const int r = (int)(row % s.out_h), h = r * s.stride_h + u * s.dilation_h - s.pad_h;
        if (c < in_c && (h < 0 || h >= s.in_h)) continue;
        __global const stored *from = x, *of[MOST];
        if (c < in_c) from += ((image * s.in_c + (size_t)p.group * in_c + c) * s.in_h + h) * s.in_w;
        for (int j = 0; j < block; j++)
            of[j] = dy + ((image * s.out_c + first_o + min(p.first + j, p.last)) * s.out_h + r) * s.out_w;
        for (int o = 0; o < s.out_w; o += GS_VECTOR) {
            vec pixel = 1.0f;
            if (c < in_c)
                pixel = pixels(from, o * s.stride_w + v * s.dilation_w - s.pad_w, s.stride_w, s.in_w);
            for (int j = 0; j < block; j++) sum[j] = fma(pixels(of[j], o, 1, s.out_w), pixel, sum[j]);
        }
    }
    for (int j = 0; j < block && p.first + j <= p.last; j++)
        part[(t * s.out_c + first_o + p.first + j) * columns + k] = sum_of(sum[j]);
}

/* work-item ((part, block of o), k) */
#define WEIGHTS(name, block)                                                                                 \
    __kernel GS_OF_VECTORS void name(__global float *part, __global const stored *dy, ulong dy_at,           \
                                     __global const stored *x, ulong x_at, int columns, ulong parts,         \
                                     ulong rows, conv2d_sizes s) {                                           \
        const int channels = s.out_c / s.groups, blocks = (channels + block - 1) / block;                    \
        if (get_global_id(0) >= parts * s.groups * blocks * columns) return;                                 \
        weights(block, get_global_id(0), part, dy + dy_at, x + x_at, columns, parts, rows, s);               \
    }
WEIGHTS(conv2d_groups_weights, 1)
WEIGHTS(conv2d_groups_weights_4, 4)

/* Must match gs_conv2d_order. */
typedef struct conv2d_order {
    int lanes, images, positions, pitch;
} conv2d_order;

/* part[chunk][o]: dw[o] and db[o] summed over a chunk of images as src/conv2d_order.h says, from element `first` of
 * (dw[o], db[o]) on, for all shapes; work-item (element, o, chunk) */
__kernel void conv2d_weights_in_order(__global float *part, __global const stored *dy, ulong dy_at,
                                      __global const stored *x, ulong x_at, ulong images, int first,
                                      int columns, conv2d_order of_dw, conv2d_order of_db, conv2d_sizes s) {
    const int k = first + get_global_id(0), o = get_global_id(1), in_c = s.in_c / s.groups,
              rows = k / s.kernel_w, v = k - rows * s.kernel_w, c = rows / s.kernel_h,
              u = rows - c * s.kernel_h;
    const ulong chunk = get_global_id(2), chunks = get_global_size(2), last = images * (chunk + 1) / chunks;
    if (get_global_id(0) >= columns) return;
    const conv2d_order t = c < in_c ? of_dw : of_db;
    const int channel = o / (s.out_c / s.groups) * in_c + c, all = s.out_h * s.out_w;
    float total = 0;
    for (ulong begin = images * chunk / chunks; begin < last; begin += t.images)
        for (int from = 0; from < all; from += t.positions) {
            float lane[LANES] = {0};
            for (ulong image = begin; image < min(begin + t.images, last); image++) {
                __global const stored *plane = x + x_at + (image * s.in_c + channel) * s.in_h * s.in_w,
                                      *of = dy + dy_at + (image * s.out_c + o) * all;
                for (int p = from; p < min(from + t.positions, all); p++) {
                    const int r = p / s.out_w, q = p - r * s.out_w, at = rest(r * t.pitch + q, t.lanes);
                    const int h = r * s.stride_h + u * s.dilation_h - s.pad_h,
                              w = q * s.stride_w + v * s.dilation_w - s.pad_w;
                    float pixel = c < in_c ? 0 : 1;
                    if (c < in_c && h >= 0 && h < s.in_h && w >= 0 && w < s.in_w)
                        pixel = number(plane[h * s.in_w + w]);
                    lane[at] = fma(number(of[p]), pixel, lane[at]);
                }
            }
            for (int h = t.lanes / 2; h > 0; h /= 2)
                for (int j = 0; j < h; j++) lane[j] += lane[j + h];
            total += lane[0];
        }
    part[(chunk * s.out_c + o) * columns + get_global_id(0)] = total;
}
