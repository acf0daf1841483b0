/* The norm of all gradients, with the same bits everywhere, and clipping by this norm. */
#include <float.h>
#include <math.h>
#include "optim/norm.h"
#include "tests/support/on_devices.h"
#include "tests/support/golden.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

/* ---- the operator ---- */

enum { MOST = 9000, BEFORE = 3 /* elements before the array, so that it is not aligned to vectors */ };

static float host[BEFORE + MOST];

/* Values that use all 24 bits, of magnitudes 2^-exponents to 1; every ninth is zero, subnormal or next to a
 * subnormal. */
static void fill(int exponents, float times) {
    static const float ends[] = {0, -0.0f, FLT_TRUE_MIN, -3 * FLT_TRUE_MIN, FLT_MIN, -0.7f * FLT_MIN};
    for (size_t i = 0; i < BEFORE + MOST; i++) {
        uint32_t h = test_hash(i, 11);
        float x = ldexpf(1 + (float)(h >> 9) / 0x1p23f, -1 - (int)(test_hash(i, 12) % (unsigned)exponents));
        host[i] = h % 9 == 0 ? ends[h / 9 % 6] : times * (h & 256 ? -x : x);
    }
}

static gs_squares squares_on(gs_device *d, size_t count, uint32_t top) {
    gs_squares s;
    gs_mem x = gs_test_put(d, host, sizeof host);
    assert_ok(d->ops->squares(d, gs_at(x, BEFORE), count, top, &s));
    return s;
}

static void assert_same(const gs_squares *got, const gs_squares *want, const gs_device *d, size_t count) {
    if (got->largest != want->largest || got->top != want->top || got->high != want->high ||
        got->low != want->low)
        fail_msg("%s, %zu elements: largest %08x, top %u, sum %llx %llx; wanted %08x, %u, %llx %llx", d->name,
                 count, got->largest, got->top, (unsigned long long)got->high, (unsigned long long)got->low,
                 want->largest, want->top, (unsigned long long)want->high, (unsigned long long)want->low);
}

static double reference(size_t count) {
    long double sum = 0;
    for (size_t i = BEFORE; i < BEFORE + count; i++) sum += (long double)host[i] * (long double)host[i];
    return (double)sqrtl(sum);
}

static const size_t counts[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 255, 1023, 1025, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static const struct {
    int exponents;
    float times;
} kinds[] = {{1, 1}, {30, 1}, {100, 0x1p60f}, {250, FLT_MAX}, {20, 0x1p-120f}, {1, 0x1p-140f}};

TEST(same_everywhere) {
    gs_device *plain = gs_test_open_plain();
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fill(kinds[k].exponents, kinds[k].times);
        for (int c = 0; c < COUNTS; c++) {
            if (gs_test_small() && counts[c] > 300) continue;
            const gs_squares want = squares_on(plain, counts[c], 0);
            assert_near(gs_norm_of(&want), reference(counts[c]), 0, 1e-13);
            FOR_EACH_DEVICE (d) {
                const gs_squares got = squares_on(d, counts[c], 0);
                assert_same(&got, &want, d, counts[c]);
            }
        }
    }
}

TEST(any_number_of_threads) {
    enum { LARGE = 400000, THREADS = 7 };
    static float x[LARGE];
    gs_squares want = {0};
    for (size_t i = 0; i < LARGE; i++) x[i] = test_value(i, 5);
    for (int threads = 1; threads <= THREADS; threads += 2) {
        gs_squares got;
        gs_device *d = gs_test_device("cpu", threads);
        gs_mem m = gs_test_put(d, x, sizeof x);
        assert_ok(d->ops->squares(d, m, LARGE, 0, &got));
        if (threads == 1) want = got;
        assert_same(&got, &want, d, LARGE);
    }
}

/* The sums of the parts add up to that of the whole if every part uses the largest `top` of all. */
TEST(parts_add_up) {
    fill(12, 1);
    host[BEFORE + 200] = 1000; /* in the second part */
    FOR_EACH_DEVICE (d) {
        const gs_squares whole = squares_on(d, 300, 0), first = squares_on(d, 100, whole.top);
        gs_squares sum = first, part;
        for (size_t at = 100; at < 300; at += 100) {
            memmove(host + BEFORE, host + BEFORE + 100, 200 * sizeof *host);
            part = squares_on(d, 100, whole.top);
            assert_int_equal(part.top, whole.top);
            sum.high += part.high;
            sum.low += part.low;
            if (part.largest > sum.largest) sum.largest = part.largest;
        }
        assert_true(first.largest < whole.largest);
        assert_same(&sum, &whole, d, 300);
        fill(12, 1);
        host[BEFORE + 200] = 1000;
    }
}

TEST(not_finite) {
    FOR_EACH_DEVICE (d) {
        fill(5, 1);
        host[BEFORE + 70] = -INFINITY;
        gs_squares s = squares_on(d, 100, 0);
        assert_true(isinf(gs_norm_of(&s)));
        host[BEFORE + 3] = -NAN;
        s = squares_on(d, 100, 0);
        assert_true(isnan(gs_norm_of(&s)));
        s = squares_on(d, 3, 0); /* of the elements before it */
        assert_true(isfinite(gs_norm_of(&s)));
    }
}

/* test_optimizers.c compares the update with PyTorch's. */

/* ---- in a run ---- */

static gs_settings settings_for(const char *devices) {
    gs_settings s = gs_test_settings("%s --batch 333", devices);
    s.clip = 0.5f; /* clips most of the first steps, but no later ones */
    return s;
}

static int shortened, steps;

static void count_shortened(gs_worker *w) {
    if (w->comm->rank != 0) return;
    steps++;
    if (w->optimizer->clip_factor < 1) shortened++;
    assert_true(w->optimizer->norm > 0);
}

TEST(some_steps_are_shortened) {
    gs_test_need_whole();
    gs_settings s = settings_for("cpu,cpu");
    s.test_hook = count_shortened;
    shortened = steps = 0;
    gs_result clipped = gs_test_train(&s);
    assert_in_range(shortened, 1, steps - 1); /* otherwise this test would prove little */
    s.test_hook = NULL;
    s.clip = 1000;
    gs_result long_enough = gs_test_train(&s);
    s.clip = 0;
    gs_result plain = gs_test_train(&s);
    assert_same_bits(&plain, &long_enough, "a norm that nothing reaches");
    assert_true(gs_test_difference(&plain, &clipped) > 1e-3);
}

TEST(workers_equal_one) {
    static const char *const several[] = {ON_2, ON_3};
    gs_test_need_whole();
    assert_ways_are_near("--batch 333 --clip 0.5", ON_2, ON_3);
    for (int i = 0; i < 2; i++)
        assert_ways_have_the_bits(gs_test_format("--batch 333 --clip 0.5 %s", several[i]), "--zero 1",
                                  "--bucket 1");
}

TEST(exact) {
    gs_test_need_whole();
    gs_test_exact(settings_for("cpu"));
}

/* Local SGD that averages after each step is not the synchronous step here: each worker clips its own gradient. */
TEST(other_ways) {
    gs_test_need_whole();
    gs_settings s = gs_test_with(settings_for("cpu,cpu"), "--sync local --every 4 --verify 4");
    const gs_result r = gs_test_train(&s);
    assert_true(isfinite(r.train_loss));
    s = gs_test_with(settings_for("cpu,cpu"), "--sync async --staleness 1");
    assert_train_fails(GS_E_USAGE, "--clip 0.5: --sync async applies each worker's gradient as it arrives",
                       &s);
}

TEST(mixed_devices) {
    gs_test_need_whole();
    gs_test_need_opencl();
    gs_settings s = gs_test_with(settings_for("cpu,cl"), "--verify 1");
    gs_test_train(&s);
    s.zero = 1;
    gs_test_train(&s);
}

TEST(the_program) {
    static const char run[] = "train --model softmax --epochs 1 --threads 1";
    assert_prints(0, "\"gradient_norm\":", "%s --clip 0.5 --json", run);
    assert_prints(0, "\"clip\":0.5", "%s --clip 0.5 --json", run);
    assert_prints(0, "\"clip\":null", "%s --json", run);
    assert_prints(0, "clip     gradients are shortened to a norm of at most 0.5\n", "%s --clip 0.5", run);
    assert_prints(2, "--clip: '0' is not a number from 1e-06 to 1000000", "%s --clip 0", run);
    assert_prints(1, "diverged at step",
                  "train --model mlp --lr 1e6 --momentum 0.9999 --loss squared_error --clip 1e6 "
                  "--weight-decay 1e5");
}
