#include "cpu/plain/plain.h"

/* y[i] = scale bytes[i] + shift */
gs_status gs_plain_bytes_to_float(gs_device *d, gs_mem y_, gs_mem bytes_, float scale, float shift,
                                  size_t count) {
    (void)d;
    const unsigned char *bytes = bytes_.base;
    float *y = gs_plain_at(y_);
    for (size_t i = 0; i < count; i++) y[i] = scale * (float)bytes[i] + shift;
    return GS_OK;
}
