/* Compares sgd_update, an operator without backward, with PyTorch's step, on every device and in the plain loop. */
#include <float.h>
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/golden.h"
#include "tests/support/operators.h"

/* Elements may differ by TOLERANCE * (|wanted| + root mean square of the tensor). */
static const double TOLERANCE = 1e-5;

static float *new_floats(size_t count) {
    return gs_test_calloc(count + 1, sizeof(float));
}

static void update_three_times(gs_device *device, const operator_case *c, size_t offset) {
    const gs_backend *ops = device->ops;
    size_t count = (size_t)c->arg[0], bytes = count * sizeof(float);
    float scale = (float)c->arg[1] / 1e3f, lr = (float)c->arg[2] / 1e3f, momentum = (float)c->arg[3] / 1e3f,
          decay = (float)c->arg[4] / 1e3f;
    gs_mem w, v = GS_NONE, dw;
    float *all = new_floats(offset + count), *host = all + offset; /* written at once: see write_guarded */
    dw = gs_test_alloc(device, bytes + offset * sizeof(float));
    if (momentum > 0) v = gs_test_alloc(device, bytes + offset * sizeof(float));
    gs_mem v_here = momentum > 0 ? gs_at(v, offset) : GS_NONE;
    for (size_t i = 0; i < count; i++) host[i] = test_value(i, SALT_W);
    w = gs_test_put(device, all, bytes + offset * sizeof(float));
    for (uint32_t step = 0; step < 3; step++) {
        for (size_t i = 0; i < count; i++) host[i] = test_value(i, SALT_DY + 10 * step);
        assert_ok(ops->write(device, dw, all, bytes + offset * sizeof(float)));
        assert_ok(ops->sgd_update(device, gs_at(w, offset), v_here, gs_at(dw, offset), count, scale, lr,
                                  momentum, decay));
    }
    const char *name = operator_case_name(c);
    assert_ok(ops->read(device, host, gs_at(w, offset), bytes));
    if (count > 0) golden_check("sgd_update", name, "w", host, count, TOLERANCE, device->name);
    if (momentum > 0) {
        assert_ok(ops->read(device, host, v_here, bytes));
        if (count > 0) golden_check("sgd_update", name, "v", host, count, TOLERANCE, device->name);
    }
}

TEST(sgd_update) {
    FOR_EACH_DEVICE (d)
        for (const operator_case *c = next_case("sgd_update", NULL); c; c = next_case("sgd_update", c)) {
            update_three_times(d, c, 0);
            update_three_times(d, c, 3);
        }
    gs_device *plain = gs_test_open_plain();
    for (const operator_case *c = next_case("sgd_update", NULL); c; c = next_case("sgd_update", c))
        update_three_times(plain, c, 3);
}

/* Without a gradient the velocity decays by a tenth per step to 0. 19 elements: full vectors and a remainder. */
TEST(velocity_ends_at_zero) {
    enum { N = 19 };
    FOR_EACH_DEVICE (d) {
        const gs_backend *ops = d->ops;
        float x[N], y[N];
        for (int i = 0; i < N; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * FLT_MIN * (i % 3 ? 1.05f : 1.25f);
        x[N - 1] = NAN; /* must stay NaN, not be cleared */
        gs_mem w = gs_test_alloc(d, sizeof x), dw = gs_test_alloc(d, sizeof x), v;
        assert_ok(ops->fill(d, w, 0, N));
        assert_ok(ops->fill(d, dw, 0, N));
        v = gs_test_put(d, x, sizeof x);
        assert_ok(ops->sgd_update(d, w, v, dw, N, 1, 0.05f, 0.9f, 0));
        assert_ok(ops->read(d, y, v, sizeof y));
        for (int i = 0; i < N - 1; i++) {
            if (i % 3) assert_true(y[i] == 0);
            if (i % 3 == 0) assert_near(y[i], 0.9f * x[i], 0.01 * FLT_MIN, 0);
        }
        assert_true(isnan(y[N - 1]));
    }
}
