/* --augment in runs: results do not depend on workers or devices, and only training augments; also valid values. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"
#include "tests/support/tiny_set.h"

static const gs_augment all_three = {1, true, 2, false};

static gs_settings tiny(const char *devices) {
    gs_settings s = gs_test_options("--model 'conv 4 3x3 pad 1, relu, flatten, linear 4' --devices %s "
                                    "--threads 1 --batch 32 --epochs 2",
                                    devices);
    s.data = gs_test_tiny_data();
    s.augment = all_three;
    return s;
}

TEST(workers_change_no_bit) {
    gs_settings s = gs_test_with(tiny("cpu"), "--exact"), plain = s;
    gs_test_ways(true, s, WAYS(ON_2, ON_4));
    gs_test_ways(false, s, WAYS(ON_2 "--micro-batch 3"));
    plain.augment = (gs_augment){0};
    const gs_result one = gs_test_train(&s), r = gs_test_train(&plain);
    assert_true(memcmp(one.weights, r.weights, r.params * sizeof(float)) != 0);
}

/* Two processes, two threads and one worker give weights with the same SHA-256. */
TEST(processes_change_no_bit) {
    static const char *const runs[] = {"train", "train --devices cpu,cpu", "train --devices cpu,cpu,cpu,cpu",
                                       "launch -n 2 -- train"};
    char first[80] = "";
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char *output =
            gs_test_output(0, "%s --exact --model lenet --steps 12 --augment crop:4,flip,cutout:8", runs[i]);
        const char *weights = strstr(output, "weights  sha256 ");
        if (!weights) fail_msg("%s", output);
        if (i == 0) snprintf(first, sizeof first, "%.79s", weights);
        assert_memory_equal(weights, first, 79);
        assert_has(output, "augment  crop:4,flip,cutout:8, drawn for each training image in each epoch\n");
    }
}

/* A run's test set is not augmented: eval gets the same loss from the saved weights. */
TEST(evaluation_sees_the_pictures_themselves) {
    gs_settings s = tiny("cpu");
    gs_result trained, tested;
    s.save = in_folder(gs_test_folder(), "w");
    trained = gs_test_train(&s);
    gs_settings e = gs_settings_default();
    e.data = s.data;
    e.load = s.save;
    e.model = NULL;
    tested = gs_test_eval(&e);
    assert_true(trained.test_loss >= tested.test_loss && trained.test_loss <= tested.test_loss);
    e.augment = all_three; /* eval must ignore this */
    const gs_result again = gs_test_eval(&e);
    assert_true(again.test_loss >= tested.test_loss && again.test_loss <= tested.test_loss);
}

/* OpenCL receives the same bytes: the first step's loss equals the CPU's up to the operators' rounding. */
TEST(devices_get_the_same) {
    gs_test_need_opencl();
    gs_result cpu, cl, plain;
    gs_settings s = gs_test_with(tiny("cpu"), "--steps 1");
    cpu = gs_test_train(&s);
    s.devices = "cl";
    cl = gs_test_train(&s);
    s.augment = (gs_augment){0};
    plain = gs_test_train(&s);
    assert_near(cl.train_loss, cpu.train_loss, 0, 1e-5);
    assert_true(plain.train_loss < cpu.train_loss * 0.999 || plain.train_loss > cpu.train_loss * 1.001);
}

/* ---- values ---- */

TEST(values_as_text) {
    static const char *const same[] = {"none",         "crop:4",
                                       "flip",         "cutout:8",
                                       "crop:4,flip",  "crop:9999,flip,cutout:9999",
                                       "resized_crop", "resized_crop,crop:9999,flip,cutout:9999"};
    gs_augment a;
    char text[GS_AUGMENT_TEXT];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_true(gs_augment_read(same[i], &a));
        assert_string_equal(gs_augment_text(&a, text, sizeof text), same[i]);
    }
    assert_true(gs_augment_read("cutout:08,crop:4,flip", &a));
    assert_string_equal(gs_augment_text(&a, text, sizeof text), "crop:4,flip,cutout:8");
    static const char *const wrong[] = {"",
                                        "crop",
                                        "crop:",
                                        "crop:0",
                                        "crop:-1",
                                        "crop:x",
                                        "flip:1",
                                        "flip,",
                                        ",flip",
                                        "flip,flip",
                                        "crop:4,crop:4",
                                        "none,flip",
                                        "resized_crop,resized_crop",
                                        "resized_crop:1",
                                        "resized",
                                        "flip none",
                                        "Flip",
                                        "cutout:10000",
                                        "crop:4 ,flip",
                                        "flips",
                                        "crop:4x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        a = (gs_augment){7, true, 7, false};
        if (gs_augment_read(wrong[i], &a)) fail_msg("'%s' was accepted", wrong[i]);
        assert_int_equal(a.crop, 7);
    }
}

TEST(bad_values) {
    static const char *const wrong[] = {"crop", "crop:0", "flip,flip", "rotate:5", "crop:4,", "FLIP"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_prints(2,
                      "' is not a list: wanted none, or resized_crop, crop:PIXELS, flip, cutout:PIXELS, or "
                      "several of these with commas, each once, such as crop:4,flip",
                      "train --augment '%s'", wrong[i]);
    assert_prints(2, "--augment needs a value: LIST", "train --augment");
    assert_prints(2,
                  "--augment crop:28: fashion-mnist-small (train) has images (1,28,28); wanted less than 28",
                  "train --augment flip,crop:28");
    assert_prints(
        2, "--augment cutout:28: fashion-mnist-small (train) has images (1,28,28); wanted less than 28",
        "profile --augment cutout:28");
    assert_prints(2, "unknown option --augment", "eval --load x --augment flip");
    gs_settings s = tiny("cpu");
    s.augment.crop = -1;
    assert_train_fails(GS_E_USAGE, "--augment: 'crop:-1,flip,cutout:2' is not a list: wanted none, or", &s);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int32_t y[2] = {0, 1};
    static const gs_shape no_images[] = {{3, 1, 1, 0}, {1, 1, 1, 3}};
    for (size_t i = 0; i < sizeof no_images / sizeof *no_images; i++) {
        gs_dataset *d;
        gs_test_set(gs_dataset_from_labels("numbers", 2, no_images[i], x, y, &d), &d);
        s = tiny("cpu");
        s.train_set = s.test_set = d;
        s.model = i ? "flatten, linear 4" : "linear 4";
        s.augment = (gs_augment){.flip = true};
        s.batch = 2;
        assert_train_fails(GS_E_USAGE,
                           i ? "--augment flip: numbers has no images, but samples (3,1,1,1)"
                             : "--augment flip: numbers has no images, but samples (3,1,1)",
                           &s);
    }
}

TEST(the_record_has_it) {
    char *output;
    const char *path = gs_test_format("%s/log", gs_test_folder());
    assert_prints(0, "\"labels\":\"fine\",", "train --model softmax --steps 1 --json");
    assert_prints(0, "\"augment\":null,", "train --model softmax --steps 1 --json");
    assert_prints(0, "\"augment\":\"crop:2,flip\",",
                  "train --model softmax --steps 1 --json --log %s --augment flip,crop:2", path);
    gs_test_shell(&output, "cat %s/run.json", path);
    assert_has(output, "\"augment\":\t\"crop:2,flip\",", "\"labels\":\t\"fine\",");
}

/* No rank can silently train on different pictures from the others. */
TEST(ranks_must_agree) {
    assert_ranks_print(2, "rank 1 and rank 0 differ in --augment (flip versus none)",
                       "train --model softmax --steps 3 --threads 1", "", "--augment flip");
}
