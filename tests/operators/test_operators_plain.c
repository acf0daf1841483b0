/* Every operator on every device against its plain loop (cpu/plain/plain.h). */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

/* The bound on the difference between two sums of the same m numbers in different orders. An addition rounds up or down
 * by at most u = 2^-24 of the partial sum, so m roundings add up to about sqrt(m) u of it. The partial sum is about as
 * large as a typical element of the tensor (the root mean square). FACTOR covers the rarest elements (seen: 3.1). */
static const double FACTOR = 8;

static void check_beside_plain(const instance *t, const instance *want) {
    for (int i = Y; i < TENSORS; i++) {
        /* for tanh and sigmoid, dx is dy times a difference of numbers up to 1, so its terms are as large as dy */
        int like = i == DX && t->op->element_wise ? DY : i;
        double rms = root_mean_square(want->host[like], i == INDEX ? 0 : t->count[like]);
        double summands = t->count[i] ? t->op->summands(t->c->arg, (tensor)i) : 0;
        for (size_t k = 0; k < t->count[i]; k++) {
            if (memcmp(t->host[i] + k, want->host[i] + k, sizeof(float)) == 0) continue;
            double expected = (double)want->host[i][k], off = fabs((double)t->host[i][k] - expected);
            double allowed = FACTOR * sqrt(summands) * 0x1p-24 * (fabs(expected) + rms);
            if (i == INDEX || !(off <= allowed))
                fail_msg("%s on %s: %s[%zu] is %.9g, by the plain loop %.9g: off by %.2g, tolerance %.2g",
                         operator_case_name(t->c), t->device->name, tensor_names[i], k, (double)t->host[i][k],
                         expected, off, allowed);
        }
    }
}

static void like_plain(void **state) {
    gs_test_need_whole();
    gs_device *plain = gs_test_open_plain();
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
        instance want;
        instance_open(&want, plain, c, 5);
        instance_run(&want);
        FOR_EACH_DEVICE (d) {
            instance t;
            instance_open(&t, d, c, 0);
            instance_run(&t);
            check_beside_plain(&t, &want);
        }
    }
}

/* The two operators outside the table of cases. */
TEST(like_plain_without_a_case) {
    enum { N = 1001 };
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_device *all[16] = {gs_test_open_plain()};
    static float x[N], want[2][N], got[2][N];
    static unsigned char bytes[4 * N];
    const gs_byte_scale scale = {3, 91, {0.0123f, 0.5f, 2}, {-1.5f, 1, 3}};
    for (size_t i = 0; i < N; i++) x[i] = test_value(i, SALT_X);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)test_hash(i, SALT_LABELS);
    assert_true(count < 16);
    for (int d = 0; d < count; d++) all[d + 1] = devices[d];
    for (int d = 0; d <= count; d++) {
        const gs_backend *ops = all[d]->ops;
        gs_mem b = gs_test_alloc(all[d], sizeof x), a = gs_test_put(all[d], bytes, sizeof bytes);
        assert_ok(ops->bytes_to_float(all[d], b, a, &scale, N));
        assert_ok(ops->read(all[d], got[0], b, sizeof x));
        assert_ok(ops->write(all[d], a, x, sizeof x));
        assert_ok(ops->add(all[d], b, a, b, N));
        assert_ok(ops->read(all[d], got[1], b, sizeof x));
        if (d == 0) memcpy(want, got, sizeof got);
        for (size_t i = 0; i < N; i++) { /* sums of two terms (a product and the shift) and of three */
            assert_near(got[0][i], want[0][i], FACTOR * sqrt(2) * 0x1p-24, 0);
            assert_near(got[1][i], want[1][i], FACTOR * sqrt(3) * 0x1p-24, 0);
        }
    }
}

#define OPERATOR(op) {"like plain " #op, like_plain, NULL, NULL, #op},

GS_TESTS(operators_plain, TESTED_OPERATORS(OPERATOR))
