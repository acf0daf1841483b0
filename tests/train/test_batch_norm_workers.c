/* --batch-norm: statistics over the samples of all workers, of one worker, or of a few samples. */
#include <math.h>
#include "tests/support/devices.h"
#include "tests/support/training.h"

/* An epoch has 28 batches of 222 samples. The last one has only 6, so two of 8 workers get none; then epoch 2
 * starts. */
enum { BATCH = 222, STEPS = 30, PARAMS = 4 * 9 + 8 + (4 * 49 + 1) * 8 + 16 + 90, STATE = 2 * (4 + 8) };
static const char MODEL[] = "conv 4 3x3 stride 2 pad 1 no_bias, batch_norm, tanh, avg_pool 2 stride 2 pad 0, "
                            "flatten, linear 8, batch_norm, tanh, linear 10";

static gs_settings settings(const char *devices) {
    gs_settings s = gs_test_settings("%s --batch %d --steps %d --model '%s'", devices, BATCH, STEPS, MODEL);
    s.verify = 1; /* compares weights and running statistics after each step */
    return s;
}

/* The largest difference of weights and running statistics. */
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

/* The error allowed for rounding; 7e-7 was seen. */
static const double ROUNDING = 1e-5;

/* Compares a run with these options with runs that also use each of `ways`. */
static void ways(double most, const char *options, const char *const *ways) {
    const gs_settings s = gs_test_with(settings("cpu"), "%s", options);
    const gs_result one = gs_test_train(&s);
    for (; *ways; ways++) {
        const gs_settings other = gs_test_with(s, "%s", *ways);
        const gs_result r = gs_test_train(&other);
        assert_within(&r, &one, most, gs_test_format("%s, %s", options, *ways));
        assert_near(r.test_loss, one.test_loss, most > 0 ? 1e-4 : 0, 0);
    }
}
#define ASSERT_WITHIN(most, options, ...) ways(most, options, (const char *const[]){__VA_ARGS__, NULL})

/* A single worker computes all 1000 samples at once; without batch_norm it would use micro-batches of 256. */
TEST(global_is_that_of_one_worker) {
    ASSERT_WITHIN(ROUNDING, "", ON_2, ON_3, ON_8, ON_3 "--zero 1");
    ASSERT_WITHIN(ROUNDING, "--steps 7 --batch 1000", ON_3);
    if (gs_test_has_opencl()) ASSERT_WITHIN(ROUNDING, "--steps 6", "--devices cpu,cl");
}

TEST(local_is_that_of_each_worker) {
    ASSERT_WITHIN(0, "--steps 10", "--batch-norm local");
    ASSERT_WITHIN(ROUNDING, "--steps 10 --batch-norm local " ON_2, "--bucket 1");
    gs_settings s = gs_test_with(settings("cpu"), "--steps 10 --batch-norm local"), t = gs_test_with(s, ON_2);
    gs_result one = gs_test_train(&s), two = gs_test_train(&t);
    assert_apart(&two, &one, "two workers, local");
}

/* Groups of 10 samples in batches of 240, divided among workers, passes and micro-batches. Two steps are in epoch 2. */
TEST(ghosts_do_not_depend_on_the_cut) {
    ASSERT_WITHIN(0, "--steps 27 --batch 240", "--batch-norm ghost:240");
    ASSERT_WITHIN(ROUNDING, "--steps 27 --batch 240 --batch-norm ghost:10", ON_2, ON_3 "--accumulate 2",
                  ON_2 "--micro-batch 30", "--accumulate 3", "--exact");
    gs_settings s = gs_test_with(settings("cpu"), "--steps 27 --batch 240");
    gs_settings t = gs_test_with(s, "--batch-norm ghost:10");
    gs_result global = gs_test_train(&s), ghosts = gs_test_train(&t);
    assert_apart(&ghosts, &global, "groups of 10");
}

/* Groups of 16 samples in batches of 330, with 10 in the last group; the epoch's last batch, the 19th, has 60 samples
 * in 4 groups. */
TEST(groups_are_dealt_out_whole) {
    ASSERT_WITHIN(ROUNDING, "--steps 20 --batch 330 --batch-norm ghost:16", ON_3,
                  "--devices cpu,cpu,cpu,cpu,cpu --accumulate 2", "--accumulate 5", ON_2 "--micro-batch 48",
                  ON_2 "--exact");
}

/* --exact with each kind of statistics. The last batch has 6 samples, so two of the 8 virtual shards are empty. */
TEST(exact_to_the_bit) {
    ASSERT_WITHIN(0, "--exact --steps 5 --batch-norm local", ON_2, ON_4, ON_8);
    ASSERT_WITHIN(0, "--exact --steps 5 --batch 240 --batch-norm ghost:10", ON_2, ON_4, ON_8);
    ASSERT_WITHIN(0, "--exact", ON_2, ON_4, ON_8, ON_2 "--zero 1", ON_4 "--zero 2", ON_2 "--zero 3",
                  "--recompute 2");
    assert_ways_have_the_bits(
        "--exact --batch 45 --steps 6 --model 'conv 4 3x3 stride 4 no_bias, batch_norm, "
        "flatten, linear 16, tanh, linear 10'",
        ON_2, ON_2 "--tensor 2", ON_4 "--tensor 2 --zero 2");
}

/* --exact changes results only by rounding, even for layers inside containers and between processes. */
TEST(exact_is_that_of_one_worker) {
    static const char *const runs[] = {"train", "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
                                       "launch -n 2 -- train", "launch -n 2 -- train --devices cpu,cpu"};
    const char *first = NULL;
    gs_settings s = settings("cpu");
    s.label_smoothing = 0.1f; /* counts the samples of all virtual shards */
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

/* Shards that wait for a sum also stop waiting when another worker is lost. */
TEST(exact_with_a_worker_that_hangs) {
    gs_settings s = gs_test_with(settings("cpu,cpu"), "--exact --timeout 0.5 --jitter 1:3000ms");
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
    assert_refused(t, "--accumulate 2 computes a batch in parts");
    t = gs_test_with(s, "--batch 1000 --micro-batch 256");
    assert_refused(t, "--batch 1000 gives a worker 500 samples, which it computes in micro-batches of 256");
    t = gs_test_with(t, "--batch 6000 --devices cpu");
    t.micro_batch = 0;
    assert_refused(t, "--batch 6000 gives a worker 6000 samples, which it computes in micro-batches of 4096");
    t = gs_test_with(s, "--exact --batch 10 --micro-batch 5"); /* leaves of 2, 2, 1, 1 | 1, 1, 1, 1 samples */
    assert_refused(t, "need all samples at once; wanted a batch of at most 9; or");
    t = gs_test_with(t, "--batch 9");
    gs_test_train(&t);
    t = gs_test_with(s, "--bucket 8");
    assert_refused(t, "wanted --batch-norm ghost:G (statistics of each G samples) or local, or no --bucket");
    t.devices = "cpu"; /* with one worker nothing is summed */
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

/* The saved weights reproduce the loss, which requires the running statistics. */
TEST(saved_with_the_weights) {
    const char *path = gs_test_format("%s/norm.safetensors", gs_test_folder());
    gs_settings s = gs_test_with(settings("cpu,cpu"), "--save %s", path);
    gs_result trained = gs_test_train(&s);
    assert_int_equal(trained.params, PARAMS);
    for (size_t i = 0; i < 4; i++) { /* the first layer's, far from their initial values 0 and 1 */
        assert_true(fabsf(trained.weights[PARAMS + i]) > 0);
        assert_true(trained.weights[PARAMS + 4 + i] > 0 &&
                    fabsf(trained.weights[PARAMS + 4 + i] - 1) > 1e-3f);
    }
    gs_settings e = gs_test_options("--load %s", path);
    const gs_result loaded = gs_test_eval(&e);
    assert_true(loaded.test_loss == trained.test_loss && loaded.test_accuracy == trained.test_accuracy);
}
