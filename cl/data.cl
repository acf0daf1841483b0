#include "common.clh"

/* y[i] = scale * bytes[i] + shift */
__kernel GS_OF_VECTORS void bytes_to_float(__global float *y, ulong y_at, __global const uchar *bytes,
                                           float scale, float shift, ulong count) {
    y += y_at;
    size_t i = GS_FIRST;
    if (i + GS_VECTOR <= count) {
#if GS_VECTOR == 1
        y[i] = scale * convert_float(bytes[i]) + shift;
#else
        GS_PASTE(uchar, GS_VECTOR) b = GS_PASTE(vload, GS_VECTOR)(0, bytes + i);
        store(scale * GS_PASTE(convert_float, GS_VECTOR)(b) + shift, y + i);
#endif
    } else {
        for (; i < count; i++) y[i] = scale * convert_float(bytes[i]) + shift;
    }
}
