/* 21.3: compares with sums, and with runs of src/predict/failures.c, drawn failure by failure. */
#include "check.h"

#include <math.h>
#include <stdio.h>

/* ---- between two failures ---- */

static gs_status check_mtbf_of(size_t kinds, const lab_things *kind) {
    char text[200] = "";
    double rate = 0;
    for (size_t k = 0; k < kinds; k++) {
        rate += (double)kind[k].count / kind[k].mtbf;
        lab_append(text, sizeof text, "%s%zu of %g s", k ? ", " : "", kind[k].count, kind[k].mtbf);
    }
    const double got = lab_mtbf(kinds, kind);
    LAB_CHECK_HINT(fabs(got * rate - 1) < 1e-9,
                   "lab_mtbf: times between failures do not add up; failures per second do.",
                   "lab_mtbf: %s: expected %g s between two failures, got %g", text, 1 / rate, got);
    return GS_OK;
}

static gs_status check_mtbf(void) {
    static const lab_things one = {1, 100}, two = {2, 100}, machine[] = {{8, 1000}, {1, 500}, {0, 3}};
    GS_TRY(check_mtbf_of(1, &one));
    GS_TRY(check_mtbf_of(1, &two));
    GS_TRY(check_mtbf_of(3, machine));
    for (size_t i = 0; i < 40; i++) {
        lab_things kind[4];
        const size_t kinds = 1 + lab_pick(KINDS_ROW, 9 * i, 4);
        for (size_t k = 0; k < kinds; k++)
            kind[k] = (lab_things){lab_pick(KINDS_ROW, 9 * i + 1 + k, 3000) + (k == 0),
                                   (double)(1 + lab_pick(KINDS_ROW, 9 * i + 5 + k, 100000))};
        GS_TRY(check_mtbf_of(kinds, kind));
    }
    return GS_OK;
}

/* ---- the expected time ---- */

/* The time until `length` seconds pass undisturbed: an attempt; if it fails, a restart of its own length, and again. */
static double until_done(double length, double restart, double m) {
    const double fails = -expm1(-length / m), attempt = m * fails, restarted = m * expm1(restart / m);
    return (attempt + fails * restarted) / (1 - fails);
}

static double expected(const gs_failures *f, double m, double every) {
    const double whole = ceil(f->work / every) - 1; /* segments with a checkpoint after them */
    return whole * until_done(every + f->checkpoint, f->restart, m) +
           until_done(f->work - whole * every, f->restart, m);
}

static gs_status check_expected_of(const gs_failures *f, double m, double every) {
    const double wanted = expected(f, m, every), got = lab_expected(f, m, every);
    LAB_CHECK_HINT(
        fabs(got / wanted - 1) < 1e-6,
        "lab_expected: M e^(R/M) (e^(L/M) - 1) for each segment of L seconds. Draw two and a half "
        "segments: which of them end with a checkpoint?",
        "lab_expected: work %g s, a checkpoint of %g s after each %g s, restart %g s, a failure in "
        "%g s: expected %.8g s, got %.8g",
        f->work, f->checkpoint, every, f->restart, m, wanted, got);
    return GS_OK;
}

/* Compares the formula with the mean of a thousand drawn runs. */
static gs_status check_drawn(void) {
    gs_failures f = {.mtbf = 64000, .hosts = 16, .work = 30000, .checkpoint = 60, .restart = 300};
    gs_failures_cost cost;
    f.every = 1024, f.seed = lab_seed();
    GS_TRY(gs_failures_expect(&f, &cost));
    LAB_CHECK(
        fabs(cost.expected / cost.drawn - 1) < 0.03,
        "lab_expected: 16 hosts that fail once in 64000 s each, work 30000 s, a checkpoint of 60 s after "
        "each 1024 s, restart 300 s: %d runs took %.0f s on average, but yours expects %.0f",
        cost.runs, cost.drawn, cost.expected);
    return GS_OK;
}

static gs_status check_expected(void) {
    GS_TRY(check_expected_of(&(gs_failures){.work = 64, .checkpoint = 1}, 1000, 100));
    GS_TRY(check_expected_of(&(gs_failures){.work = 64, .checkpoint = 1}, 100, 64));
    GS_TRY(check_expected_of(&(gs_failures){.work = 64, .checkpoint = 1}, 100, 32));
    GS_TRY(check_expected_of(&(gs_failures){.work = 80, .checkpoint = 1, .restart = 5}, 100, 32));
    for (size_t i = 0; i < 60; i++) { /* eighths: all sums of them are exact */
        const gs_failures f = {.work = (double)(1 + lab_pick(TIMES_ROW, 5 * i, 40000)) / 8,
                               .checkpoint = (double)(1 + lab_pick(TIMES_ROW, 5 * i + 1, 200)) / 8,
                               .restart = (double)lab_pick(TIMES_ROW, 5 * i + 2, 400) / 8};
        GS_TRY(check_expected_of(&f, (double)(50 + lab_pick(TIMES_ROW, 5 * i + 3, 3000)),
                                 (double)(16 + lab_pick(TIMES_ROW, 5 * i + 4, 2000)) / 8));
    }
    return check_drawn();
}

/* ---- the best interval ---- */

/* The cost of a second of work, up to a factor. */
static double cost(double tau, double delta, double m) {
    return expm1((tau + delta) / m) / tau;
}

static double least_cost(double delta, double m) {
    double from = 0, to = m;
    for (int i = 0; i < 200; i++) { /* it has one minimum, between 0 and m */
        const double third = (to - from) / 3, a = from + third, b = to - third;
        if (cost(a, delta, m) < cost(b, delta, m))
            to = b;
        else
            from = a;
    }
    return to;
}

static gs_status check_interval_of(double delta, double m) {
    const double got = lab_interval(delta, m), best = least_cost(delta, m),
                 more = 100 * (cost(got, delta, m) / cost(best, delta, m) - 1);
    LAB_CHECK_HINT(
        got > 0 && more <= 0.1,
        "lab_interval: Young's formula needs checkpoints much shorter than the time between two failures. "
        "Where is the derivative 0?",
        "lab_interval: a checkpoint of %g s, a failure in %g s: got %g s, which costs %.2f %% more "
        "than %.4g s; wanted at most 0.1 %%",
        delta, m, got, more, best);
    return GS_OK;
}

static gs_status check_interval(void) {
    static const double delta[] = {1e-6, 1e-3, 0.01, 0.1, 0.5, 1};
    for (size_t i = 0; i < sizeof delta / sizeof *delta; i++)
        GS_TRY(check_interval_of(1000 * delta[i], 1000));
    for (size_t i = 0; i < 40; i++) {
        const double m = (double)(10 + lab_pick(TIMES_ROW, 1000 + 2 * i, 1000000));
        GS_TRY(check_interval_of(m * (double)(1 + lab_pick(TIMES_ROW, 1001 + 2 * i, 1000)) / 1000, m));
    }
    return GS_OK;
}

gs_status check_costs(void) {
    GS_TRY(check_mtbf());
    GS_TRY(check_expected());
    return check_interval();
}
