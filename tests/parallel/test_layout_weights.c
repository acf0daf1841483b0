/* With --exact, any division of the work gives the same losses and weights as one worker, bit for bit. `make test`
 * tries the first layouts of each model, and `make test-layouts` 200 generated ones too. */
#include "tests/support/draw.h"
#include "tests/support/some_text.h"
#include "tests/support/tiny_set.h"
#include "tests/support/training.h"

#include "parallel/schedule.h"

/* How the workers of a layout are started. */
typedef enum start {
    THREADS,   /* in one process */
    PROCESSES, /* with one worker each */
    MIXED      /* two processes with half of the workers each */
} start;

typedef struct layout {
    start how;
    int workers;
    const char *options; /* further options: "--layout dp2,pp2" */
} layout;

static const layout first[] = {
    {THREADS, 4, "--layout dp2,pp2,zero3"},
    {PROCESSES, 4, "--layout dp2,tp2"},
    {THREADS, 8, "--layout dp2,tp2,pp2,zero1"},
    {MIXED, 4, "--layout zero2,pp2,dp2 --pipeline-schedule gpipe"},
    {THREADS, 4, "--layout dp2,tp2,zero3"},
    {PROCESSES, 2, "--layout dp2,zero3 --accumulate 2"},
};
enum { FIRST = sizeof first / sizeof *first, DRAWN = 200 };

static const struct {
    const char *name, *options;
    bool tied, pairs; /* pairs: has pairs of linear layers */
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

/* ---- random layouts ---- */

static const char *draw_schedule(draw *d, int model, int stages, int micro_batches) {
    const gs_pipeline_schedule *s = ONE_OF(d, gs_pipeline_schedules());
    /* interleaved schedules cannot send a tied table for each micro-batch, and need enough layers */
    if (s->chunked && (models[model].tied || stages > 2 || micro_batches % stages != 0)) return "";
    return gs_test_format(" --pipeline-schedule %s%s", s->name, s->chunked ? ":2" : "");
}

/* Returns false if the generated numbers form no layout of this model. */
static bool draw_layout(draw *d, int model, layout *l) {
    static const char *const again[] = {
        "", "", "", " --recompute all", " --recompute blocks", " --recompute 2"};
    static const char *const offload[] = {"",
                                          "",
                                          "",
                                          " --offload activations",
                                          " --offload optimizer",
                                          " --offload optimizer,activations",
                                          " --offload weights",
                                          " --offload optimizer,activations,weights"};
    static char options[200];
    const int dp = 1 << one_of(d, 4), tp = models[model].pairs ? 1 << one_of(d, 3) : 1, pp = 1 + one_of(d, 4),
              zero = one_of(d, 4), leaves = 8 / dp, passes = 1 << one_of(d, 4);
    const bool verified = one_of(d, 4) == 0, sequence = one_of(d, 2);
    *l = (layout){(start)one_of(d, 3), dp * tp * pp, options};
    if (l->workers > 16 || (l->how == MIXED && l->workers % 2) || (l->how == PROCESSES && l->workers > 8))
        return false;
    snprintf(options, sizeof options, "--layout zero%d,pp%d,tp%d,dp%d", zero, pp, tp, dp);
    char *end = options + strlen(options);
    if (pp > 1)
        end += sprintf(end, "%s", draw_schedule(d, model, pp, leaves));
    else if (passes <= leaves)
        end += sprintf(end, " --accumulate %d", passes);
    end += sprintf(end, "%s", again[one_of(d, 6)]);
    if (verified && l->workers > 1) end += sprintf(end, " --verify 1");
    if (tp > 1 && models[model].tied && sequence) end += sprintf(end, " --sequence");
    sprintf(end, "%s", offload[one_of(d, zero || pp > 1 ? 6 : 8)]);
    return true;
}

/* ---- one hash ---- */

/* The part of a run's output that must not change: the hash, and the epoch's line up to its speed. */
static char *result_of(const char *command) {
    const char *output = gs_test_output(0, "%s", command), *hash = strstr(output, "sha256 "),
               *loss = strstr(output, "train loss "), *end = loss ? strstr(loss, "/s\n") : NULL;
    if (!hash || !end) fail_msg("%s: %s", command, output);
    while (strncmp(end, "  ", 2) != 0) end--;
    return gs_test_format("%.71s, %.*s", hash, (int)(end - loss), loss);
}

static void compare(const layout *l, int model, const char *run, const char *one) {
    char command[900];
    command_of(l, run, command, sizeof command);
    const char *here = result_of(command);
    if (strcmp(one, here) != 0)
        fail_msg("%s: gradsum %s: %s, but one worker gives %s", models[model].name, command, here, one);
}

TEST(every_layout_gives_one_hash) {
    const char *wanted = getenv("GRADSUM_TEST_LAYOUTS"); /* make test-layouts */
    const int drawn = wanted && strcmp(wanted, "all") == 0 ? DRAWN : 0;
    int tried = 0;
    for (int m = 0; m < MODELS; m++) {
        const char *run = gs_test_format(models[m].options, data_of(m));
        const char *one = result_of(gs_test_format("train --devices cpu --exact %s", run));
        draw d = {.run = (uint64_t)m};
        layout l;
        for (int i = 0; i < FIRST; i++)
            if (models[m].pairs || !strstr(first[i].options, "tp")) compare(&first[i], m, run, one);
        for (int i = m; i < drawn; i += MODELS, tried++) {
            while (!draw_layout(&d, m, &l)) d.next++;
            compare(&l, m, run, one);
        }
    }
    assert_int_equal(tried, drawn);
    if (drawn) printf("layouts: %d drawn, of %d models, each with the hash of one worker\n", tried, MODELS);
}

/* ---- impossible layouts ---- */

TEST(what_has_other_bits_is_refused) {
    static const struct {
        const char *run, *says;
    } refused[] = {
        {"--devices cpu,cpu,cpu --layout dp3", "wanted 1, 2, 4 or 8"},
        {"--devices cpu,cpu,cpu --layout tp3", "wanted 2, 4 or 8 workers in a group"},
        {"--devices cpu,cpu --layout pp2 --micro-batches 4", "wanted 8, or no --micro-batches"},
        {"--devices cpu,cpu --layout dp2 --accumulate 8", "each worker has 4 of the 8; wanted at most 4"},
        {"--devices cpu,cpu --layout dp2,zero2 --accumulate 8", "wanted at most 4"},
        {"--devices cpu,cpu --layout pp2 --accumulate 2", "as many as --micro-batches says"},
        {"--devices cpu,cpu --layout dp2 --sync ring", "does not work with --sync ring"},
        {"--devices cpu,cpu --layout dp2 --wire f16", "does not work with --wire f16"},
        {"--devices cpu,cpu --layout dp2 --bucket 10", "does not work with --bucket"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_prints(2, refused[i].says, "train --exact --model lenet %s", refused[i].run);
}
