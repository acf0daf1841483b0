/* gelu, gelu's tanh approximation, silu, the exponential function and the logarithm (cl/functions.clh): accuracy over
 * the whole range of floats, and identical bits on cpu and OpenCL. */
#include "tests/support/on_devices.h"

#include <float.h>
#include <math.h>
#include "core/functions.h"

enum { BLOCK = 1 << 15 };

/* The distance between y and `want`, in ulps of `size`. */
static double ulps_off(double y, double want, double size) {
    int exponent;
    frexp(fabs(size), &exponent);
    double ulp = ldexp(1, exponent - 24);
    return fabs(y - want) / (ulp > (double)FLT_TRUE_MIN ? ulp : (double)FLT_TRUE_MIN);
}

/* y = f(x), and its derivative as the sum of two terms, because its rounding error is relative to the larger term. */
typedef struct truth {
    double y, first, second;
    double deep; /* how much an error in the exponent adds to the usual tolerance */
} truth;

static truth gelu(double x) {
    double below = erfc(-x * M_SQRT1_2) / 2;
    return (truth){x * below, below, x * exp(-x * x / 2) * M_2_SQRTPI * M_SQRT1_2 / 2, x < -8 ? -8 - x : 0};
}

static truth gelu_tanh(double x) {
    double scale = M_2_SQRTPI * M_SQRT1_2, u2 = 2 * scale * (x + 0.044715 * x * x * x);
    double s = 1 / (1 + exp(-u2)), rest = 1 / (1 + exp(u2));
    return (truth){x * s, s, x * s * rest * 2 * scale * (1 + 3 * 0.044715 * x * x), x < 0 ? -u2 : 0};
}

static truth silu(double x) {
    double s = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));
    return (truth){x * s, s, x * s * rest, 0};
}

/* The largest error in ulps, and the extra ulps allowed per unit of `deep`. */
typedef struct unit {
    const char *name;
    size_t forward, backward;
    truth (*f)(double);
    double y_most, dx_most, y_deep, dx_deep;
} unit;

#define SLOTS(name) #name, offsetof(gs_backend, name##_forward), offsetof(gs_backend, name##_backward), name
static const unit units[] = {
    {SLOTS(gelu), 6, 12, 1, 1.5}, {SLOTS(gelu_tanh), 4, 6, 3, 3}, {SLOTS(silu), 3, 4, 0, 0}};

/* y = f(x) and dx for dy = 1 */
static void run(gs_device *d, const unit *u, float *y, float *dx, const float *x, size_t n) {
    const char *table = (const char *)d->ops;
    __typeof__(d->ops->gelu_forward) forward;
    __typeof__(d->ops->gelu_backward) backward;
    memcpy((void *)&forward, table + u->forward, sizeof forward);
    memcpy((void *)&backward, table + u->backward, sizeof backward);
    gs_mem b = gs_test_alloc(d, n * sizeof *x), a = gs_test_put(d, x, n * sizeof *x);
    assert_ok(forward(d, b, a, n));
    assert_ok(d->ops->read(d, y, b, n * sizeof *y));
    assert_ok(d->ops->fill(d, b, 1, n));
    assert_ok(backward(d, b, b, a, n));
    assert_ok(d->ops->read(d, dx, b, n * sizeof *dx));
}

static void check(const gs_device *d, const unit *u, float x, float y, float dx) {
    const truth t = u->f((double)x);
    const double deep = t.deep, slope = t.first + t.second;
    const double larger = fmax(fabs(t.first), fabs(t.second));
    if (fabs(t.y) < 0x1p-118) return; /* an intermediate result may be subnormal or 0 */
    double off = ulps_off((double)y, t.y, t.y), slope_off = ulps_off((double)dx, slope, larger);
    if (!(off <= u->y_most + u->y_deep * deep))
        fail_msg("%s: %s(%a) is %a, %g ulp off", d->name, u->name, (double)x, (double)y, off);
    if (!(slope_off <= u->dx_most + u->dx_deep * deep))
        fail_msg("%s: the derivative of %s at %a is %a, wanted %a, %g ulp off", d->name, u->name, (double)x,
                 (double)dx, slope, slope_off);
}

/* Both signs of every STEP-th of the 2^32 floats, and of every DENSE-th between 2^-13 and 30. */
static void exact_and_the_same_on_all_devices(void **state) {
    const unit *u = *state;
    enum { STEP = 65521, DENSE = 4051 };
    static float x[BLOCK], y[BLOCK], dx[BLOCK], cpu_y[BLOCK], cpu_dx[BLOCK];
    gs_device *cpu = gs_test_device("cpu", 1);
    for (uint32_t next = 0; next < GS_INFINITY;) {
        size_t n = 0;
        while (n + 1 < BLOCK && next < GS_INFINITY) {
            x[n] = float_of(next);
            x[n + 1] = -x[n];
            n += 2;
            next += next >= bits_of(0x1p-13f) && next < bits_of(30) ? DENSE : STEP;
        }
        run(cpu, u, cpu_y, cpu_dx, x, n);
        FOR_EACH_DEVICE (d) {
            const bool exact = gs_test_divides_exactly(d);
            run(d, u, y, dx, x, n);
            for (size_t k = 0; k < n; k++) {
                check(d, u, x[k], y[k], dx[k]);
                if (exact && (bits_of(y[k]) != bits_of(cpu_y[k]) || bits_of(dx[k]) != bits_of(cpu_dx[k])))
                    fail_msg("%s: %s(%a) is %a, on cpu %a; derivatives %a, %a", d->name, u->name,
                             (double)x[k], (double)y[k], (double)cpu_y[k], (double)dx[k], (double)cpu_dx[k]);
            }
        }
    }
}

/* f(x) and its derivative are x and 1 for large x, both 0 for very negative x, and NaN for a NaN. */
static void special_values(void **state) {
    const unit *u = *state;
    static const float x[] = {0, 20, 1e4f, 1e30f, FLT_MAX, INFINITY, -1e4f, -1e30f, -FLT_MAX, NAN, -NAN};
    static const float want[] = {0, 20, 1e4f, 1e30f, FLT_MAX, INFINITY, 0, 0, 0, NAN, NAN};
    static const float slope[] = {0.5f, 1, 1, 1, 1, 1, 0, 0, 0, NAN, NAN};
    enum { N = sizeof x / sizeof *x };
    FOR_EACH_DEVICE (d) {
        float y[N], dx[N];
        run(d, u, y, dx, x, N);
        for (size_t k = 0; k < N; k++) {
            if (!(isnan(want[k]) ? isnan(y[k])
                                 : y[k] == want[k] || fabsf(y[k] - want[k]) <= want[k] * 0x1p-22f))
                fail_msg("%s: %s(%g) is %a", d->name, u->name, (double)x[k], (double)y[k]);
            if (isinf(x[k])) continue; /* inf times 0 */
            if (!(isnan(slope[k]) ? isnan(dx[k]) : fabsf(dx[k] - slope[k]) <= 0x1p-22f))
                fail_msg("%s: the derivative of %s at %g is %a", d->name, u->name, (double)x[k],
                         (double)dx[k]);
        }
    }
}

TEST(exponential) {
    for (uint32_t next = 0; next < GS_INFINITY; next += 4051)
        for (int sign = 0; sign < 2; sign++) {
            const float x = float_of(next | (uint32_t)sign << 31), y = gs_exp(x);
            const double want = exp((double)x);
            if (want > (double)FLT_MAX)
                assert_true(isinf(y) && y > 0);
            else if (want < (double)FLT_MIN)
                assert_true(y == 0);
            else if (!(ulps_off((double)y, want, want) <= 1.2))
                fail_msg("exp(%a) is %a, wanted %a", (double)x, (double)y, want);
        }
    assert_true(isnan(gs_exp(NAN)) && isnan(gs_exp(-NAN)) && isnan(gs_exp(float_of(0x7f800001))));
    assert_true(gs_exp(INFINITY) > FLT_MAX && gs_exp(-INFINITY) == 0);
}

TEST(logarithm) {
    for (uint32_t next = 1; next < GS_INFINITY; next += 4051) {
        const float x = float_of(next), y = gs_log(x);
        const double want = log((double)x);
        if (!(ulps_off((double)y, want, want) <= 1))
            fail_msg("log(%a) is %a, wanted %a", (double)x, (double)y, want);
    }
    assert_true(gs_log(1) == 0 && gs_log(0) < -FLT_MAX && gs_log(-0.0f) < -FLT_MAX &&
                gs_log(INFINITY) > FLT_MAX);
    assert_true(isnan(gs_log(-1)) && isnan(gs_log(-INFINITY)) && isnan(gs_log(NAN)) && isnan(gs_log(-NAN)));
}

#define OF(i)                                                                                                \
    {"exact " #i, exact_and_the_same_on_all_devices, NULL, NULL, (void *)(uintptr_t)&units[i]},              \
        {"special values " #i, special_values, NULL, NULL, (void *)(uintptr_t)&units[i]},

GS_TESTS(activations, OF(0) OF(1) OF(2))
