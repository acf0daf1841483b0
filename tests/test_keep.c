/* train --keep best: the weights that are saved are those of the epoch with the highest test accuracy. */
#include "tests/program.h"

#include <cjson/cJSON.h>

static double field(const cJSON *o, const char *name) {
    const cJSON *n = cJSON_GetObjectItem(o, name);
    if (!cJSON_IsNumber(n)) fail_msg("no number '%s'", name);
    return n->valuedouble;
}

/* The best test accuracy of the epochs in the JSON lines, and what the last line says of the kept epoch. */
static void read_lines(char *output, double *best, int *best_epoch, double *last, int *kept) {
    *best = -1;
    *best_epoch = *kept = 0;
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *o = gs_test_parse(line);
        const char *event = cJSON_GetObjectItem(o, "event")->valuestring;
        if (strcmp(event, "epoch") == 0) {
            *last = field(o, "test_accuracy");
            if (*last > *best) {
                *best = *last;
                *best_epoch = (int)field(o, "epoch");
            }
        }
        if (strcmp(event, "end") == 0) *kept = (int)field(o, "kept_epoch");
    }
}

TEST(the_best_epoch_is_saved) {
    static const char *const runs[] = {"train --devices cpu", "train --devices cpu,cpu",
                                       "launch -n 2 -- train",
                                       "train --devices cpu,cpu --sync async --staleness 1",
                                       "train --devices cpu,cpu --sync local --every 4"};
    char path[400];
    bool differs = false; /* the best epoch is not always the last one, or this test would tell nothing */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        snprintf(path, sizeof path, "%s/best.safetensors", gs_test_folder());
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
        assert_float_equal(field(o, "test_accuracy"), best, 1e-9);
    }
    assert_true(differs);
}

TEST(wrong_use) {
    gs_test_program_prints(2, "--keep best needs --save FILE", "train --keep best");
    gs_test_program_prints(2, "unknown --keep 'first'; choose one of: last, best", "train --keep first");
}
