/* tanh: accuracy over the whole range of floats, and identical bits on cpu and OpenCL. */
#include "tests/support/on_devices.h"

#include <float.h>
#include <math.h>

enum { BLOCK = 1 << 15 };

/* The distance between y and tanh(x), in ulps. */
static double ulps_off(float y, float x) {
    double want = tanh((double)x), size = fabs(want);
    int exponent;
    frexp(size < 1 ? size : 0.75, &exponent);
    double ulp = ldexp(1, exponent - 24);
    return fabs((double)y - want) / (ulp > (double)FLT_TRUE_MIN ? ulp : (double)FLT_TRUE_MIN);
}

static void forward(gs_device *d, float *y, const float *x, size_t n) {
    gs_mem to = gs_test_alloc(d, n * sizeof *x), from = gs_test_put(d, x, n * sizeof *x);
    assert_ok(d->ops->tanh_forward(d, to, from, n));
    assert_ok(d->ops->read(d, y, to, n * sizeof *y));
}

/* Both signs of every STEP-th of the 2^32 floats, and of every DENSE-th where tanh(x) is neither x nor 1. */
TEST(within_2_ulp_and_the_same_on_all_devices) {
    enum { STEP = 65521, DENSE = 1009 };
    const uint32_t is_x_below = bits_of(0x1p-13f), is_1_from = bits_of(9.02f);
    static float x[BLOCK], y[BLOCK], on_cpu[BLOCK];
    gs_device *cpu = gs_test_device("cpu", 1);
    double worst = 0;
    for (uint32_t next = 0; next < 0x7f800000;) {
        size_t n = 0;
        while (n + 1 < BLOCK && next < 0x7f800000) {
            x[n] = float_of(next);
            x[n + 1] = -x[n];
            n += 2;
            next += next >= is_x_below && next < is_1_from ? DENSE : STEP;
        }
        forward(cpu, on_cpu, x, n);
        FOR_EACH_DEVICE (d) {
            const bool exact = gs_test_divides_exactly(d);
            forward(d, y, x, n);
            for (size_t k = 0; k < n; k++) {
                double off = ulps_off(y[k], x[k]);
                if (!(off <= 2))
                    fail_msg("%s: tanh(%a) is %a, %g ulp off", d->name, (double)x[k], (double)y[k], off);
                if (fabsf(x[k]) >= 9.02f && fabsf(y[k]) != 1)
                    fail_msg("%s: tanh(%g) is %a", d->name, (double)x[k], (double)y[k]);
                if (exact && bits_of(y[k]) != bits_of(on_cpu[k]))
                    fail_msg("%s: tanh(%a) is %a, on cpu %a", d->name, (double)x[k], (double)y[k],
                             (double)on_cpu[k]);
                if (off > worst) worst = off;
            }
        }
    }
    assert_true(worst > 0.4); /* the comparison included rounded values */
}

static void special_values_on(gs_device *d) {
    static const float x[] = {0,       -0.0f,   INFINITY, -INFINITY, FLT_TRUE_MIN, -FLT_TRUE_MIN,
                              FLT_MIN, FLT_MAX, -FLT_MAX, 20,        -1e30f,       NAN};
    static const float want[] = {0, -0.0f, 1, -1, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, 1, -1, 1, -1, NAN};
    enum { N = sizeof x / sizeof *x };
    for (size_t first = 0; first < N; first++) { /* so that each value comes first, and the last one alone */
        float y[N];
        forward(d, y, x + first, N - first);
        for (size_t k = first; k < N; k++)
            if (isnan(want[k]) ? !isnan(y[k - first]) : bits_of(y[k - first]) != bits_of(want[k]))
                fail_msg("%s: tanh(%g) is %a", d->name, (double)x[k], (double)y[k - first]);
    }
}
ON_EVERY_DEVICE(special_values)

/* Where tanh rounds to 1 its derivative is 0: a saturated unit learns nothing from any gradient. */
static void the_derivative_becomes_0_on(gs_device *d) {
    enum { N = 19 };
    float x[N], y[N], dy[N], dx[N];
    for (int k = 0; k < N; k++) {
        x[k] = (k % 2 ? -9.02f : 9.02f) * (float)(1 + k);
        dy[k] = 1e30f;
    }
    forward(d, y, x, N);
    gs_mem a = gs_test_put(d, y, sizeof y), b = gs_test_put(d, dy, sizeof y);
    assert_ok(d->ops->tanh_backward(d, b, b, a, N));
    assert_ok(d->ops->read(d, dx, b, sizeof dx));
    for (int k = 0; k < N; k++) assert_true(dx[k] == 0);
}
ON_EVERY_DEVICE(the_derivative_becomes_0)
