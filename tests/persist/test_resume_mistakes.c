/* --resume after a user's mistake: in another folder, or for a run that is complete. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <math.h>

#define RUN "train --model softmax --threads 1 --batch 1000 "

/* ---- another folder ---- */

TEST(from_another_folder) {
    const char *folder = gs_test_folder();
    const char *kept = in_folder(folder, "s.st"), *other = gs_test_folder();
    char build[4096], data_folder[4096];
    assert_non_null(realpath(GS_BUILD_DIR, build));
    assert_non_null(realpath(gs_test_source("datasets/fashion-mnist-small"), data_folder));
    const char *program = gs_test_format("%s/gradsum", build);
    assert_int_equal(gs_test_shell(NULL,
                                   "cd %s && ln -s %s data && %s " RUN
                                   "--steps 1 --data data --save %s --save-state",
                                   folder, data_folder, program, kept),
                     0);
    char *output = gs_test_shell_output(1, "cd %s && %s train --resume %s --steps 2", other, program, kept);
    assert_has(output, "no data at 'data' (No such file or directory)",
               "s.st was begun with --data data, a path from the folder that it ran in: resume it "
               "there, or give --data");
    for (int i = 0; i < 3; i++) {
        char data[400] = "";
        if (i == 1) snprintf(data, sizeof data, "--data %s/data", folder);
        if (i == 2) snprintf(data, sizeof data, "--data nothing"); /* a value that the user typed */
        assert_int_equal(gs_test_shell(&output, "cd %s && %s train --resume %s --steps 2 %s",
                                       i == 0 ? folder : other, program, kept, data),
                         i < 2 ? 0 : 1);
        assert_null(strstr(output, "was begun with --data"));
    }
    assert_false(gs_dataset_is_relative("/data"));
    assert_false(gs_dataset_is_relative("text:/data/a.txt"));
    assert_false(gs_dataset_is_relative("jargon"));
    assert_true(gs_dataset_is_relative("text:a.txt"));
}

/* ---- a run that is complete ---- */

/* An epoch has 6 steps. */
TEST(no_more_is_asked_for) {
    static const struct {
        const char *begun, *asked, *sentence, *more;
    } ended[] = {
        {"--epochs 2", "", "has done 12 steps, and --epochs 2 asks for no more, so nothing is trained",
         "--epochs 3"},
        {"--epochs 2", "--epochs 1", "12 steps, and --epochs 1 asks for no more", "--epochs 3"},
        {"--epochs 2", "--steps 3", "12 steps, and --steps 3 asks for no more", "--epochs 3"},
        {"--epochs 2", "--steps 13", "12 steps, and --epochs 2 asks for no more", "--epochs 3"},
        {"--epochs 2 --steps 1", "", "1 step, and --steps 1 asks for no more", "--steps 2"},
        {"--epochs 2 --steps 8", "--epochs 1", "8 steps, and --epochs 1 asks for no more", "--epochs 2"},
        {"--epochs 3 --steps 7", "--epochs 1 --steps 5", "7 steps, and --steps 5 asks for no more",
         "--epochs 2"},
    };
    const char *a = in_folder(gs_test_folder(), "a.st");
    for (size_t i = 0; i < sizeof ended / sizeof *ended; i++) {
        assert_prints(0, "saved", RUN "%s --save %s --save-state", ended[i].begun, a);
        const char *wanted = gs_test_format("\"message\":\"the run in %s has done ", a);
        char *output = gs_test_output(0, "train --json --resume %s %s", a, ended[i].asked);
        if (!strstr(output, wanted) || !strstr(output, ended[i].sentence)) fail_msg("row %zu: %s", i, output);
        wanted = gs_test_format("; to go on, give a larger total: %s\"", ended[i].more);
        if (!strstr(output, wanted)) fail_msg("row %zu: %s", i, output);
        assert_has(output, "\"train_loss\":null");
        assert_null(strstr(output, "\"event\":\"epoch\""));
        assert_prints(0, "\nepoch ", "train --resume %s %s", a, ended[i].more); /* this one does resume */
    }
}

/* Everything else that is requested is done: the weights are tested, and saved with or without the state. */
TEST(it_is_saved) {
    char *output;
    const char *a = in_folder(gs_test_folder(), "a.st");
    const char *b = in_folder(gs_test_folder(), "b.st");
    static const char *const ways[] = {"train", "launch -n 2 -- train", "train --devices cpu,cpu --zero 1",
                                       "train --devices cpu,cpu --sync local --every 4"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_prints(0, "saved", "%s --model softmax --batch 1000 --epochs 2 --save %s --save-state",
                      ways[i], a);
        output = gs_test_output(0, "%s --resume %s --save %s --save-state", ways[i], a, b);
        assert_has(output, "done     12 steps, test accuracy ");
        assert_null(strstr(output, "samples/s"));
        check_same(a, b, "a run that has ended");
    }
    char *sum;
    output = gs_test_output(0, RUN "--epochs 1 --save %s --save-state", a);
    assert_non_null(sum = strstr(output, "sha256 "));
    const char *before = gs_test_format("%.71s", sum);
    output =
        gs_test_output(0, "train --resume %s --save %s --log %s/log --keep best", a, b, gs_test_folder());
    assert_non_null(sum = strstr(output, "sha256 "));
    const char *after = gs_test_format("%.71s", sum);
    assert_string_equal(before, after);
    assert_prints(0, "test accuracy", "eval --load %s", b);
    assert_prints(1, "holds only weights", "train --resume %s", b);
}

/* Other options are checked as in a resumed run. */
TEST(it_is_checked) {
    const char *a = in_folder(gs_test_folder(), "a.st");
    assert_prints(0, "saved", RUN "--warmup-steps 3 --schedule cosine --epochs 2 --save %s --save-state", a);
    assert_prints(2, "--batch 64: the run in ", "train --resume %s --batch 64", a);
    assert_prints(2, "--model: the run in ", "train --resume %s --model mlp", a);
    assert_prints(1, "holds a model for images", "train --resume %s --data colour-fashion-small", a);
    assert_prints(2, "--save-state needs --save FILE", "train --resume %s --save-state", a);
    assert_prints(2, "would take the state out", "train --resume %s --save %s", a, a);
    assert_prints(2, "would take the state out", "train --resume %s --save /.%s", a, a);
    assert_prints(2, "is the folder of --checkpoint", "train --save %sc --checkpoint %sc", a, a);
    assert_prints(1, "no/such", "train --resume %s --save /no/such/file", a);
    assert_prints(0, "--steps 2 asks for no more", "train --resume %s --steps 2",
                  a); /* less than the warm-up */
}

/* A library caller gets the same error. */
TEST(by_the_library) {
    gs_settings s = gs_test_settings("cpu,cpu --batch 333");
    const char *a = in_folder(gs_test_folder(), "a.st");
    s = gs_test_with(s, "--save %s --save-state", a);
    gs_result first = gs_test_train(&s);
    s = gs_test_with(s, "--resume %s --steps 1", a);
    s.save = NULL;
    s.save_state = false;
    gs_result again;
    assert_ok(gs_train(&s, NULL, &again));
    assert_int_equal(again.steps, first.steps);
    assert_memory_equal(again.weights, first.weights, first.params * sizeof(float));
    assert_float_equal(again.test_loss, first.test_loss, 0);
    assert_float_equal(again.test_accuracy, first.test_accuracy, 0);
    assert_int_equal(again.tested_epoch, first.tested_epoch);
    assert_true(isnan(again.train_loss));
    gs_result_free(&again);
}
