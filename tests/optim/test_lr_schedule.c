/* Learning rates over a run. Checks the formulas against PyTorch's schedulers and the closed forms, that every strategy
 * follows them, and that bad options are rejected. */
#include "tests/support/training.h"

#include <math.h>

/* ---- the formulas ---- */

static gs_lr_rates course(const char *schedule, double lr, double final_lr, double warmup, double steps) {
    gs_lr_rates c = {.plan = {lr, lr, 0}, .final_lr = final_lr, .warmup = warmup, .epoch = 1, .steps = steps};
    assert_true(gs_lr_schedule_read(schedule, &c.schedule));
    return c;
}

static void check_rates(const gs_lr_rates *c, const double *want, int count) {
    for (int t = 0; t < count; t++) assert_near((double)gs_lr_of_step(c, (uint64_t)t), want[t], 0, 1e-7);
}

/* PyTorch 1.13, lr 0.1: CosineAnnealingLR(T_max=10, eta_min=0.01), LinearLR(1, 0.01, total_iters=10) and
 * MultiStepLR([3, 6], 0.1), in f64. */
TEST(as_pytorch) {
    static const double cosine[] = {0.1,
                                    0.09779754323328193,
                                    0.09140576474687266,
                                    0.08145033635316132,
                                    0.06890576474687264,
                                    0.05500000000000002,
                                    0.04109423525312739,
                                    0.0285496636468387,
                                    0.018594235253127392,
                                    0.012202456766718101,
                                    0.010000000000000009};
    static const double linear[] = {0.1,    0.0901, 0.0802, 0.0703, 0.0604,
                                    0.0505, 0.0406, 0.0307, 0.0208, 0.0109};
    static const double steps[] = {0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001};
    gs_lr_rates c = course("cosine", 0.1, 0.01, 0, 10);
    check_rates(&c, cosine, 11);
    c = course("linear", 0.1, 0.001, 0, 10);
    check_rates(&c, linear, 10);
    c = course("step:3,6@0.1", 0.1, 0, 0, 8);
    check_rates(&c, steps, 8);
}

/* Equals libm's cosine to the last bit of a float, for runs of every length, with and without warm-up. */
TEST(cosine_is_accurate) {
    for (int steps = 1; steps <= 400; steps += 7)
        for (int warmup = 0; warmup < steps; warmup += 1 + steps / 3) {
            gs_lr_rates c = course("cosine", 0.3, 0, warmup, steps);
            for (int t = warmup; t <= steps; t++) {
                double p = (double)(t - warmup) / (steps - warmup);
                double want = (double)0.3f * (1 + cos(acos(-1) * p)) / 2;
                assert_near((double)gs_lr_of_step(&c, (uint64_t)t), want, 1e-16, 6.1e-8);
            }
        }
}

TEST(warm_up_without_a_rule) {
    static const double want[] = {0.2, 0.4, 0.6, 0.8, 1, 1, 1};
    static const double then_linear[] = {0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.5, 0.25, 0, 0};
    static const double part[] = {0.4, 0.8, 1, 1};
    gs_lr_rates c = course("constant", 1, 0, 4, 8);
    check_rates(&c, want, 7);
    c = course("linear", 1, 0, 4, 8);
    check_rates(&c, then_linear, 10); /* after the end the rate is constant */
    c = course("constant", 1, 0, 1.5, 8);
    check_rates(&c, part, 4);
}

/* A schedule starts where the rule's warm-up ends; until then the rates are exactly the rule's, bit for bit. */
TEST(behind_a_rule) {
    gs_lr_rates c = course("cosine", 1, 0, 0, 12);
    c.plan = gs_lr_plan_of(GS_LR_LINEAR, 0.25, 512, 128, 2, 2);
    c.warmup = c.plan.warmup;
    for (uint64_t t = 0; t <= 4; t++) assert_true(gs_lr_of_step(&c, t) == gs_lr_at(&c.plan, t));
    assert_near((double)gs_lr_of_step(&c, 8), 0.5, 0, 1e-7);
    c.schedule = (gs_lr_schedule){0};
    for (uint64_t t = 0; t < 12; t++) assert_true(gs_lr_of_step(&c, t) == gs_lr_at(&c.plan, t));
}

/* ---- as text ---- */

TEST(text) {
    static const char *const right[] = {"constant",           "linear",       "cosine",  "step:30,60@0.1",
                                        "step:0.5,1.25@0.03", "step:1@1e-05", "step:1@1"};
    static const char *const wrong[] = {"",
                                        "cos",
                                        "Cosine",
                                        "step",
                                        "step:",
                                        "step:30",
                                        "step:@0.1",
                                        "step:30@",
                                        "step:30@0",
                                        "step:30@1.5",
                                        "step:0@0.1",
                                        "step:60,30@1",
                                        "step:30,30@1",
                                        "linear:3",
                                        "cosine@0",
                                        "step:-3@0.1",
                                        "step:inf@0.1",
                                        "step:3@nan",
                                        "step:0x3@0.1",
                                        "step:3,@0.1",
                                        "step:3@0.1x",
                                        "step:3 @1",
                                        "step:2e6@1",
                                        "step:1,2,3,4,5,6,7,8,9@0.1"};
    gs_lr_schedule s;
    char room[GS_LR_SCHEDULE_TEXT];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        if (!gs_lr_schedule_read(right[i], &s)) fail_msg("'%s' was refused", right[i]);
        assert_string_equal(gs_lr_schedule_text(&s, room, sizeof room), right[i]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (gs_lr_schedule_read(wrong[i], &s)) fail_msg("'%s' was accepted", wrong[i]);
}

/* ---- in a run ---- */

enum { STEPS = 24 };

/* An epoch has 19 steps. */
static gs_settings settings_for(const char *devices, const char *schedule) {
    gs_settings s = gs_test_options("--model 'flatten, linear 16, tanh, linear 10' --devices %s --batch 333 "
                                    "--steps %d --epochs 3 --threads 1 --lr 0.25",
                                    devices, STEPS);
    assert_true(gs_lr_schedule_read(schedule, &s.schedule));
    return s;
}

static float rates[2][STEPS];

static void record_rate(gs_worker *w) {
    if (w->comm->rank < 2) rates[w->comm->rank][w->step - 1] = w->optimizer->lr;
}

/* The schedule ends at step 24, because --steps stops the run before the full 57 steps. */
TEST(steps_use_the_rates) {
    static const char *const schedules[] = {"linear", "cosine", "step:0.5,1@0.5"};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        gs_settings s = gs_test_with(settings_for("cpu,cpu", schedules[i]), "--warmup-steps 4");
        s.test_hook = record_rate;
        if (i < 2) s.final_lr = 0.05f;
        gs_test_train(&s);
        for (int t = 0; t < STEPS; t++) {
            double p = (t - 4) / 20.0, fallen = i == 0 ? 1 - p : (1 + cos(acos(-1) * p)) / 2;
            double want = 0.05 + 0.2 * fallen;
            if (i == 2) want = t < 9.5 ? 0.25 : t < 19 ? 0.125 : 0.0625;
            if (t < 4) want = 0.25 * (t + 1) / 5;
            for (int rank = 0; rank < 2; rank++) assert_near((double)rates[rank][t], want, 0, 2e-7);
        }
    }
}

static float epoch_rates[57];

static void record_epochs(gs_worker *w) {
    epoch_rates[w->step - 1] = w->optimizer->lr;
}

/* Without --steps, the schedule ends with the last epoch; a warm-up in epochs is converted to steps. */
TEST(epochs_end_it) {
    gs_settings s = gs_test_with(settings_for("cpu", "linear"), "--warmup 1");
    s.test_hook = record_epochs;
    s.steps = 0;
    gs_result r = gs_test_train(&s);
    assert_int_equal(r.steps, 57);
    assert_near((double)epoch_rates[0], 0.25 / 20, 0, 1e-7);
    assert_near((double)epoch_rates[19], 0.25, 0, 0);
    assert_near((double)epoch_rates[38], 0.125, 0, 1e-7);
    assert_near((double)epoch_rates[56], 0.25 / 38, 0, 1e-6);
}

/* With any number of workers, local SGD that averages after each step, a server that waits for every worker, and a
 * sharded update equal the synchronous step up to rounding: 2e-7 was seen. A strategy that ignored the schedule, or was
 * one step off, would change the weights by 1e-2. */
TEST(all_ways_follow) {
    static const char *const courses[] = {"--schedule cosine --warmup-steps 3",
                                          "--lr 0.05 --lr-rule linear --base-batch 100 --warmup 1.1"};
    static const char *const ways[] = {ON_2,
                                       ON_3,
                                       ON_4,
                                       ON_2 "--sync ps",
                                       ON_2 "--sync async --staleness 0",
                                       ON_2 "--sync local --every 1",
                                       ON_3 "--zero 1",
                                       "--sync async --staleness 3",
                                       ON_2 "--exact",
                                       ON_2 "--accumulate 3"};
    for (int c = 0; c < 2; c++) {
        const gs_settings s = gs_test_with(settings_for("cpu", "constant"), "%s", courses[c]);
        const gs_result one = gs_test_train(&s);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const gs_settings way = gs_test_with(s, "%s", ways[i]);
            const gs_result r = gs_test_train(&way);
            assert_near(gs_test_difference(&one, &r), 0, 2e-6, 0);
        }
        const gs_settings off =
            gs_test_with(s, c ? "--warmup 1.152631" : "--warmup-steps 4"); /* longer by one step */
        const gs_result later = gs_test_train(&off);
        assert_true(gs_test_difference(&one, &later) > 1e-3);
    }
}

/* ---- the program ---- */

TEST(start_says_it) {
    static const char run[] = "train --model softmax --steps 3 --threads 1";
    assert_prints(0, "rate     lr 0.05; cosine to 0 at step 3\n", "%s --schedule cosine", run);
    assert_prints(0, "rate     lr 0.05, after a warm-up over 2 steps; linear to 0.001 at step 3\n",
                  "%s --schedule linear --final-lr 0.001 --warmup-steps 2", run);
    assert_prints(0, "; step:1,2.5@0.1\n", "%s --schedule step:1,2.5@0.1", run);
    assert_prints(0, "; not higher: no", "%s --lr-rule sqrt --warmup-steps 2 --schedule step:2@0.5", run);
    assert_prints(0, "\"schedule\":\"cosine\",\"final_lr\":0,", "%s --schedule cosine --json", run);
    assert_prints(0, "after a warm-up over 12 steps: not reached, the run ends after 3",
                  "train --model softmax --warmup-steps 12 --steps 3");
    assert_prints(0, "\"lr_first\":0.0125,\"lr_scaled\":0.05,\"warmup_steps\":3,",
                  "%s --warmup-steps 3 --json", run);
}

TEST(what_is_refused) {
    static const struct {
        const char *says, *options;
    } wrong[] = {
        {"--schedule: 'cos' is not constant, linear, cosine, or step:EPOCHS@FACTOR", "--schedule cos"},
        {"--schedule: 'step:30' is not constant, linear", "--schedule step:30"},
        {"--final-lr 0.01 needs --schedule linear or cosine: no other moves the rate towards one; --schedule "
         "is "
         "constant",
         "--final-lr 0.01"},
        {"--final-lr 0.01 needs --schedule linear or cosine: no other moves the rate towards one; --schedule "
         "is "
         "step:1@0.1",
         "--schedule step:1@0.1 --final-lr 0.01"},
        {"--warmup-steps: '0' is not a whole number from 1", "--warmup-steps 0"},
        {"--schedule step:2,5@0.1: the run has 5 epochs, so the rate would not change after 5; wanted epochs "
         "below 5",
         "--schedule step:2,5@0.1"},
        {"the warm-up takes 12 steps, and the run has 10: --schedule cosine would never begin",
         "--schedule cosine --warmup-steps 12 --steps 10"},
        {"the warm-up takes 235 steps, and the run has 235: --schedule linear",
         "--schedule linear --warmup 5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_prints(2, wrong[i].says, "train --model softmax %s", wrong[i].options);
    assert_prints(1, "from --lr 500000: try",
                  "train --model mlp --lr 500000 --schedule linear --steps 5 --loss squared_error");
    assert_prints(1, "from --lr 500000: try",
                  "train --model mlp --lr 500000 --warmup-steps 9 --loss squared_error");
}
