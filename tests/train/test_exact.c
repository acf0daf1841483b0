/* --exact gives the same weights bit for bit, and --verify checks that workers agree. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

TEST(exact_gives_one_sha256) {
    static const char *const runs[] = {
        "train --devices cpu",
        "train --devices cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu",
        "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
        "launch -n 2 -- train --devices cpu",
        "launch -n 4 -- train --devices cpu",
        "launch -n 2 -- train --devices cpu,cpu",
        "train --devices cl",
        "train --devices cpu,cl",
        "launch -n 2 -- train --devices cl,cpu",
    };
    /* README.md promises this hash on every machine, and lesson 8 holds its class to it */
    char wanted[65], options[80];
    FILE *f = gs_test_open(gs_test_source("lessons/08-the-same-algorithm/exact.txt"), "r");
    assert_int_equal(fscanf(f, "%64s %79[^\n]", wanted, options), 2);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        const char *page =
            gs_test_text(gs_test_source(i ? "README.md" : "lessons/08-the-same-algorithm/README.md"), NULL);
        assert_has(page, gs_test_format("build/gradsum train %s --exact", options));
        assert_has(page, gs_test_format("weights  sha256 %s", wanted));
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        if (strstr(runs[i], "cl") && !gs_test_has_opencl()) continue;
        const char *sha256 = gs_test_sha256("%s %s --exact", runs[i], options);
        if (strcmp(wanted, sha256) != 0) fail_msg("%s: %s, wanted %s", runs[i], sha256, wanted);
    }
}

/* The rows of bits.txt (tests/system/bits.sh), each on one kind of device. */
TEST(exact_gives_the_hashes_of_the_table) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cl"};
    char hash[65], options[200];
    int rows = 0;
    FILE *f = gs_test_open(gs_test_source("tests/golden/bits.txt"), "r");
    for (; fscanf(f, "%64s %*s %199[^\n]", hash, options) == 2; rows++)
        assert_shell_prints(0, hash,
                            "cd %s && seq 2000 >numbers.txt && %s/gradsum train --exact --tests 0 --steps 50 "
                            "%s --devices %s --save weights && sha256sum weights",
                            gs_test_folder(), GS_BUILD_DIR, options,
                            devices[rows % (gs_test_has_opencl() ? 3 : 2)]);
    fclose(f);
    assert_int_equal(rows, 11);
}

/* Tests empty virtual shards, dropout, weight decay, and micro-batches within a virtual shard. The result also equals
 * plain training's up to rounding. Then virtual shards of 188 samples in micro-batches of 130: the division must not
 * depend on the number of workers. */
TEST(exact_holds_for_ragged_batches) {
    gs_test_exact(gs_test_settings("cpu"));
    gs_test_exact(
        gs_test_settings("cpu --model 'flatten, linear 10' --batch 1500 --micro-batch 130 --steps 4"));
}

TEST(exact_refuses_what_it_cannot_hold) {
    /* the table in exact.md: "| `options`, or others | reason |" */
    const char *table =
        strstr(gs_test_text(gs_test_source("src/train/exact.md"), NULL), "| options | reason |");
    int rows = 0;
    for (const char *at = table; (at = strstr(at, "\n| `")); rows++) {
        at += strlen("\n| `");
        if (strncmp(at, "--device cl", 11) == 0 && !gs_test_has_opencl()) continue;
        const char *run =
            gs_test_format("train --steps 1 --tests 0 --batch 16 %.*s", (int)strcspn(at, "`"), at);
        assert_prints(2, "", "%s --exact", run);
        assert_prints(0, "sha256", "%s", run);
    }
    assert_int_equal(rows, 10);
    assert_prints(2, "there are 3 workers; wanted 1, 2, 4 or 8", "launch -n 3 -- train --exact");
    assert_prints(2, "stores activations in 16 bits with --precision bf16, and cpu does not; wanted",
                  "train --exact --devices cpu,cl:0.0 --precision bf16");
}

/* ---- --verify ---- */

typedef struct harm {
    const char *options;
    int rank;
    const char *tensor; /* a bit of this tensor's first float is flipped */
    uint64_t step;
    const char *wanted;
} harm;

static const harm *done;

static void do_harm(gs_worker *w) {
    if (w->comm->rank != done->rank || w->step != done->step) return;
    for (int p = 0; p < w->model->param_count; p++) {
        uint32_t bits;
        size_t at;
        if (strcmp(w->model->param[p]->name, done->tensor) != 0) continue;
        if (!gs_partition_find(&w->partition, w->model->param[p], &at)) continue;
        const gs_mem first = gs_at(w->model->weights, at);
        if (w->device->ops->read(w->device, &bits, first, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
        bits ^= 1u << 20;
        if (w->device->ops->write(w->device, first, &bits, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
        return;
    }
    gs_bug("no tensor of worker %d is named %s", w->comm->rank, done->tensor);
}

/* A change between two checks is found by the next check. If most workers agree, the deviating one is named, even if it
 * is rank 0; with two workers it is unknown which one is right. In stages and groups, only ranks that hold the same
 * data are compared: with three replicas of two stages of lenet, ranks 0 to 2 and ranks 3 to 5; for a divided tensor,
 * those with the same part in other replicas; for an undivided one, all ranks of its stage. */
TEST(verify_names_step_worker_and_layer) {
#define STAGES                                                                                               \
    ON_6 "--model lenet --pipeline 2 --pipeline-cut 3 --batch 96 --steps 5 --micro-batches 2 --verify 1"
#define DIVIDED                                                                                              \
    "--pipeline-cut flops --verify 1 --model 'flatten, linear 24, relu, linear 12, tanh, linear 12 "         \
    "no_bias, "                                                                                              \
    "sigmoid, linear 36 no_bias, linear 10'"
    static const harm cases[] = {
        {ON_3 "--verify 4", 2, "5.weight", 8, "step 8: worker 2's 5.weight differs from worker 0's"},
        {ON_4 "--verify 4", 0, "5.bias", 5, "worker 0's 5.bias differs from worker 1's"},
        {ON_2 "--verify 4", 1, "0.weight", 12, "step 12: worker 1's 0.weight differs from worker 0's"},
        {STAGES, 1, "0.bias", 4, "step 4: worker 1's 0.bias differs from worker 0's"},
        {STAGES, 0, "0.weight", 4, "step 4: worker 0's 0.weight differs from worker 1's"},
        {STAGES, 5, "3.weight", 4, "step 4: worker 5's 3.weight differs from worker 3's"},
        {STAGES, 3, "7.weight", 4, "step 4: worker 3's 7.weight differs from worker 4's"},
        {ON_2 "--tensor 2 --verify 1", 1, "7.bias", 2, "step 2: worker 1's 7.bias differs from worker 0's"},
        {ON_8 "--layout dp2,tp2,pp2 " DIVIDED, 5, "3.weight", 2,
         "worker 7's 3.weight differs from worker 5's"},
        {ON_4 "--layout tp2,pp2 " DIVIDED, 3, "8.bias", 2, "worker 3's 8.bias differs from worker 2's"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_settings s = gs_test_base(cases[i].options);
        gs_test_train(&s); /* without damage the check passes */
        s.test_hook = do_harm;
        done = &cases[i];
        assert_train_fails(GS_E_DIFFER, cases[i].wanted, &s);
    }
}

TEST(verify_lets_a_sound_run_pass) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu");
    gs_result plain = gs_test_train(&s), verified;
    s.verify = 1;
    verified = gs_test_train(&s);
    assert_same_bits(&plain, &verified, "--verify 1");
    static const char command[] = "--model softmax --steps 7 --verify 3 --devices cpu,cpu";
    assert_prints(0, "compared every 3 steps", "train %s", command);
    assert_prints(0, "sha256", "launch -n 2 -- train %s", command);
    assert_prints(2, "--verify: '0' is not a whole number", "train --verify 0");
}
