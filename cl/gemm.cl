#include "stored.clh"
#include "gemm.clh"
#include "transpose.clh"

/* If s.in_16_bits is set, C's elements are 16-bit and C is overwritten, not added to. c_place: where C[c_at] is. */
#ifdef STORED_FLOATS
#define c_place(c, c_at, s) ((c) + (c_at))
#define store_one_c(x, c, at, s) ((c)[at] = (x))
#define store_c(v, c, at, s) store(v, (c) + (at))
#else
static __global float *c_place(__global float *c, ulong c_at, gemm_sizes s) {
    return s.in_16_bits ? (__global float *)((__global ushort *)c + c_at) : c + c_at;
}
static void store_one_c(float x, __global float *c, size_t at, gemm_sizes s) {
    if (s.in_16_bits)
        ((__global ushort *)c)[at] = narrowed_one(s.relu ? MARKED(x) : x);
    else
        c[at] = x;
}
static void store_c(vec v, __global float *c, size_t at, gemm_sizes s) {
    if (s.in_16_bits)
        store_halves(narrowed(s.relu ? MARKED(v) : v), (__global ushort *)c + at);
    else
        store(v, c + at);
}
#endif

#ifdef GS_GPU

/* Each work-group computes a tile of C (see tile.clh). If C has too few tiles to keep a GPU busy, the sum over k is
 * split: slice z covers k = z length .. (z + 1) length - 1, whole blocks, and gemm_sum adds up the slices. */
__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
gemm_tile(__global float *c, ulong c_at, __global const stored *a, ulong a_at, __global const stored *b,
          ulong b_at, __global const float *bias, ulong bias_at, gemm_sizes s, ulong length) {
    __local float a_tile[STEP][GS_TILE + 1], b_tile[STEP][GS_TILE + 1];
    const ulong n0 = get_group_id(0) * GS_TILE, m0 = get_group_id(1) * GS_TILE, slice = get_group_id(2);
    const ulong begin = slice * length, end = min(begin + length, s.k);
    a += a_at;
    b += b_at;
    c = c_place(c, c_at + slice * s.m * s.n, s);
    float total[EACH][EACH];
    EACH_ELEMENT total[i][j] = NO_TERM;
#define A_AT(row, at) number(a[(row)*s.a_row + (at)*s.a_col])
#define B_AT(at, column) number(b[(at)*s.b_row + (column)*s.b_col])
    for (ulong k = begin; k == begin || k < end; k += GS_PACK) { /* once even if s.k is 0 */
        float sum[EACH][EACH] = {{0}};
        TILE_PRODUCT(sum, a_tile, b_tile, m0, n0, s.m, s.n, k, min(k + GS_PACK, end), A_AT, s.a_col == 1,
                     B_AT, s.b_row == 1)
        EACH_ELEMENT total[i][j] += sum[i][j];
    }
    EACH_ELEMENT {
        const ulong row = m0 + TILE_ROW(i), column = n0 + TILE_COLUMN(j), at = row * s.n + column;
        if (row >= s.m || column >= s.n) continue;
        const float value = s.has_bias ? total[i][j] + bias[bias_at + column] : total[i][j];
        store_one_c(s.add ? c[at] + value : PASSED(value, s), c, at, s);
    }
}

/* C = the sum of the slices of `part`, in order; add and bias as in gemm_tile; work-item (j, i) */
__kernel void gemm_sum(__global float *c, ulong c_at, __global const float *part, ulong part_at,
                       __global const float *bias, ulong bias_at, gemm_sizes s, ulong slices) {
    const size_t j = get_global_id(0), i = get_global_id(1);
    if (j >= s.n) return;
    float sum = NO_TERM;
    for (ulong z = 0; z < slices; z++) sum += part[part_at + (z * s.m + i) * s.n + j];
    if (s.has_bias) sum += bias[bias_at + j];
    c = c_place(c, c_at + i * s.n + j, s);
    store_one_c(s.add ? *c + sum : PASSED(sum, s), c, 0, s);
}

#else

/* to[tile][k][r] = A(tile GS_ROWS + r, k), so that gemm_broadcast reads A in one stream. Past the end, the last row is
 * repeated. Work-item (block of GS_PACK k, tile). */
__kernel void gemm_pack(__global float *restrict to, ulong to_at, __global const stored *restrict a,
                        ulong a_at, gemm_sizes s) {
    const size_t tile = get_global_id(1), row = tile * GS_ROWS, begin = get_global_id(0) * GS_PACK,
                 end = min(begin + GS_PACK, (size_t)s.k);
    to += to_at + (tile * s.k + begin) * GS_ROWS;
    a += a_at + row * s.a_row;
    if (s.a_row == 1 && row + GS_ROWS <= s.m) {
        for (size_t k = begin; k < end; k++, to += GS_ROWS)
#pragma unroll
            for (int r = 0; r < GS_ROWS; r++) to[r] = number(a[k * s.a_col + r]);
        return;
    }
    __global const stored *from[GS_ROWS];
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++) from[r] = a + min((size_t)r, (size_t)s.m - 1 - row) * s.a_row;
    for (size_t k = begin; k < end; k++, to += GS_ROWS)
#pragma unroll
        for (int r = 0; r < GS_ROWS; r++) to[r] = number(from[r][k * s.a_col]);
}

enum { WIDE = 2 * GS_VECTOR };

/* to[k][0] = B(k, j) for k < depth and one vector of columns j, only `columns` of which exist. If B's columns are
 * contiguous, they are transposed square by square and missing columns repeat the last; otherwise missing columns are
 * 0. */
GS_ONCE void pack_columns(vec (*to)[2], __global const stored *b, ulong b_row, ulong b_col, int columns,
                          int depth) {
    int k = 0;
    if (columns >= GS_VECTOR && b_col == 1)
        for (; k < depth; k++) to[k][0] = load_stored(b + k * b_row);
    else if (columns > 0 && b_row == 1)
        for (; k + GS_VECTOR <= depth; k += GS_VECTOR) {
            vec square[GS_VECTOR];
#pragma unroll
            for (int j = 0; j < GS_VECTOR; j++) square[j] = load_stored(b + k + min(j, columns - 1) * b_col);
            transpose(square);
#pragma unroll
            for (int j = 0; j < GS_VECTOR; j++) to[k + j][0] = square[j];
        }
    for (; k < depth; k++) {
        float *row = (float *)&to[k][0];
        to[k][0] = 0;
        for (int j = 0; j < min(columns, GS_VECTOR); j++) row[j] = number(b[k * b_row + j * b_col]);
    }
}

/* One task: 2 vectors of columns of C, and `tiles` times GS_ROWS of its rows (the "broadcast" tile of tile.clh). It
 * handles a block of GS_PACK values of k, or of s.each leaves, at a time: that part of B's columns is copied, so that
 * it is contiguous in the L1 cache and each tile reads it in one stream. Rows of a 1024-wide matrix are 4 KB apart, and
 * addresses 4 KB apart map to the same L1 set: without the copies 1024 x 1024 would run at 40 % of the speed. If A is
 * large, transposed, or in 16 bits, `a` is a copy, too (gemm_pack). Blocks of leaves form a tree, as JOIN_LEAF's leaves
 * do; their sums wait in `sums`. */
GS_ONCE void broadcast_tiles(__global float *c, __global const float *a, __global const stored *b,
                             __global const float *bias, gemm_sizes s, size_t begin, size_t end,
                             size_t column, int is_packed, __global float *sums) {
    const size_t a_col = is_packed ? GS_ROWS : s.a_col;
    const int columns = (int)min((size_t)s.n - column, (size_t)WIDE);
    vec packed[GS_PACK][2];
    b += column * s.b_col;
    bias += column;
    const int leaves = LEAVES(s), each = leaves ? s.each : 1,
              blocks = leaves ? leaves / each : max((int)((s.k + GS_PACK - 1) / GS_PACK), 1);
    vec left[3][GS_ROWS * 2];
    size_t k0 = 0;
    for (int block = 0, depth; block < blocks; block++, k0 += depth) { /* once even if k is 0 */
        const bool last = block + 1 == blocks;
        depth = (leaves ? s.leaf_end[(block + 1) * each - 1] : last ? s.k : k0 + GS_PACK) - k0;
#pragma unroll 1
        for (int v = 0; v < 2; v++)
            pack_columns((vec(*)[2]) & packed[0][v], b + k0 * s.b_row + v * GS_VECTOR * s.b_col, s.b_row,
                         s.b_col, columns - v * GS_VECTOR, depth);
        for (size_t row = begin; row < end; row += GS_ROWS) {
            __global const float *from[GS_ROWS];
            vec sum[GS_ROWS][2];
#pragma unroll
            for (int r = 0; r < GS_ROWS; r++) {
                from[r] =
                    a + k0 * a_col + (is_packed ? row * s.k + r : min(row + r, (size_t)s.m - 1) * s.a_row);
            }
            const vec(*p)[2] = packed;
            size_t at = 0;
            int k = 0;
            for (int leaf = 0; leaf < each; leaf++) {
                const int leaf_end = leaves ? s.leaf_end[block * each + leaf] - k0 : depth;
#pragma unroll
                for (int r = 0; r < GS_ROWS; r++) sum[r][0] = sum[r][1] = 0;
#pragma unroll GS_UNROLL
                for (; k < leaf_end; k++, p++, at += a_col) {
                    const vec b0 = (*p)[0], b1 = (*p)[1];
#pragma unroll
                    for (int r = 0; r < GS_ROWS; r++) {
                        const vec x = (vec)(from[r][at]);
                        sum[r][0] = fma(x, b0, sum[r][0]);
                        sum[r][1] = fma(x, b1, sum[r][1]);
                    }
                }
                JOIN_LEAF(leaf, each, left, sum[element / 2][element % 2], GS_ROWS * 2)
            }
            const bool more = (leaves ? 0 : block) > 0 || s.add, shift = last && s.has_bias,
                       relu = last && s.relu;
            if (columns == WIDE) {
#pragma unroll
                for (int r = 0; r < GS_ROWS; r++)
                    if (row + r < s.m) {
                        const size_t to = (row + r) * s.n + column;
                        vec value0 = sum[r][0], value1 = sum[r][1];
                        __global float *wait = sums + to;
                        for (int b = leaves ? block : 0; b & 1; b >>= 1, wait += s.m * s.n) {
                            value0 += load(wait);
                            value1 += load(wait + GS_VECTOR);
                        }
                        if (leaves > 0 && !last) {
                            store(value0, wait);
                            store(value1, wait + GS_VECTOR);
                            continue;
                        }
                        if (more) {
                            value0 += load(c + to);
                            value1 += load(c + to + GS_VECTOR);
                        }
                        if (shift) {
                            value0 += load(bias);
                            value1 += load(bias + GS_VECTOR);
                        }
                        if (relu) {
                            value0 = value0 < 0 ? 0 : value0;
                            value1 = value1 < 0 ? 0 : value1;
                        }
                        store_c(value0, c, to, s);
                        store_c(value1, c, to + GS_VECTOR, s);
                    }
                continue;
            }
            /* one element at a time, through memory */
            float part[GS_ROWS][WIDE];
#pragma unroll
            for (int r = 0; r < GS_ROWS; r++) {
                GS_PASTE(vstore, GS_VECTOR)(sum[r][0], 0, part[r]);
                GS_PASTE(vstore, GS_VECTOR)(sum[r][1], 1, part[r]);
            }
#pragma unroll 1
            for (int r = 0; r < GS_ROWS && row + r < s.m; r++)
#pragma unroll 1
                for (int j = 0; j < columns; j++) {
                    const size_t to = (row + r) * s.n + column + j;
                    float value = part[r][j];
                    __global float *wait = sums + to;
                    for (int b = leaves ? block : 0; b & 1; b >>= 1, wait += s.m * s.n) value += *wait;
                    if (leaves > 0 && !last) {
                        *wait = value;
                        continue;
                    }
                    if (more) value += c[to];
                    if (shift) value += bias[j];
                    store_one_c(relu && value < 0 ? 0 : value, c, to, s);
                }
        }
    }
}

/* How a product is divided into tasks; must match gemm_cut in cl/gemm.c. */
typedef struct gemm_cut {
    ulong each; /* tiles of rows per task */
    uint tasks;
    int is_packed; /* A is a copy made by gemm_pack */
} gemm_cut;

/* Task (rows, columns) of a product; columns vary fastest. (task - down * across is task % across, avoided for the
 * reason given at `rest` in common.clh.) */
static void broadcast_task(__global float *c, __global const float *a, __global const stored *b,
                           __global const float *bias, gemm_sizes s, gemm_cut cut, uint task,
                           __global float *sums) {
    const uint across = (s.n + WIDE - 1) / WIDE, down = task / across, column = task - down * across;
    const size_t rows = cut.each * GS_ROWS, begin = down * rows, end = min(begin + rows, (size_t)s.m);
    broadcast_tiles(c, a, b, bias, s, begin, end, (size_t)column * WIDE, cut.is_packed, sums);
}

/* C = A B + bias; then, if other_cut has tasks, a second product without bias, in the same launch. */
__kernel GS_OF_VECTORS void gemm_broadcast(__global float *c, ulong c_at, __global const float *a, ulong a_at,
                                           __global const stored *b, ulong b_at, __global const float *bias,
                                           ulong bias_at, gemm_sizes s, gemm_cut cut, __global float *other_c,
                                           ulong other_c_at, __global const float *other_a, ulong other_a_at,
                                           __global const stored *other_b, ulong other_b_at,
                                           gemm_sizes other_s, gemm_cut other_cut, __global float *sums,
                                           ulong sums_at, GS_TASKS) {
    GS_EACH_TASK(task)
    if (task < cut.tasks)
        broadcast_task(c_place(c, c_at, s), a + a_at, b + b_at, bias + bias_at, s, cut, task, sums + sums_at);
    else
        broadcast_task(c_place(other_c, other_c_at, other_s), other_a + other_a_at, other_b + other_b_at,
                       bias, other_s, other_cut, task - cut.tasks, sums + sums_at);
}

#endif
