#include "cpu/plain/plain.h"

/* y[i] = scale[c] bytes[i] + shift[c] */
gs_status gs_plain_bytes_to_float(gs_device *d, gs_mem y_, gs_mem bytes_, const gs_byte_scale *s,
                                  size_t count) {
    (void)d;
    const unsigned char *bytes = bytes_.base;
    float *y = gs_plain_at(y_);
    for (size_t i = 0; i < count; i++) {
        size_t c = s->channels > 1 ? i / s->plane % (size_t)s->channels : 0;
        y[i] = s->scale[c] * (float)bytes[i] + s->shift[c];
    }
    return GS_OK;
}
