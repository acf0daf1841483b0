/* --tensor with --pipeline and --zero: the weights equal one worker's up to rounding (test_layout_weights.c checks the
 * bits with --exact), and copies stay equal. */
#include "layer/layer.h"
#include "tests/support/training.h"

#define CHAIN                                                                                                \
    "flatten, linear 24, relu, linear 12, tanh, linear 12 no_bias, sigmoid, linear 36 no_bias, linear 10"
#define CONVOLUTIONS                                                                                         \
    "conv 5 3x3 pad 1, batch_norm, relu, max_pool 2, conv 6 3x3, relu, flatten, linear 16, tanh, linear 10"

/* Two ranks do not divide 43 words evenly. So data that the whole group holds has a different offset on each rank and,
 * if three replicas divide it, may be on different replicas. The positions are such data, in the middle. */
#define WORDS                                                                                                \
    "embedding 43 16, positions, residual (layer_norm, linear 48, attention 2 causal, linear 16), "          \
    "layer_norm, tied"

#define TEXT "--context 32 --batch 24 --steps 6 --model '" WORDS "' "

/* ---- up to rounding ---- */

#define IN_STAGES " --pipeline-cut flops --micro-batches 2"

TEST(the_weights_of_one_worker) {
    assert_ways_are_near("--clip 0.5 --verify 3 --model '" CHAIN "'", ON_4 "--layout tp2,pp2" IN_STAGES,
                         ON_8 "--layout dp2,tp2,pp2" IN_STAGES, ON_8 "--layout dp2,tp2,pp2,zero1" IN_STAGES,
                         ON_6 "--layout tp3,dp2,zero1", ON_4 "--layout dp2,tp2,zero2",
                         ON_4 "--layout dp2,tp2,zero3");
    assert_ways_are_near("--verify 3 --optimizer lamb --lr 0.001 --steps 4 --model '" CHAIN "'",
                         ON_8 "--layout dp2,tp2,pp2,zero1" IN_STAGES, ON_6 "--layout tp3,dp2,zero1",
                         ON_4 "--layout dp2,tp2,zero2", ON_4 "--layout dp2,tp2,zero3");
    assert_ways_are_near("--batch-norm ghost:4 --batch 32 --steps 4 --model '" CONVOLUTIONS "'",
                         ON_4 "--layout tp2,pp2" IN_STAGES, ON_8 "--layout dp2,tp2,pp2" IN_STAGES,
                         ON_4 "--layout dp2,tp2,zero2", ON_4 "--layout dp2,tp2,zero3");
}

/* ---- copies ---- */

TEST(words_that_do_not_divide) {
    static const char *const ways[] = {ON_6 "--layout dp3,tp2", ON_6 "--layout dp3,tp2,zero1",
                                       ON_6 "--layout dp3,tp2,zero3",
                                       "--devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu "
                                       "--layout dp3,tp2,pp2,zero1" IN_STAGES};
    gs_result first;
    for (int i = 0; i < 4; i++) {
        gs_settings s =
            gs_test_settings("cpu " TEXT "--data text:%s --verify 1 %s", gs_test_text_file(), ways[i]);
        gs_result r = gs_test_train(&s);
        if (i == 0) first = r;
        if (i < 3) assert_same_bits(&first, &r, ways[i]);
    }
}

/* ---- memory ---- */

TEST(memory_is_as_planned) {
    static const char *const ways[] = {
        ON_4 "--layout tp2,pp2 --pipeline-cut flops", ON_8 "--layout dp2,tp2,pp2,zero1 --pipeline-cut flops",
        ON_4 "--layout dp2,tp2,zero1", ON_4 "--layout dp2,tp2,zero3", ON_6 "--layout dp3,tp2,zero1"};
    for (int exact = 0; exact < 2; exact++)
        for (int i = 0; i < 5 - exact; i++) { /* not with three replicas */
            gs_settings s = gs_test_settings("cpu " TEXT "--data text:%s --optimizer adam --lr 0.001 %s %s",
                                             gs_test_text_file(), ways[i], exact ? "--exact" : "");
            gs_test_train_as_planned(&s, ways[i]);
        }
}
