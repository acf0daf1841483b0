/* Data-parallel training is the same algorithm as training on one worker: after some steps the weights agree up to
 * rounding, for threads and processes, every scheme, and both backends. */
#include "tests/support/devices.h"
#include "tests/support/training.h"

/* All difficulties of gs_test_settings: convolution, pooling, dropout (whose mask must follow the sample, not the
 * worker), and uneven batches. 6000 samples in batches of 333: step 19 has 6 samples, and step 20 starts epoch 2. There
 * is no relu and no max_pool: these 20 steps compute some 1e6 windows, and where the two largest numbers of a window
 * differ by 1e-8, rounding decides which one gets the gradient; neither is wrong (seen: 4e-5 in one weight). For
 * networks with kinks, test_exact.c checks --exact bit for bit with lenet. */
static gs_settings settings_for(const char *devices, const char *sync) {
    return gs_test_settings("%s --batch 333 --sync %s", devices, sync);
}

static gs_result train(const char *devices, const char *sync) {
    gs_settings s = settings_for(devices, sync);
    return gs_test_train(&s);
}

/* With every scheme the weights are the same: gradients are summed correctly on any route. */
static void compare_threads(const char *one, const char *const *several) {
    gs_result alone = train(one, "allreduce");
    for (; *several; several++)
        for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
            gs_result r = train(*several, (*s)->name);
            assert_int_equal(r.workers, gs_devices_count(*several));
            assert_same_within_rounding(&alone, &r, gs_test_format("%s on %s", (*s)->name, *several));
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

/* One worker on each kind of device: both backends agree. */
TEST(cpu_and_opencl_train_together) {
    gs_test_need_opencl();
    compare_threads("cpu", (const char *[]){"cpu,cl", "cl,cpu,cpu", NULL});
}

static void compare_processes(const gs_result *alone, int processes, const char *devices, const char *sync) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    const gs_settings s = settings_for(devices, sync);
    gs_test_output(0,
                   "launch -n %d -- train --model '%s' --devices %s --sync %s --batch 333 --steps %d "
                   "--weight-decay 1e-3 --threads 1 --tests 0 --save %s",
                   processes, s.model, devices, sync, GS_TEST_STEPS, path);
    gs_result r = *alone;
    gs_model *plan = gs_test_plan(s.model, (gs_shape){1, 28, 28, 0});
    assert_int_equal(plan->params, alone->params);
    r.weights = gs_test_malloc(alone->params * sizeof(float));
    assert_ok(gs_safetensors_load(path, plan, r.weights));
    assert_same_within_rounding(alone, &r, devices);
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

/* Repeating a run gives the same bits; another seed gives others. */
TEST(a_run_repeats_to_the_bit) {
    gs_result a = train("cpu,cpu", "allreduce"), b = train("cpu,cpu", "allreduce");
    assert_same_bits(&a, &b, "a second run");
    gs_result c = train("cpu,cpu", "allreduce --seed 2");
    assert_true(gs_test_difference(&a, &c) > 1e-3);
}

/* Micro-batches limit memory without changing the result: the gradients of parts are summed. 333 = 130 + 130 + 73. */
TEST(micro_batches_change_nothing) {
    assert_ways_are_near("--batch 333", "--micro-batch 130");
}

/* --batch all is one step per epoch, over all samples. */
TEST(batch_all_is_gradient_descent) {
    static const char run[] = "--batch all --epochs 2 --model 'flatten, linear 10'";
    gs_settings s = gs_test_settings("cpu %s", run);
    s.steps = 0; /* no limit */
    assert_int_equal(gs_test_train(&s).steps, 2);
    assert_ways_are_near(gs_test_format("%s --steps 2", run), ON_3);
}

/* Squared error trains too, with several workers as with one. */
TEST(squared_error_trains) {
    static const char run[] = "--batch 333 --loss squared_error --lr 0.2 --steps 19";
    gs_settings s = gs_test_settings("cpu %s", run);
    assert_true(gs_test_train(&s).test_accuracy > 0.3);
    assert_ways_are_near(run, ON_2);
}

/* Label smoothing applies only to training, and is the same with several workers and with --exact. */
TEST(label_smoothing_is_for_training) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_settings s = settings_for("cpu", "allreduce");
    gs_result plain = gs_test_train(&s);
    s = gs_test_with(s, "--label-smoothing 0.3 --save %s", path);
    gs_result one = gs_test_train(&s);
    s.save = NULL;
    assert_true(one.train_loss >
                plain.train_loss + 0.1); /* by 0.3 times the mean of -log p over the wrong classes */
    assert_ways_are_near("--batch 333 --label-smoothing 0.3", ON_2);
    assert_ways_have_the_bits("--batch 333 --label-smoothing 0.3 --exact", ON_2);
    s.label_smoothing = 0; /* the test loss does not depend on it */
    s.load = path;
    assert_true(gs_test_eval(&s).test_loss == one.test_loss);
}

/* Inference gives the same bits with any number of workers, and the results of predict agree with those of eval. */
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
