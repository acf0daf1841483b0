#include "elementwise.clh"
#include "stored.clh"

/* Between f32 and 16 bits, in the variants bf16/round16 and f16/round16. */

#if GS_VECTOR == 1
#define load_first_halves(from, count) load_halves(from)
#define store_first_halves(v, to, count) store_halves(v, to)
#else
static hvec load_first_halves(__global const ushort *from, size_t count) {
    ushort part[GS_VECTOR] = {0};
    for (size_t j = 0; j < count && j < GS_VECTOR; j++) part[j] = from[j];
    return GS_PASTE(vload, GS_VECTOR)(0, part);
}
static void store_first_halves(hvec v, __global ushort *to, size_t count) {
    ushort part[GS_VECTOR];
    GS_PASTE(vstore, GS_VECTOR)(v, 0, part);
    for (size_t j = 0; j < count && j < GS_VECTOR; j++) to[j] = part[j];
}
#endif

/* Where x is the y of a relu, -0 for 0, whose products are the same: so a positive number that is rounded to 0 is told
 * from 0. */
static hvec narrowed_or_marked(vec x, int relu) {
    return narrowed(relu ? (x == 0 ? (vec)-0.0f : x) : x);
}

/* to[i] = the 16 bits of x[i], rounded */
__kernel GS_OF_VECTORS void narrow(__global ushort *to, ulong to_at, __global const float *x, ulong x_at,
                                   ulong count, int relu) {
    const size_t i = GS_FIRST;
    to += to_at;
    x += x_at;
    if (i + GS_VECTOR <= count)
        store_halves(narrowed_or_marked(load(x + i), relu), to + i);
    else if (i < count)
        store_first_halves(narrowed_or_marked(load_first(x + i, count - i), relu), to + i, count - i);
}

/* dx[i] = dy[i] where the relu with this y passes it, else 0 */
__kernel GS_OF_VECTORS void pass(__global float *dx, ulong dx_at, __global const float *dy, ulong dy_at,
                                 __global const ushort *y, ulong y_at, ulong count) {
    const size_t i = GS_FIRST;
    dx += dx_at;
    dy += dy_at;
    y += y_at;
    if (i + GS_VECTOR <= count) {
        store(passes_stored(y + i) ? load(dy + i) : 0, dx + i);
    } else if (i < count) {
        const vec rest = load_first(dy + i, count - i);
        const hvec gate = load_first_halves(y + i, count - i);
        store_first(convert_ivec(gate) <= STORED_INFINITY ? rest : 0, dx + i, (int)(count - i));
    }
}
