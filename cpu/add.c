#include "cpu/elementwise.h"

/* y = a + b */
static void sum(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

GS_LOOP_OF_TWO(add, sum, GS_PRECISION_F32)
