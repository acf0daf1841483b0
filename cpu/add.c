#include "cpu/elementwise.h"

/* y = a + b */
static void sum(float *y, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

gs_status GS_ISA(gs_cpu_add)(gs_device *d, gs_mem y, gs_mem a, gs_mem b, size_t count) {
    return gs_cpu_elementwise(d, y, a, b, count, sum);
}
