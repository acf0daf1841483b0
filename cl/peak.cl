/* Measures the device's limits: fused multiply-adds in registers, and memory bandwidth. */
#include "common.clh"

/* Vectors per work-item: enough independent ones to keep the units busy, and few enough to fit in registers. */
#if GS_VECTOR == 16
#define BLOCK 12
#else
#define BLOCK 8
#endif

/* y[i] = scale y[i] + shift, `rounds` times. Work-item k handles the BLOCK GS_VECTOR elements from k BLOCK GS_VECTOR
 * on; the last one handles its elements one by one. */
__kernel GS_OF_VECTORS void fma_loop(__global float *y, ulong y_at, float scale, float shift, ulong count,
                                     ulong rounds) {
    size_t i = get_global_id(0) * (BLOCK * GS_VECTOR);
    y += y_at;
    if (i + BLOCK * GS_VECTOR <= count) {
        vec v[BLOCK], a = (vec)(scale), b = (vec)(shift);
#pragma unroll
        for (int k = 0; k < BLOCK; k++) v[k] = load(y + i + k * GS_VECTOR);
        for (ulong r = 0; r < rounds; r++) {
#pragma unroll
            for (int k = 0; k < BLOCK; k++) v[k] = fma(v[k], a, b);
        }
#pragma unroll
        for (int k = 0; k < BLOCK; k++) store(v[k], y + i + k * GS_VECTOR);
    } else {
        for (; i < count; i++) {
            float x = y[i];
            for (ulong r = 0; r < rounds; r++) x = fma(x, scale, shift);
            y[i] = x;
        }
    }
}

/* y[i] = a[i] + scale b[i] */
__kernel GS_OF_VECTORS void triad(__global float *y, ulong y_at, __global const float *a, ulong a_at,
                                  __global const float *b, ulong b_at, float scale, ulong count) {
    size_t i = GS_FIRST;
    y += y_at;
    a += a_at;
    b += b_at;
    if (i + GS_VECTOR <= count) {
        store(load(a + i) + scale * load(b + i), y + i);
    } else {
        for (; i < count; i++) y[i] = a[i] + scale * b[i];
    }
}
