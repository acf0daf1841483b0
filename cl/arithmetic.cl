#include "common.clh"

/* y (6, count) = a + b, a b, a / b, sqrt(|a|), a b + c rounded once, and rounded twice; count is a multiple of 16 */
__kernel GS_OF_VECTORS void arithmetic(__global float *y, ulong y_at, __global const float *a_, ulong a_at,
                                       __global const float *b_, ulong b_at, __global const float *c_,
                                       ulong c_at, ulong count) {
    const size_t i = GS_FIRST;
    if (i >= count) return;
    y += y_at + i;
    const vec a = load(a_ + a_at + i), b = load(b_ + b_at + i), c = load(c_ + c_at + i);
    store(a + b, y);
    store(a * b, y + count);
    store(a / b, y + 2 * count);
    store(sqrt(fabs(a)), y + 3 * count);
    store(fma(a, b, c), y + 4 * count);
    store(a * b + c, y + 5 * count);
}
