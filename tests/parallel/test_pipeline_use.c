/* --pipeline for users: what is rejected, where the model is divided, and how a run reports the bubble. */
#include "tests/support/devices.h"
#include "tests/support/logs.h"
#include "tests/support/training.h"
#include <math.h>
#include <unistd.h>

#define GPT                                                                                                  \
    "embedding 155 16 std 0.02, positions std 0.02, residual (layer_norm, linear 48 std 0.02, attention 2 "  \
    "causal, linear "                                                                                        \
    "16), dropout 0.1, residual (layer_norm, linear 32, gelu, linear 16), layer_norm, tied"

TEST(bad_use_is_told) {
    assert_prints(2, "--pipeline 2: there is 1 worker; wanted a multiple of 2", "train --pipeline 2");
    assert_prints(2, "--pipeline 2: there are 3 workers; wanted a multiple of 2",
                  "launch -n 3 -- train --pipeline 2");
    assert_prints(2, "has 3 layers with parameters, and each of 4 stages (interleaved: chunks) needs one",
                  "train --model mlp --devices cpu,cpu,cpu,cpu --pipeline 4");
    assert_prints(2, "has 3 layers with parameters", "launch -n 4 -- train --model mlp --pipeline 4");
    assert_prints(2, "5 micro-batches for 2 stages: interleaved",
                  "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-schedule interleaved "
                  "--micro-batches 5");
    assert_prints(2, "--micro-batches 70: more passes than the 64 samples in a pipeline's part of the batch",
                  "train --model lenet --devices cpu,cpu,cpu,cpu --pipeline 2 --micro-batches 70");
    assert_prints(2, "one of them has 500 samples, and at most 256 are computed at once; wanted more",
                  "train --model lenet --devices cpu,cpu --pipeline 2 --batch 1000 --micro-batches 2");
    assert_prints(2, "one of them has 10 samples, and at most 8 are computed at once; wanted a smaller",
                  "train --model \"conv 4096 1x1, 8 x relu, global_avg_pool, flatten, linear 10\" --batch 80 "
                  "--exact --steps 1 --devices cpu,cpu --pipeline 2");
    assert_prints(2, "there are 3 pipelines; wanted 1, 2, 4 or 8",
                  "train --exact --model lenet --devices cpu,cpu,cpu,cpu,cpu,cpu --pipeline 2");
    assert_prints(2, "'ring:2' is not a schedule; wanted gpipe, 1f1b, eager, interleaved",
                  "train --pipeline 2 --pipeline-schedule ring:2");
    assert_prints(2, "'gpipe:2' is not a schedule", "train --pipeline 2 --pipeline-schedule gpipe:2");
    assert_prints(2, "'interleaved:4294967298' is not a schedule", /* 2^32 + 2 */
                  "train --pipeline 2 --pipeline-schedule interleaved:4294967298");
    assert_prints(2, "--micro-batches 4 is for --pipeline P", "train --micro-batches 4");
    assert_prints(2, "--pipeline-schedule gpipe is for --pipeline P", "train --pipeline-schedule gpipe");
    assert_prints(2, "--pipeline-cut 3 is for --pipeline P", "train --pipeline-cut 3");
    assert_prints(2, "'3;7' is no cut; wanted measured, flops, or",
                  "train --pipeline 2 --pipeline-cut '3;7'");
    assert_prints(2, "begins 2 more runs of layers after the first, and the stages have 2 in all",
                  "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-cut 3,7");
    assert_prints(2, "no run of layers can begin at layer 4 there; wanted growing numbers out of 3, 7, 9, 11",
                  "train --model lenet --devices cpu,cpu --pipeline 2 --pipeline-cut 4");
    assert_prints(2, "no run of layers can begin at layer 3 there",
                  "train --model lenet --devices cpu,cpu,cpu --pipeline 3 --pipeline-cut 7,3");
    assert_prints(2, "--pipeline: '1' is not a whole number from 2", "train --pipeline 1");
    assert_prints(2, "as many as --micro-batches says: it does not work with --accumulate 4",
                  "train --pipeline 2 --accumulate 4");
    assert_prints(2, "wanted 8, or no --micro-batches",
                  "train --model lenet --devices cpu,cpu --pipeline 2 --exact --micro-batches 4");
    assert_prints(
        2, "wanted --batch-norm ghost:G (statistics of each G samples) or local",
        "train --model \"conv 4 3x3, batch_norm, relu, flatten, linear 10\" --devices cpu,cpu --pipeline 2");
    assert_prints(2, "stage are under way; wanted gpipe, 1f1b or eager",
                  "train --exact --model \"" GPT
                  "\" --data jargon --context 16 --devices cpu,cpu --pipeline 2 "
                  "--pipeline-schedule interleaved");
}

/* Where the layers are divided changes no bit, even for a model with layers that draw random numbers. */
TEST(the_cut_changes_no_bit) {
    static const char *const cuts[] = {"3", "7", "9", "11", "flops", "measured"};
    static const char run[] =
        "train --model lenet --batch 96 --steps 5 --devices cpu,cpu --pipeline 2 --pipeline-cut";
    const char *one = gs_test_sha256("train --exact --model lenet --batch 96 --steps 5");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const char *sha256 = gs_test_sha256("%s %s --exact", run, cuts[i]);
        if (strcmp(one, sha256) != 0) fail_msg("--pipeline-cut %s changes bits", cuts[i]);
    }
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const char *sha256 = gs_test_sha256("%s %s --micro-batches 3", run, cuts[i]);
        if (i == 0) one = sha256;
        if (strcmp(one, sha256) != 0) fail_msg("--pipeline-cut %s changes bits without --exact", cuts[i]);
    }
}

/* Rank 0 measures, and all ranks use its cut: the table of layers, the table of times and the record agree. A run that
 * is given this cut does not measure again. */
TEST(a_measured_cut_is_told) {
    static const char *const runs[] = {"train --devices cpu,cpu", "launch -n 2 -- train"};
    for (int i = 0; i < 2; i++) {
        size_t length;
        const char *folder = gs_test_format("%s/cut%d", gs_test_folder(), i);
        const char *path = gs_test_format("%s/run.json", folder);
        char *output = gs_test_output(0, "%s --model lenet --steps 2 --pipeline 2 --log %s", runs[i], folder);
        const int cut = (int)gs_test_number_after(output, "--pipeline-cut ");
        assert_true(cut == 3 || cut == 7 || cut == 9 || cut == 11);
        const char *wanted = gs_test_format("\n    1  %d", cut);
        assert_has(output, "forward ms", wanted);
        char *record = gs_test_text(path, &length);
        wanted = gs_test_format("\"pipeline_cut\":\t\"%d\"", cut);
        assert_has(record, wanted);
        output = gs_test_output(0, "%s --model lenet --steps 2 --pipeline 2 --pipeline-cut %d", runs[i], cut);
        assert_null(strstr(output, "forward ms"));
    }
}

TEST(the_bubble_is_shown) {
    static const char run[] =
        "train --model lenet --steps 3 --devices cpu,cpu --pipeline 2 --micro-batches 3";
    assert_prints(0, "25.0 % by the formula", run);
    assert_prints(0, "pipelines of 2 stages, 1F1B", run);
    char *output = gs_test_output(0, "%s --json", run);
    assert_has(output, "\"bubble_formula\":0.25", "\"pipeline\":2");
    const char *folder = gs_test_format("%s/log", gs_test_folder());
    assert_prints(0, "bubble", "%s --log %s --trace-steps 2-3", run, folder);
}
