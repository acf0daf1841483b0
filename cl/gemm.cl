#include "gemm.clh"

#ifdef GS_GPU

/* A tile of C for each work-group (see tile.clh). Where C has too few tiles to keep a GPU busy, the sum over k is cut
 * into slices: slice z computes k = z length .. (z + 1) length - 1, and gemm_sum adds the slices up. */
__kernel __attribute__((reqd_work_group_size(GS_GROUP, 1, 1))) void
gemm_tile(__global float *c, ulong c_at, __global const float *a, ulong a_at, __global const float *b,
          ulong b_at, __global const float *bias, ulong bias_at, gemm_sizes s, ulong length) {
    __local float a_tile[STEP][GS_TILE + 1], b_tile[STEP][GS_TILE + 1];
    const ulong n0 = get_group_id(0) * GS_TILE, m0 = get_group_id(1) * GS_TILE, slice = get_group_id(2);
    const ulong begin = slice * length, end = min(begin + length, s.k);
    a += a_at;
    b += b_at;
    c += c_at + slice * s.m * s.n;
    float sum[EACH][EACH] = {{0}};
#define A_AT(row, at) a[(row)*s.a_row + (at)*s.a_col]
#define B_AT(at, column) b[(at)*s.b_row + (column)*s.b_col]
    TILE_PRODUCT(sum, a_tile, b_tile, m0, n0, s.m, s.n, begin, end, A_AT, s.a_col == 1, B_AT, s.b_row == 1)
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            ulong row = m0 + TILE_ROW(i), column = n0 + TILE_COLUMN(j);
            if (row >= s.m || column >= s.n) continue;
            const float value = sum[i][j] + (s.has_bias ? bias[bias_at + column] : 0);
            const ulong at = row * s.n + column;
            c[at] = s.add ? c[at] + value : PASSED(value, s);
        }
}

/* C = the sum of the slices of `part`, in order; add and bias as above; work-item (j, i) */
__kernel void gemm_sum(__global float *c, ulong c_at, __global const float *part, ulong part_at,
                       __global const float *bias, ulong bias_at, gemm_sizes s, ulong slices) {
    const size_t j = get_global_id(0), i = get_global_id(1);
    if (j >= s.n) return;
    float sum = s.has_bias ? bias[bias_at + j] : 0;
    for (ulong z = 0; z < slices; z++) sum += part[part_at + (z * s.m + i) * s.n + j];
    c += c_at + i * s.n + j;
    *c = s.add ? *c + sum : PASSED(sum, s);
}

#else

/* GS_ROWS x 2 vectors of C for each work-item, for b_col = 1 and n >= GS_VECTOR (the "broadcast" tile of tile.clh). The
 * tiles at the right edge move to the left until they fit, and store only what no other tile does; those at the lower
 * edge compute the last row several times, and store it once. So the loop is the same for all. */
GS_ONCE void broadcast_tile(__global float *c, __global const float *a, __global const float *b, gemm_sizes s,
                            size_t row, size_t column) {
    const size_t left = min(column, (size_t)s.n - GS_VECTOR),
                 right = min(column + GS_VECTOR, (size_t)s.n - GS_VECTOR);
    __global const float *from[GS_ROWS];
    vec sum[GS_ROWS][2];
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++) {
        from[r] = a + min(row + r, (size_t)s.m - 1) * s.a_row;
        sum[r][0] = sum[r][1] = 0;
    }
#pragma unroll GS_UNROLL
    for (size_t k = 0; k < s.k; k++) {
        vec b0 = load(b + left), b1 = load(b + right);
#pragma unroll
        for (int r = 0; r < GS_ROWS; r++) {
            vec x = (vec)(from[r][k * s.a_col]);
            sum[r][0] = fma(x, b0, sum[r][0]);
            sum[r][1] = fma(x, b1, sum[r][1]);
        }
        b += s.b_row;
    }
    c += row * s.n;
    const int rows = (int)min(s.m - row, (ulong)GS_ROWS);
    if (column + 2 * GS_VECTOR <= s.n) {
#pragma unroll
        for (int r = 0; r < GS_ROWS; r++)
            if (r < rows) {
                __global float *to = c + r * s.n + column;
                store(s.add ? load(to) + sum[r][0] : sum[r][0], to);
                store(s.add ? load(to + GS_VECTOR) + sum[r][1] : sum[r][1], to + GS_VECTOR);
            }
        return;
    }
    /* one by one, through memory: of `left` and of `right` the columns that are not those of the tile before */
    float part[GS_ROWS][2][GS_VECTOR];
#pragma unroll
    for (int r = 0; r < GS_ROWS; r++) {
        GS_PASTE(vstore, GS_VECTOR)(sum[r][0], 0, part[r][0]);
        GS_PASTE(vstore, GS_VECTOR)(sum[r][1], 0, part[r][1]);
    }
#pragma unroll 1
    for (int r = 0; r < rows; r++, c += s.n)
#pragma unroll 1
        for (ulong j = column; j < s.n; j++) {
            const float value = j < column + GS_VECTOR ? part[r][0][j - left] : part[r][1][j - right];
            c[j] = s.add ? c[j] + value : value;
        }
}

__kernel void gemm_broadcast(__global float *c, ulong c_at, __global const float *a, ulong a_at,
                             __global const float *b, ulong b_at, gemm_sizes s) {
    broadcast_tile(c + c_at, a + a_at, b + b_at, s, get_global_id(0) * GS_ROWS,
                   get_global_id(1) * 2 * GS_VECTOR);
}

/* GS_DOT_ROWS x GS_DOT_COLUMNS elements of C for each work-item, for a_col = b_row = 1 and k >= GS_VECTOR (the "dot" tile of
 * tile.clh). The last vector moves back until it fits, and what was counted before is taken as 0. */
GS_ONCE void dot_tile(__global float *c, __global const float *a, __global const float *b,
                      __global const float *bias, gemm_sizes s, size_t row, size_t column) {
    __global const float *x[GS_DOT_ROWS], *y[GS_DOT_COLUMNS];
    vec sum[GS_DOT_ROWS][GS_DOT_COLUMNS];
#pragma unroll
    for (int r = 0; r < GS_DOT_ROWS; r++) {
        x[r] = a + min(row + r, (size_t)s.m - 1) * s.a_row;
#pragma unroll
        for (int j = 0; j < GS_DOT_COLUMNS; j++) sum[r][j] = 0;
    }
#pragma unroll
    for (int j = 0; j < GS_DOT_COLUMNS; j++) y[j] = b + min(column + j, (size_t)s.n - 1) * s.b_col;

    for (size_t k = 0; k + GS_VECTOR <= s.k; k += GS_VECTOR) DOT_STEP(sum, load(x[r] + k), load(y[j] + k))
    if (s.k % GS_VECTOR != 0) {
        const size_t k = s.k - GS_VECTOR;
        const ivec counted = lane_numbers() < (ivec)(GS_VECTOR - (int)(s.k % GS_VECTOR));
        DOT_STEP(sum, counted ? (vec)(0) : load(x[r] + k), counted ? (vec)(0) : load(y[j] + k))
    }

    const int columns = (int)min(s.n - column, (ulong)GS_DOT_COLUMNS);
    float4 shift = 0;
    if (s.has_bias) {
        bias += column;
        shift.x = bias[0];
        if (columns > 1) shift.y = bias[1];
        if (columns > 2) shift.z = bias[2];
        if (columns > 3) shift.w = bias[3];
    }
#pragma unroll
    for (int r = 0; r < GS_DOT_ROWS; r++)
        if (row + r < s.m) {
            const float4 value = sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]) + shift;
            store_first4(s.relu ? (value < 0 ? 0 : value) : value, c + (row + r) * s.n + column, columns);
        }
}

__kernel void gemm_dot(__global float *c, ulong c_at, __global const float *a, ulong a_at,
                       __global const float *b, ulong b_at, __global const float *bias, ulong bias_at,
                       gemm_sizes s) {
    dot_tile(c + c_at, a + a_at, b + b_at, bias + bias_at, s, get_global_id(0) * GS_DOT_ROWS,
             get_global_id(1) * GS_DOT_COLUMNS);
}

#endif
