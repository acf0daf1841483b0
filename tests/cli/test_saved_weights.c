/* Saved weights in the program: eval, predict, and their messages about files that do not fit. */
#include "tests/support/files.h"
#include "tests/support/program.h"

static double number_of(const char *json, const char *name) {
    cJSON *o = gs_test_parse(json);
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!cJSON_IsNumber(n)) fail_msg("no number '%s' in: %s", name, json);
    double value = n->valuedouble;
    return value;
}

static double loss_of(const char *arguments) {
    char *output = gs_test_output(0, "eval --json %s", arguments);
    double loss = number_of(output, "test_loss");
    return loss;
}

/* Weights from a short training run; the path is static. */
static const char *trained(const char *model) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(0, "done", "train --model %s --threads 1 --steps 12 --save %s", model, path);
    return path;
}

/* OpenBLAS's bits depend on the number of rows, and the more threads there are, the fewer rows each one computes. */
TEST(eval_gives_the_same_bits) {
    static const char *const models[] = {"softmax", "mlp",
                                         "\"flatten, linear 40, relu, linear 200, linear 10\""};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const char *path = trained(models[m]);
        static const char *const ways[] = {"--threads 1",       "--threads 2",
                                           "--threads 3",       "--threads 4",
                                           "--devices cpu,cpu", "--devices cpu,cpu,cpu --threads 2"};
        double first = 0;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *arguments = gs_test_format("--load %s %s", path, ways[i]);
            double loss = loss_of(arguments);
            if (i == 0) first = loss;
            if (loss < first || loss > first)
                fail_msg("%s, %s: the loss is %.17g, %s gave %.17g", models[m], ways[i], loss, ways[0],
                         first);
        }
    }
}

/* The description of a layer is printed in full, within 80 columns. */
TEST(model_cuts_nothing) {
    char *output = gs_test_output(0, "model 'conv 32 3x5 stride 1x2 pad 1x2 no_bias, flatten, linear 10'");
    assert_has(output, " conv 32 3x5 stride 1x2 pad 1x2 no_bias\n");
    gs_test_fits(output, 80);
    assert_prints(0, "conv 32 3x3 stride 1x2 pad 1x2\n",
                  "profile --model 'conv 32 3x3 stride 1x2 pad 1x2, flatten, linear 10' --threads 1");
}

/* A copy of the file with one word of its header replaced by another of the same length. */
static const char *changed(const char *path, const char *from, const char *to) {
    static char others[2][400];
    static unsigned char bytes[1 << 20];
    static int turn;
    char *other = others[turn++ % 2];
    snprintf(other, sizeof others[0], "%s/changed.safetensors", gs_test_folder());
    const size_t size = read_raw(path, bytes, sizeof bytes);
    for (size_t at = 0; at + strlen(from) <= size; at++)
        if (memcmp(bytes + at, from, strlen(from)) == 0) memcpy(bytes + at, to, strlen(from));
    write_raw(other, bytes, size);
    return other;
}

/* PyTorch writes neither mean nor std: a note says so, and options can give both. */
TEST(what_a_file_does_not_say) {
    const char *path = trained("softmax");
    const char *arguments = gs_test_format("--load %s --threads 1", path);
    double with = loss_of(arguments);
    gs_weights_info saved;
    assert_ok(gs_safetensors_read_info(path, &saved));
    double mean = (double)saved.scaling.mean.of[0], std = (double)saved.scaling.std.of[0];
    gs_weights_info_free(&saved);
    const char *without = changed(path, "\"std\"", "\"Std\"");
    assert_prints(0, "(no std); assuming --std 1, in (byte / 255 - mean) / std\n", "eval --load %s", without);
    without = changed(without, "\"mean\"", "\"Mean\"");
    assert_prints(0, "(no mean, no std); assuming --mean 0 --std 1, in ", "eval --load %s", without);
    assert_prints(0, "(no mean, no std); ", "predict --load %s -o %s.npy", without, without);
    assert_prints(0, "(no mean, no std); ", "train --load %s --steps 1 --threads 1", without);
    arguments = gs_test_format("--load %s --threads 1 --mean %.9g --std %.9g", without, mean, std);
    double given = loss_of(arguments);
    assert_true(given >= with && given <= with);
    arguments = gs_test_format("--load %s --threads 1 --mean 0 --std 1", without);
    assert_true(loss_of(arguments) > 1.2 * with);
    assert_prints(2, "--std: '1e-45' is not a number from 1e-08", "eval --load %s --std 1e-45", without);
    char *output = gs_test_output(0, "eval --load %s --mean 0 --std 1", without);
    assert_null(strstr(output, "assuming"));
    assert_prints(0, "", "train --threads 1 --model softmax --steps 1 --mean 0.5 --std 0.25 --save %s", path);
    assert_ok(gs_safetensors_read_info(path, &saved));
    assert_true(saved.scaling.mean.of[0] == 0.5f && saved.scaling.std.of[0] == 0.25f);
    gs_weights_info_free(&saved);
}

/* Assumptions about a file are not reported if it is unusable. */
TEST(errors_come_first) {
    static const char *const commands[] = {"eval --model mlp", "predict -o x.npy --model mlp",
                                           "train --model mlp", "train --batch 7000",
                                           "eval --data no-such-data"};
    const char *without = changed(trained("softmax"), "\"std\"", "\"Std\"");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *output;
        int status = gs_test_program(&output, "%s --load %s", commands[i], without);
        if (status == 0 || strstr(output, "assuming"))
            fail_msg("%s: exit %d: %s", commands[i], status, output);
    }
}

/* Mismatches in the header are reported before any computation: this model's weights would fill the memory. */
TEST(another_model_or_image) {
    const char *path = trained("softmax");
    assert_prints(1, "1.weight is (10,784) in ", "eval --load %s --model 'flatten, linear 500000, linear 10'",
                  path);
    assert_prints(1, "1.weight is (10,784) in ",
                  "train --load %s --model 'flatten, linear 500000, linear 10'", path);
    assert_prints(1, "0.weight is missing in ", "eval --load %s --model lenet", path);
    assert_prints(1,
                  "; the model has (6,1,5,5); what is there begins with 1.weight (10,784); --model is "
                  "lenet, but these are weights of flatten, linear 10, and are read so without --model",
                  "eval --load %s --model lenet", path);
    assert_prints(
        1, "; --model is conv 4 29x29, flatten, linear 10, but these are weights of flatten, linear 10",
        "eval --load %s --model 'conv 4 29x29, flatten, linear 10'", path);
    assert_prints(0, "/a\\x1b[31m\n",
                  "train --model softmax --threads 1 --steps 1 --save \"%s/$(printf 'a\\033[31m')\"",
                  gs_test_folder());
    assert_prints(1, "0\n", "eval --load %s 2>&1 | grep -c 'without --model'",
                  changed(path, "flatten, linear 10", "flatten,  linear 9"));
    const char *wide = changed(path, "1x28x28", "1x14x56");
    assert_prints(1, "holds a model for images (1,14,56), but fashion-mnist-small (test) has (1,28,28)",
                  "eval --load %s", wide);
    assert_prints(1, "(1,14,56), but", "eval --model softmax --load %s", wide);
    assert_prints(1, "(1,14,56), but", "predict -o %s.npy --load %s", wide, wide);
    assert_prints(1, "(1,14,56), but", "train --load %s --steps 1", wide);
    const char *unnamed = changed(path, "\"model\"", "\"Model\"");
    assert_prints(1, "gradsum did not save this file; name its model with --model", "eval --load %s",
                  unnamed);
    assert_prints(0, "test accuracy", "eval --model softmax --load %s", unnamed);
}

/* If a file has no image shape, the data's shape is used, whether or not the user names the model. */
TEST(no_shape_of_an_image) {
    const char *path = changed(trained("softmax"), "\"input\"", "\"Input\"");
    assert_prints(0, "test accuracy", "eval --load %s", path);
    assert_prints(0, "test accuracy", "eval --model softmax --load %s", path);
    assert_prints(1, "1.weight", "eval --model mlp --load %s", path);
}

/* A model that cannot be parsed or planned is an error in the file, unless the user named the model. */
TEST(damaged_model) {
    static const char *const bad[][2] = {
        {"\"flatten, lin 10   \"", "model text: word 2 ('lin', column 10): unknown layer; "},
        {"\"\",\"was\":\"softmax,,\"", "model text: the end (column 1): expected one of linear, "},
        {"\"linear 2000000000 \"", "model text: word 2 ('2000000000', column 8): expected the number of "},
        {"\"linear 10, flatten\"", "layer 0 (linear 10): the input is (1,28,28), linear needs a flat "},
    };
    const char *path = trained("softmax");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(strlen(bad[i][0]), strlen("\"flatten, linear 10\""));
        const char *damaged = changed(path, "\"flatten, linear 10\"", bad[i][0]);
        const char *part = gs_test_format("changed.safetensors: metadata: %s", bad[i][1]);
        assert_prints(1, part, "eval --load %s", damaged);
        assert_prints(1, part, "predict -o %s.npy --load %s", damaged, damaged);
        assert_prints(1, part, "train --steps 1 --threads 1 --load %s", damaged);
        assert_prints(0, "test accuracy", "eval --model softmax --load %s", damaged);
        assert_prints(2, "eval: model text: word 2 ('lin'", "eval --model 'flatten, lin 10' --load %s",
                      damaged);
    }
}
