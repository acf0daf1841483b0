#include "common.clh"

/* The products are those of gemm.cl; this is what is left of linear. */

/* db[o] += sum_i dy[i][o], in the order of i; one work-item for GS_VECTOR neighbouring o */
__kernel void linear_db(__global float *db, ulong db_at, __global const float *dy, ulong dy_at, ulong n,
                        ulong out) {
    size_t o = GS_FIRST;
    db += db_at;
    dy += dy_at;
    if (o + GS_VECTOR <= out) {
        vec sum = 0;
        for (size_t i = 0; i < n; i++) sum += load(dy + i * out + o);
        store(load(db + o) + sum, db + o);
    } else {
        for (; o < out; o++) {
            float sum = 0;
            for (size_t i = 0; i < n; i++) sum += dy[i * out + o];
            db[o] += sum;
        }
    }
}
