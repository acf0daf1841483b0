#include "cpu/plain/plain.h"

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

/* largest = the bits of the largest |x|; high 2^32 + low = sum M^2 2^14 / 4^(top - E): see src/optim/norm.h */
gs_status gs_plain_squares(gs_device *d, gs_mem x_, size_t count, uint32_t top, gs_squares *out) {
    (void)d;
    const float *x = gs_plain_at(x_);
    *out = (gs_squares){0, top > 1 ? top : 1, 0, 0};
    for (size_t i = 0; i < count; i++)
        if (bits_of(x[i]) > out->largest) out->largest = bits_of(x[i]);
    if (out->largest >> 23 > out->top) out->top = out->largest >> 23;
    for (size_t i = 0; i < count; i++) {
        uint32_t e = bits_of(x[i]) >> 23, shift = 2 * (out->top - (e > 0 ? e : 1));
        uint64_t m = (bits_of(x[i]) & 0x7fffff) | (e > 0 ? 0x800000 : 0);
        uint64_t square = shift < 64 ? (m * m << 14) >> shift : 0;
        out->high += square >> 32;
        out->low += square & 0xffffffff;
    }
    return GS_OK;
}
