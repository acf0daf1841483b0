#include "elementwise.clh"
#include "stored.clh"

/* Converts between f32 and 16 bits: has no float variant. */

static hvec narrowed_or_marked(vec x, int relu) {
    return narrowed(relu ? MARKED(x) : x);
}

/* to[i] = x[i] rounded to 16 bits */
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

/* dx[i] = dy[i] where the relu with output y passes it, else 0 */
__kernel GS_OF_VECTORS void pass(__global flow *dx, ulong dx_at, __global const flow *dy, ulong dy_at,
                                 __global const stored *y, ulong y_at, ulong count) {
    const size_t i = GS_FIRST;
    dx += dx_at;
    dy += dy_at;
    y += y_at;
    if (i + GS_VECTOR <= count) {
        store_flow(passes_stored(y + i) ? load_flow(dy + i) : 0, dx + i);
    } else if (i < count) {
        const vec rest = load_first_flow(dy + i, count - i);
        const hvec gate = load_first_halves(y + i, count - i);
        store_first_flow(convert_ivec(gate) <= STORED_INFINITY ? rest : 0, dx + i, (int)(count - i));
    }
}
