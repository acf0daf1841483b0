/* A sweep: the list of batches, and runs, in parallel or one after another, that reach their target or do not. */
#include "tests/support/training.h"
#include "tests/support/tiny_set.h"

#include <math.h>
#include "train/sweep.h"

/* ---- the list ---- */

static gs_sweep sweep_of(size_t samples) {
    return (gs_sweep){.settings = gs_settings_default(), .seeds = 1, .samples = samples};
}

static void assert_batches(const char *text, size_t samples, const size_t *wanted, int count) {
    gs_sweep s = sweep_of(samples);
    assert_ok(gs_sweep_batches(&s, text));
    assert_int_equal(s.batches, count);
    for (int i = 0; i < count; i++) assert_int_equal(s.batch[i], wanted[i]);
}

TEST(lists_of_batches) {
    assert_batches("32,64,...,2048", 6000, (size_t[]){32, 64, 128, 256, 512, 1024, 2048}, 7);
    assert_batches("7", 6000, (size_t[]){7}, 1);
    assert_batches("1,10,...,1000,all", 6000, (size_t[]){1, 10, 100, 1000, 6000}, 5);
    assert_batches("32,48,...,162", 6000, (size_t[]){32, 48, 72, 108, 162}, 5); /* by a factor of 3/2 */
    assert_batches("1,2,...,8,16,64,...,1024", 6000, (size_t[]){1, 2, 4, 8, 16, 64, 256, 1024}, 8);
    assert_batches("2,4,...,8", 6000, (size_t[]){2, 4, 8}, 3); /* no number in between is fine */
    assert_batches("3000,4000,all", 6000, (size_t[]){3000, 4000, 6000}, 3);
    gs_sweep s = sweep_of((size_t)1 << 32);
    assert_ok(gs_sweep_batches(&s, "2,4,...,4294967296"));
    assert_int_equal(s.batches, 32);
    assert_true(s.batch[31] == (size_t)1 << 32);
}

TEST(lists_that_cannot_be) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"32,...", "'...' needs two numbers before it and one after it"},
        {"32,...,64", "'...' needs two numbers before it"},
        {"...,64", "'...' needs two numbers before it"},
        {"32,64,...", "'...' needs two numbers before it"},
        {"32,64,...,...,512", "'...' needs two numbers before it"},
        {"32,64,...,2000", "by the factor 2, from 1024 to 2048, and misses 2000"},
        {"100,200,...,250", "from 200 to 400, and misses 250"},
        {"4,6,...,100", "from 9 to 13.5, and misses 100"},
        {"64,32", "32 comes after 64: the batches must grow"},
        {"64,64", "64 comes after 64"},
        {"64,32,...,8", "32 comes after 64"},
        {"32,8192", "8192 is larger than the training set, which has 6000 samples"},
        {"32,64,...,8192", "8192 is larger than the training set"},
        {"32,64,...,99999", "99999 is larger than the training set"},
        {"99999999999999999999999", "larger than the training set"},
        {"all,7000", "7000 is larger"},
        {"0", "'0' is not a whole number of samples from 1 up"},
        {"-5", "'-5' is not"},
        {"1.5", "'1.5' is not"},
        {"32,,64", "'' is not"},
        {"", "'' is not"},
        {"32,", "'' is not"},
        {"32 ,64", "'32 ' is not"},
        {"32,64,..,128", "'..' is not"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_sweep s = sweep_of(6000);
        assert_fails(GS_E_USAGE, cases[i].message, gs_sweep_batches(&s, cases[i].text));
    }
    gs_sweep s = sweep_of(6000);
    char many[400] = "1";
    for (int i = 2; i <= GS_SWEEP_MOST + 1; i++) sprintf(many + strlen(many), ",%d", i);
    assert_fails(GS_E_USAGE, "more than 64 batches", gs_sweep_batches(&s, many));
}

/* ---- runs ---- */

static gs_sweep tiny_sweep(const char *batches, double target) {
    gs_sweep s = sweep_of(GS_TINY_TRAIN);
    s.settings.data = gs_test_tiny_data();
    s.settings.model = "flatten, linear 4";
    s.settings.threads = 1;
    s.settings.epochs = 4;
    s.settings.momentum = 0;
    s.target = target;
    assert_ok(gs_sweep_batches(&s, batches));
    return s;
}

static gs_sweep trained(const char *batches, double target) {
    gs_sweep s = tiny_sweep(batches, target);
    assert_ok(gs_sweep_prepare(&s));
    assert_ok(gs_sweep_train(&s));
    return s;
}

/* The first evaluation at or above the target ends the search; every evaluation is in the curve. */
TEST(targets_are_seen) {
    gs_sweep s = trained("10,20,...,80", 0.99);
    for (int i = 0; i < s.count; i++) {
        const gs_sweep_run *r = &s.run[i];
        uint64_t an_epoch = (GS_TINY_TRAIN + r->batch - 1) / r->batch;
        assert_true(r->ran);
        assert_false(r->diverged);
        assert_int_equal(r->result.steps, 4 * an_epoch);
        /* epochs of 24, 12 and 6 steps have 4 evaluations; in epochs of 3 steps, each step has one */
        assert_int_equal(r->count, an_epoch >= 4 ? 16 : 12);
        assert_int_equal(r->tests[r->count - 1].step, r->result.steps);
        assert_true(r->tests[r->count - 1].accuracy == r->result.test_accuracy);
        const gs_test_report *first = NULL;
        for (size_t k = 0; k < r->count; k++) {
            if (k > 0) assert_true(r->tests[k].step > r->tests[k - 1].step);
            if (k > 0) assert_true(r->tests[k].seconds >= r->tests[k - 1].seconds);
            if (!first && r->tests[k].accuracy >= 0.99) first = &r->tests[k];
        }
        assert_int_equal(r->reached, first != NULL);
        if (first) assert_int_equal(r->at.step, first->step);
    }
    assert_true(s.run[0].reached);
    assert_int_equal(s.run[0].tests[0].step, 6); /* a quarter of 24 */
    gs_sweep_free(&s);
}

TEST(targets_that_are_too_high) {
    gs_sweep s = tiny_sweep("20,120", 0.99);
    s.settings.lr = 0; /* learns nothing */
    assert_ok(gs_sweep_prepare(&s));
    assert_ok(gs_sweep_train(&s));
    for (int i = 0; i < 2; i++) {
        assert_true(s.run[i].ran);
        assert_false(s.run[i].reached);
        assert_false(s.run[i].diverged);
        assert_true(s.run[i].result.test_accuracy < 0.9);
    }
    gs_sweep_free(&s);
}

TEST(divergence_is_seen) {
    gs_sweep s = tiny_sweep("20,120", 0.99);
    s.settings.model = "flatten, linear 16, relu, linear 4";
    s.settings.loss = GS_MEAN_SQUARED_ERROR;
    s.settings.lr = 1e6f;
    assert_ok(gs_sweep_prepare(&s));
    assert_ok(gs_sweep_train(&s));
    for (int i = 0; i < 2; i++) assert_true(s.run[i].ran && s.run[i].diverged && !s.run[i].reached);
    gs_sweep_free(&s);
}

/* Evaluating on the test set does not change training. */
TEST(looks_change_nothing) {
    gs_settings s = gs_test_options("--model 'conv 4 3x3 stride 2 pad 1, relu, flatten, dropout 0.25, linear "
                                    "10' --devices cpu,cpu --threads 1 --batch 333 --steps 25");
    gs_result plain, looked;
    plain = gs_test_train(&s);
    s.tests = 5;
    looked = gs_test_train(&s);
    assert_memory_equal(plain.weights, looked.weights, plain.params * sizeof(float));
    assert_true(plain.test_accuracy == looked.test_accuracy);
}

/* Several workers reach the target after the same number of steps as one. */
TEST(workers_equal_one) {
    gs_sweep one = trained("16,32,64", 0.9), more = tiny_sweep("16,32,64", 0.9);
    more.settings.devices = "cpu,cpu,cpu";
    assert_ok(gs_sweep_prepare(&more));
    assert_ok(gs_sweep_train(&more));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(one.run[i].reached, more.run[i].reached);
        assert_int_equal(one.run[i].at.step, more.run[i].at.step);
    }
    gs_sweep_free(&one);
    gs_sweep_free(&more);
}

TEST(cores_are_divided) {
    gs_sweep s = tiny_sweep("16,32,64", 0.9);
    s.settings.threads = 0;
    s.settings.devices = "cpu,cpu,cpu";
    assert_ok(gs_sweep_prepare(&s));
    const int threads = gs_cpu_cores() / 3;
    assert_int_equal(s.settings.threads, threads > 0 ? threads : 1);
    gs_sweep_free(&s);
}

/* A failing run is named, and ends the sweep. */
TEST(failures_are_told) {
    gs_sweep s = tiny_sweep("2,4,8", 0.9);
    s.settings.devices = "cpu,cpu,cpu";
    assert_ok(gs_sweep_prepare(&s));
    assert_fails(GS_E_USAGE, "batch 2: --batch 2 is the global batch: it cannot be divided among 3 workers",
                 gs_sweep_train(&s));
    gs_sweep_free(&s);
}

/* Stops the sweep after its second run; completed runs are still shown. */
static void stop_after_second(void *context, const gs_sweep *s, const gs_sweep_run *r) {
    (void)context;
    if (r == &s->run[1]) gs_stop_requested = 1;
}

TEST(what_is_done_stays) {
    gs_sweep s = tiny_sweep("8,16,...,128", 0.9);
    s.done = stop_after_second;
    assert_ok(gs_sweep_prepare(&s));
    gs_status status = gs_sweep_train(&s);
    gs_stop_requested = 0;
    assert_int_equal(status, GS_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(s.run[i].ran, i < 2);
    gs_sweep_free(&s);
}

/* ---- several seeds ---- */

/* Each seed's run equals the run of a sweep with only that seed. */
TEST(each_seed_is_a_run) {
    gs_sweep all = tiny_sweep("20,40", 0.9);
    all.settings.seed = 5;
    all.seeds = 3;
    assert_ok(gs_sweep_prepare(&all));
    assert_int_equal(all.count, 6);
    assert_ok(gs_sweep_train(&all));
    for (int k = 0; k < 3; k++) {
        gs_sweep one = tiny_sweep("20,40", 0.9);
        one.settings.seed = 5 + (uint64_t)k;
        assert_ok(gs_sweep_prepare(&one));
        assert_ok(gs_sweep_train(&one));
        for (int i = 0; i < 2; i++) {
            const gs_sweep_run *a = &all.run[i * 3 + k], *b = &one.run[i];
            assert_int_equal(a->seed, b->seed);
            assert_int_equal(a->batch, b->batch);
            assert_true(a->result.train_loss == b->result.train_loss);
            assert_int_equal(a->at.step, b->at.step);
        }
        gs_sweep_free(&one);
    }
    assert_true(all.run[0].result.train_loss != all.run[1].result.train_loss);
    gs_sweep_free(&all);
}

static void assert_spread(const double *values, int count, double least, double median, double most) {
    gs_spread s = gs_spread_of(values, count);
    assert_true(s.median == median);
    assert_true(isnan(least) ? isnan(s.least) && isnan(s.most) : s.least == least && s.most == most);
}

TEST(a_spread_counts_never_as_slowest) {
    assert_spread((double[]){7}, 1, 7, 7, 7);
    assert_spread((double[]){9, 1, 4}, 3, 1, 4, 9);
    assert_spread((double[]){9, 1, 4, 6}, 4, 1, 5, 9);
    assert_spread((double[]){INFINITY, 1, 4}, 3, 1, 4, 4);
    assert_spread((double[]){INFINITY, 1, NAN}, 3, 1, INFINITY, 1);
    assert_spread((double[]){INFINITY, 1, 4, INFINITY}, 4, 1, INFINITY, 4);
    assert_spread((double[]){INFINITY, NAN}, 2, NAN, INFINITY, NAN);
}

/* Made-up runs: with the first batch 3 of 5 seeds reached the target, with the second 1 of the 3 completed runs. */
TEST(a_line_of_seeds) {
    gs_sweep s = {.samples = 100, .seeds = 5, .batch = {10, 30}, .batches = 2, .count = 10};
    gs_sweep_run run[10] = {0};
    static const unsigned steps[10] = {20, 0, 40, 0, 10, 0, 12, 0, 0, 0};
    s.run = run;
    for (int i = 0; i < 10; i++) {
        run[i].ran = i < 8;
        run[i].reached = steps[i] > 0;
        run[i].diverged = i == 1;
        run[i].at.step = steps[i];
        run[i].at.seconds = steps[i];
        run[i].result.test_accuracy = 0.1 * (i % 5);
    }
    gs_sweep_line line = gs_sweep_line_of(&s, 0);
    assert_int_equal(line.batch, 10);
    assert_int_equal(line.runs, 5);
    assert_int_equal(line.reached, 3);
    assert_int_equal(line.diverged, 1);
    assert_true(line.steps.least == 10 && line.steps.median == 40 && line.steps.most == 40);
    assert_true(line.epochs.median == 4 && line.seconds.most == 40);
    assert_near(line.accuracy.median, 0.2, 0, 1e-12);
    assert_ptr_equal(line.middle, &run[2]);
    line = gs_sweep_line_of(&s, 1);
    assert_int_equal(line.runs, 3);
    assert_int_equal(line.reached, 1);
    assert_true(line.steps.least == 12 && line.steps.most == 12 && isinf(line.steps.median));
    for (int i = 5; i < 10; i++) run[i].ran = false;
    line = gs_sweep_line_of(&s, 1);
    assert_int_equal(line.runs, 0);
    assert_null(line.middle);
}
