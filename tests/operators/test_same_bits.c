/* Computations that every worker repeats give the same bits on every device: model copies do not drift apart. */
#include "optim/adam.h"
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

enum { ARRAYS = 2 + GS_OPTIMIZER_VECTORS };

/* Two updates of `count` parameters by one optimiser. out: weights, gradients and the optimiser's vectors, with the
 * elements around them. Some initial values of each vector are made non-negative, as vectors of squares are. `whole`
 * optimisers update only tensors of a model, so lamb's operator is called directly; lars has sgd's. */
static void update_twice(gs_device *d, const gs_optimizer_ops *ops, size_t count, const float rate[4],
                         float out[ARRAYS][BEFORE + MOST]) {
    const gs_mem w = values(d, 1), dw = values(d, 2);
    gs_mem array[ARRAYS] = {w, dw};
    gs_model m = {.device = d, .weights = w, .gradients = dw};
    gs_optimizer o = {.ops = ops,
                      .model = &m,
                      .lr = rate[1],
                      .momentum = rate[2],
                      .weight_decay = rate[3],
                      .beta1 = rate[2] < 1 ? rate[2] : 0.5f,
                      .beta2 = ops->usual.beta2,
                      .epsilon = ops->usual.epsilon,
                      .vectors = gs_optimizer_vector_count(ops, rate[2])};
    for (int k = 0; k < o.vectors; k++) {
        float *host;
        o.vector[k] = array[2 + k] = values(d, 3 + (uint32_t)k);
        assert_ok(d->ops->map(d, o.vector[k], (BEFORE + MOST) * sizeof(float), (void **)&host));
        for (size_t i = 0; i < BEFORE + MOST; i++)
            if (i >> k & 1) host[i] = fabsf(host[i]);
        assert_ok(d->ops->unmap(d, o.vector[k], host));
    }
    for (; o.updates < 2; o.updates++) {
        gs_adam_step s = gs_adam_step_of(&o, rate[0]);
        s.l2 = rate[3];
        if (ops == &gs_lamb)
            assert_ok(d->ops->lamb_direction(d, gs_at(dw, BEFORE), gs_optimizer_vector(&o, 0, BEFORE),
                                             gs_optimizer_vector(&o, 1, BEFORE), gs_at(w, BEFORE), count, s));
        else if (!ops->whole)
            assert_ok(ops->update(&o, BEFORE, count, rate[0]));
    }
    for (int i = 0; i < 2 + o.vectors; i++)
        assert_ok(d->ops->read(d, out[i], array[i], (BEFORE + MOST) * sizeof(float)));
}

static void check_update(gs_device *cpu, gs_device *d) {
    static const float rates[][4] = {/* scale, lr, momentum, weight decay */
                                     {1.0f / 128, 0.05f, 0.9f, 0},
                                     {1.0f / 3, 0.1f, 0.97f, 1e-3f},
                                     {1.0f / 333, 0.3f, 0, 0},
                                     {1.0f / 7, 1e-3f, 0, 0.01f},
                                     {1, 0.7f, 1, 0.1f}};
    static const size_t counts[] = {0, 1, 2, 15, 16, 17, 31, 63, 64, 65, 255, 1000, MOST};
    static float got[ARRAYS][BEFORE + MOST], want[ARRAYS][BEFORE + MOST];
    for (const gs_optimizer_ops *const *o = gs_optimizers; *o; o++)
        for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                update_twice(cpu, *o, counts[c], rates[r], want);
                update_twice(d, *o, counts[c], rates[r], got);
                for (int i = 0; i < 2 + gs_optimizer_vector_count(*o, rates[r][2]); i++)
                    check_bits(d, got[i], want[i], BEFORE + MOST,
                               gs_test_format("%s: %s", (*o)->name,
                                              i ? i > 1 ? (*o)->vector[i - 2] : "gradient" : "weights"));
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

/* Also with the kernels for other devices: one float per work-item, and other vector lengths. */
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
