/* Runs one table of cases (operator_cases.h), which covers every operator, on every device. Compares results with
 * PyTorch, with finite differences, with the cpu device on one thread, and between all ways to call an operator.
 * test_operators_plain.c compares them with the plain loops. */
#include <float.h>
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/golden.h"
#include "tests/support/operators.h"

/* Elements may differ by TOLERANCE * (|wanted| + root mean square of the tensor). */
static const double TOLERANCE = 1e-5;

/* ---- against PyTorch ---- */

/* Under a slow checker only this test runs; the others run the same kernels and would reveal nothing new. The offset
 * lets the checker detect accesses before and after a tensor. */

static void golden(void **state) {
    const char *op = *state;
    FOR_EACH_DEVICE (d)
        for (const operator_case *c = next_case(op, NULL); c; c = next_case(op, c)) {
            if (c->arg[0] == 0) continue; /* an empty batch has no values; any_call checks it */
            const char *name = operator_case_name(c), *device = d->name;
            instance t;
            instance_open(&t, d, c, gs_test_small() ? 5 : 0);
            instance_run(&t);
            for (int i = Y; i < TENSORS; i++) {
                if (t.count[i] == 0) continue;
                if (i == INDEX)
                    golden_check_int(op, name, "index", (const int *)t.host[i], t.count[i], device);
                else
                    golden_check(op, name, tensor_names[i], t.host[i], t.count[i], TOLERANCE, device);
            }
        }
}

/* ---- against finite differences ---- */

/* The scalar whose gradients backward computes, summed in double: the sum of y dy, or the loss. */
static double scalar(instance *t) {
    if (t->count[STATS]) assert_ok(t->device->ops->fill(t->device, t->place[STATS], 0, LOSS_STATS));
    instance_forward(t);
    if (t->count[LABELS]) { /* from p, because the f32 sum of all losses is too coarse for this difference */
        instance_read(t, Y);
        const size_t classes = (size_t)t->c->arg[1];
        const double smoothing = t->c->arg[2] / 100.0;
        double loss = 0;
        for (size_t i = 0; i < t->count[LABELS]; i++)
            for (size_t k = 0; k < classes; k++) {
                const bool is_label = k == (size_t)((int32_t *)t->host[LABELS])[i];
                const double q = (1 - smoothing) * is_label + smoothing / (double)classes;
                loss -= q * log((double)t->host[Y][i * classes + k]);
            }
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

/* d scalar / d element i of an input, from four values around it. The formula is exact for polynomials up to degree
 * four, so the step can be large and the rounding error small. The steps chosen in operators.c cross no kink. */
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

static void check_gradient(instance *t, tensor input, tensor gradient) {
    /* The difference between two f32 results has fewer correct digits than either of them. */
    const double tolerance = 10 * TOLERANCE;
    size_t count = t->count[gradient], checks = t->count[Y] > 20000 ? 3 : 12;
    double rms = root_mean_square(t->host[gradient], count);
    for (size_t k = 0; k < checks && k < count; k++) {
        size_t i = k == 0 ? 0 : k == 1 ? count - 1 : test_hash(k, (uint32_t)count) % count;
        double want = difference(t, input, i), got = (double)t->host[gradient][i];
        double allowed = tolerance * (fabs(want) + rms);
        if (!(fabs(got - want) <= allowed))
            fail_msg("%s on %s: %s[%zu] is %.9g, the difference quotient %.9g: off by %.2g, tolerance %.2g",
                     operator_case_name(t->c), t->device->name, tensor_names[gradient], i, got, want,
                     fabs(got - want), allowed);
    }
}

static void finite_differences(void **state) {
    gs_test_need_whole();
    FOR_EACH_DEVICE (d)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance t;
            instance_open(&t, d, c, 0);
            instance_run(&t);
            check_gradient(&t, X, DX);
            check_gradient(&t, W, DW);
            check_gradient(&t, B, DB);
        }
}

/* ---- compared with another way to call it ---- */

/* Every output of t equals that of `want`, except that dw, db and stats equal `factor` times theirs. */
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

/* Compares every device with the cpu on one thread, and with so many threads that some get no work. */
static void like_cpu(void **state) {
    gs_test_need_whole();
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    gs_device *cpu = gs_test_device("cpu", 1), *threads = gs_test_device("cpu", 5);
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
        instance want;
        instance_open(&want, cpu, c, 0);
        instance_run(&want);
        for (int d = 0; d <= count; d++) {
            instance t;
            instance_open(&t, d < count ? devices[d] : threads, c, 0);
            instance_run(&t);
            check_same(&t, &want, 1, d < count ? "beside the cpu" : "with 5 threads");
        }
    }
}

/* conv2d_groups divides its work by the tensor sizes alone, so any number of threads computes the same bits. */
static void same_bits_with_threads(void **state) {
    gs_test_need_whole();
    gs_device *one = gs_test_device("cpu", 1), *five = gs_test_device("cpu", 5);
    for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
        instance want, t;
        instance_open(&want, one, c, 0);
        instance_open(&t, five, c, 0);
        instance_run(&want);
        instance_run(&t);
        for (int i = Y; i < TENSORS; i++)
            if (t.count[i] && memcmp(t.host[i], want.host[i], t.count[i] * sizeof(float)) != 0)
                fail_msg("%s: the bits of %s differ with 5 threads", operator_case_name(c), tensor_names[i]);
    }
}

static void check_offsets(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 5);
    instance_run(&t);
    check_same(&t, want, 1, "5 elements into its memory");
}

/* With `add`, new values are added to dw and db. They are always added to stats; all other outputs are overwritten. */
static void check_adds_up(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 1);
    instance_run(&t);
    t.add = true;
    instance_run(&t);
    check_same(&t, want, 2, "a second time");
}

/* The operator as the first layer, which needs no dx. */
static void check_without_dx(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 3);
    t.place[DX] = GS_NONE;
    instance_run(&t);
    check_same(&t, want, 1, "without dx");
}

static void check_in_place(const instance *want) {
    instance t;
    instance_open(&t, want->device, want->c, 2);
    t.place[Y] = t.place[X];
    t.place[DX] = t.place[DY];
    instance_forward(&t);
    instance_read(&t, X);
    memcpy(t.host[Y], t.host[X], t.count[X] * sizeof(float));
    if (t.op->reads_x)
        assert_ok(t.device->ops->write(t.device, t.place[X], want->host[X], t.count[X] * sizeof(float)));
    instance_backward(&t);
    instance_read(&t, DY);
    memcpy(t.host[DX], t.host[DY], t.count[X] * sizeof(float));
    check_same(&t, want, 1, "in place");
}

static void check_no_sums(const instance *t) {
    const tensor sums[] = {STATS, DW, DB};
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
        for (size_t i = 0; i < t->count[sums[k]]; i++) assert_true(t->host[sums[k]][i] == 0);
}

static void any_call(void **state) {
    gs_test_need_whole();
    FOR_EACH_DEVICE (d)
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance want;
            instance_open(&want, d, c, 0);
            instance_run(&want);
            check_offsets(&want);
            check_adds_up(&want);
            if (want.count[DW]) check_without_dx(&want);
            if (want.op->element_wise) check_in_place(&want);
            if (c->arg[0] == 0) check_no_sums(&want);
        }
}

/* A backend that fuses a layer with the relu after it gives the results of the two separate operators. */
static void with_relu(void **state) {
    FOR_EACH_DEVICE (d) {
        const gs_backend *ops = d->ops;
        if (!ops->fuses(d, &(gs_epilogue){.relu = true})) continue;
        for (const operator_case *c = next_case(*state, NULL); c; c = next_case(*state, c)) {
            instance want, t;
            instance_open(&want, d, c, 0);
            instance_forward(&want);
            assert_ok(ops->relu_forward(d, want.place[Y], want.place[Y], want.count[Y]));
            assert_ok(ops->relu_backward(d, want.place[DY], want.place[DY], want.place[Y], want.count[Y]));
            instance_backward(&want);
            instance_open(&t, d, c, 5);
            t.relu = true;
            instance_run(&t);
            const tensor outputs[] = {Y, DX, DW, DB};
            for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) instance_read(&want, outputs[i]);
            check_same(&t, &want, 1, "with relu");
            t.add = true;
            instance_run(&t);
            check_same(&t, &want, 2, "with relu, a second time");
        }
    }
}

/* A case that no test runs would seem to pass. */
TEST(each_case_is_tested) {
#define NAME(op) #op,
    static const char *const tested[] = {TESTED_OPERATORS(NAME) "sgd_update"}; /* test_sgd.c */
    const char *op;
    for (size_t i = 0; (op = operator_of_case(i)) != NULL; i++) {
        bool found = false;
        for (size_t t = 0; t < sizeof tested / sizeof *tested; t++) found |= strcmp(op, tested[t]) == 0;
        if (!found) fail_msg("operator_cases.h has cases of '%s', which operators.h does not name", op);
    }
}

/* Tests are named after operators, such as "golden conv2d": build/gradsum-test '*conv2d*' runs all tests of conv2d. */
#define OPERATOR(op)                                                                                         \
    {"golden " #op, golden, NULL, NULL, #op},                                                                \
        {"finite differences " #op, finite_differences, NULL, NULL, #op},                                    \
        {"like cpu " #op, like_cpu, NULL, NULL, #op}, {"any call " #op, any_call, NULL, NULL, #op},

GS_TESTS(operators, TESTED_OPERATORS(OPERATOR){"with relu linear", with_relu, NULL, NULL, "linear"},
         {"same bits conv2d_groups", same_bits_with_threads, NULL, NULL, "conv2d_groups"},
         {"with relu conv2d", with_relu, NULL, NULL, "conv2d"})
