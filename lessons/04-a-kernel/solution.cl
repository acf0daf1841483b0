/* Lesson 4: the product C = A B, four times. A is (m, k), B is (k, n), C is (m, n), row by row:
 *
 *     c[row * n + column] = sum over t < k of a[row * k + t] * b[t * n + column]
 *
 * m, n and k are at least 1, and need not be a multiple of anything. C is WRITTEN: its old contents do not matter.
 * Never write or read beyond the end of A, B or C, even if you discard what you read. Only whole work-groups start, so
 * at the lower and the right edge some work-items have no element of C.
 *
 * tasks.h says how many work-items run each kernel. Write fma(x, y, sum) for sum + x * y. min(x, y) needs two
 * arguments of one type: "call to '_cl_min' is ambiguous" means that they differ.
 *
 * Each kernel is compiled separately, with TASK = 1 for 4.1, 2 for 4.2, ...: an error in one does not affect the
 * others.
 */
#define lab_blank(task) /* marks a blank, for the grader */

#define TILE 16   /* 4.2: a work-group has TILE x TILE work-items */
#define EACH 4    /* 4.3: a work-item computes EACH x EACH elements */
#define HIGH 8    /* 4.4: a work-item computes HIGH rows ... */
#define VECTOR 16 /* ... of VECTOR elements, one float16 each */

#if TASK == 1
/* One element of C for each work-item. */
__kernel void product_element(__global float *c, __global const float *a, __global const float *b, ulong m,
                              ulong n, ulong k) {
    const size_t column = get_global_id(0), row = get_global_id(1);
    /* task 4.1: compute the element (row, column), if it exists: the sum over t. Keep the sum in a variable, and write
     * it to c once. */
    if (row >= m || column >= n) return;
    float sum = 0;
    for (size_t t = 0; t < k; t++) sum = fma(a[row * k + t], b[t * n + column], sum);
    c[row * n + column] = sum;
    /* end of task 4.1 */
}
#endif

#if TASK == 2
/* Again one element for each work-item, but a work-group fetches a tile of A and a tile of B to local memory for all of
 * its work-items: TILE values of t at a time. */
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1))) void
product_local(__global float *c, __global const float *a, __global const float *b, ulong m, ulong n, ulong k) {
    __local float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const size_t column = get_global_id(0), row = get_global_id(1);
    const size_t x = get_local_id(0), y = get_local_id(1); /* where in the tile this work-item is */
    /* task 4.2: for first = 0, TILE, 2 TILE, ... < k: fetch a_tile[y][x] = A(row, first + x) and b_tile[y][x] = B(first
     * + y, column), or 0 if there is no such element; then add the TILE products of row y of a_tile and column x of
     * b_tile. All must wait for each other between fetching and using, and between using and fetching again:
     * barrier(CLK_LOCAL_MEM_FENCE). All work-items of a group must reach each barrier, even those without an element of
     * C: so never return before the loop. */
    float sum = 0;
    for (size_t first = 0; first < k; first += TILE) {
        a_tile[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0;
        b_tile[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < TILE; t++) sum = fma(a_tile[y][t], b_tile[t][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row < m && column < n) c[row * n + column] = sum;
    /* end of task 4.2 */
}
#endif

#if TASK == 3
/* EACH x EACH elements for each work-item, in registers: 2 EACH numbers are loaded for EACH * EACH products. */
__kernel void product_register(__global float *c, __global const float *a, __global const float *b, ulong m,
                               ulong n, ulong k) {
    const size_t column = get_global_id(0) * EACH, row = get_global_id(1) * EACH; /* of the first element */
    /* task 4.3: compute those elements (row + i, column + j), i and j < EACH, that exist. For each t load EACH numbers
     * of A and EACH of B, then do all products. At the edges compute the last row or column again where there is no
     * other (min(row + i, (size_t)m - 1)), and store only elements that exist. Write #pragma unroll before the loops
     * over i and j: an array stays in registers only if the compiler knows every index into it. */
    if (row >= m || column >= n) return;
    __global const float *a_row[EACH];
    size_t b_column[EACH];
    float sum[EACH][EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        a_row[i] = a + min(row + i, (size_t)m - 1) * k;
        b_column[i] = min(column + i, (size_t)n - 1);
#pragma unroll
        for (int j = 0; j < EACH; j++) sum[i][j] = 0;
    }
    for (size_t t = 0; t < k; t++) {
        float x[EACH], y[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            x[i] = a_row[i][t];
            y[i] = b[t * n + b_column[i]];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) sum[i][j] = fma(x[i], y[j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (row + i < m && column + j < n) c[(row + i) * n + column + j] = sum[i][j];
    /* end of task 4.3 */
}
#endif

#if TASK == 4
/* HIGH rows of VECTOR elements for each work-item. Here get_global_id(0) counts rows: consecutive work-items of a core
 * use the same columns of B, which are still in its cache. */
__kernel void product_vector(__global float *c, __global const float *a, __global const float *b, ulong m,
                             ulong n, ulong k) {
    const size_t row = get_global_id(0) * HIGH, column = get_global_id(1) * VECTOR; /* of the first element */
    /* task 4.4: as before, with a float16 (16 floats) for each row. For each t load one vector of B, vload16(0,
     * address). For each row copy a number of A into all 16 elements, (float16)(number), and fma it with that vector;
     * at the end vstore16(vector, 0, address). (The 0 counts vectors from the address.) Compute the address of each row
     * of A before the loop over t (#pragma unroll here too): it is faster. Treat the lower edge as in task 4.3. At the
     * right edge, where fewer than VECTOR columns are left, compute the elements of all rows one by one, as in task
     * 4.1. */
    if (row >= m || column >= n) return;
    if (column + VECTOR > n) {
        for (size_t i = row; i < min(row + HIGH, (size_t)m); i++)
            for (size_t j = column; j < n; j++) {
                float one = 0;
                for (size_t t = 0; t < k; t++) one = fma(a[i * k + t], b[t * n + j], one);
                c[i * n + j] = one;
            }
        return;
    }
    __global const float *a_row[HIGH];
    float16 sum[HIGH];
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
        a_row[i] = a + min(row + i, (size_t)m - 1) * k;
        sum[i] = 0;
    }
    for (size_t t = 0; t < k; t++) {
        const float16 y = vload16(0, b + t * n + column);
#pragma unroll
        for (int i = 0; i < HIGH; i++) sum[i] = fma((float16)(a_row[i][t]), y, sum[i]);
    }
#pragma unroll
    for (int i = 0; i < HIGH; i++)
        if (row + i < m) vstore16(sum[i], 0, c + (row + i) * n + column);
    /* end of task 4.4 */
}
#endif
