/* The self-test of gs_device_set_exact: the few operations of which all others are made have the bits of IEEE 754.
 * OpenCL's own claims do not suffice: some devices round correctly without claiming it, and an option or a library can
 * flush subnormal numbers on a CPU. */
#include "backend.h"
#include "core/bits.h"
#include "core/philox.h"

#include <math.h>

enum { COUNT = 2048, KINDS = 6, OPERATIONS = 6 };

static const struct {
    const char *wrong, *formula;
} operation[OPERATIONS] = {
    {"addition is not correctly rounded", "a + b"},
    {"multiplication is not correctly rounded", "a * b"},
    {"division is not correctly rounded", "a / b"},
    {"the square root is not correctly rounded", "sqrt(|a|)"},
    {"fma does not round once", "fma(a, b, c)"},
    {"a product and a sum are not rounded separately", "a * b + c"},
};

/* ---- IEEE 754 in integers and normal doubles, which no mode of this processor for subnormal numbers affects ---- */

static double wide(float x) {
    const uint32_t bits = gs_bits_of_float(x), e = bits >> 23 & 0xff, m = bits & 0x7fffff;
    const double size = e == 255 ? INFINITY : ldexp((int)(e ? m | 1 << 23 : m), (int)(e ? e : 1) - 150);
    return bits >> 31 ? -size : size;
}

/* The nearest float; the even one of two. */
static float narrow(double x) {
    const union {
        double d;
        uint64_t u;
    } bits = {x};
    const int e = (int)(bits.u >> 52 & 0x7ff) - 1023, below = e < -126 ? -126 - e : 0,
              shift = below < 25 ? 29 + below : 54;
    const uint64_t m = (bits.u & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1) << 52), q = m >> shift,
                   rest = m - (q << shift), half = UINT64_C(1) << (shift - 1),
                   up = rest > half || (rest == half && (q & 1)),
                   whole = (e < -126 ? 0 : (uint64_t)(e + 126) << 23) + q + up;
    return gs_float_of((uint32_t)(bits.u >> 63) << 31 | (uint32_t)(whole < 0x7f800000 ? whole : 0x7f800000));
}

/* a b + c rounded to odd, so that narrow rounds it as if it were exact (cpu/product.h: gs_fma). */
static double fused(double a, double b, double c) {
    const double p = a * b, sum = p + c, of_c = sum - p, error = (p - (sum - of_c)) + (c - of_c);
    union {
        double d;
        uint64_t u;
    } bits = {sum};
    if (error != 0 && !(bits.u & 1)) bits.u += (error < 0) == (sum < 0) ? 1 : UINT64_MAX;
    return bits.d;
}

/* A double has more than twice as many bits as a float, so +, *, / and the root can be rounded in two steps. */
static float wanted(int which, float a_, float b_, float c_) {
    const double a = wide(a_), b = wide(b_), c = wide(c_);
    return narrow(which == 0   ? a + b
                  : which == 1 ? a * b
                  : which == 2 ? a / b
                  : which == 3 ? sqrt(fabs(a))
                  : which == 4 ? fused(a, b, c)
                               : wide(narrow(a * b)) + c);
}

/* ---- the inputs ---- */

/* A float with the sign and the last 23 bits of `word`. */
static float drawn(uint32_t word, int exponent) {
    return gs_float_of((word & 0x807fffff) | (uint32_t)exponent << 23);
}

static void draw(float in[3][COUNT]) {
    for (int i = 0; i < COUNT; i++) {
        uint32_t w[4];
        gs_philox(754, 0, (uint64_t)i, w);
        const int e = (int)(w[3] % 100), f = (int)(w[3] >> 8) % 24;
        const int kind[KINDS][3] = {{120 + e % 8, 120 + f % 8, 118 + (e + f) % 12}, /* near 1 */
                                    {120 + e % 8, 120 + f % 8, 127},
                                    {1 + e, 104 - e + f, f}, /* subnormal results */
                                    {1 + f, 127 + f, 1},
                                    {e % 2, f % 2, 0}, /* subnormal inputs */
                                    {2 * e + f, 227 - e, 200 - e}};
        for (int k = 0; k < 3; k++) in[k][i] = drawn(w[k], kind[i % KINDS][k]);
        if (i % KINDS == 1)
            in[2][i] = -narrow(wide(in[0][i]) * wide(in[1][i])); /* what remains is rounding */
    }
    in[0][0] = in[2][0] = 1;
    in[1][0] = 3;
}

/* ---- the test ---- */

static gs_status compare(const gs_device *d, float in[3][COUNT], float out[OPERATIONS][COUNT]) {
    for (int k = 0; k < OPERATIONS; k++)
        for (int i = 0; i < COUNT; i++) {
            const float a = in[0][i], b = in[1][i], c = in[2][i], got = out[k][i], want = wanted(k, a, b, c);
            if (gs_bits_of_float(got) == gs_bits_of_float(want)) continue;
            const bool flushed = got == 0 && want != 0;
            return gs_fail(GS_E_DEVICE,
                           "--exact: device '%s': %s: %s is %.9g, wanted %.9g, for a = %.9g, b = %.9g, "
                           "c = %.9g; so its results would differ from other devices'",
                           d->name, flushed ? "subnormal numbers become 0" : operation[k].wrong,
                           operation[k].formula, wide(got), wide(want), wide(a), wide(b), wide(c));
        }
    return GS_OK;
}

static gs_status run(gs_device *d, gs_mem m) {
    float in[3][COUNT], out[OPERATIONS][COUNT];
    const gs_mem y = gs_at(m, 3 * COUNT);
    draw(in);
    GS_TRY(d->ops->write(d, m, in, sizeof in));
    GS_TRY(d->ops->arithmetic(d, y, m, gs_at(m, COUNT), gs_at(m, 2 * COUNT), COUNT));
    GS_TRY(d->ops->read(d, out, y, sizeof out));
    return compare(d, in, out);
}

gs_status gs_device_check_arithmetic(gs_device *d) {
    gs_memory_use peak[GS_MEMORY_PLACES];
    gs_mem m;
    if (d->dry) return GS_OK;
    memcpy(peak, d->memory.peak, sizeof peak); /* not a part of the run, whose memory is predicted */
    GS_TRY(gs_alloc(d, GS_MEMORY_WORKSPACE, (3 + OPERATIONS) * COUNT * sizeof(float), &m));
    const gs_status status = run(d, m);
    d->ops->free(d, m);
    memcpy(d->memory.peak, peak, sizeof peak);
    return status;
}
