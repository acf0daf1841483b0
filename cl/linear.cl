#include "stored.clh"

/* The products are in gemm.cl; this file has the rest of the linear layer. */

/* Neighbouring columns that one work-item of linear_db sums. On a CPU they span 128 bytes of each row: caches fetch
 * 64-byte lines in pairs. */
#ifdef GS_GPU
enum { COLUMNS = 1 };
#else
enum { COLUMNS = 32 };
#endif

/* Samples are summed by themselves up to end[0], from there to end[1], ...: JOIN_LEAF adds up these sums. One leaf
 * unless --exact cuts the batch. Must match sum_db in linear.c. */
typedef struct db_leaves {
    int leaves;
    ulong end[8];
} db_leaves;

/* linear_db for some columns (a multiple of GS_VECTOR); the pointers address the first column. */
__attribute__((always_inline)) static void sum_columns(int columns, __global float *db,
                                                       __global const stored *dy, ulong out,
                                                       __global const float *y, __global float *passed,
                                                       int relu, int has_db, int add, db_leaves of) {
    const int leaves = max(LEAVES(of), 1);
    vec sum[COLUMNS / GS_VECTOR], left[3][COLUMNS / GS_VECTOR];
    size_t i = 0;
    for (int leaf = 0; leaf < leaves; leaf++) {
#pragma unroll
        for (int v = 0; v < columns / GS_VECTOR; v++) sum[v] = 0;
        for (; i < of.end[leaf]; i++, dy += out, y += out, passed += out)
#pragma unroll
            for (int v = 0; v < columns / GS_VECTOR; v++) {
                vec value = load_stored(dy + v * GS_VECTOR);
                if (relu) {
                    value = load(y + v * GS_VECTOR) > 0 ? value : 0;
                    store(value, passed + v * GS_VECTOR);
                }
                sum[v] += value;
            }
        JOIN_LEAF(leaf, leaves, left, sum[element], columns / GS_VECTOR)
    }
    if (!has_db) return;
#pragma unroll
    for (int v = 0; v < columns / GS_VECTOR; v++) {
        __global float *to = db + v * GS_VECTOR;
        store(add ? load(to) + sum[v] : sum[v], to);
    }
}

/* db[o] = sum_i dy[i][o], in the order of i, or += with `add`; one work-item for COLUMNS neighbouring o. With `relu`,
 * dy counts only where y > 0, and the masked dy is stored in `passed` for the products; otherwise y and passed are not
 * touched. */
__kernel GS_OF_VECTORS void linear_db(__global float *db, ulong db_at, __global const stored *dy, ulong dy_at,
                                      ulong out, __global const float *y, ulong y_at, __global float *passed,
                                      int relu, int has_db, int add, db_leaves of) {
    const int leaves = max(LEAVES(of), 1);
    size_t o = get_global_id(0) * COLUMNS;
    db += db_at;
    dy += dy_at;
    y += y_at;
    if (o + COLUMNS <= out) {
        sum_columns(COLUMNS, db + o, dy + o, out, y + o, passed + o, relu, has_db, add, of);
        return;
    }
    for (; o + GS_VECTOR <= out; o += GS_VECTOR)
        sum_columns(GS_VECTOR, db + o, dy + o, out, y + o, passed + o, relu, has_db, add, of);
    for (; o < out; o++) {
        float sum = 0, left[3][1];
        size_t i = 0;
        for (int leaf = 0; leaf < leaves; leaf++) {
            sum = 0;
            for (; i < of.end[leaf]; i++) {
                float value = number(dy[i * out + o]);
                if (relu) passed[i * out + o] = value = y[i * out + o] > 0 ? value : 0;
                sum += value;
            }
            JOIN_LEAF(leaf, leaves, left, sum, 1)
        }
        if (has_db) db[o] = add ? db[o] + sum : sum;
    }
}
