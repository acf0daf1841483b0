/* Ways to make a step that differ from the plain one: what each promises about the weights. */
#include "tests/program.h"

#include <math.h>

/* As in test_train.c: dropout whose mask must follow the sample, and batches that nothing divides. 6000
 * samples in batches of 333: step 19 has 6 samples (fewer than virtual shards), step 20 begins epoch 2. */
static const char MODEL[] =
    "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, flatten, dropout 0.25, linear 16, tanh, "
    "linear 10";
enum { BATCH = 333, STEPS = 20 };
static const double TOLERANCE = 1e-6; /* rounding only: see test_train.c */

static gs_settings settings_for(const char *devices) {
    gs_settings s = gs_settings_default();
    s.model = MODEL;
    s.devices = devices;
    s.batch = BATCH;
    s.steps = STEPS;
    s.weight_decay = 1e-3f;
    s.threads = 1;
    return s;
}

static gs_result train(const gs_settings *s) {
    gs_result r;
    assert_ok(gs_train(s, NULL, &r));
    if (s->steps) assert_int_equal(r.steps, s->steps);
    return r;
}

static double largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

static void assert_same_bits(const gs_result *a, const gs_result *b, const char *what) {
    if (memcmp(a->weights, b->weights, a->params * sizeof(float)) != 0)
        fail_msg("%s: other bits; the weights differ by up to %g", what, largest_difference(a, b));
}

static void assert_same_within_rounding(const gs_result *a, const gs_result *b, const char *what) {
    double d = largest_difference(a, b);
    if (!(d <= TOLERANCE)) fail_msg("%s: weights differ by %g, wanted at most %g", what, d, TOLERANCE);
}

/* ---- --exact ---- */

/* The SHA-256 that a run of the program prints. */
static void sha256_of(const char *arguments, char sha256[65]) {
    char *output;
    int status = gs_test_program(&output, "%s", arguments);
    const char *at = strstr(output, "sha256 ");
    if (status != 0 || !at) fail_msg("gradsum %s: exit %d: %s", arguments, status, output);
    snprintf(sha256, 65, "%s", at + strlen("sha256 "));
    free(output);
}

static void exact_gives_one_sha256(void **state) {
    (void)state;
    static const char *const runs[] = {
        "train --devices cpu",
        "train --devices cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
        "launch -n 2 -- train --devices cpu",
        "launch -n 4 -- train --devices cpu",
        "launch -n 2 -- train --devices cpu,cpu",
    };
    char first[65], sha256[65], command[300];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        snprintf(command, sizeof command, "%s --model lenet --epochs 1 --exact", runs[i]);
        sha256_of(command, i == 0 ? first : sha256);
        if (i > 0 && strcmp(first, sha256) != 0)
            fail_msg("gradsum %s: %s, but one worker gives %s", command, sha256, first);
    }
}

static const char *const counts[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};

/* Empty virtual shards, dropout, weight decay, micro-batches inside of a virtual shard; and what it computes
 * is what plain training computes. */
static void exact_holds_for_ragged_batches(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu");
    gs_result plain = train(&s), first = {0};
    s.exact = true;
    for (int i = 0; i < 4; i++) {
        s.devices = counts[i];
        gs_result r = train(&s);
        if (i == 0) {
            first = r;
            assert_same_within_rounding(&plain, &r, "--exact against plain training");
            continue;
        }
        assert_same_bits(&first, &r, counts[i]);
        assert_true(r.train_loss == first.train_loss && r.test_loss == first.test_loss);
        gs_result_free(&r);
    }
    gs_result_free(&first);
    gs_result_free(&plain);
}

/* Virtual shards of 188 samples in micro-batches of 130: the cut must not depend on the number of workers. */
static void exact_cuts_micro_batches_alike(void **state) {
    (void)state;
    gs_settings s = settings_for("cpu");
    s.exact = true;
    s.model = "flatten, linear 10";
    s.batch = 1500;
    s.micro_batch = 130;
    s.steps = 4;
    gs_result one = train(&s);
    for (int i = 1; i < 4; i++) {
        s.devices = counts[i];
        gs_result r = train(&s);
        assert_same_bits(&one, &r, counts[i]);
        gs_result_free(&r);
    }
    gs_result_free(&one);
}

static void exact_refuses_what_it_cannot_hold(void **state) {
    (void)state;
    gs_test_program_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8",
                           "train --exact --devices cpu,cpu,cpu");
    gs_test_program_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8", "launch -n 3 -- train --exact");
    gs_test_program_prints(2, "--threads 2: how products are cut", "train --exact --threads 2");
    gs_test_program_prints(2, "device 'cl:0.0': only cpu", "train --exact --devices cpu,cl:0.0");
    gs_test_program_prints(2, "does not go with --sync ps", "train --exact --sync ps");
}

GS_TESTS(modes, cmocka_unit_test(exact_gives_one_sha256), cmocka_unit_test(exact_holds_for_ragged_batches),
         cmocka_unit_test(exact_cuts_micro_batches_alike),
         cmocka_unit_test(exact_refuses_what_it_cannot_hold))
