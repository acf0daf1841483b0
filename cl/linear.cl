#include "common.clh"

/* The products are those of gemm.cl; this is what is left of linear. */

/* db[o] = sum_i dy[i][o], in the order of i, or += with `add`; one work-item for GS_VECTOR neighbouring o. With `relu` only that dy counts
 * whose y is larger than 0, and it is kept in `passed` for the products; else y and passed are not touched. */
__kernel void linear_db(__global float *db, ulong db_at, __global const float *dy, ulong dy_at, ulong n,
                        ulong out, __global const float *y, ulong y_at, __global float *passed, int relu,
                        int has_db, int add) {
    const size_t o = GS_FIRST;
    db += db_at;
    dy += dy_at;
    y += y_at;
    if (o + GS_VECTOR <= out) {
        vec sum = 0;
        for (size_t i = 0; i < n; i++) {
            vec value = load(dy + i * out + o);
            if (relu) {
                value = load(y + i * out + o) > 0 ? value : 0;
                store(value, passed + i * out + o);
            }
            sum += value;
        }
        if (has_db) store(add ? load(db + o) + sum : sum, db + o);
        return;
    }
    for (size_t k = o; k < out; k++) {
        float sum = 0;
        for (size_t i = 0; i < n; i++) {
            float value = dy[i * out + k];
            if (relu) passed[i * out + k] = value = y[i * out + k] > 0 ? value : 0;
            sum += value;
        }
        if (has_db) db[k] = add ? db[k] + sum : sum;
    }
}
