#include "cpu/plain/plain.h"

/* y = a + b */
gs_status gs_plain_add(gs_device *d, gs_mem y_, gs_mem a_, gs_mem b_, size_t count) {
    (void)d;
    float *y = gs_plain_at(y_), *a = gs_plain_at(a_), *b = gs_plain_at(b_);
    for (size_t i = 0; i < count; i++) y[i] = a[i] + b[i];
    return GS_OK;
}
