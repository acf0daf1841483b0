/* One table of cases (operator_cases.h), every operator, every device: against PyTorch, against finite
 * differences, against the cpu device with one thread, and in all the ways in which an operator may be
 * called. */
#include <float.h>
#include <math.h>
#include "tests/devices.h"
#include "tests/golden.h"
#include "tests/operators.h"
#include "tests/test.h"

/* Elements may differ by TOLERANCE * (|wanted| + root mean square of the tensor). */
static const double TOLERANCE = 1e-5;

static void forward_backward(instance *t) {
    instance_forward(t);
    instance_backward(t);
    for (int i = Y; i < TENSORS; i++)
        if (t->place[i].base) instance_read(t, (tensor)i);
}

/* ---- against PyTorch ---- */

/* A slow checker runs this alone: the other tests run the same kernels again and would tell it nothing new. The offset
 * lets it see what is touched before and after a tensor. */

static void golden(void **state) {
    const char *op = *state;
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++)
        for (const operator_case *c = next_case(op, NULL); c; c = next_case(op, c)) {
            if (c->arg[0] == 0) continue; /* an empty batch has no values; any_call checks it */
            const char *name = operator_case_name(c), *device = devices[d]->name;
            instance t;
            instance_open(&t, devices[d], c, gs_test_small() ? 5 : 0);
            forward_backward(&t);
            for (int i = Y; i < TENSORS; i++) {
                if (t.count[i] == 0) continue;
                if (i == INDEX)
                    golden_check_int(op, name, "index", (const int *)t.host[i], t.count[i], device);
                else
                    golden_check(op, name, tensor_names[i], t.host[i], t.count[i], TOLERANCE, device);
            }
            instance_close(&t);
        }
}

/* ---- against finite differences ---- */

/* The scalar whose gradients backward computes, summed in double: sum of y dy, or the loss. */
static double scalar(instance *t) {
    if (t->count[STATS]) assert_ok(t->device->ops->fill(t->device, t->place[STATS], 0, LOSS_STATS));
    instance_forward(t);
    if (t->count[LABELS]) { /* from p, since the sum of all losses in f32 is too coarse to tell the difference
                             */
        instance_read(t, Y);
        double loss = 0;
        int classes = t->c->arg[1];
        for (size_t i = 0; i < t->count[LABELS]; i++)
            loss -= log((double)t->host[Y][i * (size_t)classes + (size_t)((int32_t *)t->host[LABELS])[i]]);
        return loss;
    }
    if (t->op->is_loss) {
        instance_read(t, STATS);
        return (double)t->host[STATS][GS_STAT_LOSS];
    }
    double sum = 0;
    instance_read(t, Y);
    for (size_t i = 0; i < t->count[Y]; i++) sum += (double)t->host[Y][i] * (double)t->host[DY][i];
    return sum;
}

/* d scalar / d element i of an input, from four values around it: exact for polynomials up to the fourth
 * degree, so that the step can be large and rounding small. The steps of operators.c stay on one side of
 * every kink. */
static double difference(instance *t, tensor input, size_t i) {
    float middle = t->host[input][i], h = t->op->step;
    double value[4];
    const float steps[4] = {-2 * h, -h, h, 2 * h};
    for (int k = 0; k < 4; k++) {
        instance_poke(t, input, i, middle + steps[k]);
        value[k] = scalar(t);
    }
    instance_poke(t, input, i, middle);
    return (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * (double)h);
}

static double root_mean_square(const float *v, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)v[i] * (double)v[i];
    return count ? sqrt(squares / (double)count) : 0;
}

static void check_gradient(instance *t, tensor input, tensor gradient) {
    /* The difference of two results, each rounded to f32, has fewer digits than they have. */
    const double tolerance = 10 * TOLERANCE;
    size_t count = t->count[gradient], checks = t->count[Y] > 20000 ? 3 : 12;
    double rms = root_mean_square(t->host[gradient], count);
    for (size_t k = 0; k < checks && k < count; k++) {
        size_t i = k == 0 ? 0 : k == 1 ? count - 1 : test_hash(k, (uint32_t)count) % count;
        double want = difference(t, input, i), got = (double)t->host[gradient][i];
        double allowed = tolerance * (fabs(want) + rms);
        if (!(fabs(got - want) <= allowed))
            fail_msg("%s on %s: %s[%zu] is %.9g, the difference quotient %.9g: off by %.2g, allowed are %.2g",
                     operator_case_name(t->c), t->device->name, tensor_names[gradient], i, got, want,
                     fabs(got - want), allowed);
    }
}

static void finite_differences(void **state) {
    if (gs_test_small()) skip();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance t;
            instance_open(&t, devices[d], c, 0);
            forward_backward(&t);
            check_gradient(&t, X, DX);
            check_gradient(&t, W, DW);
            check_gradient(&t, B, DB);
            instance_close(&t);
        }
}

/* ---- against another way to call the same ---- */

/* Every output of t is `factor` (dw, db, stats) times, or once (all others), that of `want`. */
static void check_same(const instance *t, const instance *want, float factor, const char *how) {
    for (int i = Y; i < TENSORS; i++) {
        if (!t->place[i].base) continue;
        float times = i == STATS || i == DW || i == DB ? factor : 1;
        double rms = root_mean_square(want->host[i], i == INDEX ? 0 : t->count[i]);
        for (size_t k = 0; k < t->count[i]; k++) {
            if (i == INDEX && memcmp(t->host[i] + k, want->host[i] + k, sizeof(int32_t)) == 0) continue;
            double expected = (double)(times * want->host[i][k]),
                   off = fabs((double)t->host[i][k] - expected);
            if (i != INDEX && off <= TOLERANCE * (fabs(expected) + times * rms)) continue;
            fail_msg("%s on %s, %s: %s[%zu] is %.9g, wanted %.9g", operator_case_name(t->c), t->device->name,
                     how, tensor_names[i], k, (double)t->host[i][k], expected);
        }
    }
}

/* On every device as on the cpu with one thread, and with so many that some find nothing to do. */
static void like_cpu(void **state) {
    if (gs_test_small()) skip();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_device *cpu, *threads;
    assert_ok(gs_device_open("cpu", 1, &cpu));
    assert_ok(gs_device_open("cpu", 5, &threads));
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
        instance want;
        instance_open(&want, cpu, c, 0);
        forward_backward(&want);
        for (int d = 0; d <= count; d++) {
            instance t;
            instance_open(&t, d < count ? devices[d] : threads, c, 0);
            forward_backward(&t);
            check_same(&t, &want, 1, d < count ? "beside the cpu" : "with 5 threads");
            instance_close(&t);
        }
        instance_close(&want);
    }
    gs_device_close(threads);
    gs_device_close(cpu);
}

static void check_offsets(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 5);
    forward_backward(&t);
    check_same(&t, want, 1, "5 elements into its memory");
    instance_close(&t);
}

/* With `add` dw and db are added to, stats always; the other outputs are written. */
static void check_adds_up(const instance *want, bool relu) {
    instance t;
    instance_open(&t, want->device, want->c, 1);
    t.relu = relu;
    forward_backward(&t);
    t.add = true;
    forward_backward(&t);
    check_same(&t, want, 2, "a second time");
    instance_close(&t);
}

/* A first layer: nobody wants dx. */
static void check_without_dx(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 3);
    t.place[DX] = GS_NONE;
    forward_backward(&t);
    check_same(&t, want, 1, "without dx");
    instance_close(&t);
}

static void check_in_place(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 2);
    t.place[Y] = t.place[X];
    t.place[DX] = t.place[DY];
    instance_forward(&t);
    instance_backward(&t);
    instance_read(&t, X);
    instance_read(&t, DY);
    memcpy(t.host[Y], t.host[X], t.count[X] * sizeof(float));
    memcpy(t.host[DX], t.host[DY], t.count[X] * sizeof(float));
    check_same(&t, want, 1, "in place");
    instance_close(&t);
}

static void check_no_sums(const instance *t) {
    const tensor sums[] = {STATS, DW, DB};
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < t->count[sums[k]]; i++) assert_true(t->host[sums[k]][i] == 0);
}

static void any_call(void **state) {
    if (gs_test_small()) skip();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance want;
            instance_open(&want, devices[d], c, 0);
            forward_backward(&want);
            check_offsets(&want);
            check_adds_up(&want, false);
            if (want.count[DW]) check_without_dx(&want);
            if (want.op->element_wise) check_in_place(&want);
            if (c->arg[0] == 0) check_no_sums(&want);
            instance_close(&want);
        }
}

/* Where a backend does a layer and the relu after it at once, the results are those of the two operators. */
static void with_relu(void **state) {
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++) {
        const gs_backend *ops = devices[d]->ops;
        if (!ops->linear_relu_forward || !ops->conv2d_relu_forward) continue;
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance want, t;
            instance_open(&want, devices[d], c, 0);
            instance_forward(&want);
            assert_ok(ops->relu_forward(devices[d], want.place[Y], want.place[Y], want.count[Y]));
            assert_ok(
                ops->relu_backward(devices[d], want.place[DY], want.place[DY], want.place[Y], want.count[Y]));
            instance_backward(&want);
            instance_open(&t, devices[d], c, 5);
            t.relu = true;
            forward_backward(&t);
            const tensor outputs[] = {Y, DX, DW, DB};
            for (int i = 0; i < 4; i++) instance_read(&want, outputs[i]);
            check_same(&t, &want, 1, "with relu");
            check_adds_up(&want, true);
            instance_close(&t);
            instance_close(&want);
        }
    }
}

/* ---- the optimiser's step, which has no backward ---- */

static float *new_floats(size_t count) {
    float *v = calloc(count + 1, sizeof *v);
    assert_non_null(v);
    return v;
}

static void update_three_times(gs_device *device, const operator_case *c, size_t offset) {
    const gs_backend *ops = device->ops;
    size_t count = (size_t)c->arg[0], bytes = count * sizeof(float);
    float scale = (float)c->arg[1] / 1e3f, lr = (float)c->arg[2] / 1e3f, momentum = (float)c->arg[3] / 1e3f,
          decay = (float)c->arg[4] / 1e3f;
    gs_mem w, v = GS_NONE, dw;
    float *all = new_floats(offset + count),
          *host = all + offset; /* written in one piece: see write_guarded */
    assert_ok(ops->alloc(device, bytes + offset * sizeof(float), &w));
    assert_ok(ops->alloc(device, bytes + offset * sizeof(float), &dw));
    if (momentum > 0) assert_ok(ops->alloc(device, bytes + offset * sizeof(float), &v));
    gs_mem v_here = momentum > 0 ? gs_at(v, offset) : GS_NONE;
    for (size_t i = 0; i < count; i++) host[i] = test_value(i, SALT_W);
    assert_ok(ops->write(device, w, all, bytes + offset * sizeof(float)));
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
    ops->free(device, w);
    ops->free(device, v);
    ops->free(device, dw);
    free(all);
}

static void sgd_update(void **state) {
    (void)state;
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++)
        for (const operator_case *c = next_case("sgd_update", NULL); c; c = next_case("sgd_update", c)) {
            update_three_times(devices[d], c, 0);
            update_three_times(devices[d], c, 3);
        }
}

/* Without a gradient the velocity falls by a tenth each step, and ends: 19 elements, so vectors and single ones. */
static void velocity_ends_at_zero(void **state) {
    (void)state;
    enum { N = 19 };
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++) {
        const gs_backend *ops = devices[d]->ops;
        gs_mem w, v, dw;
        float x[N], y[N];
        for (int i = 0; i < N; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * FLT_MIN * (i % 3 ? 1.05f : 1.25f);
        x[N - 1] = NAN; /* is to be seen, not cleared */
        assert_ok(ops->alloc(devices[d], sizeof x, &w));
        assert_ok(ops->alloc(devices[d], sizeof x, &v));
        assert_ok(ops->alloc(devices[d], sizeof x, &dw));
        assert_ok(ops->fill(devices[d], w, 0, N));
        assert_ok(ops->fill(devices[d], dw, 0, N));
        assert_ok(ops->write(devices[d], v, x, sizeof x));
        assert_ok(ops->sgd_update(devices[d], w, v, dw, N, 1, 0.05f, 0.9f, 0));
        assert_ok(ops->read(devices[d], y, v, sizeof y));
        for (int i = 0; i < N - 1; i++) {
            if (i % 3) assert_true(y[i] == 0);
            if (i % 3 == 0) assert_near(y[i], 0.9f * x[i], 0.01 * FLT_MIN, 0);
        }
        assert_true(isnan(y[N - 1]));
        ops->free(devices[d], w);
        ops->free(devices[d], v);
        ops->free(devices[d], dw);
    }
}

/* Tests have a name for each operator, as "golden conv2d": build/gradsum-test '*conv2d*' runs one operator's.
 */
#define OPERATOR(op)                                                                                         \
    {"golden " #op, golden, NULL, NULL, #op},                                                                \
        {"finite differences " #op, finite_differences, NULL, NULL, #op},                                    \
        {"like cpu " #op, like_cpu, NULL, NULL, #op}, {                                                      \
        "any call " #op, any_call, NULL, NULL, #op                                                           \
    }

GS_TESTS(operators, OPERATOR(linear), OPERATOR(conv2d), OPERATOR(max_pool2d), OPERATOR(avg_pool2d),
         OPERATOR(relu), OPERATOR(tanh), OPERATOR(sigmoid), OPERATOR(softmax_cross_entropy),
         OPERATOR(mean_squared_error), {"with relu linear", with_relu, NULL, NULL, "linear"},
         {"with relu conv2d", with_relu, NULL, NULL, "conv2d"}, cmocka_unit_test(sgd_update),
         cmocka_unit_test(velocity_ends_at_zero))
