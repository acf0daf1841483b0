/* train --keep best: the saved weights are those of the epoch with the highest test accuracy. */
#include "tests/support/program.h"

/* Reads the JSON lines: the best and the last of the epochs' test accuracies, and which epoch was kept. */
static void read_lines(char *output, double *best, int *best_epoch, double *last, int *kept) {
    *best = -1;
    *best_epoch = *kept = 0;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *o = gs_test_parse(line);
        const char *event = cJSON_GetObjectItem(o, "event")->valuestring;
        if (strcmp(event, "epoch") == 0) {
            *last = gs_test_field(o, "test_accuracy")->valuedouble;
            if (*last > *best) {
                *best = *last;
                *best_epoch = (int)gs_test_field(o, "epoch")->valuedouble;
            }
        }
        if (strcmp(event, "end") == 0) *kept = (int)gs_test_field(o, "kept_epoch")->valuedouble;
    }
}

TEST(the_best_epoch_is_saved) {
    static const char *const runs[] = {"train --devices cpu", "train --devices cpu,cpu",
                                       "launch -n 2 -- train",
                                       "train --devices cpu,cpu --sync async --staleness 1",
                                       "train --devices cpu,cpu --sync local --every 4"};
    bool differs = false; /* in some run the best epoch must not be the last */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *path = gs_test_format("%s/best.safetensors", gs_test_folder());
        char *output = gs_test_output(
            0, "%s --model softmax --threads 1 --epochs 5 --lr 0.5 --keep best --save %s --json", runs[i],
            path);
        double best, last = 0;
        int best_epoch, kept;
        read_lines(output, &best, &best_epoch, &last, &kept);
        assert_int_equal(kept, best_epoch);
        differs = differs || best > last;
        char *eval = gs_test_output(0, "eval --json --load %s", path);
        cJSON *o = gs_test_parse(eval);
        assert_float_equal(gs_test_field(o, "test_accuracy")->valuedouble, best, 1e-9);
    }
    assert_true(differs);
}

TEST(wrong_use) {
    assert_prints(2, "--keep best needs --save FILE", "train --keep best");
}
