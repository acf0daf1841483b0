#include "common.clh"

static float of_channel(float4 x, size_t c) {
    return c == 0 ? x.s0 : c == 1 ? x.s1 : c == 2 ? x.s2 : x.s3;
}

/* y[i] = scale[c] * bytes[i] + shift[c], with c = floor(i / plane) modulo channels. A vector that lies within one
 * channel uses one scale; the few other vectors are converted element by element. */
__kernel GS_OF_VECTORS void bytes_to_float(__global float *y, ulong y_at, __global const uchar *bytes,
                                           float4 scale, float4 shift, ulong plane, ulong channels,
                                           ulong count) {
    y += y_at;
    const size_t first = GS_FIRST, end = min((ulong)(first + GS_VECTOR), count);
    const size_t place = first / plane;
    if (first + GS_VECTOR <= min(count, (place + 1) * plane)) {
        const float a = of_channel(scale, place % channels), b = of_channel(shift, place % channels);
#if GS_VECTOR == 1
        y[first] = a * convert_float(bytes[first]) + b;
#else
        GS_PASTE(uchar, GS_VECTOR) x = GS_PASTE(vload, GS_VECTOR)(0, bytes + first);
        store(a * GS_PASTE(convert_float, GS_VECTOR)(x) + b, y + first);
#endif
    } else {
        for (size_t i = first; i < end; i++) {
            const size_t c = i / plane % channels;
            y[i] = of_channel(scale, c) * convert_float(bytes[i]) + of_channel(shift, c);
        }
    }
}
