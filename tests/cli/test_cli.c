/* The program: exit statuses, JSON, and messages about wrong usage. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include "cl/cl.h"
#include "cli/cli.h"

#include <unistd.h>

static const char FAST[] = "train --model softmax --steps 3 --threads 1";

TEST(help_shows_an_example) {
    assert_prints(0, "example:", "--help");
    for (const gs_command *c = gs_commands; c->name; c++) assert_prints(0, "example", "%s --help", c->name);
}

TEST(help_fits_80_columns) {
    gs_test_fits(gs_test_output(0, "help"), 80);
    for (const gs_command *c = gs_commands; c->name; c++) {
        char *output = gs_test_output(0, "%s --help-all", c->name);
        assert_null(strstr(output, ") ;"));
        gs_test_fits(output, 80);
        gs_test_fits(gs_test_output(0, "%s --help", c->name), 80);
    }
    gs_test_fits(gs_test_output(0, "model softmax"), 80);
    gs_test_fits(gs_test_output(0, "model cnn"), 80);
}

/* Longer lines are wrapped; only a path may exceed the width. */
TEST(results_fit_80_columns) {
    static const char *const commands[] = {
        "memory --model mlp --devices cpu,cpu,cpu,cpu --optimizer adam --zero 2",
        "memory --model lenet --devices cpu,cpu --layout pp2 --layers",
        "train --model gpt --data text:%s --context 8 --batch 4 --steps 3 --threads 1 "
        "--recompute blocks --save %s/w",
        "eval --load %2$s/w --data text:%1$s",
        "train --model softmax --data colour-fashion-small --steps 1 --batch 8 --threads 1 --mean 0.4914 "
        "--std 0.2471",
        "devices",
        "train --model softmax --steps 4 --threads 1 --devices cpu,cpu --sync async --staleness 2",
        "train --model softmax --steps 4 --threads 1 --devices cpu,cpu,cpu --sync ps",
        "train --model softmax --steps 4 --threads 1 --devices cpu,cpu,cpu --sync auto",
        "train --model softmax --steps 4 --threads 1 --devices cpu,cpu,cpu,cpu --exact",
        "train --model softmax --steps 4 --devices cpu,cpu --zero 1",
        "train --model softmax --steps 4 --devices cpu,cpu --zero 3 --precision f16 --label-smoothing 0.1",
        "train --model mlp --steps 4 --devices cpu,cpu --pipeline 2 --precision bf16",
        "train --model mlp --steps 4 --devices cpu,cpu --bucket 8 --augment crop:4,flip,cutout:8",
        "train --model softmax --steps 4 --threads 1 --bucket 8"};
    const char *data = gs_test_text_file(), *folder = gs_test_folder();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char *output;
        const char *arguments = gs_test_format(commands[i], data, folder);
        if (gs_test_program(&output, "%s", arguments) != 0) fail_msg("%s: %s", arguments, output);
        for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
            if (strlen(line) > 80 && strncmp(line, "saved", 5) != 0)
                fail_msg("gradsum %s: %zu columns: %s", arguments, strlen(line), line);
    }
}

TEST(wrong_usage_exits_with_2) {
    assert_prints(2, "unknown command 'tarin'", "tarin");
    assert_prints(2, "usage:", " ");
    assert_prints(2, "did you mean --epochs?", "train --epoch 3");
    assert_prints(2, "'zebra' is not an option", "train zebra");
    assert_prints(2, "--lr needs a value", "train --lr");
    assert_prints(2, "--lr: '0.1x' is not a number", "train --lr 0.1x");
    assert_prints(2, "--lr: 'nan' is not a number", "train --lr nan");
    assert_prints(2, "--epochs: '1.5' is not a whole number", "train --epochs 1.5");
    assert_prints(2, "--epochs: '0' is not a whole number from 1", "train --epochs 0");
    assert_prints(2, "--json takes no value", "train --json=yes");
    assert_prints(2, "--load FILE is required", "eval");
    assert_prints(2, "-o FILE is required", "predict --load x");
    assert_prints(2, "wanted one name or text, got 2", "model mlp lenet");
}

TEST(wrong_names_are_explained) {
    assert_prints(2, "rellu", "train --model 'conv 4 3x3, rellu, flatten, linear 10'");
    assert_prints(2, "relu", "model 'flatten, rellu'");
    assert_prints(2, "-- alone is not an option; --help", "train --");
    assert_prints(1, "there are: cpu", "train --device cl:9.9");
    assert_prints(2, "an empty name", "train --devices cpu,,cpu");
    assert_prints(2, "set 2 of", "compare --devices-list 'cpu; ; cpu'");
    assert_prints(2, "--label-smoothing 0.1 is for --loss cross_entropy",
                  "train --loss squared_error --label-smoothing 0.1");
}

TEST(batches_that_cannot_be) {
    assert_prints(2, "--batch: '0' is not", "train --batch 0");
    assert_prints(2, "--batch: '-5' is not", "train --batch -5");
    assert_prints(2, "larger than the training set, which has 6000", "train --batch 6001");
    assert_prints(2, "cannot be divided among 3 workers", "train --batch 2 --devices cpu,cpu,cpu");
    assert_prints(2, "cannot be divided among 2 workers", "launch -n 2 -- train --batch 1");
}

static int last, last_label; /* used by small_data */

static int pixel(int i, int at) {
    return (i * 28 * 28 + at) % 251;
}

static int label(int i) {
    return i == last ? last_label : i % 10;
}

/* A folder of MNIST-format files, for cases that need fewer than 6,000 samples. */
static const char *small_data(int train_count, int largest_label) {
    const char *folder = gs_test_folder();
    last_label = largest_label;
    for (int i = 0; i < 2; i++) {
        const int count = i == 0 ? train_count : 2;
        last = count - 1;
        write_idx(folder, i == 0 ? "train" : "t10k", count, 28, pixel, label);
    }
    return folder;
}

TEST(data_that_does_not_fit) {
    const char *folder = small_data(3, 9);
    assert_prints(2, "there are 4 workers, but only 3 samples",
                  "train --data %s --batch all --devices cpu,cpu,cpu,cpu", folder);
    assert_prints(0, "done", "train --model softmax --data %s --batch 2 --devices cpu,cpu --epochs 2",
                  folder);
    assert_prints(0, "\ndone     1 step, ", "train --model softmax --data %s --batch 1 --steps 1", folder);
    assert_prints(2, "than the 1 sample in a worker's part",
                  "train --model softmax --data %s --batch 1 --accumulate 2", folder);
    folder = small_data(3, 12);
    assert_prints(1, "12", "train --model softmax --data %s --batch 3", folder);
    assert_prints(0, "done", "train --model 'flatten, linear 13' --data %s --batch 3 --epochs 1", folder);
}

/* Weights of another model and damaged files are rejected with a message. */
TEST(weights_that_do_not_fit) {
    const char *folder = gs_test_folder();
    assert_prints(0, "saved", "%s --save %s/w.safetensors", FAST, folder);
    assert_prints(0, "test accuracy", "eval --load %s/w.safetensors", folder);
    assert_prints(1, "1.weight", "eval --load %s/w.safetensors --model mlp", folder);
    assert_prints(1, "no-such-file", "eval --load %s/no-such-file", folder);
    assert_prints(1, "cannot", "%s --save %s/no/such/folder/w.safetensors", FAST, folder);
    assert_prints(1, folder, "eval --load %s", folder);
    const char *path = gs_test_format("%s/w.safetensors", folder);
    assert_int_equal(truncate(path, 1000), 0);
    assert_prints(1, "w.safetensors", "eval --load %s", path);
}

TEST(json_is_one_object_a_line) {
    char *output = gs_test_output(0, "train --model softmax --epochs 2 --json --threads 1 2>/dev/null");
    int lines = 0, epochs = 0;
    const char *last = NULL;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        cJSON *o = gs_test_parse(line);
        const char *event = gs_test_field(o, "event")->valuestring;
        if (lines == 0) assert_string_equal(event, "start");
        if (strcmp(event, "epoch") == 0) {
            assert_int_equal(gs_test_field(o, "epoch")->valueint, ++epochs);
            assert_true(cJSON_IsNumber(gs_test_field(o, "train_loss")));
            double accuracy = gs_test_field(o, "test_accuracy")->valuedouble;
            assert_true(accuracy > 0.5 && accuracy <= 1);
            assert_true(gs_test_field(o, "samples_per_s")->valuedouble > 0);
        }
        if (strcmp(event, "end") == 0) {
            assert_int_equal(strlen(gs_test_field(o, "weights_sha256")->valuestring), 64);
            assert_true(gs_test_field(o, "peak_memory_mb")->valuedouble > 1);
            assert_true(gs_test_field(o, "step_median_ms")->valuedouble > 0);
            assert_true(gs_test_field(o, "samples_per_s")->valuedouble > 0);
            assert_true(gs_test_field(o, "test_accuracy")->valuedouble > 0.5);
            last = "end";
        }
    }
    assert_int_equal(epochs, 2);
    assert_int_equal(lines, 4);
    assert_non_null(last);
}

/* Training that diverges prints NaN as null, so that the line stays valid JSON. */
TEST(json_survives_divergence) {
    assert_prints(0, "\"train_loss\":null",
                  "train --model mlp --lr 1e6 --epochs 1 --json --threads 1 --keep-going");
}

TEST(devices_are_listed) {
    assert_prints(0, "OpenBLAS kernels", "devices");
    assert_string_equal(gs_cpu_better_kernels("Haswell", true), "SkylakeX");
    assert_string_equal(gs_cpu_better_kernels("Zen", true), "SkylakeX");
    assert_null(gs_cpu_better_kernels("Haswell", false));
    assert_null(gs_cpu_better_kernels("Cooperlake", true));
}

TEST(who_has_all_cores) {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(0, &mine);
    assert_true(gs_cl_has_all_cores(&mine, 1));
    assert_false(gs_cl_has_all_cores(&mine, 2));
    CPU_SET(1, &mine);
    assert_true(gs_cl_has_all_cores(&mine, 2));
    assert_false(gs_cl_has_all_cores(&mine, 1));
    CPU_CLR(0, &mine);
    CPU_SET(2, &mine);
    assert_false(gs_cl_has_all_cores(&mine, 2)); /* cores 1 and 2 */
    assert_false(gs_cl_has_all_cores(&mine, 100000));
}
