/* Special values: ties, NaN, infinities and huge numbers. */
#include <math.h>
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"

static void max_pool2d_ties_and_nan_on(gs_device *d) {
    /* 4 windows of 1x3: all equal; the maximum twice; a NaN in the middle; all -infinity */
    const float x[12] = {2, 2, 2, 1, 3, 3, 9, NAN, 10, -INFINITY, -INFINITY, -INFINITY};
    const int32_t want_index[4] = {0, 4, 7, 9};
    gs_pool2d_sizes s = {1, 1, 12, 1, 4, 1, 3, 1, 3, 0, 0};
    gs_mem from = gs_test_new_mem(d, x, 12), y = gs_test_new_mem(d, NULL, 4),
           index = gs_test_new_mem(d, NULL, 4);
    assert_ok(d->ops->max_pool2d_forward(d, y, index, from, 1, &s));
    float got[4];
    int32_t got_index[4];
    assert_ok(d->ops->read(d, got, y, sizeof got));
    assert_ok(d->ops->read(d, got_index, index, sizeof got_index));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got_index[i], want_index[i]);
        assert_true(got[i] == x[want_index[i]] || (isnan(got[i]) && isnan(x[want_index[i]])));
    }
}
ON_EVERY_DEVICE(max_pool2d_ties_and_nan)

/* Windows of 2x2 have their own loops. Tests widths that end inside a vector, odd sizes, adjacent planes, ties (values
 * are 0, 1, 2) and at most one NaN per window. backward must also write the elements outside all windows. */
enum {
    POOL_PLANES = 3,
    POOL_MOST_H = 6,
    POOL_MOST_W = 37,
    POOL_MOST = POOL_PLANES * POOL_MOST_H * POOL_MOST_W
};

static void pool_2x2_of(gs_device *d, int height, int width) {
    gs_pool2d_sizes s = {POOL_PLANES, height, width, height / 2, width / 2, 2, 2, 2, 2, 0, 0};
    const size_t in = (size_t)(POOL_PLANES * height * width), out = (size_t)(POOL_PLANES * s.out_h * s.out_w);
    float x[POOL_MOST], want_dx[POOL_MOST] = {0}, dy[POOL_MOST];
    int32_t want[POOL_MOST], got[POOL_MOST];
    for (size_t i = 0; i < in; i++) x[i] = i % 53 == 7 ? NAN : (float)(test_hash(i, 1) % 3);
    for (size_t i = 0; i < out; i++) {
        dy[i] = (float)i + 1;
        int plane = (int)i / (s.out_h * s.out_w), r = (int)i / s.out_w % s.out_h, o = (int)i % s.out_w;
        const float *from = x + (size_t)(plane * height * width);
        want[i] = 2 * r * width + 2 * o;
        for (int k = 1; k < 4; k++) {
            int place = (2 * r + k / 2) * width + 2 * o + k % 2;
            if (from[place] > from[want[i]] || isnan(from[place])) want[i] = place;
        }
        want_dx[(size_t)(plane * height * width) + (size_t)want[i]] = dy[i];
    }
    gs_mem from = gs_test_new_mem(d, x, in), y = gs_test_new_mem(d, NULL, out),
           index = gs_test_new_mem(d, NULL, out), above = gs_test_new_mem(d, dy, out),
           dx = gs_test_new_mem(d, x, in);
    assert_ok(d->ops->max_pool2d_forward(d, y, index, from, 1, &s));
    assert_ok(d->ops->read(d, got, index, out * sizeof *got));
    for (size_t i = 0; i < out; i++) assert_int_equal(got[i], want[i]);
    assert_ok(d->ops->max_pool2d_backward(d, dx, above, index, 1, &s));
    gs_test_check_floats(d, dx, want_dx, in, "max_pool2d_backward");
}

static void max_pool2d_2x2_on(gs_device *d) {
    const int widths[] = {2, 7, 8, 10, 15, 16, 19, 28, POOL_MOST_W};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        pool_2x2_of(d, 5, widths[i]);
        pool_2x2_of(d, POOL_MOST_H, widths[i]);
    }
}
ON_EVERY_DEVICE(max_pool2d_2x2)

/* Huge logits: exp(x) alone would overflow, and log(0) would be infinite. On a tie the first class wins. */
static void softmax_extremes_on(gs_device *d) {
    const float x[12] = {1000, 0, -1000, 1000, 0, -1000, 5, 5, 5, -2e4f, -1e4f, -2e4f};
    const int32_t labels[4] = {0, 1, 0, 1};
    const float want_p[12] = {1, 0, 0, 1, 0, 0, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f, 0, 1, 0};
    gs_mem from = gs_test_new_mem(d, x, 12), p = gs_test_new_mem(d, NULL, 12),
           stats = gs_test_new_mem(d, NULL, LOSS_STATS), to = gs_test_new_mem(d, labels, 4);
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, from, to, 4, 3, 0));
    float got[12], sums[LOSS_STATS];
    assert_ok(d->ops->read(d, got, p, sizeof got));
    assert_ok(d->ops->read(d, sums, stats, sizeof sums));
    for (int i = 0; i < 12; i++) assert_near(got[i], want_p[i], 1e-7, 1e-6);
    assert_near(sums[GS_STAT_LOSS], 1000 + log(3), 0, 1e-6);
    /* With smoothed labels all classes count, even if p is 0: the means of -log p are 1000, 1000, log(3), 20000 / 3. */
    assert_ok(d->ops->fill(d, stats, 0, LOSS_STATS));
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, from, to, 4, 3, 0.25f));
    assert_ok(d->ops->read(d, sums, stats, sizeof sums));
    assert_near(sums[GS_STAT_LOSS], 0.75 * (1000 + log(3)) + 0.25 * (2000 + log(3) + 20000 / 3.0), 0, 1e-6);
    assert_ok(d->ops->fill(d, stats, 0, LOSS_STATS));
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, from, to, 4, 3, 0));
    assert_ok(d->ops->read(d, sums, stats, sizeof sums));
    assert_near(sums[GS_STAT_CORRECT], 3, 0, 0);
    assert_near(sums[GS_STAT_SAMPLES], 4, 0, 0);
}
ON_EVERY_DEVICE(softmax_extremes)

/* Among many classes, finds the first maximum at any position; the last class is equally large. A NaN counts as larger
 * than any number, and the first of two NaNs wins. */
static void largest_of_many_classes(gs_device *d, int classes, float largest, float last) {
    enum { MOST = 160 };
    static float x[MOST * MOST];
    int32_t labels[MOST];
    const size_t n = (size_t)classes;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) x[i * n + k] = (float)(test_hash(i * n + k, 3) % 1000) / 1000;
        x[i * n + n - 1] = last;
        x[i * n + i] = largest;
        labels[i] = (int32_t)i;
    }
    gs_mem from = gs_test_new_mem(d, x, n * n), p = gs_test_new_mem(d, NULL, n * n),
           stats = gs_test_new_mem(d, NULL, LOSS_STATS), to = gs_test_new_mem(d, labels, n);
    assert_ok(d->ops->softmax_cross_entropy_forward(d, p, stats, from, to, n, classes, 0));
    float sums[LOSS_STATS];
    assert_ok(d->ops->read(d, sums, stats, sizeof sums));
    if (sums[GS_STAT_CORRECT] != (float)n)
        fail_msg("%s: %d classes, the largest is %g: found %g times", d->name, classes, (double)largest,
                 (double)sums[GS_STAT_CORRECT]);
}

static void softmax_of_many_classes_on(gs_device *d) {
    const int classes[] = {15, 31, 32, 33, 47, 48, 49, 155};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        largest_of_many_classes(d, classes[i], 9, 9);
        largest_of_many_classes(d, classes[i], INFINITY, INFINITY);
        largest_of_many_classes(d, classes[i], NAN, 9);
        largest_of_many_classes(d, classes[i], NAN, NAN);
    }
}
ON_EVERY_DEVICE(softmax_of_many_classes)
