#include "common.clh"

/* x[i] = value */
__kernel GS_OF_VECTORS void fill(__global float *x, ulong x_at, float value, ulong count) {
    x += x_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
        store((vec)(value), x + i);
    } else {
        for (; i < count; i++) x[i] = value;
    }
}
