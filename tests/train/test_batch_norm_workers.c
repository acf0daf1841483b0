/* --batch-norm: statistics over the samples of all workers, of each worker, of each few. */
#include <math.h>
#include "tests/support/devices.h"
#include "tests/support/training.h"

/* The last of its 28 batches of 222 has 6 of 6000 samples, so that of 8 workers two have none; then epoch 2 begins. */
enum { BATCH = 222, STEPS = 30, PARAMS = 4 * 9 + 8 + (4 * 49 + 1) * 8 + 16 + 90, STATE = 2 * (4 + 8) };
static const char MODEL[] = "conv 4 3x3 stride 2 pad 1 no_bias, batch_norm, tanh, avg_pool 2 stride 2 pad 0, "
                            "flatten, linear 8, batch_norm, tanh, linear 10";

static gs_settings settings(const char *devices) {
    gs_settings s = gs_test_settings("%s --batch %d --steps %d --model '%s'", devices, BATCH, STEPS, MODEL);
    s.verify = 1; /* weights and running statistics, after each step */
    return s;
}

/* Of weights and running statistics. */
static double difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params + STATE; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

static void assert_within(const gs_result *a, const gs_result *b, double most, const char *what) {
    assert_int_equal(a->params, b->params);
    if (!(difference(a, b) <= most))
        fail_msg("%s: weights or statistics differ by %g, wanted at most %g", what, difference(a, b), most);
}

static void assert_apart(const gs_result *a, const gs_result *b, const char *what) {
    if (!(difference(a, b) > 1e-3))
        fail_msg("%s: weights and statistics differ by only %g", what, difference(a, b));
}

/* Rounding. Seen: 7e-7. */
static const double ROUNDING = 1e-5;

TEST(global_is_that_of_one_worker) {
    static const char *const devices[] = {"cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    gs_settings s = settings("cpu");
    gs_result one = gs_test_train(&s);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        s.devices = devices[i];
        gs_result r = gs_test_train(&s);
        assert_within(&r, &one, ROUNDING, devices[i]);
        assert_near(r.test_loss, one.test_loss, 1e-4, 0);
    }
    s = gs_test_with(s, "--devices cpu,cpu,cpu --zero 1");
    gs_result r = gs_test_train(&s);
    assert_within(&r, &one, ROUNDING, "--zero 1");
}

/* Without batch_norm, a worker would compute 1000 samples in micro-batches of 256. */
TEST(global_of_a_large_batch) {
    gs_settings s = gs_test_with(settings("cpu"), "--steps 7 --batch 1000");
    gs_result one = gs_test_train(&s);
    s.devices = "cpu,cpu,cpu";
    gs_result r = gs_test_train(&s);
    assert_within(&r, &one, ROUNDING, "a batch of 1000");
}

TEST(global_on_an_opencl_device) {
    gs_test_need_opencl();
    gs_settings s = gs_test_with(settings("cpu"), "--steps 6");
    gs_result one = gs_test_train(&s);
    s.devices = "cpu,cl";
    gs_result r = gs_test_train(&s);
    assert_within(&r, &one, ROUNDING, s.devices);
}

TEST(local_is_that_of_each_worker) {
    gs_settings s = gs_test_with(settings("cpu"), "--steps 10");
    gs_result one = gs_test_train(&s);
    s.batch_norm.over = GS_BATCH_NORM_LOCAL;
    gs_result alone = gs_test_train(&s);
    assert_within(&alone, &one, 0, "one worker, local");
    s.devices = "cpu,cpu";
    gs_result two = gs_test_train(&s);
    assert_apart(&two, &one, "two workers, local");
    s.bucket = 1;
    gs_result buckets = gs_test_train(&s);
    assert_within(&buckets, &two, ROUNDING, "two workers, local, --bucket 1");
}

/* Who computes which samples of a batch, and in how many passes and micro-batches. */
typedef struct cut {
    const char *devices;
    int accumulate;
    size_t micro_batch;
    bool exact;
} cut;

static void assert_cut_changes_nothing(gs_settings s, const cut *c, const gs_result *one) {
    s.devices = c->devices;
    s.accumulate = c->accumulate;
    s.micro_batch = c->micro_batch;
    s.exact = c->exact;
    gs_result r = gs_test_train(&s);
    assert_within(&r, one, ROUNDING, c->devices);
}

/* Groups of 10 samples: batches of 240, cut for workers, passes and micro-batches. */
TEST(ghosts_do_not_depend_on_the_cut) {
    gs_settings s = settings("cpu");
    s.steps = 27; /* two of the second epoch */
    s.batch = 240;
    gs_result global = gs_test_train(&s);
    s.batch_norm = (gs_batch_norm_groups){GS_BATCH_NORM_GHOST, 240};
    gs_result whole = gs_test_train(&s);
    assert_within(&whole, &global, 0, "one group");
    s.batch_norm.group = 10;
    gs_result one = gs_test_train(&s);
    assert_apart(&one, &global, "groups of 10");
    static const cut cuts[] = {{"cpu,cpu", 0, 0, false},
                               {"cpu,cpu,cpu", 2, 0, false},
                               {"cpu,cpu", 0, 30, false},
                               {"cpu", 3, 0, false},
                               {"cpu", 0, 0, true}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) assert_cut_changes_nothing(s, &cuts[i], &one);
}

/* Groups of 16 of a batch of 330, of which the last has 10; the last batch of the epoch has 60 samples, in 4 groups. */
TEST(groups_are_dealt_out_whole) {
    static const cut cuts[] = {{"cpu,cpu,cpu", 0, 0, false},
                               {"cpu,cpu,cpu,cpu,cpu", 2, 0, false},
                               {"cpu", 5, 0, false},
                               {"cpu,cpu", 0, 48, false},
                               {"cpu,cpu", 0, 0, true}};
    gs_settings s = settings("cpu");
    s.steps = 20; /* 19 in the first epoch */
    s = gs_test_with(s, "--batch 330 --batch-norm ghost:16");
    gs_result one = gs_test_train(&s);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) assert_cut_changes_nothing(s, &cuts[i], &one);
}

/* With each kind of statistics. The last batch has 6 samples: two of the 8 virtual shards have none. */
TEST(exact_to_the_bit) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                          "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    gs_settings s = gs_test_with(settings("cpu"), "--steps 5 --exact");
    static const gs_batch_norm_groups kinds[] = {
        {GS_BATCH_NORM_LOCAL, 0}, {GS_BATCH_NORM_GHOST, 10}, {GS_BATCH_NORM_GLOBAL, 0}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        s.batch_norm = kinds[kind];
        s.batch = s.batch_norm.group ? 240 : BATCH;
        s.steps = s.batch_norm.over == GS_BATCH_NORM_GLOBAL ? STEPS : 5;
        s.devices = "cpu";
        gs_result one = gs_test_train(&s);
        for (size_t i = 1; i < sizeof devices / sizeof *devices; i++) {
            s.devices = devices[i];
            gs_result r = gs_test_train(&s);
            assert_within(&r, &one, 0, devices[i]);
        }
    }
}

/* The same as without --exact, but for rounding, also where layers lie in others; and between processes. */
TEST(exact_is_that_of_one_worker) {
    static const char *const runs[] = {"train", "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
                                       "launch -n 2 -- train", "launch -n 2 -- train --devices cpu,cpu"};
    const char *first = NULL;
    gs_settings s = settings("cpu");
    s.label_smoothing = 0.1f; /* of all virtual shards */
    gs_result one = gs_test_train(&s);
    s = gs_test_with(s, "--exact --devices cpu,cpu");
    gs_result exact = gs_test_train(&s);
    assert_within(&exact, &one, ROUNDING, "--exact");
    assert_near(exact.test_loss, one.test_loss, 1e-4, 0);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *sha256 = gs_test_sha256(
            "%s --exact --batch 30 --steps 6 --model \"conv 4 3x3 stride 4 pad 1 no_bias, batch_norm, relu, "
            "residual(conv 4 3x3 pad 1 no_bias, batch_norm, relu, dropout 0.1), flatten, linear 10\"",
            runs[i]);
        if (!first) first = sha256;
        assert_string_equal(first, sha256);
    }
}

/* Shards that wait for a sum end, too, when another worker is lost. */
TEST(exact_with_a_worker_that_hangs) {
    gs_settings s = gs_test_with(settings("cpu,cpu"), "--exact --timeout 0.5 --slow 1:3000");
    assert_train_fails(GS_E_PEER, "", &s);
}

TEST(workers_that_are_apart) {
    gs_settings s = gs_test_with(settings("cpu,cpu"), "--steps 10 --batch-norm local");
    s.verify = 0;
    gs_result together = gs_test_train(&s);
    s = gs_test_with(s, "--sync async --staleness 0");
    gs_result async = gs_test_train(&s);
    assert_within(&async, &together, ROUNDING, "async");
    s = gs_test_with(s, "--sync local --every 2");
    s.staleness = -1;
    gs_result local = gs_test_train(&s);
    for (size_t i = 0; i < PARAMS + STATE; i++) assert_true(isfinite(local.weights[i]));
}

static void assert_refused(gs_settings s, const char *wanted) {
    assert_train_fails(GS_E_USAGE, wanted, &s);
}

TEST(what_cannot_be_is_refused) {
    gs_settings s = settings("cpu,cpu");
    gs_settings t = gs_test_with(s, "--sync local --every 3");
    t.verify = 0;
    assert_refused(t, "with --sync local the 2 workers do not wait for each other in each step");
    t = gs_test_with(s, "--accumulate 2");
    assert_refused(t, "--accumulate 2 computes a batch in parts, one after the other");
    t = gs_test_with(s, "--batch 1000 --micro-batch 256");
    assert_refused(t, "--batch 1000 gives a worker 500 samples, which it computes in micro-batches of 256");
    t = gs_test_with(t, "--batch 6000 --devices cpu");
    t.micro_batch = 0;
    assert_refused(t, "--batch 6000 gives a worker 6000 samples, which it computes in micro-batches of 4096");
    t = gs_test_with(s, "--bucket 8");
    assert_refused(t, "wanted --batch-norm ghost:G (statistics of each G samples) or local, or no --bucket");
    t.devices = "cpu"; /* alone nothing is summed */
    gs_test_train(&t);

    t = gs_test_with(s, "--batch-norm ghost:200 --accumulate 2");
    assert_refused(t, "a batch of 222 samples has 2 groups, which cannot be divided among 4 passes; wanted a "
                      "G of at most 55");
    t.batch_norm.group = 16;
    t.micro_batch = 40;
    assert_refused(t, "64 samples are computed in micro-batches of 40, which are no whole groups; wanted a G "
                      "that divides 40");
    t.batch_norm.group = 0;
    assert_refused(t, "--batch-norm: 'ghost:0' is not global, local, or ghost:G");
    t = s;
    t.batch_norm.group = 3;
    assert_refused(t, "is not global, local, or ghost:G");
}

TEST(what_a_user_types) {
    assert_prints(2, "--batch-norm: 'ghost:' is not global, local, or ghost:G", "train --batch-norm ghost:");
    assert_prints(2, "'ghost:0' is not", "train --batch-norm ghost:0");
    assert_prints(2, "'ghost:1x' is not", "train --batch-norm ghost:1x");
    assert_ranks_print(2, "rank 1 and rank 0 differ in --batch-norm (local versus global)",
                       "train --model softmax --steps 3 --threads 1", "", "--batch-norm local");
}

/* What was saved gives the same loss again, which needs the running statistics. */
TEST(saved_with_the_weights) {
    const char *path = gs_test_format("%s/norm.safetensors", gs_test_folder());
    gs_settings s = gs_test_with(settings("cpu,cpu"), "--save %s", path);
    gs_result trained = gs_test_train(&s);
    assert_int_equal(trained.params, PARAMS);
    for (size_t i = 0; i < 4; i++) { /* of the first layer: far from 0 and 1, where they began */
        assert_true(fabsf(trained.weights[PARAMS + i]) > 0);
        assert_true(trained.weights[PARAMS + 4 + i] > 0 &&
                    fabsf(trained.weights[PARAMS + 4 + i] - 1) > 1e-3f);
    }
    gs_settings e = gs_test_options("--load %s", path);
    const gs_result loaded = gs_test_eval(&e);
    assert_true(loaded.test_loss == trained.test_loss && loaded.test_accuracy == trained.test_accuracy);
}
