/* Learning rates that follow the batch size: the formula and its use in a run, with any number of workers. */
#include "tests/support/training.h"

#include <math.h>

/* Another program computed the expected values, in rational arithmetic. */
TEST(formula) {
    assert_near(gs_lr_scaled(GS_LR_NONE, 0.05, 2048, 128), 0.05, 0, 0);
    assert_near(gs_lr_scaled(GS_LR_LINEAR, 0.05, 2048, 128), 0.8, 0, 1e-15);
    assert_near(gs_lr_scaled(GS_LR_SQRT, 0.05, 2048, 128), 0.2, 0, 1e-15);
    assert_near(gs_lr_scaled(GS_LR_LINEAR, 0.05, 333, 128), 0.130078125, 0, 1e-15);
    assert_near(gs_lr_scaled(GS_LR_SQRT, 0.05, 333, 128), 0.08064679937852463, 0, 1e-14);
    assert_near(gs_lr_scaled(GS_LR_LINEAR, 0.1, 32, 128), 0.025, 0, 1e-15);
    assert_near(gs_lr_scaled(GS_LR_SQRT, 0.1, 32, 128), 0.05, 0, 1e-15);
}

/* 6000 samples in batches of 333 are 19 steps, so 1.5 epochs are 28.5. */
TEST(warm_up) {
    gs_lr_plan p = gs_lr_plan_of(GS_LR_LINEAR, 0.05, 333, 128, 1.5, 19);
    assert_near(p.warmup, 28.5, 0, 0);
    assert_near((double)gs_lr_at(&p, 0), 0.05, 0, 1e-7);
    assert_near((double)gs_lr_at(&p, 1), 0.0528097587719298, 0, 1e-7);
    assert_near((double)gs_lr_at(&p, 10), 0.0780975877192982, 0, 1e-7);
    assert_near((double)gs_lr_at(&p, 28), 0.1286732456140351, 0, 1e-7);
    assert_near((double)gs_lr_at(&p, 29), 0.130078125, 0, 1e-7);
    assert_near((double)gs_lr_at(&p, UINT64_MAX), 0.130078125, 0, 1e-7);
}

TEST(ends_of_the_warm_up) {
    /* a warm-up of whole steps: the first step after it uses the scaled rate */
    gs_lr_plan p = gs_lr_plan_of(GS_LR_LINEAR, 0.25, 512, 128, 2, 4);
    for (int t = 0; t < 8; t++) assert_near((double)gs_lr_at(&p, (uint64_t)t), 0.25 + 0.09375 * t, 0, 1e-7);
    assert_true(gs_lr_at(&p, 8) == 1.0f);
    /* no warm-up */
    p = gs_lr_plan_of(GS_LR_LINEAR, 0.25, 512, 128, 0, 4);
    assert_true(gs_lr_at(&p, 0) == 1.0f);
    /* a warm-up shorter than a step: only step 0 uses the base rate */
    p = gs_lr_plan_of(GS_LR_LINEAR, 0.25, 512, 128, 0.125, 4);
    assert_true(gs_lr_at(&p, 0) == 0.25f);
    assert_true(gs_lr_at(&p, 1) == 1.0f);
    /* a smaller batch gets a smaller rate, which needs no warm-up */
    p = gs_lr_plan_of(GS_LR_SQRT, 0.25, 32, 128, 3, 4);
    assert_true(gs_lr_at(&p, 0) == 0.125f);
    assert_near(p.warmup, 0, 0, 0);
    /* without a rule, the rate is --lr bit for bit */
    p = gs_lr_plan_of(GS_LR_NONE, (double)0.1f, 512, 128, 0, 4);
    assert_true(gs_lr_at(&p, 3) == 0.1f);
}

enum { STEPS = 24, BATCH = 333 };

static gs_settings settings_for(const char *devices) {
    gs_settings s = gs_test_options("--model 'flatten, linear 16, tanh, linear 10' --devices %s --batch %d "
                                    "--steps %d --threads 1 --lr-rule linear --base-batch 100",
                                    devices, BATCH, STEPS);
    s.warmup = 1.1; /* 20.9 steps */
    return s;
}

static float rates[STEPS];

static void record_rate(gs_worker *w) {
    if (w->comm->rank == 0) rates[w->step - 1] = w->optimizer->lr;
}

/* Each step uses the rate from the formula. */
TEST(steps_use_the_rates) {
    gs_settings s = settings_for("cpu,cpu");
    s.test_hook = record_rate;
    gs_result r = gs_test_train(&s);
    assert_int_equal(r.steps, STEPS);
    for (int t = 0; t < STEPS; t++) {
        double want = t < 20.9 ? 0.05 + (0.05 * 3.33 - 0.05) * t / 20.9 : 0.05 * 3.33;
        assert_near((double)rates[t], want, 0, 1e-6);
    }
}

/* A rule without warm-up acts like setting --lr to the scaled rate. */
TEST(a_rule_is_another_lr) {
    gs_settings s = gs_test_with(settings_for("cpu"), "--warmup 0");
    s.batch = 400; /* 4 times the base batch: the rate scales exactly */
    gs_result scaled = gs_test_train(&s);
    s = gs_test_with(s, "--lr-rule none --lr 0.2");
    s.base_batch = 0;
    gs_result plain = gs_test_train(&s);
    assert_memory_equal(scaled.weights, plain.weights, plain.params * sizeof(float));
}

/* test_lr_schedule.c tests all strategies. */

TEST(wrong_usage) {
    assert_prints(2, "unknown --lr-rule 'cube'; choose one of: none, linear, sqrt", "train --lr-rule cube");
    assert_prints(2, "--warmup: '-1' is not a number from 0", "train --lr-rule linear --warmup -1");
    assert_prints(2, "--base-batch 64 needs --lr-rule", "train --base-batch 64 --lr-rule none");
    assert_prints(2, "--base-batch: '0' is not", "train --lr-rule sqrt --base-batch 0");
}

TEST(start_says_the_rates) {
    static const char run[] = "train --model softmax --steps 2 --threads 1 --batch 512 --warmup 0.5";
    assert_prints(0, "lr 0.2 (linear rule: 0.05 x 512/128), after a warm-up from 0.05 over 6\n         steps",
                  "%s --lr-rule linear", run);
    assert_prints(0, "lr 0.1 (sqrt rule: 0.05 x sqrt(512/128))", "%s --lr-rule sqrt", run);
    assert_prints(0, "lr 0.05 (linear rule: 0.05 x 512/512); not higher: no warm-up",
                  "%s --lr-rule linear --base-batch 512", run);
    assert_prints(0, "\"lr_rule\":\"linear\",\"base_batch\":256",
                  "%s --lr-rule linear --base-batch 256 --json", run);
    assert_prints(0, "\"warmup_steps\":6", "%s --lr-rule linear --base-batch 256 --json", run);
}

static void ranks_must_agree_on(const char *mine, const char *theirs, const char *what) {
    assert_ranks_print(2, what, "train --model softmax --steps 3 --threads 1", mine, theirs);
}

TEST(ranks_must_agree) {
    ranks_must_agree_on("", "--lr-rule linear", "rank 1 and rank 0 differ in --lr-rule (linear versus none)");
    ranks_must_agree_on("--lr-rule sqrt", "--lr-rule sqrt --base-batch 64",
                        "rank 1 and rank 0 differ in --base-batch (64 versus 128)");
    ranks_must_agree_on("--lr-rule sqrt --warmup 1.5", "--lr-rule sqrt --warmup 1",
                        "rank 1 and rank 0 differ in --warmup (1 versus 1.5)");
}
