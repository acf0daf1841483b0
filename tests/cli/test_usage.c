/* The program's help: defaults, misspelled names, and output that does not reach standard output. */
#include "tests/support/program.h"

#include <math.h>

TEST(help_shows_defaults) {
    /* 7 is neither the default nor the tests' value */
    char *output = gs_test_shell_output(0, "env -u GRADSUM_TIMEOUT %s/gradsum train --epochs 7 --help-all",
                                        GS_BUILD_DIR);
    static const char *const parts[] = {
        "(default sgd)", "(default 5)",         "(default 128)",
        "(default cpu)", "(default allreduce)", "(default fashion-mnist-small)",
        "(default f32)", "(default 30)",        "(default 4-7)"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(output, parts[i]);
    assert_prints(0, "(default 80)", "sweep --help");
    assert_prints(0, "training set (default 10)", "sweep --help");     /* sweep's own default, not train's */
    assert_null(strstr(gs_test_output(0, "train --help"), "--beta1")); /* one of many */
    assert_prints(0, "(default 1048576)", "collectives --help");
}

/* If an option's text states its default, help does not add the number or name. */
TEST(help_shows_a_default_once) {
    char *output = gs_test_output(0, "train --help-all");
    for (char *option = strstr(output, "\n  --"), *next; option; option = next) {
        next = strstr(option + 1, "\n  --");
        if (next) *next = '\0';
        const char *once = strstr(option, "(default");
        if (once && strstr(once + 1, "(default")) fail_msg("two defaults:%s", option);
        if (next) *next = '\n';
    }
}

TEST(help_of_a_command) {
    char *a = gs_test_output(0, "help train");
    char *b = gs_test_output(0, "train --help");
    assert_string_equal(a, b);
    assert_prints(0, "usage: gradsum launch", "help launch");
    assert_prints(2, "did you mean 'train'?", "help trian");
}

TEST(names_that_are_nearly_right) {
    assert_prints(2, "did you mean 'train'?", "trian");
    assert_prints(2, "did you mean 'devices'?", "device");
    assert_prints(2, "unknown option -e; here it is --epochs\n", "train -e 3");
    assert_prints(2, "unknown option --batch_size; here it is --batch, for all workers together\n",
                  "train --batch_size 3");
    assert_prints(2, "; here it is launch --nodes\n", "train --nnodes=2");
    assert_prints(2, "; two workers are --devices cpu,cpu; there are: cpu (", "train --devices 2");
    assert_prints(2, "unknown option -q; --help lists the options", "train -q");
    assert_prints(2, "a model is required: a name (softmax, mlp, lenet, cnn, resnet20,", "model");
    assert_prints(1, "Download its four files (train-images-idx3-ubyte.gz", "train --data mnist");
}

TEST(values_that_are_nearly_right) {
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        {"train --sync rign", ", auto, local, async; did you mean ring?"},
        {"train --sync lcoal", "; did you mean local?"},
        {"step --sync sharded-ps", "; did you mean sharded_ps?"},
        {"train --device CPU",
         "wanted cpu, cl, cl:PLATFORM.DEVICE or cl:P.D/KofN; did you mean cpu? there are: cpu ("},
        {"train --devices cpu,lc", "; did you mean cl? there are: "},
        {"train --device gpu", "; did you mean cl? there are: "},
        {"train --loss cross-entropy", "unknown --loss 'cross-entropy'; choose one of: cross_entropy, "
                                       "squared_error; did you mean cross_entropy?"},
        {"train --wire fp16", "unknown --wire 'fp16'; choose one of: f32, f16, bf16; did you mean f16?"},
        {"train --bind core", "unknown --bind 'core'; choose one of: none, cores; did you mean cores?"},
        {"train --sync sharded-update", "unknown --sync 'sharded-update'; here it is called --zero 1"},
        {"train --momentum 1", "--momentum: '1' is not a number from 0 to 0.999999"},
        {"train --seed -1", "--seed: '-1' is not a whole number from 0 to 1000000000000000000"},
        {"model '0 x relu'", "expected how many times, a whole number from 1 up"},
        {"model 'block a = a; a, linear 10'", "a block cannot use itself"},
        {"train --lr-rule liner", "; did you mean linear?"},
        {"train --save a.b/x.PT", "a.b/x.PT: gradsum writes safetensors, and the name says .PT; wanted a "
                                  "name such as a.b/x.safetensors"},
        {"train --save x.tar",
         "x.tar: gradsum writes safetensors, and the name says .tar; wanted a name such as x."},
        {"predict --load x -o -", "'-' is no file, and nothing goes to standard output; give a name"},
        {"predict --load x -o x.csv",
         "gradsum predict: x.csv: gradsum writes an array of NumPy, and the name says .csv"},
        {"train --data jargon --model lenet",
         "is a text, but the model (lenet) does not begin with an embedding"},
        {"train --keep bets --save x",
         "unknown --keep 'bets'; choose one of: last, best; did you mean best?"},
        {"schemes --over thread",
         "unknown --over 'thread'; choose one of: threads, shm, gloo; did you mean threads?"},
        {"launch -n 1 --transport glo -- devices",
         "unknown transport 'glo'; choose one of: auto, shm, gloo; did you mean gloo?"},
        {"launch -n 2 --bind non -- devices",
         "unknown --bind 'non'; choose one of: none, cores; did you mean none?"},
        {"launch -n 2 --tiemout 3 -- devices", "unknown option --tiemout; did you mean --timeout?"},
        {"train -zero 2", "unknown option -zero; did you mean --zero?"},
        {"train ---sync=ring", "unknown option ---sync; did you mean --sync?"},
        {"launch -n 2 -restarts 1 -- train", "unknown option -restarts; did you mean --restarts?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_prints(2, cases[i].says, "%s", cases[i].arguments);
    assert_prints(1, ".csv files; did you mean fashion-mnist?", "train --data fashon-mnist");
    assert_prints(1, "; did you mean fashion-mnist-small?", "train --data fashion_mnist_small");
    assert_prints(2, "unknown --keep 'zebra'; choose one of: last, best\n",
                  "train --keep zebra"); /* no similar word */
}

TEST(words_too_many) {
    assert_prints(0, "\n  help         this list; help COMMAND: the same as COMMAND --help\n", "help");
    assert_prints(2, "did you mean 'help'?", "hepl");
    assert_prints(0, "usage: gradsum train", "--help train");
    assert_prints(2, "gradsum help: unexpected 'b'; it takes at most one command", "help a b");
    assert_prints(2, "unexpected 'extra'", "help train extra");
    assert_prints(2, "--help takes no value, but got 'sync'; it lists all options", "train --help sync");
    assert_prints(2, "--help takes no value, but got 'sync'", "launch --help sync");
    assert_prints(2, "gradsum --version: unexpected 'x'; it stands alone", "--version x");
    assert_prints(0, "usage: gradsum train", "train --epochs 3 --help --json");
}

/* Images enter as (byte / 255 - mean) / std. A mean or std that would leave nothing of an image is rejected. */
TEST(mean_and_std) {
    static const char *const wrong[] = {"1e-45", "1e-39", "0",    "-1",  "nan", "inf", "-inf",
                                        "1e7",   "1e400", "1,,0", "0x1", "''",  "1e"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_prints(2, "' is not a number from 1e-08 to 1000000, or up to 4 with commas, one",
                      "train --std %s", wrong[i]);
        if (i >= 4 && i != 6)
            assert_prints(2, "' is not a number from -1000000 to 1000000, or up to 4 with ",
                          "eval --load x --mean=%s", wrong[i]);
    }
    assert_prints(2, "--std needs a value: X", "train --std");
    assert_prints(
        2, "--save needs a value: FILE; '--json' looks like an option (if it is the value: --save=--json)",
        "train --save --json");
    assert_prints(2, "--out needs a value: PATH; '--json' looks like an option", "grade x -o --json");
    assert_prints(1, "cannot read --json", "eval --load=--json");
    assert_prints(2, "'0.5' is not an option", "train --mean 0.5 0.5");
    gs_settings s = gs_settings_default(); /* the same for library users */
    gs_result r;
    s.std = GS_ALL_CHANNELS(0);
    assert_fails(GS_E_USAGE, "--std: '0' is not a number from 1e-08 to 1000000", gs_train(&s, NULL, &r));
    s.std = GS_ALL_CHANNELS(1e-8f);
    s.mean = GS_ALL_CHANNELS(-INFINITY);
    assert_fails(GS_E_USAGE, "--mean: '-inf' is not a number from -1000000 to", gs_eval(&s, NULL, &r));
}

/* A command lists its options and, for options of other commands, says what to use instead. */
TEST(options_of_other_commands) {
    static const struct {
        const char *command, *option, *says;
    } cases[] = {
        {"compare", "--device", "use --devices-list"},
        {"compare", "--devices", "use --devices-list"},
        {"compare", "--save", "use train --save FILE"},
        {"sweep", "--save", "use train --batch B --save FILE"},
        {"profile", "--load", "the weights do not matter"},
        {"profile", "--mean", "how images are scaled"},
        {"profile", "--std", "how images are scaled"},
        {"profile", "--timeout", "waits for nobody"},
        {"profile", "--bind", "bound to no core"},
        {"profile", "--zero", "gradsum step --zero 3 -o FILE"},
        {"layout", "--lr", ": train takes it, and here it has no effect"},
        {"simulate", "--tests", ": train takes it, and here it has no effect"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output, line[40];
        gs_test_program(&output, "%s --help-all", cases[i].command);
        snprintf(line, sizeof line, "\n  %s ", cases[i].option);
        if (strstr(output, line)) fail_msg("%s --help-all lists %s", cases[i].command, cases[i].option);
        assert_prints(2, cases[i].says, "%s %s 1", cases[i].command, cases[i].option);
    }
    assert_prints(2, "did you mean --devices-list?", "compare --device-list cpu");
}

/* The help's example of a model works. */
TEST(the_example_of_a_model_is_one) {
    assert_prints(0, "\"flatten, linear 10\"", "train --help");
    assert_prints(2, "such as \"flatten, linear 10\"", "model");
    assert_prints(0, "done", "train --model 'flatten, linear 10' --steps 2");
}

/* Language models are shown with their usual context, and with another one. */
TEST(language_models_are_shown) {
    char *output;
    gs_test_program(&output, "model gpt2");
    assert_has(output, "input                        1024x1x1x1\n",
               " tied                         1024x50257x1x1            0 ", " 124,439,808 ");
    gs_test_program(&output, "model 'gpt 96' --input 16x1x1x1");
    assert_has(output, "embedding 96 128 std 0.02    16x128x1x1 ",
               " tied                         16x96x1x1 ");
    assert_prints(0, "embedding 96 128 std 0.02, positions std 0.02, 4 x layer, layer_norm, tied\n",
                  "model 'gpt 96' --text");
    assert_prints(2,
                  "has images, but the model (gpt) takes a text: wanted --data jargon, or --data text:FILE",
                  "train --model gpt");
}

/* The syntax of models is explained under all likely names; a file is not mistaken for a name. */
TEST(models_are_explained) {
    char *output;
    gs_test_program(&output, "model --help");
    assert_has(
        output,
        "\n  conv OUT SIZE [stride SIZE] [pad SIZE] [groups G] [dilation SIZE] [no_bias]\n   [std S] ");
    assert_has(output, "\n  dropout P ");
    gs_test_fits(output, 80);
    assert_null(strstr(output, " \n"));
    const char *path = gs_test_format("%s/net.txt", gs_test_folder());
    gs_test_shell(&output, "printf 'conv 4 3x3,\\n  relu, flatten,\\n\\nlinear 10\\n' >%s", path);
    assert_prints(2, "it is a file; to pass its text, write \"$(cat ", "train --model %s", path);
    assert_prints(0, "model    conv 4 3x3, relu, flatten, linear 10, 27,090 parameters\n",
                  "train --steps 1 --model \"$(cat %s)\" --save %s.st", path, path);
    assert_prints(0, "model    conv 4 3x3, relu, flatten, linear 10, ", "train --steps 1 --load %s.st", path);
    static const char *const commands[] = {"model 'residual (relu), flatten, linear 10'", "model lenet",
                                           "profile --model softmax --threads 1 --seconds 0.05",
                                           "collectives -n 2 --size 64 --seconds 0"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        gs_test_program(&output, "%s", commands[i]);
        assert_null(strstr(output, " \n"));
    }
}

TEST(names_that_others_use) {
    assert_prints(2, "here it is called ps", "train --sync parameter_server");
    assert_prints(2, "here it is called allreduce", "step --sync all-reduce");
    assert_prints(2, "--device and --devices are both given", "train --device cpu --devices cpu,cpu");
    assert_prints(0, "done     2 steps",
                  "train --model softmax --steps 1 --steps 2"); /* the last one counts */
}

/* The scaling of images is reported if it differs from the data's. */
TEST(scaling_is_told) {
    char *output;
    assert_prints(0, "\nimages   mean 0.25, std 0.3538; the data's own are 0.2869, 0.3538\n",
                  "train --model softmax --steps 2 --mean 0.25");
    gs_test_program(&output, "train --model softmax --steps 2");
    if (strstr(output, "images   mean")) fail_msg("wanted no line about the data's own scaling: %s", output);
    assert_prints(0, "(default: the data's; with --load: the file's, else 0)", "train --help-all");
    const char *path = gs_test_format("%s/log", gs_test_folder());
    assert_prints(0, "\"mean\":0.25,\"std\":0.5,",
                  "train --model softmax --steps 2 --mean 0.25 --std 0.5 --json --log %s", path);
    gs_test_shell(&output, "cat %s/run.json", path);
    assert_has(output, "\"mean\":\t0.25,\n\t\"std\":\t0.5,");
}

/* If a command's output is lost, its exit status is not 0. */
TEST(lost_output_is_a_failure) {
    static const char *const commands[] = {"devices",
                                           "model mlp",
                                           "step --no-pause",
                                           "collectives -n 2 --size 64 --seconds 0",
                                           "schemes -n 2 --seconds 0",
                                           "help",
                                           "train --help"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_prints(1, "standard output could not be written completely: No space left on device",
                      "%s 2>&1 >/dev/full", commands[i]);
    const char *weights = gs_test_format("%s/w.safetensors", gs_test_folder());
    assert_prints(1, "standard output could not be written",
                  "train --model softmax --steps 2 --json --save %s 2>&1 >/dev/full", weights);
    assert_prints(1, "standard output could not be written", "eval --load %s 2>&1 >/dev/full", weights);
    assert_prints(1, "standard output could not be written",
                  "launch -n 2 -- train --model softmax --steps 2 2>&1 >/dev/full");
    assert_null(strstr(gs_test_output(0, "launch -n 2 -- train -h | head -1"), "signal"));
}

/* The first of 9,999 epochs ends soon, but the bar shows the time left until the end of the run. */
TEST(the_bar_tells_when_the_run_ends) {
    char *text;
    gs_test_shell(
        &text,
        "cd %s && { script -qfec 'stty cols 80; exec %s/gradsum train --model mlp --threads 1 --batch 1 --lr "
        "1e-5 --data fashion-mnist-small --epochs 9999' out >/dev/null & }; p=$!; for i in $(seq 2000); do "
        "grep -qs ' left' out && break; sleep 0.1; done; kill $p; wait; cat out",
        gs_test_folder(), GS_BUILD_DIR);
    if (!strstr(text, " h left")) assert_has(text, " min left");
}

/* Commands that print nothing for seconds show their progress on a terminal, within its columns. */
TEST(long_work_is_shown) {
    static const struct {
        const char *command, *shown;
    } cases[] = {
        {"compare --model softmax --data fashion-mnist-small --epochs 1", "cpu,cpu (2 of 2)"},
        {"sweep --model lenet --threads 1 --batch 32,64 --epochs 2", "] batch 64 (2 of 2), epoch 1"},
        {"layout --workers 2 --model softmax --run", " (1 of 3)"},
        {"layout --workers 2 --model softmax", "] measuring and predicting layout 2 of 6"},
        {"simulate --workers 4096 --link 1us,1GB/s --flops 1TFLOP/s --model mlp", "] 4,096 workers, "},
        {"train --model lenet --data fashion-mnist-small --steps 1 --save w", "] epoch 1/5, test"},
        {"eval --load w", "] computing with the test set"},
        {"predict --load w -o y.npy", "] computing with the test set"},
        {"memory --model softmax", "dry runs of what would save memory"},
        {"train --model mlp --devices cpu,cpu --layout pp2 --steps 9 --digest d", "the pipeline is cut"},
        {"train --model mlp --data fashion-mnist-small --steps 9", "] step 2/9 loss "},
        {"explain d", "] one worker makes the run again"},
        {"schemes -n 2 --seconds 1", " of 5 sizes), turn "},
        {"profile --model softmax --seconds 0.01", "measuring the loader and the step, then each layer"},
    };
    const char *folder = gs_test_folder();
    char *text;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_test_shell(&text, "cd %s && script -qec 'stty cols 80; %s/gradsum %s' /dev/null | tr '\\r' '\\n'",
                      folder, GS_BUILD_DIR, cases[i].command);
        assert_has(text, cases[i].shown);
        assert_null(strstr(text, "inf/s"));
        for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n"))
            if (strlen(line) > 80 + strlen("\033[K")) fail_msg("%zu columns: %s", strlen(line), line);
    }
    assert_prints(1, "but jargon (test) has (64,1,1,1): it is a text; wanted such images, or weights of",
                  "eval --load %s/w --data jargon", folder);
}

TEST(a_run_without_tests) {
    char *text = gs_test_output(0, "train --model softmax --data fashion-mnist-small --epochs 2 --tests 0");
    assert_null(strstr(text, "test "));
    assert_prints(0, "\"test_accuracy\":null,", "train --model softmax --epochs 1 --tests 0 --json");
}
