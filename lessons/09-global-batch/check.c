/* Lesson 9: the checks of the tasks in tasks.h, against numbers worked out by hand and against what each worker really
 * used in a run. */
#include "tasks.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fabs(b);
}

/* ---- 9.1 ---- */

static gs_status the_rules(void) {
    static const struct {
        gs_lr_rule rule;
        double lr, batch, base, wanted;
    } cases[] = {
        {GS_LR_NONE, 0.05, 128, 128, 0.05},
        {GS_LR_LINEAR, 0.05, 128, 128, 0.05},
        {GS_LR_SQRT, 0.05, 128, 128, 0.05},
        {GS_LR_NONE, 0.05, 512, 128, 0.05},
        {GS_LR_LINEAR, 0.05, 512, 128, 0.2},
        {GS_LR_SQRT, 0.05, 512, 128, 0.1},
        {GS_LR_LINEAR, 0.05, 32, 128, 0.0125}, /* downwards too */
        {GS_LR_SQRT, 0.05, 32, 128, 0.025},
        {GS_LR_LINEAR, 0.1, 100, 32, 0.3125},
        {GS_LR_SQRT, 0.1, 200, 100, 0.1414213562373095},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = gs_lr_scaled(cases[i].rule, cases[i].lr, cases[i].batch, cases[i].base);
        if (!near(got, cases[i].wanted, 1e-12))
            return gs_fail(GS_E_DIFFER,
                           "rule %s, lr %g at base batch %g, batch %g: got %.10g, expected %.10g",
                           gs_lr_rule_name(cases[i].rule), cases[i].lr, cases[i].base, cases[i].batch, got,
                           cases[i].wanted);
    }
    return GS_OK;
}

/* ---- 9.2: the scaled rate is taken as task 9.1 gives it ---- */

static gs_status the_plan(void) {
    static const struct {
        gs_lr_rule rule;
        double batch, base, epochs, steps;
    } cases[] = {
        {GS_LR_LINEAR, 512, 128, 0, 12},   {GS_LR_LINEAR, 512, 128, 1, 12}, {GS_LR_LINEAR, 512, 128, 2.5, 12},
        {GS_LR_LINEAR, 256, 128, 0.3, 24}, {GS_LR_SQRT, 512, 128, 1, 12},   {GS_LR_LINEAR, 128, 128, 1, 47},
        {GS_LR_NONE, 128, 128, 1, 47},     {GS_LR_LINEAR, 32, 128, 1, 188}, {GS_LR_SQRT, 32, 128, 3, 188},
    };
    const double lr = 0.05;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_lr_plan p =
            gs_lr_plan_of(cases[i].rule, lr, cases[i].batch, cases[i].base, cases[i].epochs, cases[i].steps);
        double scaled = gs_lr_scaled(cases[i].rule, lr, cases[i].batch, cases[i].base);
        double warmup = scaled > lr ? cases[i].epochs * cases[i].steps : 0;
        double first = warmup > 0 ? lr : scaled;
        if (!near(p.first, first, 1e-12) || !near(p.scaled, scaled, 1e-12) || fabs(p.warmup - warmup) > 1e-9)
            return gs_fail(
                GS_E_DIFFER,
                "rule %s, lr %g at base batch %g, batch %g, %g steps an epoch, warm-up %g epochs: got "
                "from %g to %g in %g steps, expected from %g to %g in %g steps",
                gs_lr_rule_name(cases[i].rule), lr, cases[i].base, cases[i].batch, cases[i].steps,
                cases[i].epochs, p.first, p.scaled, p.warmup, first, scaled, warmup);
    }
    return GS_OK;
}

/* ---- 9.3 ---- */

enum { STEPS = 30 };
static double used[2][STEPS + 1];

static void note_rate(gs_worker *w) {
    if (w->step <= STEPS) used[w->comm->rank][w->step - 1] = (double)w->optimizer->lr;
}

/* 6000 samples in batches of 400 are 15 steps an epoch; 4 times the base batch; 1.5 epochs are 22.5 steps. */
static gs_status check_training(void) {
    gs_settings s = gs_settings_default();
    gs_result r = {0};
    s.model = "flatten, linear 10";
    s.devices = "cpu,cpu";
    s.threads = 1;
    s.timeout = 5;
    s.batch = 400;
    s.steps = STEPS;
    s.lr = 0.01f;
    s.lr_rule = GS_LR_LINEAR;
    s.base_batch = 100;
    s.warmup = 1.5;
    s.verify = 1;
    s.test_hook = note_rate;
    GS_TRY(gs_train(&s, NULL, &r));
    gs_result_free(&r);
    for (int rank = 0; rank < 2; rank++)
        for (int step = 0; step < STEPS; step++) {
            double wanted = step < 22.5 ? 0.01 + 0.03 * step / 22.5 : 0.04;
            if (!near(used[rank][step], wanted, 1e-5))
                return gs_fail(GS_E_DIFFER,
                               "train --batch 400 --lr 0.01 --lr-rule linear --base-batch 100 --warmup 1.5: "
                               "step %d of worker %d used %g, expected %g",
                               step, rank, used[rank][step], wanted);
        }
    return GS_OK;
}

static gs_status the_rate_of_a_step(void) {
    static const struct {
        gs_lr_plan plan;
        uint64_t step;
        double wanted;
    } cases[] = {
        {{0.1, 0.1, 0}, 0, 0.1},     {{0.1, 0.1, 0}, 1000, 0.1},      {{0.1, 0.5, 4}, 0, 0.1},
        {{0.1, 0.5, 4}, 1, 0.2},     {{0.1, 0.5, 4}, 2, 0.3},         {{0.1, 0.5, 4}, 3, 0.4},
        {{0.1, 0.5, 4}, 4, 0.5},     {{0.1, 0.5, 4}, 5, 0.5},         {{0.1, 0.5, 4}, UINT64_MAX, 0.5},
        {{0.05, 0.2, 7.5}, 7, 0.19}, {{0.05, 0.2, 7.5}, 8, 0.2},      {{0.05, 0.2, 0.5}, 0, 0.05},
        {{0.05, 0.2, 0.5}, 1, 0.2},  {{0.0125, 0.2, 12}, 6, 0.10625},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got = gs_lr_at(&cases[i].plan, cases[i].step);
        if (!near((double)got, cases[i].wanted, 1e-6))
            return gs_fail(GS_E_DIFFER, "from %g to %g in %g steps: step %llu got %g, expected %g",
                           cases[i].plan.first, cases[i].plan.scaled, cases[i].plan.warmup,
                           (unsigned long long)cases[i].step, got, cases[i].wanted);
    }
    return check_training();
}

/* ---- 9.4 ---- */

static gs_status check_law(const char *name, const sweep_line *line, int lines, double least, double samples,
                           double tolerance) {
    batch_law law = {0};
    if (!fit_batch_law(line, lines, &law))
        return gs_fail(GS_E_DIFFER, "%s: no law was found; expected %g steps, %g samples", name, least,
                       samples);
    if (near(law.least, least, tolerance) && near(law.samples, samples, tolerance) &&
        near(law.critical, samples / least, tolerance))
        return GS_OK;
    return gs_fail(
        GS_E_DIFFER,
        "%s: got at least %.7g steps, %.7g samples, critical batch %.7g; expected %.7g, %.7g, %.7g", name,
        law.least, law.samples, law.critical, least, samples, samples / least);
}

static gs_status the_law_of_a_sweep(void) {
    /* 30 steps at least, 6000 samples at least; the law to the last digit */
    static const sweep_line two[] = {{20, 330}, {200, 60}};
    static const sweep_line five[] = {{25, 270}, {50, 150}, {100, 90}, {200, 60}, {400, 45}};
    static const sweep_line some_never[] = {{10, 0}, {25, 270}, {50, 150}, {400, 45}, {1600, 0}};
    static const sweep_line too_few[] = {{64, 0}, {128, 70}, {256, 0}};
    /* measured: figure-linear.txt. The best law was found by a search for the smallest sum of squares. */
    static const sweep_line measured[] = {{32, 235}, {64, 118}, {128, 71}, {256, 54},
                                          {512, 39}, {1024, 0}, {2048, 0}};
    batch_law law;
    GS_TRY(check_law("batches 20, 200 with 330, 60 steps", two, 2, 30, 6000, 1e-9));
    GS_TRY(check_law("batches 25, 50, ..., 400 with 270, 150, 90, 60, 45 steps", five, 5, 30, 6000, 1e-9));
    GS_TRY(check_law("batches 10, 25, 50, 400, 1600 with never, 270, 150, 45 steps, never", some_never, 5, 30,
                     6000, 1e-9));
    if (fit_batch_law(too_few, 3, &law))
        return gs_fail(GS_E_DIFFER, "one batch of three reached the target: got a law, expected none");
    return check_law("the measured sweep of README.md", measured, 7, 27.0474448, 6161.87982, 1e-4);
}

const lab_task lab_tasks[] = {
    {"9.1", "the learning rate for a batch, by each rule", 2, the_rules,
     "how many times the base batch is this batch? that factor, its root, or nothing"},
    {"9.2", "the plan of a warm-up (after 9.1)", 2, the_plan,
     "a warm-up of E epochs has E times `steps` steps, from lr on; a rate that does not grow has none. "
     "Without a warm-up the first rate is the scaled one"},
    {"9.3", "the rate of each step; training with it", 3, the_rate_of_a_step,
     "step 0 has the first rate, step number T the scaled one. The training needs 9.1 and 9.2 too"},
    {"9.4", "the critical batch of a sweep", 3, the_law_of_a_sweep,
     "two sums of products on the left of each equation, one sum on the right; batches that never reached "
     "the target are left out"},
    {0},
};
