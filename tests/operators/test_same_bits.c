/* Computations that every worker repeats give the same bits on every device, so model copies do not drift apart. */
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

#include <float.h>
#include <math.h>

/* ---- operators: cpu's bits on every device ---- */

/* The kind of NaN may differ. */
static void check_bits(const gs_device *d, const float *got, const float *want, size_t count,
                       const char *what) {
    for (size_t i = 0; i < count; i++)
        if (bits_of(got[i]) != bits_of(want[i]) && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s, %s: [%zu] of %zu is %a, on cpu %a", d->name, what, i, count, (double)got[i],
                     (double)want[i]);
}

/* Magnitudes from 2^-20 to 4 that use all 24 bits. Every seventh is a special value: zero, subnormal, next to one,
 * infinite or NaN. */
static float odd_value(size_t i, uint32_t salt) {
    static const float ends[] = {0,        -0.0f,     FLT_TRUE_MIN,   -3 * FLT_TRUE_MIN, FLT_MIN, -FLT_MIN,
                                 1e-38f,   -5e-39f,   1.00000012f,    0.99999994f,       FLT_MAX, -FLT_MAX,
                                 INFINITY, -INFINITY, 2.5f * FLT_MIN, -1.5f * FLT_MIN,   NAN,     1e-30f};
    uint32_t h = test_hash(i, salt);
    if (h % 7 == 0) return ends[h / 7 % (sizeof ends / sizeof *ends)];
    float x = ldexpf(1 + (float)(h >> 9) / 0x1p23f, (int)(test_hash(i, salt + 100) % 22) - 20);
    return h & 256 ? -x : x;
}

enum { MOST = 5000, BEFORE = 3 /* elements before the arrays, so that they are not aligned to vectors */ };

static gs_mem values(gs_device *d, uint32_t salt) {
    static float x[BEFORE + MOST];
    for (size_t i = 0; i < BEFORE + MOST; i++) x[i] = odd_value(i, salt);
    return gs_test_new_mem(d, x, BEFORE + MOST);
}

/* Two updates of `count` parameters; also returns the elements before and after them. */
static void update_twice(gs_device *d, size_t count, const float rate[4], float *w_out, float *v_out) {
    gs_mem w = values(d, 1), v = values(d, 2), dw = values(d, 3), none = GS_NONE;
    for (int i = 0; i < 2; i++)
        assert_ok(d->ops->sgd_update(d, gs_at(w, BEFORE), rate[2] != 0 ? gs_at(v, BEFORE) : none,
                                     gs_at(dw, BEFORE), count, rate[0], rate[1], rate[2], rate[3]));
    assert_ok(d->ops->read(d, w_out, w, (BEFORE + MOST) * sizeof(float)));
    assert_ok(d->ops->read(d, v_out, v, (BEFORE + MOST) * sizeof(float)));
}

static gs_adam_step adam_step(const float rate[4], float beta2) {
    return (gs_adam_step){.scale = rate[0],
                          .rate = rate[1],
                          .beta1 = rate[2],
                          .rest1 = 1 - rate[2],
                          .beta2 = beta2,
                          .rest2 = 1 - beta2,
                          .root = 1.37f,
                          .epsilon = 1e-8f,
                          .l2 = rate[3],
                          .keep = 1 - rate[1] * rate[3]};
}

enum { OTHERS = 5 /* arrays */ };

/* The same for the other optimisers. Their running squares start at 0 or above, as in a run. */
static void others_twice(gs_device *d, size_t count, const float rate[4], float out[OTHERS][BEFORE + MOST]) {
    gs_mem w = values(d, 1), v = values(d, 2), dw = values(d, 3), m = values(d, 4), square = values(d, 5);
    float *host;
    assert_ok(d->ops->map(d, square, (BEFORE + MOST) * sizeof(float), (void **)&host));
    for (size_t i = 0; i < BEFORE + MOST; i++) host[i] = fabsf(host[i]);
    assert_ok(d->ops->unmap(d, square, host));
    for (int i = 0; i < 2; i++) {
        assert_ok(d->ops->nesterov_update(d, gs_at(w, BEFORE), gs_at(v, BEFORE), gs_at(dw, BEFORE), count,
                                          rate[0], rate[1], rate[2], rate[3]));
        assert_ok(d->ops->adam_update(d, gs_at(w, BEFORE), gs_at(m, BEFORE), gs_at(square, BEFORE),
                                      gs_at(dw, BEFORE), count, adam_step(rate, i ? 0.999f : 0.9f)));
        assert_ok(d->ops->lamb_direction(d, gs_at(dw, BEFORE), gs_at(m, BEFORE), gs_at(square, BEFORE),
                                         gs_at(w, BEFORE), count, adam_step(rate, 0.99f)));
    }
    const gs_mem place[OTHERS] = {w, v, m, square, dw};
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(d->ops->read(d, out[i], place[i], (BEFORE + MOST) * sizeof(float)));
    }
}

static void check_others(gs_device *cpu, gs_device *d, size_t count, const float rate[4]) {
    static const char *const name[OTHERS] = {"nesterov_update and adam_update: w", "nesterov_update: v",
                                             "adam_update, lamb_direction: m",
                                             "adam_update, lamb_direction: v", "lamb_direction: dw"};
    static float got[OTHERS][BEFORE + MOST], want[OTHERS][BEFORE + MOST];
    others_twice(cpu, count, rate, want);
    others_twice(d, count, rate, got);
    for (int i = 0; i < OTHERS; i++) check_bits(d, got[i], want[i], BEFORE + MOST, name[i]);
}

static void check_update(gs_device *cpu, gs_device *d) {
    static const float rates[][4] = {/* scale, lr, momentum, weight decay */
                                     {1.0f / 128, 0.05f, 0.9f, 0},
                                     {1.0f / 3, 0.1f, 0.97f, 1e-3f},
                                     {1.0f / 333, 0.3f, 0, 0},
                                     {1.0f / 7, 1e-3f, 0, 0.01f},
                                     {1, 0.7f, 1, 0.1f}};
    static const size_t counts[] = {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 255, 1000, MOST};
    static float w[BEFORE + MOST], v[BEFORE + MOST], want_w[BEFORE + MOST], want_v[BEFORE + MOST];
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            update_twice(cpu, counts[c], rates[r], want_w, want_v);
            update_twice(d, counts[c], rates[r], w, v);
            check_bits(d, w, want_w, BEFORE + MOST, "sgd_update: w");
            check_bits(d, v, want_v, BEFORE + MOST, "sgd_update: v");
            check_others(cpu, d, counts[c], rates[r]);
        }
}

static void check_memory(gs_device *d) {
    static float x[BEFORE + MOST], got[BEFORE + MOST];
    const size_t bytes = sizeof x;
    gs_mem from = values(d, 1), to = gs_test_alloc(d, bytes);
    for (size_t i = 0; i < BEFORE + MOST; i++) x[i] = odd_value(i, 1);
    assert_ok(d->ops->copy(d, to, from, BEFORE + MOST));
    assert_ok(d->ops->read(d, got, to, bytes));
    assert_memory_equal(got, x, bytes);
    for (size_t i = 0; i < 40; i++) {
        const float value = odd_value(i, 5);
        assert_ok(d->ops->fill(d, gs_at(to, BEFORE), value, i * 17));
        assert_ok(d->ops->read(d, got, to, bytes));
        assert_memory_equal(got, x, BEFORE * sizeof(float));
        for (size_t k = 0; k < i * 17; k++)
            if (bits_of(got[BEFORE + k]) != bits_of(value)) fail_msg("%s: fill %a", d->name, (double)value);
    }
}

TEST(operators_that_all_repeat) {
    gs_device *cpu = gs_test_device("cpu", 1);
    FOR_EACH_DEVICE (d) {
        check_update(cpu, d);
        check_memory(d);
    }
}

/* Other kernels of a device: one float per work-item, and other vector lengths. */
TEST(with_all_tiles) {
    static const char *const tiles[] = {"gpu", "cpu4", "cpu8"};
    gs_test_need_opencl();
    gs_device *cpu = gs_test_device("cpu", 1);
    FOR_EACH_DEVICE (d)
        for (size_t i = 0; i < sizeof tiles / sizeof *tiles && strncmp(d->name, "cl", 2) == 0; i++) {
            setenv("GRADSUM_CL_TILES", tiles[i], 1);
            gs_device *cl = gs_test_device(d->name, 0);
            unsetenv("GRADSUM_CL_TILES");
            check_update(cpu, cl);
            check_memory(cl);
        }
}

/* ---- runs on mixed devices ---- */

static gs_settings mixed(const char *devices, const char *options) {
    return gs_test_settings("%s --model 'flatten, linear 10' %s", devices, options);
}

/* The weights of all workers are compared after each step. */
TEST(no_worker_drifts_away) {
    gs_test_need_opencl();
    gs_settings s = mixed("cpu,cl", "--zero 1 --verify 1");
    gs_test_train(&s);
    for (const gs_sync_scheme *const *scheme = gs_sync_schemes(); *scheme; scheme++) {
        s = mixed("cl,cpu,cpu", "--verify 1");
        s.sync = (*scheme)->name;
        gs_test_train(&s);
    }
    s = mixed("cpu,cl", "--sync ring --model 'flatten, linear 16, tanh, linear 10' --verify 1 --momentum 0 "
                        "--wire bf16 --bucket 1");
    gs_test_train(&s);
}

TEST(averages_are_the_same) {
    gs_test_need_opencl();
    gs_settings s = gs_test_with(mixed("cpu,cl,cpu", "--sync local"), "--every 4 --verify 4");
    gs_test_train(&s);
}

TEST(async_gives_the_bits_of_ps) {
    gs_test_need_opencl();
    static const char *const devices[] = {"cl", "cl,cl", "cpu,cl,cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        gs_settings s = mixed(devices[i], "--sync ps");
        gs_result synchronous = gs_test_train(&s);
        s = gs_test_with(s, "--sync async --staleness 0");
        assert_trains_to(&synchronous, &s, devices[i]);
    }
}
