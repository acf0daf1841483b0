/* Trainers (gradsum.h): their steps are those of a run, and their errors are returned as a status. */
#include <math.h>
#include "layer/make.h"
#include "tests/support/files.h"
#include "tests/support/on_devices.h"
#include "tests/support/operators.h"
#include "tests/support/training.h"

char *openblas_get_corename(void); /* from OpenBLAS: the name of its kernels */

enum { STEPS = 7, POINTS = 60, CLASSES = 3 };

static gs_dataset *images(gs_split split) {
    return gs_test_load("fashion-mnist-small", split);
}

static void end_trainer(void *trainer) {
    gs_trainer_free(trainer);
}

/* The test owns it. */
#define made_trainer(...) made_trainer_of(&(gs_trainer_options){__VA_ARGS__})
static gs_trainer *made_trainer_of(const gs_trainer_options *options) {
    gs_trainer *trainer;
    assert_ok(gs_trainer_create(options, &trainer));
    return gs_test_own(trainer, end_trainer);
}

#define assert_no_trainer(code, part, ...)                                                                   \
    do {                                                                                                     \
        gs_trainer *none;                                                                                    \
        assert_fails(code, part, gs_trainer_create(&(gs_trainer_options){__VA_ARGS__}, &none));              \
        assert_null(none);                                                                                   \
    } while (0)

static float *weights_of(gs_trainer *trainer) {
    float *weights = gs_test_calloc(gs_trainer_weights(trainer), sizeof *weights);
    assert_ok(gs_trainer_read_weights(trainer, weights));
    return weights;
}

static void assert_weights(gs_trainer *trainer, const float *want, const char *what) {
    if (memcmp(weights_of(trainer), want, gs_trainer_weights(trainer) * sizeof *want) != 0)
        fail_msg("%s: the weights differ", what);
}

static void make_steps(gs_trainer *trainer, int steps) {
    for (int i = 0; i < steps; i++) assert_ok(gs_trainer_step(trainer, NULL));
}

/* Labelled points in three clouds. */
static gs_dataset *clouds(int32_t first_label) {
    float x[POINTS * 2];
    int32_t labels[POINTS];
    for (size_t i = 0; i < POINTS; i++) {
        labels[i] = (int32_t)(i % CLASSES);
        x[2 * i] = test_value(2 * i, 3) + 3 * (float)labels[i];
        x[2 * i + 1] = test_value(2 * i + 1, 3) - 2 * (float)(labels[i] == 1);
    }
    labels[0] = first_label;
    gs_dataset *set;
    return gs_test_set(gs_dataset_from_labels("clouds", POINTS, (gs_shape){2, 1, 1, 0}, x, labels, &set),
                       &set);
}

/* ---- the same bits as a run ---- */

/* Compares with weights that the program saved. */
TEST(steps_are_those_of_the_program) {
    gs_dataset *set = images(GS_TRAIN);
    const char *devices[] = {"cpu", "cpu,cpu"};
    for (int i = 0; i < 2; i++) {
        const char *file = in_folder(gs_test_folder(), "run.safetensors");
        setenv("OPENBLAS_CORETYPE", openblas_get_corename(),
               1); /* otherwise it might restart itself with better kernels */
        gs_test_output(0, "train --model lenet --devices %s --threads 1 --batch 100 --steps %d --save %s",
                       devices[i], STEPS, file);
        unsetenv("OPENBLAS_CORETYPE");
        gs_trainer *trainer =
            made_trainer(.model = "lenet", .data = set, .devices = devices[i], .threads = 1, .batch = 100);
        gs_model *plan = gs_test_plan("lenet", set->shape);
        float *want = gs_test_calloc(plan->saved, sizeof *want);
        assert_ok(gs_safetensors_load(file, plan, want));
        assert_int_equal(gs_trainer_weights(trainer), plan->saved);
        make_steps(trainer, STEPS);
        assert_int_equal(gs_trainer_steps(trainer), STEPS);
        assert_weights(trainer, want, devices[i]);
    }
}

/* More than one epoch, with a smaller last batch; two optimisers; other options. */
TEST(steps_are_those_of_a_run) {
    gs_dataset *set = clouds(0);
    const char *more[] = {"--clip 0.5 --accumulate 2 --batch-norm local", "--zero 3",
                          "--exact --batch-norm ghost:2",
                          "--schedule cosine --epochs 4 --steps 11 --bucket 1 --batch-norm local"};
    const char *text = "linear 8, batch_norm, relu, dropout 0.2, linear 3";
    for (int i = 0; i < 4; i++) {
        const char *scheme = i == 1 || i == 2 ? "allreduce" : "ring";
        gs_settings s =
            gs_test_options("--model '%s' --devices cpu,cpu --threads 1 --batch 16 --sync %s "
                            "--epochs 9 --optimizer adam --lr 0.01 --seed 5 --tests 0 %s --steps 11",
                            text, scheme, more[i]);
        s.train_set = s.test_set = set;
        const gs_result run = gs_test_train(&s);
        gs_trainer *trainer =
            made_trainer(.model = text, .data = set, .devices = "cpu,cpu", .threads = 1, .batch = 16,
                         .scheme = scheme, .optimizer = "adam", .lr = 0.01f, .seed = 5, .more = more[i]);
        assert_int_equal(gs_trainer_steps_per_epoch(trainer), 4);
        make_steps(trainer, 11);
        assert_weights(trainer, run.weights, more[i]);
    }
}

static gs_layer *two_layers(void) {
    return gs_sequential(3, (gs_layer *[]){gs_linear(6, true), gs_tanh(), gs_linear(CLASSES, true)});
}

TEST(layers_are_the_text) {
    gs_dataset *set = clouds(0);
    gs_trainer *a = made_trainer(.layers = two_layers(), .data = set, .batch = 20, .threads = 1);
    gs_trainer *b = made_trainer(.model = "linear 6, tanh, linear 3", .data = set, .batch = 20, .threads = 1);
    make_steps(a, 3);
    make_steps(b, 3);
    assert_weights(a, weights_of(b), "layers");
}

static gs_layer *own_word(void) {
    return gs_sigmoid();
}

TEST(a_word_for_a_layer) {
    gs_dataset *set = clouds(0);
    assert_ok(gs_model_add_layer("squash", own_word));
    gs_trainer *a = made_trainer(.model = "linear 6, squash, linear 3", .data = set, .threads = 1);
    gs_trainer *b = made_trainer(.model = "linear 6, sigmoid, linear 3", .data = set, .threads = 1);
    assert_weights(a, weights_of(b), "squash");
    assert_fails(GS_E_USAGE, "'squash' is a word of model texts already",
                 gs_model_add_layer("squash", own_word));
    assert_fails(GS_E_USAGE, "'lenet' is a word", gs_model_add_layer("lenet", own_word));
    assert_fails(GS_E_USAGE, "'two words' is no word", gs_model_add_layer("two words", own_word));
    assert_fails(GS_E_USAGE, "'2nd' is no word", gs_model_add_layer("2nd", own_word));
}

/* ---- the results of a step, an evaluation and a prediction ---- */

TEST(metrics) {
    gs_dataset *set = clouds(0);
    gs_trainer *trainer =
        made_trainer(.model = "linear 3", .data = set, .devices = "cpu,cpu", .batch = 50, .threads = 1);
    gs_metrics first, m;
    assert_ok(gs_trainer_step(trainer, &first));
    assert_int_equal(first.samples, 50);
    assert_ok(gs_trainer_step(trainer, &m)); /* the rest of the epoch */
    assert_int_equal(m.samples, 10);
    make_steps(trainer, 200);
    assert_ok(gs_trainer_evaluate(trainer, set, &m));
    assert_int_equal(m.samples, POINTS);
    assert_true(m.loss < first.loss);
    assert_near(m.accuracy, 1, 0.05, 0);
    make_steps(trainer, 1);
}

/* An evaluation or a read in between changes nothing. */
TEST(looking_changes_nothing) {
    gs_dataset *set = clouds(0);
    float y[POINTS * CLASSES];
    gs_metrics m;
    gs_trainer *a =
        made_trainer(.model = "linear 8, batch_norm, linear 3", .data = set, .batch = 25, .threads = 1);
    gs_trainer *b =
        made_trainer(.model = "linear 8, batch_norm, linear 3", .data = set, .batch = 25, .threads = 1);
    for (int i = 0; i < 5; i++) {
        make_steps(a, 1);
        make_steps(b, 1);
        assert_ok(gs_trainer_evaluate(b, set, &m));
        assert_ok(gs_trainer_predict(b, POINTS, set->inputs, y));
        assert_ok(gs_trainer_save(b, in_folder(gs_test_folder(), "looked.safetensors")));
        assert_ok(gs_trainer_write_weights(b, weights_of(b)));
    }
    assert_weights(b, weights_of(a), "looking");
}

/* An evaluation's loss and accuracy follow from the outputs, and are the same with any number of workers. */
TEST(predictions) {
    gs_dataset *test = images(GS_TEST), *train = images(GS_TRAIN);
    const size_t count = 300, pixels = gs_shape_size(test->shape);
    float *x = gs_test_calloc(count * pixels, sizeof *x), *y[2];
    double right = 0;
    gs_metrics m;
    for (size_t i = 0; i < count * pixels; i++) x[i] = (float)test->images[i] / 255;
    for (int i = 0; i < 2; i++) {
        gs_trainer *trainer = made_trainer(.model = "softmax", .data = train,
                                           .devices = i ? "cpu,cpu" : "cpu", .more = "--exact");
        make_steps(trainer, 20);
        assert_int_equal(gs_trainer_outputs(trainer), 10);
        y[i] = gs_test_calloc(count * 10, sizeof *y[i]);
        assert_ok(gs_trainer_predict(trainer, count, x, y[i]));
        assert_ok(gs_trainer_predict(trainer, 0, x, y[i]));
        const size_t all = test->count;
        test->count = count;
        assert_ok(gs_trainer_evaluate(trainer, test, &m));
        test->count = all;
    }
    assert_memory_equal(y[0], y[1], count * 10 * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        int best = 0;
        for (int k = 1; k < 10; k++)
            if (y[0][i * 10 + (size_t)k] > y[0][i * 10 + (size_t)best]) best = k;
        right += best == test->labels[i];
    }
    assert_near(m.accuracy, right / (double)count, 0, 0);
}

TEST(predictions_on_every_device) {
    gs_dataset *set = clouds(0);
    float want[POINTS * CLASSES], got[POINTS * CLASSES];
    gs_trainer *cpu = made_trainer(.model = "linear 3", .data = set, .threads = 1);
    assert_ok(gs_trainer_predict(cpu, POINTS, set->inputs, want));
    FOR_EACH_DEVICE (d) {
        gs_trainer *trainer =
            made_trainer(.model = "linear 3", .data = set, .devices = d->name, .threads = 1);
        assert_ok(gs_trainer_predict(trainer, POINTS, set->inputs, got));
        for (size_t i = 0; i < POINTS * CLASSES; i++) assert_near(got[i], want[i], 1e-5, 1e-5);
        make_steps(trainer, 2);
    }
}

/* ---- files and weights ---- */

/* One trainer makes all steps; a second one stops in the middle of an epoch and saves, and a third loads that file. */
TEST(saved_and_loaded) {
    gs_dataset *set = clouds(0);
    const char *file = in_folder(gs_test_folder(), "trainer.safetensors");
    const gs_trainer_options options = {.model = "linear 8, batch_norm, dropout 0.1, linear 3",
                                        .data = set,
                                        .devices = "cpu,cpu",
                                        .threads = 1,
                                        .batch = 16,
                                        .optimizer = "adam"};
    gs_trainer *whole = made_trainer_of(&options), *first = made_trainer_of(&options),
               *then = made_trainer_of(&options);
    make_steps(whole, 11);
    make_steps(first, 6);
    assert_ok(gs_trainer_save(first, file));
    make_steps(then, 1);
    assert_ok(gs_trainer_load(then, file));
    assert_int_equal(gs_trainer_steps(then), 6);
    make_steps(then, 5);
    assert_weights(then, weights_of(whole), "loaded");
    make_steps(first, 5);
    assert_weights(first, weights_of(whole), "saved");

    /* A file of another kind, or a missing one, leaves the trainer unchanged. */
    const char *other = in_folder(gs_test_folder(), "other.safetensors");
    assert_fails(GS_E_FILE, "no/such/file", gs_trainer_load(then, "no/such/file"));
    assert_ok(gs_trainer_save(made_trainer(.model = "linear 3", .data = set), other));
    assert_fails(GS_E_USAGE, " uses linear 3; wanted the same", gs_trainer_load(then, other));
    assert_fails(GS_E_FILE, "no/such", gs_trainer_save(then, "no/such/folder/w.safetensors"));
    assert_weights(then, weights_of(whole), "after mistakes");
    make_steps(then, 1);
    gs_trainer *slower = made_trainer(.model = options.model, .data = set, .batch = 20, .optimizer = "adam");
    assert_fails(GS_E_USAGE, "--batch", gs_trainer_load(slower, file));
    make_steps(slower, 1);
}

/* Without --epochs a trainer has no end, and its file states no epochs, so the program uses its default. */
TEST(the_program_goes_on) {
    const char *file = in_folder(gs_test_folder(), "endless.safetensors");
    const char *more[] = {NULL, "--epochs 2", "--steps 40"}, *epochs[] = {NULL, "2", "1000000"};
    gs_state *saved;
    for (int i = 2; i >= 0; i--) {
        gs_trainer *trainer = made_trainer(.model = "softmax", .data = images(GS_TRAIN), .batch = 1000,
                                           .threads = 1, .more = more[i]);
        make_steps(trainer, 1);
        assert_ok(gs_trainer_save(trainer, file));
        assert_ok(gs_state_read(file, &saved));
        const char *kept = gs_state_option(saved, "epochs");
        assert_string_equal(kept ? kept : "none", epochs[i] ? epochs[i] : "none");
        gs_state_free(saved);
    }
    assert_has(gs_test_output(0, "train --data fashion-mnist-small --threads 1 --resume %s", file),
               "epoch 5/5");
}

/* Loading only weights starts a new training run. */
TEST(weights_alone) {
    gs_dataset *set = clouds(0);
    const char *file = in_folder(gs_test_folder(), "weights.safetensors");
    gs_trainer *trainer = made_trainer(.model = "linear 3", .data = set, .threads = 1);
    gs_model *plan = gs_test_plan("linear 3", set->shape);
    float w[9];
    for (int i = 0; i < 9; i++) w[i] = (float)i / 8 - 0.5f;
    assert_int_equal(gs_trainer_weights(trainer), 9);
    assert_ok(gs_trainer_write_weights(trainer, w));
    assert_weights(trainer, w, "written");
    assert_ok(gs_safetensors_save(file, plan, w));
    make_steps(trainer, 3);
    assert_ok(gs_trainer_load(trainer, file));
    assert_int_equal(gs_trainer_steps(trainer), 0);
    assert_weights(trainer, w, "loaded");
}

/* ---- misuse ---- */

TEST(trainers_that_cannot_be) {
    gs_dataset *set = clouds(0), *wrong = clouds(CLASSES);
    assert_no_trainer(GS_E_USAGE, "without data", .model = "linear 3");
    assert_no_trainer(GS_E_MODEL, "word 1 ('linar', column 1)", .model = "linar 3", .data = set);
    assert_no_trainer(GS_E_SHAPE, "layer 0", .model = "conv 3 3x3, flatten, linear 3", .data = set);
    assert_no_trainer(GS_E_USAGE, "wanted one of them", .model = "mlp", .layers = two_layers(), .data = set);
    assert_no_trainer(GS_E_FORMAT, "the label of sample 0 is 3, but the model has 3 classes (0 to 2)",
                      .model = "linear 3", .data = wrong, .devices = "cpu,cpu");
    assert_no_trainer(GS_E_USAGE, "this loss needs targets", .model = "linear 3", .data = set,
                      .loss = GS_REGRESSION);
    assert_no_trainer(GS_E_DEVICE, "cl:99.0", .model = "linear 3", .data = set, .devices = "cpu,cl:99.0");
    assert_no_trainer(GS_E_USAGE, "--batch 61", .model = "linear 3", .data = set, .batch = 61);
    assert_no_trainer(GS_E_USAGE, "--optimizer", .model = "linear 3", .data = set, .optimizer = "sdg");
    assert_no_trainer(GS_E_USAGE, "rong", .model = "linear 3", .data = set, .scheme = "rong");
    assert_no_trainer(GS_E_USAGE, "--sync async", .model = "linear 3", .data = set,
                      .more = "--sync async --staleness 1");
    assert_no_trainer(GS_E_USAGE, "no option '--save'", .model = "linear 3", .data = set,
                      .more = "--clip 1 --save x");
    assert_no_trainer(GS_E_USAGE, "no option '--labels'", .model = "linear 3", .data = set,
                      .more = "--labels coarse");
    assert_no_trainer(GS_E_USAGE, "--schedule falls until the last step", .model = "linear 3", .data = set,
                      .more = "--schedule cosine");
    assert_no_trainer(GS_E_USAGE, "no option 'clip'", .model = "linear 3", .data = set, .more = "clip 1");
    assert_no_trainer(GS_E_USAGE, "--clip ends", .model = "linear 3", .data = set, .more = "--exact --clip");
    assert_no_trainer(GS_E_USAGE, "--clip: 'x'", .model = "linear 3", .data = set, .more = "--clip x");
    gs_trainer_free(NULL);
}

TEST(data_of_calls_that_do_not_suit) {
    gs_dataset *set = clouds(0), *wrong = clouds(CLASSES), *pictures = images(GS_TEST);
    gs_trainer *trainer = made_trainer(.model = "linear 3", .data = set, .devices = "cpu,cpu", .threads = 1);
    const float *before = weights_of(trainer);
    gs_metrics m;
    assert_fails(GS_E_FORMAT, "the label of sample 0 is 3", gs_trainer_evaluate(trainer, wrong, &m));
    assert_fails(GS_E_FORMAT, "(1,28,28)", gs_trainer_evaluate(trainer, pictures, &m));
    assert_weights(trainer, before, "after mistakes");
    make_steps(trainer, 1);
    gs_trainer *tokens = made_trainer(.model = "gpt", .data = gs_test_load("jargon", GS_TRAIN), .batch = 8);
    float *x = gs_test_calloc(64, sizeof *x), *y = gs_test_calloc(gs_trainer_outputs(tokens), sizeof *y);
    assert_ok(gs_trainer_predict(tokens, 1, x, y));
    x[5] = 1e6f;
    assert_fails(GS_E_FORMAT, "number 5 of sample 0 is 1e+06", gs_trainer_predict(tokens, 1, x, y));
}

TEST(the_last_step) {
    gs_dataset *set = clouds(0);
    gs_trainer *trainer = made_trainer(.model = "linear 3", .data = set, .batch = 30, .more = "--epochs 2");
    make_steps(trainer, 4);
    assert_fails(GS_E_USAGE, "has made 4 steps, all that --epochs asked for", gs_trainer_step(trainer, NULL));
    trainer = made_trainer(.model = "linear 3", .data = set, .batch = 30, .more = "--steps 3");
    make_steps(trainer, 3);
    assert_fails(GS_E_USAGE, "has made 3 steps, all that --steps asked for", gs_trainer_step(trainer, NULL));
}

/* Once the loss is infinite, every call fails with this error until weights are loaded. */
TEST(a_trainer_that_diverges) {
    gs_dataset *set = clouds(0);
    const char *file = in_folder(gs_test_folder(), "good.safetensors");
    gs_trainer *trainer =
        made_trainer(.model = "linear 8, linear 8, linear 3", .data = set, .devices = "cpu,cpu",
                     .loss = GS_MEAN_SQUARED_ERROR, .batch = 60, .lr = 50, .threads = 1);
    gs_metrics m;
    gs_status status = GS_OK;
    assert_ok(gs_trainer_save(trainer, file));
    for (int i = 0; i < 100 && status == GS_OK; i++) status = gs_trainer_step(trainer, NULL);
    assert_int_equal(status, GS_E_DIVERGED);
    assert_fails(GS_E_DIVERGED, "diverged at step", gs_trainer_evaluate(trainer, set, &m));
    assert_fails(GS_E_DIVERGED, "diverged at step", gs_trainer_step(trainer, NULL));
    assert_ok(gs_trainer_load(trainer, file));
    assert_ok(gs_trainer_evaluate(trainer, set, &m));
    assert_true(isfinite(m.loss));
}

/* ---- a loop by hand ---- */

TEST(labels_and_batches_out_of_range) {
    FOR_EACH_DEVICE (d) {
        for (gs_loss loss = GS_SOFTMAX_CROSS_ENTROPY; loss <= GS_MEAN_SQUARED_ERROR; loss++) {
            gs_model *m =
                gs_test_model(d, .text = "linear 3", .in = {2, 1, 1, 0}, .max_batch = 4, .loss = loss);
            const float numbers[10] = {0};
            const int32_t low[] = {0, 1, 2, -1}, high[] = {0, 3, 1, 2}, right[] = {2, 1, 0, 2};
            gs_mem x = gs_test_put(d, numbers, sizeof numbers), y;
            const gs_pass pass = {.n = 4, .training = true}, large = {.n = 5, .training = true};
            assert_fails(GS_E_USAGE, "a pass of 5 samples; wanted at most 4",
                         gs_model_forward(m, &large, x, &y));
            assert_ok(gs_model_forward(m, &pass, x, &y));
            assert_fails(GS_E_FORMAT, "the label of sample 3 is -1; wanted 0 to 2",
                         gs_model_loss(m, &pass, y, gs_test_put(d, low, sizeof low)));
            assert_fails(GS_E_FORMAT, "the label of sample 1 is 3; wanted 0 to 2, as there are 3 classes",
                         gs_model_loss(m, &pass, y, gs_test_put(d, high, sizeof high)));
            assert_ok(gs_model_loss(m, &pass, y, gs_test_put(d, right, sizeof right)));
        }
    }
}
