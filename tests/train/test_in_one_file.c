/* lessons/in-one-file/train.c is an independent reference: it shares no line with the library and computes the same
 * weights. build/in-one-file is that file, compiled; build/fashion-mnist-small contains the unpacked images. */
#include "tests/support/training.h"

#include <math.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 3 }; /* plain loops are slow enough without a sanitizer */
#else
enum { STEPS = 5 };
#endif

/* If a relu's input, or the difference between two numbers that a max_pool compares, is 0 up to rounding, one program
 * may pass a gradient on that the other one stops. That is not an error, and sometimes happened in 20 steps. The effect
 * is proportional to the learning rate: with 0.005, weights of mlp differed by 1.4e-5 (seed 3), so with 0.001 by 3e-6.
 * Real errors are larger: with 0.001, leaving a sample out of one step changes weights of either model by 5e-5. */
static const float LEARNING_RATE = 0.001f;
static const double TOLERANCE = 1e-5;

static float *weights_of_the_file(const char *model, int workers, const char *scheme, size_t params) {
    const char *path = gs_test_format("%s/weights-of-one-file", gs_test_folder());
    char *output =
        gs_test_shell_output(0, "%s/in-one-file %s/fashion-mnist-small %s %d %s %g %d %s", GS_BUILD_DIR,
                             GS_BUILD_DIR, model, workers, scheme, (double)LEARNING_RATE, (int)STEPS, path);
    assert_has(output, "epoch 1  train loss");
    float *weights = gs_test_malloc((params + 1) * sizeof *weights);
    FILE *file = gs_test_open(path, "rb");
    assert_int_equal(fread(weights, sizeof *weights, params + 1, file), params);
    fclose(file);
    return weights;
}

static gs_result train(const char *model, int workers, const char *scheme) {
    static const char *const devices[] = {[1] = "cpu", [3] = "cpu,cpu,cpu"};
    gs_settings s = gs_test_options("--model '%s' --steps %d --tests 0 --threads 1", model, STEPS);
    s.devices = devices[workers];
    s.sync = scheme;
    s.lr = LEARNING_RATE;
    gs_result r = gs_test_train(&s);
    assert_int_equal(r.steps, STEPS);
    return r;
}

static void the_library_has_the_same_weights(const char *model, int workers, const char *scheme) {
    gs_result r = train(model, workers, scheme);
    float *weights = weights_of_the_file(model, workers, scheme, r.params);
    for (size_t i = 0; i < r.params; i++)
        if (!(fabs((double)weights[i] - (double)r.weights[i]) <= TOLERANCE))
            fail_msg("%s, %d workers, %s: after %d steps weight %zu is %.9g in one file, %.9g in the library",
                     model, workers, scheme, (int)STEPS, i, (double)weights[i], (double)r.weights[i]);
}

/* A single worker sends nothing, with any scheme. */
static void one_worker(void **state) {
    the_library_has_the_same_weights(*state, 1, "ps");
}

static void three_workers_in_a_ring(void **state) {
    the_library_has_the_same_weights(*state, 3, "ring");
}

static void three_workers_and_a_server(void **state) {
    the_library_has_the_same_weights(*state, 3, "ps");
}

static void fails(const char *part, const char *arguments) {
    assert_shell_prints(1, part, "%s/in-one-file %s", GS_BUILD_DIR, arguments);
}

TEST(wrong_use_is_explained) {
    fails("FOLDER mlp|lenet WORKERS", "");
    fails("usage", "x cnn 1 ring");
    fails("usage", "x mlp 0 ring");
    fails("usage", "x mlp 17 ring");
    fails("usage", "x mlp 1 tree");
    fails("usage", "x mlp 1 ring -1");
    fails("usage", "x mlp 1 ring 0.05 0");
    fails("/no/such/train-images-idx3-ubyte: cannot be opened", "/no/such mlp 1 ring");
    const char *text = gs_test_format("%s mlp 1 ring", gs_test_source("datasets/fashion-mnist-small"));
    fails("compressed", text);
}

/* The file must be short enough to read in an hour. */
TEST(it_is_short) {
    FILE *file = fopen(gs_test_source("lessons/in-one-file/train.c"), "r");
    int lines = 0;
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    assert_in_range(lines, 1, 500);
}

#define MODEL(name)                                                                                          \
    {"one worker " #name, one_worker, NULL, NULL, #name},                                                    \
        {"three workers in a ring " #name, three_workers_in_a_ring, NULL, NULL, #name}, {                    \
        "three workers and a server " #name, three_workers_and_a_server, NULL, NULL, #name                   \
    }

GS_TESTS(in_one_file, MODEL(mlp), MODEL(lenet))
