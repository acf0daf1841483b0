#include "gemm.clh"

/* Large products on a CPU (worth_copying in gemm.c): the tiles of A and B are copied first, so that each is read in one
 * stream. The rows of a matrix that is 1024 wide lie 4 KB apart, and addresses 4 KB apart share a place in the first
 * cache: without the copies 1024 x 1024 runs at 40 % of the speed. A file of its own: most models do not need it, and
 * what is not needed is not compiled. */

/* to[tile][k][r] = A(tile GS_ROWS + r, k); work-item (block of GS_PACK k, tile); rows beyond the last are the last again */
GS_ONCE void pack_a(__global float *restrict to, __global const float *restrict a, gemm_sizes s, size_t block,
                    size_t tile) {
    const size_t begin = block * GS_PACK, end = min(begin + GS_PACK, (size_t)s.k);
    if (begin >= s.k) return;
    __global const float *from[GS_ROWS];
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++) from[r] = a + min(tile * GS_ROWS + r, (size_t)s.m - 1) * s.a_row;
    to += tile * s.k * GS_ROWS;
    for (size_t k = begin; k < end; k++)
#pragma unroll
        for (int r = 0; r < GS_ROWS; r++) to[k * GS_ROWS + r] = from[r][k * s.a_col];
}
__kernel void gemm_pack_a(__global float *to, ulong to_at, __global const float *a, ulong a_at,
                          gemm_sizes s) {
    pack_a(to + to_at, a + a_at, s, get_global_id(0), get_global_id(1));
}

/* to[tile][k][j] = B(k, tile WIDE + j); columns beyond the last are 0 */
#define WIDE (2 * GS_VECTOR)
GS_ONCE void pack_b(__global float *restrict to, __global const float *restrict b, gemm_sizes s, size_t block,
                    size_t tile) {
    const size_t begin = block * GS_PACK, end = min(begin + GS_PACK, (size_t)s.k);
    const size_t column = tile * WIDE, columns = min((size_t)s.n - column, (size_t)WIDE);
    if (begin >= s.k) return;
    to += tile * s.k * WIDE;
    b += column * s.b_col;
    if (columns < WIDE)
        for (size_t i = begin * WIDE; i < end * WIDE; i++) to[i] = 0;
    if (s.b_col == 1 && columns == WIDE) {
        for (size_t k = begin; k < end; k++) {
            store(load(b + k * s.b_row), to + k * WIDE);
            store(load(b + k * s.b_row + GS_VECTOR), to + k * WIDE + GS_VECTOR);
        }
    } else {
        for (size_t k0 = begin; k0 < end; k0 += 16) {
            const size_t k1 = min(k0 + 16, end);
            for (size_t j = 0; j < columns; j++)
                for (size_t k = k0; k < k1; k++) to[k * WIDE + j] = b[k * s.b_row + j * s.b_col];
        }
    }
}
__kernel void gemm_pack_b(__global float *to, ulong to_at, __global const float *b, ulong b_at,
                          gemm_sizes s) {
    pack_b(to + to_at, b + b_at, s, get_global_id(0), get_global_id(1));
}

/* The broadcast tile, from the two copies. */
GS_ONCE void packed_tile(__global float *c, __global const float *restrict a,
                         __global const float *restrict b, __global const float *bias, gemm_sizes s,
                         size_t row, size_t column) {
    a += row * s.k;
    b += column * s.k;
    vec sum[GS_ROWS][2];
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++) sum[r][0] = sum[r][1] = 0;
#pragma unroll GS_UNROLL
    for (size_t k = 0; k < s.k; k++, a += GS_ROWS, b += WIDE) {
        const vec b0 = load(b), b1 = load(b + GS_VECTOR);
#pragma unroll
        for (int r = 0; r < GS_ROWS; r++) {
            const vec x = (vec)(a[r]);
            sum[r][0] = fma(x, b0, sum[r][0]);
            sum[r][1] = fma(x, b1, sum[r][1]);
        }
    }
    const int left = (int)min((size_t)s.n - column, (size_t)WIDE);
    c += column;
    bias += column;
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++)
        if (row + r < s.m) {
            __global float *to = c + (row + r) * s.n;
            if (left == WIDE) {
                if (s.has_bias) {
                    sum[r][0] += load(bias);
                    sum[r][1] += load(bias + GS_VECTOR);
                }
                if (s.relu) {
                    sum[r][0] = sum[r][0] < 0 ? 0 : sum[r][0];
                    sum[r][1] = sum[r][1] < 0 ? 0 : sum[r][1];
                }
                store(s.add ? load(to) + sum[r][0] : sum[r][0], to);
                store(s.add ? load(to + GS_VECTOR) + sum[r][1] : sum[r][1], to + GS_VECTOR);
            } else {
                float part[WIDE];
                GS_PASTE(vstore, GS_VECTOR)(sum[r][0], 0, part);
                GS_PASTE(vstore, GS_VECTOR)(sum[r][1], 1, part);
                for (int j = 0; j < left; j++) {
                    const float value = part[j] + (s.has_bias ? bias[j] : 0);
                    to[j] = s.add ? to[j] + value : PASSED(value, s);
                }
            }
        }
}
__kernel void gemm_packed(__global float *c, ulong c_at, __global const float *a, ulong a_at,
                          __global const float *b, ulong b_at, __global const float *bias, ulong bias_at,
                          gemm_sizes s) {
    packed_tile(c + c_at, a + a_at, b + b_at, bias + bias_at, s, get_global_id(0) * GS_ROWS,
                get_global_id(1) * WIDE);
}
