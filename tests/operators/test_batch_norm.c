/* Batch normalisation: properties of the operators that the table of cases does not cover. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

enum { N = 37, C = 5, PLANE = 41, COUNT = N * C * PLANE };

/* The first channel is far from 0, the second is constant. */
static void make_input(float *x) {
    for (size_t i = 0; i < COUNT; i++) {
        size_t c = i / PLANE % C;
        x[i] = c == 1 ? 7.3f : test_value(i, SALT_X) + (c == 0 ? 4000 : 0);
    }
}

/* got: mean, then var */
static void statistics(gs_device *d, const float *x, float got[2 * C]) {
    const gs_batch_norm_sizes s = {C, PLANE, 1e-5f, 0.1f};
    gs_mem from = gs_test_new_mem(d, x, COUNT), to = gs_test_new_mem(d, NULL, (size_t)(2 * C));
    assert_ok(d->ops->batch_norm_statistics(d, to, gs_at(to, C), from, N, &s));
    assert_ok(d->ops->read(d, got, to, 2 * C * sizeof *got));
}

static void check_statistics(gs_device *d) {
    static float x[COUNT];
    float got[2 * C];
    make_input(x);
    statistics(d, x, got);
    for (size_t c = 0; c < C; c++) {
        double sum = 0, squares = 0, m = N * PLANE;
        for (size_t i = 0; i < COUNT; i++) sum += i / PLANE % C == c ? (double)x[i] : 0;
        for (size_t i = 0; i < COUNT; i++)
            squares += i / PLANE % C == c ? ((double)x[i] - sum / m) * ((double)x[i] - sum / m) : 0;
        assert_near(got[c], sum / m, 1e-7, 1e-7);
        assert_near(got[C + c], squares / m, 2e-6, 1e-10);
        assert_true(got[C + c] >= 0);
    }
}

static void statistics_far_from_0_on(gs_device *d) {
    gs_test_need_whole();
    check_statistics(d);
}
ON_EVERY_DEVICE(statistics_far_from_0)

TEST(statistics_by_the_plain_loop) {
    gs_device *plain = gs_test_open_plain();
    check_statistics(plain);
}

/* forward computes the same bits with any number of threads. */
TEST(statistics_of_any_number_of_threads) {
    static float x[COUNT];
    float one[2 * C], more[2 * C];
    make_input(x);
    for (int threads = 1; threads <= 5; threads++) {
        gs_device *d = gs_test_device("cpu", threads);
        statistics(d, x, threads == 1 ? one : more);
        if (threads > 1) assert_memory_equal(one, more, sizeof one);
    }
}

/* Two channels; all values are exact in binary. */
static void check_running(gs_device *d) {
    const gs_batch_norm_sizes s = {2, 1, 0, 0.25f};
    /* running mean and var, the batch's mean and var, and gradients, to which the new ones are added */
    const float given[10] = {1, 2, 4, 8, 5, 6, 12, 16, 100, 200};
    const struct {
        float m, samples;
        bool add;
        float want[4]; /* dmean, dvar */
    } cases[] = {
        {4, 1, false, {2, 3, 7, 34.0f / 3}}, /* variances of 4 numbers are multiplied by 4 / 3 */
        {4, 3, false, {6, 9, 21, 34}},       {4, 3, true, {106, 209, 21, 34}},
        {1, 1, false, {2, 3, 4, 8}}, /* a single value has no variance, so the running variance is kept */
        {4, 0, false, {0, 0, 0, 0}},         {4, 0, true, {100, 200, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got[2], got_var[2];
        gs_mem m = gs_test_new_mem(d, given, 10), dvar = gs_test_new_mem(d, NULL, 2);
        assert_ok(d->ops->fill(d, dvar, 0, 2));
        assert_ok(d->ops->batch_norm_running(d, gs_at(m, 8), dvar, m, gs_at(m, 2), gs_at(m, 4), gs_at(m, 6),
                                             cases[i].m, cases[i].samples, &s, cases[i].add));
        assert_ok(d->ops->read(d, got, gs_at(m, 8), sizeof got));
        assert_ok(d->ops->read(d, got_var, dvar, sizeof got_var));
        for (int c = 0; c < 2; c++) {
            assert_near(got[c], cases[i].want[c], 1e-6, 0);
            assert_near(got_var[c], cases[i].want[2 + c], 1e-6, 0);
        }
    }
}

static void running_on(gs_device *d) {
    check_running(d);
}
ON_EVERY_DEVICE(running)

TEST(running_by_the_plain_loop) {
    gs_device *plain = gs_test_open_plain();
    check_running(plain);
}
