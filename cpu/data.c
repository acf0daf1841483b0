#include "cpu/cpu.h"

/* bytes_to_float and one_hot: from stored samples to tensors. */

gs_status GS_ISA(bytes_to_float)(gs_device *d, gs_mem y, gs_mem bytes, float scale, float shift,
                                 size_t count) {
    (void)d;
    const unsigned char *from = bytes.base;
    float *to = gs_cpu_floats(y);
    for (size_t i = 0; i < count; i++) to[i] = scale * (float)from[i] + shift;
    return GS_OK;
}

gs_status GS_ISA(one_hot)(gs_device *d, gs_mem y, gs_mem labels, size_t n, int classes) {
    (void)d;
    const int32_t *label = gs_cpu_ints(labels);
    float *to = gs_cpu_floats(y);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < classes; k++) *to++ = label[i] == k ? 1.0f : 0.0f;
    return GS_OK;
}
