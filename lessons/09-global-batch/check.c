/* Lesson 9: the checks: against numbers worked out by hand, against the rates of a run, and against drawn cases. */
#include "tasks.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAWN = 200 /* cases of each kind */, LINES = 8 };

static bool near(double a, double b, double tolerance) {
    return a == b || fabs(a - b) <= tolerance * fabs(b);
}

/* A whole number in 0 .. below-1: number `i` of case `number` of task `task`. */
static unsigned drawn(int task, int number, int i, unsigned below) {
    return (unsigned)lab_pick((unsigned)(1000 * task + number), (size_t)i, below);
}

/* ---- 9.1 ---- */

static gs_status check_rule(gs_lr_rule rule, double lr, double batch, double base, double wanted) {
    double got = gs_lr_scaled(rule, lr, batch, base);
    LAB_CHECK(near(got, wanted, 1e-12),
              "rule %s, lr %g at base batch %g, batch %g: got %.10g, expected %.10g", gs_lr_rule_name(rule),
              lr, base, batch, got, wanted);
    return GS_OK;
}

static gs_status check_drawn_rule(int number) {
    double lr = (1 + drawn(0, number, 0, 100)) / 200.0, base = 1 + drawn(0, number, 1, 300);
    double root = (1 + drawn(0, number, 2, 40)) / 8.0, batch = base * root * root;
    GS_TRY(check_rule(GS_LR_NONE, lr, batch, base, lr));
    GS_TRY(check_rule(GS_LR_LINEAR, lr, batch, base, lr * root * root));
    return check_rule(GS_LR_SQRT, lr, batch, base, lr * root);
}

static gs_status the_rules(void) {
    static const struct {
        gs_lr_rule rule;
        double lr, batch, base, wanted;
    } cases[] = {
        {GS_LR_NONE, 0.05, 128, 128, 0.05},    {GS_LR_LINEAR, 0.05, 128, 128, 0.05},
        {GS_LR_SQRT, 0.05, 128, 128, 0.05},    {GS_LR_NONE, 0.05, 512, 128, 0.05},
        {GS_LR_LINEAR, 0.05, 512, 128, 0.2},   {GS_LR_SQRT, 0.05, 512, 128, 0.1},
        {GS_LR_LINEAR, 0.05, 32, 128, 0.0125}, {GS_LR_SQRT, 0.05, 32, 128, 0.025},
        {GS_LR_LINEAR, 0.1, 100, 32, 0.3125},  {GS_LR_SQRT, 0.1, 200, 100, 0.1414213562373095},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        GS_TRY(check_rule(cases[i].rule, cases[i].lr, cases[i].batch, cases[i].base, cases[i].wanted));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_rule(i));
    return GS_OK;
}

enum { STEPS = 30 };
static double used[2][STEPS + 1];

static void note_rate(gs_worker *w) {
    if (w->step <= STEPS) used[w->comm->rank][w->step - 1] = (double)w->optimizer->lr;
}

/* 6000 samples in batches of 400, 4 times the base batch: 15 steps an epoch. 1.5 epochs are 22.5 steps. */
static gs_status check_training(void) {
    gs_settings s = lab_short_run("flatten, linear 10", "cpu,cpu", 400, STEPS);
    gs_result r = {0};
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
            LAB_CHECK(near(used[rank][step], wanted, 1e-5),
                      "train --batch 400 --lr 0.01 --lr-rule linear --base-batch 100 --warmup 1.5: step %d "
                      "of worker %d used %g, expected %g",
                      step, rank, used[rank][step], wanted);
        }
    return GS_OK;
}

static gs_status check_step(gs_lr_plan plan, uint64_t step, double wanted) {
    double got = (double)gs_lr_at(&plan, step);
    LAB_CHECK(near(got, wanted, 1e-6), "from %g to %g in %g steps: step %llu got %g, expected %g", plan.first,
              plan.scaled, plan.warmup, (unsigned long long)step, got, wanted);
    return GS_OK;
}

/* A step of the warm-up and one after it. */
static gs_status check_drawn_step(int number) {
    double first = (1 + drawn(1, number, 0, 100)) / 200.0, each = (1 + drawn(1, number, 1, 50)) / 1000.0;
    double warmup = (1 + drawn(1, number, 2, 400)) / 8.0, last = first + each * warmup;
    uint64_t step = drawn(1, number, 3, (unsigned)ceil(warmup)),
             behind = (uint64_t)ceil(warmup) + drawn(1, number, 4, 9);
    GS_TRY(check_step((gs_lr_plan){first, last, warmup}, step, first + each * (double)step));
    return check_step((gs_lr_plan){first, last, warmup}, behind, last);
}

static gs_status the_rate_of_a_step(void) {
    GS_TRY(the_rules());
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        GS_TRY(check_step(cases[i].plan, cases[i].step, cases[i].wanted));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_step(i));
    return check_training();
}

/* ---- 9.2 ---- */

static const char *numbers(const double *x, int count) {
    float f[LAB_SEEDS];
    for (int i = 0; i < count; i++) f[i] = (float)x[i];
    return lab_floats(f, (size_t)count);
}

static gs_status check_line(const double *steps, int seeds, lab_line wanted) {
    double copy[LAB_SEEDS];
    memcpy(copy, steps, (size_t)seeds * sizeof *steps);
    lab_line got = lab_line_of(wanted.batch, copy, seeds);
    LAB_CHECK(memcmp(copy, steps, (size_t)seeds * sizeof *steps) == 0,
              "seeds with the steps %s: you changed steps[]; sort a copy", numbers(steps, seeds));
    LAB_CHECK(
        got.batch == wanted.batch && got.reached == wanted.reached && got.least == wanted.least &&
            got.most == wanted.most && near(got.median, wanted.median, 1e-12),
        "batch %g, %d seed%s with the steps %s (0: never): got batch %g, reached %d, least %g, most %g, "
        "median %g; expected reached %d, least %g, most %g, median %g",
        wanted.batch, seeds, gs_s((unsigned)seeds), numbers(steps, seeds), got.batch, got.reached, got.least,
        got.most, got.median, wanted.reached, wanted.least, wanted.most, wanted.median);
    return GS_OK;
}

/* Sorted steps, then seeds that never reached the target, so that the line is known; then they are shuffled. First up
 * to 9 seeds, then up to LAB_SEEDS; some need more steps than 32 bits can count. */
static gs_status check_drawn_line(int number) {
    double steps[LAB_SEEDS] = {0}, at = number % 4 == 3 ? ldexp(1, 33) : 1;
    int seeds = 1 + (int)drawn(2, number, 0, number < DRAWN / 2 ? 9 : LAB_SEEDS),
        reached = (int)drawn(2, number, 1, (unsigned)seeds + 1);
    for (int i = 0; i < reached; i++) steps[i] = at += drawn(2, number, 100 + i, 9);
    if (reached == 0) at = 0;
    int low = (seeds - 1) / 2, high = seeds / 2;
    lab_line wanted = {.batch = 32, .reached = reached, .least = steps[0], .most = at};
    wanted.median = high < reached ? (steps[low] + steps[high]) / 2 : (double)INFINITY;
    for (int i = seeds - 1; i > 0; i--) {
        unsigned k = drawn(2, number, 30 + i, (unsigned)i + 1);
        double other = steps[k];
        steps[k] = steps[i];
        steps[i] = other;
    }
    return check_line(steps, seeds, wanted);
}

static gs_status the_line_of_a_batch(void) {
    const double never = INFINITY;
    GS_TRY(check_line((double[]){70}, 1, (lab_line){128, 1, 70, 70, 70}));
    GS_TRY(check_line((double[]){0}, 1, (lab_line){128, 0, 0, 0, never}));
    GS_TRY(check_line((double[]){90, 50, 60}, 3, (lab_line){128, 3, 50, 90, 60}));
    GS_TRY(check_line((double[]){90, 0, 60}, 3, (lab_line){128, 2, 60, 90, 90}));
    GS_TRY(check_line((double[]){0, 50, 0}, 3, (lab_line){128, 1, 50, 50, never}));
    GS_TRY(check_line((double[]){90, 50, 60, 55}, 4, (lab_line){128, 4, 50, 90, 57.5}));
    GS_TRY(check_line((double[]){90, 0, 0, 55}, 4, (lab_line){128, 2, 55, 90, never}));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_line(i));
    return GS_OK;
}

/* ---- 9.3 ---- */

/* "32: 141-188-282, 64: never" */
static const char *text_of(const lab_line *line, int lines) {
    static char text[60 * LINES];
    text[0] = '\0';
    for (int i = 0; i < lines; i++) {
        char steps[60] = "never";
        if (!isinf(line[i].median))
            snprintf(steps, sizeof steps, "%.6g-%.6g-%.6g", line[i].least, line[i].median, line[i].most);
        lab_append(text, sizeof text, "%s%g: %s", i > 0 ? ", " : "", line[i].batch, steps);
    }
    return text;
}

static gs_status check_until(const lab_line *line, int lines, double wanted) {
    double got = lab_scales_until(line, lines);
    LAB_CHECK(got == wanted, "batch: least-median-most steps of %s: got %g, expected %g",
              text_of(line, lines), got, wanted);
    return GS_OK;
}

/* The first `good` lines scale, the next one does not, and later ones are drawn. Each batch is 1.5 to 4 times the one
 * before it. */
static gs_status check_drawn_until(int number) {
    lab_line line[LINES];
    int lines = 1 + (int)drawn(3, number, 0, LINES), good = 1 + (int)drawn(3, number, 1, (unsigned)lines);
    double median = 1000 + drawn(3, number, 2, 1000), most = median * (1 + 0.1 * drawn(3, number, 3, 5));
    double batch = 16;
    line[0] = (lab_line){batch, 5, 0.8 * median, most, median};
    for (int i = 1; i < lines; i++) {
        bool scales = i < good || (i > good && drawn(3, number, 10 + i, 2));
        bool never = !scales && drawn(3, number, 30 + i, 3) == 0;
        batch *= 1.5 + 0.5 * drawn(3, number, 50 + i, 6);
        double limit = 16 * most / batch, least = limit * (scales || never ? 0.98 : 1.02);
        line[i] = (lab_line){batch, 1 + (int)drawn(3, number, 70 + i, 7), least, 1.5 * least,
                             never ? (double)INFINITY : 1.3 * least};
    }
    return check_until(line, lines, line[good - 1].batch);
}

/* Measured: figure-linear.txt. */
enum { MEASURED = 7 };
static const lab_line measured[MEASURED] = {
    {32, 7, 141, 235, 188}, {64, 7, 94, 141, 118},     {128, 7, 47, 83, 59},      {256, 7, 36, 72, 48},
    {512, 7, 39, 60, 39},   {1024, 0, 0, 0, INFINITY}, {2048, 0, 0, 0, INFINITY},
};

static gs_status where_a_rule_ends(void) {
    static const lab_line exact[] = {{32, 5, 100, 100, 100}, {64, 5, 50, 50, 50}, {128, 5, 26, 26, 26}},
                          noisy[] = {{32, 5, 90, 120, 100},
                                     {64, 5, 59, 80, 70},
                                     {128, 5, 31, 40, 35},
                                     {256, 5, 14, 16, 15}},
                          dead[] = {{32, 2, 90, 120, INFINITY}, {64, 5, 50, 70, 59}},
                          gap[] = {{32, 5, 90, 120, 100}, {64, 2, 50, 50, INFINITY}, {128, 5, 20, 20, 20}};
    GS_TRY(check_until(exact, 1, 32));
    GS_TRY(check_until(exact, 3, 64));
    GS_TRY(check_until(noisy, 4, 64));
    GS_TRY(check_until(dead, 2, 0));
    GS_TRY(check_until(gap, 3, 32));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_until(i));
    return check_until(measured, MEASURED, 128);
}

/* ---- 9.4 ---- */

static gs_status check_law(const lab_line *line, int lines, double least, double samples, double tolerance) {
    lab_law law = lab_fit(line, lines);
    LAB_CHECK(law.found, "%s: no law was found; expected %g steps, %g samples", text_of(line, lines), least,
              samples);
    LAB_CHECK(near(law.least, least, tolerance) && near(law.samples, samples, tolerance) &&
                  near(law.critical, samples / least, tolerance),
              "%s: got at least %.7g steps, %.7g samples, critical batch %.7g; expected %.7g, %.7g, %.7g",
              text_of(line, lines), law.least, law.samples, law.critical, least, samples, samples / least);
    return GS_OK;
}

/* A line that lies on a law. */
static lab_line on_law(double batch, double least, double samples) {
    double steps = least + samples / batch;
    return (lab_line){batch, 5, 0.8 * steps, 1.2 * steps, steps};
}

static gs_status check_drawn_law(int number) {
    lab_line line[LINES];
    int lines = 2 + (int)drawn(4, number, 0, LINES - 1);
    double least = 10 + drawn(4, number, 1, 50), samples = 1000 + drawn(4, number, 2, 9000);
    for (int i = 0; i < lines; i++) {
        line[i] = on_law(8 * ldexp(1, i), least, samples);
        if (i < lines - 2 && drawn(4, number, 10 + i, 4) == 0) line[i].median = INFINITY;
    }
    return check_law(line, lines, least, samples, 1e-9);
}

/* Medians beside a law. The best law is a weighted line through (1 / batch, median), whose weights are 1 / median^2. */
static gs_status check_beside_a_law(int number) {
    lab_line line[LINES];
    int lines = 3 + (int)drawn(6, number, 0, LINES - 2);
    double least = 10 + drawn(6, number, 1, 50), samples = 1000 + drawn(6, number, 2, 9000), batch = 8;
    double all = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < lines; i++) {
        line[i] = on_law(batch, least, samples);
        line[i].median *= 0.9 + 0.02 * drawn(6, number, 10 + i, 11);
        batch *= 1.5 + 0.5 * drawn(6, number, 30 + i, 6);
        double weight = 1 / (line[i].median * line[i].median);
        all += weight;
        x += weight / line[i].batch;
        y += weight * line[i].median;
    }
    for (int i = 0; i < lines; i++) {
        double weight = 1 / (line[i].median * line[i].median), far = 1 / line[i].batch - x / all;
        xx += weight * far * far;
        xy += weight * far * (line[i].median - y / all);
    }
    return check_law(line, lines, (y - xy / xx * x) / all, xy / xx, 1e-6);
}

static gs_status the_law_of_a_sweep(void) {
    /* 30 steps at least, 6000 samples at least; the law to the last digit */
    static const lab_line two[] = {{20, 1, 330, 330, 330}, {200, 1, 60, 60, 60}};
    static const lab_line too_few[] = {
        {64, 2, 80, 90, INFINITY}, {128, 5, 60, 80, 70}, {256, 0, 0, 0, INFINITY}};
    GS_TRY(check_law(two, 2, 30, 6000, 1e-9));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_law(i));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_beside_a_law(i));
    LAB_CHECK(!lab_fit(too_few, 3).found, "%s: got a law, expected none", text_of(too_few, 3));
    /* found by a search for the smallest sum of squares */
    return check_law(measured, MEASURED, 27.4202738, 5071.24959, 1e-4);
}

/* ---- 9.5 ---- */

static gs_status check_judgement(const lab_line *line, int known, double steps, lab_verdict verdict) {
    static const char *const words[] = {"LAB_NO_LAW", "LAB_FAILED", "LAB_FASTER", "LAB_SLOWER",
                                        "LAB_AS_PREDICTED"};
    lab_judgement got = lab_judge(line, known);
    const lab_line *next = &line[known];
    LAB_CHECK(
        near(got.steps, steps, 1e-6) && got.verdict == verdict,
        "known: %s; batch %g: least %.6g, median %.6g, most %.6g steps: got %s, predicted %.7g; expected %s, "
        "%.7g",
        text_of(line, known), next->batch, next->least, next->median, next->most,
        (unsigned)got.verdict < 5 ? words[got.verdict] : "no verdict", got.steps, words[verdict], steps);
    return GS_OK;
}

static gs_status check_drawn_judgement(int number) {
    /* in units of the predicted steps */
    static const struct {
        double least, median, most;
        lab_verdict verdict;
    } kinds[] = {
        {0.8, 0.85, 1.1, LAB_AS_PREDICTED}, {0.95, 1.3, 1.4, LAB_AS_PREDICTED},
        {1.05, 1.07, 1.1, LAB_SLOWER},      {0.8, 0.9, 0.95, LAB_FASTER},
        {0.8, INFINITY, 1.1, LAB_FAILED},   {1.2, INFINITY, 1.4, LAB_FAILED},
    };
    lab_line line[LINES] = {{0}};
    int known = 2 + (int)drawn(5, number, 0, LINES - 3), kind = (int)drawn(5, number, 1, 6);
    double least = 10 + drawn(5, number, 2, 50), samples = 1000 + drawn(5, number, 3, 9000);
    for (int i = 0; i <= known; i++) line[i] = on_law(8 * ldexp(1, i), least, samples);
    double steps = line[known].median;
    line[known] = (lab_line){line[known].batch, 3, steps * kinds[kind].least, steps * kinds[kind].most,
                             steps * kinds[kind].median};
    return check_judgement(line, known, steps, kinds[kind].verdict);
}

static gs_status the_next_batch(void) {
    static const lab_line alone[] = {{64, 5, 80, 90, 85}, {128, 5, 60, 80, 70}},
                          failed[] = {{64, 2, 80, 90, INFINITY}, {128, 5, 60, 80, 70}, {256, 5, 50, 60, 55}},
                          all_failed[] = {{64, 2, 80, 90, INFINITY}, {128, 0, 0, 0, INFINITY}};
    GS_TRY(check_judgement(alone, 1, 0, LAB_NO_LAW));
    GS_TRY(check_judgement(failed, 2, 0, LAB_NO_LAW));
    GS_TRY(check_judgement(all_failed, 1, 0, LAB_NO_LAW));
    for (int i = 0; i < DRAWN; i++) GS_TRY(check_drawn_judgement(i));
    GS_TRY(check_judgement(measured, 3, 38.1135726, LAB_AS_PREDICTED));
    GS_TRY(check_judgement(measured, 4, 34.8136150, LAB_SLOWER));
    return check_judgement(measured, 5, 32.3726661, LAB_FAILED);
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"9.1", "the rate for a batch, and of each step", 2, the_rate_of_a_step,
     "how many times the base batch is this batch? the rate grows by this factor, by its root, or not. Step "
     "0 has the first rate, step number T the scaled rate"},
    {"9.2", "the line of a batch: all its seeds", 2, the_line_of_a_batch,
     "a seed that never reached the target did not need 0 steps; leaving it out would praise the batch that "
     "fails most"},
    {"9.3", "up to which batch does the rule scale?", 2, where_a_rule_ends,
     "samples are batch times steps. Compare with the base's slowest seed, not with its median. Stop at the "
     "first batch that does not scale: a later one that scales had luck"},
    {"9.4", "the critical batch of a sweep", 2, the_law_of_a_sweep,
     "each equation has two sums of products on the left and one sum on the right. Leave out batches whose "
     "median is INFINITY"},
    {"9.5", "does the next batch follow the law? (after 9.4)", 2, the_next_batch,
     "fit the law without the batch that it predicts. Decide FAILED before you compare with least and most, "
     "which count only the seeds that reached the target"},
    {0},
};
