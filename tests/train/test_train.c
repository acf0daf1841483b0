/* Data-parallel training is the same algorithm as training on one worker: the weights after some steps agree
 * but for rounding, for threads and processes, every scheme, and both backends. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

#include <math.h>

/* Every kind of trap: convolution, pooling, dropout (whose mask must follow the sample, not the worker), a
 * batch that nothing divides. 6000 samples in batches of 333: step 19 has 6 samples, step 20 begins epoch 2.
 * No relu and no max_pool: these 20 steps see some 1e6 windows, and where the two largest numbers of one differ by
 * 1e-8 rounding decides which of them gets the gradient, rightly (seen: 4e-5 in one weight). Kinks are for
 * --exact, which test_exact.c holds to the bit with lenet. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, tanh, avg_pool 2, flatten, dropout 0.25, linear 16, tanh, linear 10";
enum { BATCH = 333, STEPS = GS_TEST_STEPS };

/* Rounding only: after these 20 steps the weights (up to 1) were seen to differ by at most 9e-8. One sample that is
 * left out of one step changes them by 1e-4. */
static const double TOLERANCE = 1e-6;

static gs_settings settings_for(const char *devices, const char *sync) {
    gs_settings s = gs_test_settings("%s --batch 333 --model '%s'", devices, MODEL);
    s.sync = sync;
    return s;
}

static gs_result train(const char *devices, const char *sync) {
    gs_settings s = settings_for(devices, sync);
    return gs_test_train(&s);
}

static double largest_difference(const float *a, const float *b, size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

static void assert_same_weights(const gs_result *one, const float *weights, const char *what) {
    double d = largest_difference(one->weights, weights, one->params);
    if (!(d <= TOLERANCE))
        fail_msg("%s: weights differ by %g from one worker's, wanted at most %g", what, d, TOLERANCE);
}

/* The same by every scheme: the gradients are what the sum was given, whatever way they went. */
static void compare_threads(const char *one, const char *const *several) {
    gs_result alone = train(one, "allreduce");
    for (; *several; several++)
        for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
            gs_result r = train(*several, (*s)->name);
            assert_int_equal(r.workers, gs_devices_count(*several));
            assert_same_weights(&alone, r.weights, gs_test_format("%s on %s", (*s)->name, *several));
        }
}

TEST(threads_equal_one_on_cpu) {
    compare_threads("cpu", (const char *[]){"cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu", NULL});
}

static bool has_sub_devices(void) {
    gs_device_info *all;
    int count;
    const char *problem;
    assert_ok(gs_device_list(&all, &count, &problem));
    bool has = count > 1 && all[1].sub_devices >= 2;
    free(all);
    return has;
}

TEST(threads_equal_one_on_opencl) {
    gs_test_need_opencl();
    compare_threads("cl", (const char *[]){"cl,cl", "cl,cl,cl", "cl,cl,cl,cl", NULL});
    if (has_sub_devices()) compare_threads("cl", (const char *[]){"cl:0.0/0of2,cl:0.0/1of2", NULL});
}

/* A worker on each kind of device: the two backends agree too. */
TEST(cpu_and_opencl_train_together) {
    gs_test_need_opencl();
    compare_threads("cpu", (const char *[]){"cpu,cl", "cl,cpu,cpu", NULL});
}

static void load_weights(const char *path, const gs_result *like, float *weights) {
    gs_model *plan = gs_test_plan(MODEL, (gs_shape){1, 28, 28, 0});
    assert_int_equal(plan->params, like->params);
    assert_ok(gs_safetensors_load(path, plan, weights));
}

static void compare_processes(const gs_result *alone, int processes, const char *devices, const char *sync) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_test_output(0,
                   "launch -n %d -- train --model '%s' --devices %s --sync %s --batch %d --steps %d "
                   "--weight-decay 1e-3 --threads 1 --tests 0 --save %s",
                   processes, MODEL, devices, sync, BATCH, STEPS, path);
    float *weights = gs_test_malloc(alone->params * sizeof(float));
    load_weights(path, alone, weights);
    assert_same_weights(alone, weights, devices);
}

TEST(processes_equal_one) {
    gs_result alone = train("cpu", "allreduce");
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        compare_processes(&alone, 2, "cpu", (*s)->name);
        compare_processes(&alone, 3, "cpu", (*s)->name);
        compare_processes(&alone, 2, "cpu,cpu", (*s)->name); /* two workers in each of two processes */
    }
    compare_processes(&alone, 4, "cpu", "allreduce");
    compare_processes(&alone, 4, "cpu", "ps");
}

TEST(processes_equal_one_on_opencl) {
    gs_test_need_opencl();
    gs_result alone = train("cl", "allreduce");
    compare_processes(&alone, 2, "cl", "allreduce");
    compare_processes(&alone, 2, "cl", "ps");
    compare_processes(&alone, 2, "cpu,cl", "allreduce");
}

/* Twice the same gives the same bits; another seed gives others. */
TEST(a_run_repeats_to_the_bit) {
    gs_result a = train("cpu,cpu", "allreduce"), b = train("cpu,cpu", "allreduce");
    assert_memory_equal(a.weights, b.weights, a.params * sizeof(float));
    gs_settings s = gs_test_with(settings_for("cpu,cpu", "allreduce"), "--seed 2");
    gs_result c = gs_test_train(&s);
    assert_true(largest_difference(a.weights, c.weights, a.params) > 1e-3);
}

/* The micro-batch bounds memory, not the result: gradients of parts are summed. */
TEST(micro_batches_change_nothing) {
    gs_settings s = settings_for("cpu", "allreduce");
    gs_result whole = train("cpu", "allreduce"), parts;
    s.micro_batch = 130; /* 333 = 130 + 130 + 73 */
    parts = gs_test_train(&s);
    assert_same_weights(&whole, parts.weights, "micro-batches of 130");
}

/* --batch all is one step an epoch, over all samples. */
TEST(batch_all_is_gradient_descent) {
    gs_settings s = gs_test_with(settings_for("cpu", "allreduce"), "--model 'flatten, linear 10'");
    s.batch = s.steps = 0;
    s.epochs = 2;
    gs_result one = gs_test_train(&s);
    assert_int_equal(one.steps, 2);
    s.devices = "cpu,cpu,cpu";
    gs_result two = gs_test_train(&s);
    assert_same_weights(&one, two.weights, "full gradient descent on 3 workers");
}

/* Squared error learns too, on several workers as on one. */
TEST(squared_error_trains) {
    gs_settings s =
        gs_test_with(settings_for("cpu", "allreduce"), "--loss squared_error --lr 0.2 --epochs 1");
    s.steps = 0;
    gs_result one = gs_test_train(&s);
    assert_true(one.test_accuracy > 0.3);
    s.devices = "cpu,cpu";
    gs_result two = gs_test_train(&s);
    assert_same_weights(&one, two.weights, "squared error on 2 workers");
}

/* Smooth labels: in training alone, and the same on several workers and with --exact. */
TEST(label_smoothing_is_for_training) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_settings s = settings_for("cpu", "allreduce");
    gs_result exact, evaluated;
    gs_result plain = gs_test_train(&s);
    s = gs_test_with(s, "--label-smoothing 0.3 --save %s", path);
    gs_result one = gs_test_train(&s);
    s.save = NULL;
    assert_true(one.train_loss >
                plain.train_loss + 0.1); /* by e times the mean of -log p over the wrong classes */
    s.devices = "cpu,cpu";
    gs_result two = gs_test_train(&s);
    assert_same_weights(&one, two.weights, "smooth labels on 2 workers");
    s.exact = true;
    two = gs_test_train(&s);
    s.devices = "cpu";
    exact = gs_test_train(&s);
    assert_memory_equal(exact.weights, two.weights, exact.params * sizeof(float));
    s.exact = false;
    s.label_smoothing = 0; /* the test loss is the same whether it is set or not */
    s.load = path;
    evaluated = gs_test_eval(&s);
    assert_true(evaluated.test_loss == one.test_loss);
}

/* Inference gives the same result, to the bit, for any number of workers, and predict agrees with eval. */
TEST(eval_is_the_same_for_any_workers) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_settings s = gs_test_with(settings_for("cpu", "allreduce"), "--save %s", path);
    gs_result trained = gs_test_train(&s);
    s.save = NULL;
    s.load = path;
    s.model = NULL;
    const gs_result one = gs_test_eval(&s);
    assert_true(one.test_accuracy == trained.test_accuracy);
    static const char *const sets[] = {"cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        s.devices = sets[i];
        gs_result r = gs_test_eval(&s);
        assert_true(r.test_accuracy == one.test_accuracy);
        assert_true(r.test_loss == one.test_loss);
    }
    float *logits;
    size_t rows, right = 0;
    int columns;
    assert_ok(gs_predict_all(&s, NULL, &logits, &rows, &columns));
    assert_int_equal(rows, 1000);
    assert_int_equal(columns, 10);
    gs_dataset *test = gs_test_load(s.data, GS_TEST);
    for (size_t i = 0; i < rows; i++) {
        int largest = 0;
        for (int k = 1; k < columns; k++)
            if (logits[i * 10 + (size_t)k] > logits[i * 10 + (size_t)largest]) largest = k;
        right += largest == test->labels[i];
    }
    assert_true((double)right / (double)rows == one.test_accuracy);
    free(logits);
}
