/* Compares 16.1 and 16.3 with sums over what each rank holds and sends; check_step.c and check_plan.c have the rest. */
#include "check.h"

#include <math.h>
#include "lab.h"

enum { HELD_ROW, FEWEST_ROW, SENT_ROW };

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b) + 1e-9;
}

/* ---- 16.1 ---- */

static double held(int stage, int ranks, double params, const parameter_bytes *b) {
    const double each[] = {b->optimizer, b->gradient, b->weight};
    double bytes = 0;
    for (int i = 0; i < 3; i++) bytes += params * each[i] / (stage > i ? ranks : 1);
    return bytes;
}

static gs_status check_held_of(int stage, int ranks, double params, const parameter_bytes *b) {
    const double expected = held(stage, ranks, params, b), got = bytes_held(stage, ranks, params, b);
    LAB_CHECK(is_near(got, expected),
              "bytes_held: stage %d, %d rank%s, %g parameters of %g + %g + %g bytes (weight, gradient, "
              "optimizer): expected %.1f, got %.1f",
              stage, ranks, gs_s((unsigned)ranks), params, b->weight, b->gradient, b->optimizer, expected,
              got);
    return GS_OK;
}

static gs_status check_fewest_of(int stage, double params, const parameter_bytes *b, double memory) {
    int expected = 0;
    for (int n = MOST_RANKS; n >= 1; n--)
        if (held(stage, n, params, b) <= memory) expected = n;
    const int got = fewest_ranks(stage, params, b, memory);
    LAB_CHECK(got == expected,
              "fewest_ranks: stage %d, %g parameters of %g + %g + %g bytes (weight, gradient, optimizer), "
              "%.1f bytes of memory: expected %d, got %d",
              stage, params, b->weight, b->gradient, b->optimizer, memory, expected, got);
    return GS_OK;
}

/* Just enough for some number of ranks, or just too little. */
static double memory_for(size_t i, int stage, double params, const parameter_bytes *b) {
    const int n = 1 + (int)lab_pick(FEWEST_ROW, i, i % 3 ? 20 : 500);
    return held(stage, n, params, b) * (i % 2 ? 1 + 1e-9 : 1 - 1e-9);
}

static gs_status check_bytes(void) {
    static const parameter_bytes adam16 = {2, 2, 12}, sgd32 = {4, 4, 4};
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 8; ranks *= 2) {
            GS_TRY(check_held_of(stage, ranks, 100, &adam16));
            GS_TRY(check_held_of(stage, ranks, 64, &sgd32));
        }
    for (size_t i = 0; i < 80; i++) {
        const int stage = (int)(i % 4);
        const double params = (double)(1 + lab_pick(HELD_ROW, i, 1000000));
        const parameter_bytes b = {(double)(1 + lab_pick(HELD_ROW, 1000 + i, 4)),
                                   (double)(1 + lab_pick(HELD_ROW, 2000 + i, 4)),
                                   (double)(4 * lab_pick(HELD_ROW, 3000 + i, 5))};
        GS_TRY(check_held_of(stage, 1 + (int)lab_pick(HELD_ROW, 4000 + i, 70), params, &b));
    }
    for (int stage = 0; stage <= 3; stage++) GS_TRY(check_held_of(stage, 64, 7.5e9, &adam16));
    GS_TRY(check_fewest_of(3, 100, &adam16, 400));
    GS_TRY(check_fewest_of(1, 100, &adam16, 600));
    GS_TRY(check_fewest_of(1, 100, &adam16, 399));
    GS_TRY(check_fewest_of(3, MOST_RANKS, &adam16, 16)); /* the last that counts, and one more than that */
    GS_TRY(check_fewest_of(3, MOST_RANKS + 1, &adam16, 16));
    for (size_t i = 0; i < 80; i++) {
        const int stage = (int)lab_pick(FEWEST_ROW, 1000 + i, 4);
        const double params = (double)(1 + lab_pick(FEWEST_ROW, 2000 + i, 1000000));
        const parameter_bytes b = {(double)(1 + lab_pick(FEWEST_ROW, 3000 + i, 4)),
                                   (double)(1 + lab_pick(FEWEST_ROW, 4000 + i, 4)),
                                   (double)(4 + 4 * lab_pick(FEWEST_ROW, 5000 + i, 4))};
        GS_TRY(check_fewest_of(stage, params, &b, memory_for(i, stage, params, &b)));
    }
    return GS_OK;
}

/* ---- 16.3: pass by pass ---- */

static double sent(int stage, int ranks, double bytes, int passes) {
    const double once = bytes - bytes / ranks;
    double all = 0;
    for (int k = 0; k < passes; k++) {
        if (stage == 3) all += 2 * once;
        if (stage >= 2 || k == passes - 1) all += once;
    }
    return stage == 3 ? all : all + once;
}

static gs_status check_sent_of(int stage, int ranks, double bytes, int passes) {
    const double expected = sent(stage, ranks, bytes, passes), got = bytes_sent(stage, ranks, bytes, passes);
    LAB_CHECK(is_near(got, expected), "stage %d, %d rank%s, %g bytes, %d pass%s: expected %.1f, got %.1f",
              stage, ranks, gs_s((unsigned)ranks), bytes, passes, passes == 1 ? "" : "es", expected, got);
    return GS_OK;
}

static gs_status check_sent(void) {
    for (int passes = 1; passes <= 3; passes++)
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 4; ranks++) GS_TRY(check_sent_of(stage, ranks, 1200, passes));
    for (int stage = 0; stage <= 3; stage++)
        GS_TRY(check_sent_of(stage, 64, 15e9, 4)); /* more than fits an int */
    for (size_t i = 0; i < 40; i++)
        GS_TRY(check_sent_of((int)lab_pick(SENT_ROW, i, 4), 1 + (int)lab_pick(SENT_ROW, 1000 + i, 100),
                             4.0 * (double)(1 + lab_pick(SENT_ROW, 2000 + i, 1000000)),
                             1 + (int)lab_pick(SENT_ROW, 3000 + i, 12)));
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_call_run", "gs_call_bytes_of", "gs_shard_of",
                                    "gs_fail",     "gs_context",       NULL};

const lab_task lab_tasks[] = {
    {"16.1", "who holds what: bytes, and the ranks that they need", 2, check_bytes,
     "the README's table has a line for each stage: which of the three columns does it divide by N?"},
    {"16.2", "a step of stage 1", 3, check_zero1_step,
     "two ranks, four weights: write down what each rank holds after the reduce-scatter, the update and the "
     "all-gather."},
    {"16.3", "what a rank sends", 2, check_sent,
     "write down all collectives of a step of two passes, in order, for each stage."},
    {"16.4", "stage 3: gather ahead, drop, gather again", 3, check_zero3_pass,
     "three units, two windows: write down which unit is in which window after each line."},
    {0},
};
