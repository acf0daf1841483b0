#include "elementwise.clh"

/* The same bits as cpu/tanh.c, unless a device rounds divisions differently: same constants and order of operations,
 * and nothing contracted into an FMA. A device's own tanh may be 5 ulp off: PoCL's never exceeds 0.99999994. */
#pragma OPENCL FP_CONTRACT OFF

/* Explained in cpu/tanh.c. */
static vec tanh_of(vec x) {
    const vec size = fabs(x), a = size > 10 ? (vec)10 : size, s = a * a; /* a NaN stays a NaN */
    const vec p = 0.13332471f + s * (-0.053839244f + s * (0.021014273f + s * -0.0061886325f));
    const vec small = a + a * (s * (-0.33333313f + s * p));

    const vec a2 = a + a, round = 0x1.8p23f; /* adding it leaves the integer n in the lowest bits */
    const vec n = a2 * 1.44269504f + round, whole = n - round;
    const vec r = (a2 - whole * 0.693145752f) - whole * 1.42860677e-06f; /* ln(2), split in two */
    const vec q = 0.16666515f + r * (0.041668456f + r * (0.0083694188f + r * 0.0013813142f));
    const vec e = 1.0f + (r + r * r * (0.49999994f + r * q));
    const vec scaled = as_vec(as_ivec(e) + (as_ivec(n) << 23));
    const vec large = 1.0f - 2.0f / (scaled + 1.0f);

    return copysign(a < 0.55f ? small : large, x);
}

/* y = tanh(x) */
GS_UNARY_OF(tanh_forward, tanh_of)

/* forward: y = tanh(x), whose derivative is 1 - y^2 */
GS_BINARY(tanh_backward, dy, y, dy *(1 - y * y))
