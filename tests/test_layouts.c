/* One hash: with --exact, however the work is divided, the weights have the bits of one worker. `make test` tries the
 * first layouts of each model, `make test-layouts` all of them. */
#include "tests/some_text.h"
#include "tests/tiny_set.h"
#include "tests/training.h"

#include <time.h>

/* How the workers of a layout are started. */
typedef enum start {
    THREADS,   /* of one process */
    PROCESSES, /* one worker each */
    MIXED      /* two processes, which have half of them each */
} start;

typedef struct layout {
    start how;
    int workers;
    const char *options; /* what is to follow: "--layout dp2,pp2" */
} layout;

/* For all models that they suit. A new kind of parallelism is a few rows more. The first FEW that suit a model are in
 * `make test`. */
static const layout layouts[] = {
    {THREADS, 4, "--layout dp2,pp2,zero1"},
    {PROCESSES, 4, "--layout dp2,tp2"},
    {THREADS, 8, "--layout dp2,tp2,pp2,zero1"},
    {PROCESSES, 4, "--layout tp2,pp2"},
    {THREADS, 4, "--layout dp2,tp2,zero3"},
    {PROCESSES, 4, "--layout dp2,pp2"},
    {THREADS, 2, "--layout dp2,zero3 --accumulate 2"},
    {MIXED, 4, "--layout pp4 --pipeline-schedule gpipe"},
    /* replicas */
    {THREADS, 1, "--accumulate 8"},
    {THREADS, 2, "--layout dp2"},
    {THREADS, 4, "--layout dp4 --accumulate 2"},
    {PROCESSES, 4, "--layout dp4"},
    {MIXED, 8, "--layout dp8"},
    {THREADS, 4, "--layout dp4,zero1"},
    {THREADS, 8, "--layout dp8,zero2"},
    {PROCESSES, 2, "--layout zero2,dp2 --accumulate 4"},
    {MIXED, 4, "--layout dp4,zero3"},
    {PROCESSES, 2, "--layout dp2,zero1"},
    /* parts of linear layers */
    {THREADS, 2, "--layout tp2 --accumulate 8"},
    {PROCESSES, 2, "--layout tp2 --recompute all"},
    {MIXED, 4, "--layout tp4"},
    {THREADS, 8, "--layout tp2,dp4"},
    {MIXED, 8, "--layout tp4,dp2"},
    {PROCESSES, 4, "--layout tp2,dp2 --verify 1"},
    /* of their vectors, gradients, weights, too */
    {THREADS, 4, "--layout dp2,tp2,zero1 --verify 1"},
    {THREADS, 8, "--layout dp4,tp2,zero2"},
    {PROCESSES, 4, "--layout dp2,tp2,zero1"},
    {PROCESSES, 4, "--layout dp2,tp2,zero2"},
    {MIXED, 8, "--layout dp2,tp4,zero3"},
    /* of stages */
    {THREADS, 4, "--layout tp2,pp2 --verify 1"},
    {THREADS, 6, "--layout tp2,pp3 --pipeline-schedule gpipe"},
    {THREADS, 8, "--layout tp4,pp2"},
    {THREADS, 8, "--layout tp2,pp4"},
    {MIXED, 4, "--layout pp2,tp2"},
    {THREADS, 4, "--layout tp2,pp2 --pipeline-schedule interleaved:2"},
    /* of stages, with replicas */
    {THREADS, 8, "--layout dp2,tp2,pp2 --verify 1"},
    {THREADS, 16, "--layout dp4,tp2,pp2,zero1 --recompute all"},
    {PROCESSES, 8, "--layout dp2,tp2,pp2,zero1"},
    {MIXED, 8, "--layout dp2,tp2,pp2,zero1 --verify 2"},
    /* stages */
    {THREADS, 2, "--layout pp2 --micro-batches 8"},
    {THREADS, 3, "--layout pp3 --pipeline-schedule gpipe"},
    {PROCESSES, 3, "--layout pp3 --pipeline-schedule 1f1b"},
    {MIXED, 2, "--layout pp2 --pipeline-schedule gpipe"},
    /* both */
    {THREADS, 6, "--layout dp2,pp3,zero1 --pipeline-schedule gpipe"},
    {THREADS, 8, "--layout pp2,dp4 --micro-batches 2"},
    {THREADS, 8, "--layout pp2,dp4,zero1"},
    {THREADS, 8, "--layout dp2,pp4,zero1"},
    {MIXED, 4, "--layout dp2,pp2,zero1 --pipeline-schedule gpipe"},
    {MIXED, 8, "--layout zero1,pp4,dp2"},
    {PROCESSES, 6, "--layout dp2,pp3"},
    {THREADS, 2, "--layout pp2 --pipeline-schedule interleaved"},
    {THREADS, 4, "--layout dp2,pp2,zero1 --pipeline-schedule interleaved:2"},
    {PROCESSES, 2, "--layout pp2 --pipeline-schedule interleaved:2"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, FEW = 4 };

static const struct {
    const char *name, *options;
    bool tied, pairs; /* pairs: of linear layers */
} models[] = {
    {"lenet", "--model lenet --batch 90 --steps 4", false, true},
    {"resnet20", "--model resnet20 --data %s --batch 24 --batch-norm ghost:3 --optimizer adam --steps 4",
     false, false},
    {"gpt", "--model gpt --data %s --context 8 --batch 13 --optimizer adamw --clip 0.5 --steps 4", true,
     true},
};
enum { MODELS = sizeof models / sizeof *models };

static const char *data_of(int model) {
    return models[model].tied ? text_file() : gs_test_tiny_data();
}

static void command_of(const layout *l, const char *run, char *out, size_t size) {
    const int each = l->how == THREADS ? l->workers : l->how == MIXED ? l->workers / 2 : 1;
    char devices[80] = "cpu";
    for (int i = 1; i < each; i++)
        snprintf(devices + strlen(devices), sizeof devices - strlen(devices), ",cpu");
    if (l->how == THREADS)
        snprintf(out, size, "train --devices %s %s --exact %s", devices, l->options, run);
    else
        snprintf(out, size, "launch -n %d -- train --devices %s %s --exact %s", l->workers / each, devices,
                 l->options, run);
}

/* A tied table goes round for each micro-batch: not with interleaved runs. */
static bool suits(const layout *l, int model) {
    if (models[model].tied && strstr(l->options, "interleaved")) return false;
    return models[model].pairs || !strstr(l->options, "tp");
}

/* Returns how many layouts have given the hash of one worker. */
static int try_model(int model, int most) {
    int tried = 0;
    char command[900];
    const char *run = gs_test_format(models[model].options, data_of(model));
    snprintf(command, sizeof command, "train --devices cpu --exact %s", run);
    const char *one = gs_test_sha256("%s", command);
    for (int i = 0; i < LAYOUTS && tried < most; i++) {
        if (!suits(&layouts[i], model)) continue;
        command_of(&layouts[i], run, command, sizeof command);
        const char *sha256 = gs_test_sha256("%s", command);
        if (strcmp(one, sha256) != 0)
            fail_msg("%s: gradsum %s: %s, but one worker gives %s", models[model].name, command, sha256, one);
        tried++;
    }
    return tried;
}

TEST(every_layout_gives_one_hash) {
    const char *wanted = getenv("GRADSUM_TEST_LAYOUTS"); /* make test-layouts */
    const bool all = wanted && strcmp(wanted, "all") == 0;
    int tried = 0;
    for (int m = 0; m < MODELS; m++) tried += try_model(m, all ? LAYOUTS : FEW);
    if (all) printf("layouts: %d, of %d models, each with the hash of one worker\n", tried, MODELS);
    assert_true(tried >= (all ? 128 : 12));
}

/* ---- what cannot be made so ---- */

TEST(what_has_other_bits_is_refused) {
    static const struct {
        const char *run, *says;
    } refused[] = {
        {"--devices cpu,cpu,cpu --layout dp3", "wanted 1, 2, 4 or 8"},
        {"--devices cpu,cpu --layout pp2,zero2", "--zero 2 would sum gradients in each micro-batch"},
        {"--devices cpu,cpu --layout pp2,zero3", "--zero 3 would sum gradients and gather weights"},
        {"--devices cpu,cpu,cpu,cpu --layout tp2,pp2,zero2",
         "--zero 2 would sum gradients in each micro-batch"},
        {"--devices cpu,cpu,cpu --layout tp3", "wanted 2, 4 or 8 workers in a group"},
        {"--devices cpu,cpu --layout pp2 --micro-batches 4", "wanted 8, or no --micro-batches"},
        {"--devices cpu,cpu --layout dp2 --accumulate 8", "each of the 2 workers has 4; wanted at most 4"},
        {"--devices cpu,cpu --layout dp2,zero2 --accumulate 8", "wanted at most 4"},
        {"--devices cpu,cpu --layout pp2 --accumulate 2", "wanted --micro-batches"},
        {"--devices cpu,cpu --layout dp2 --threads 2", "splitting products over threads changes their bits"},
        {"--devices cpu,cpu --layout dp2 --sync ring", "does not work with --sync ring"},
        {"--devices cpu,cpu --layout dp2 --wire f16", "does not work with --wire f16"},
        {"--devices cpu,cpu --layout dp2 --bucket 10", "does not work with --bucket"},
        {"--devices cpu,cl:0.0 --layout dp2", "only cpu is known to give the same bits"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        gs_test_program_prints(2, refused[i].says, "train --exact --model lenet %s", refused[i].run);
}
