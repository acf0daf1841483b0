/* --offload in the ledger: what is elsewhere, and what is here (test_offload.c: the same bits). */
#include "tests/devices.h"
#include "tests/training.h"

#include <math.h>

#include "layer/memory/recompute.h"
#include "train/memory/memory.h"
#include "train/offload/offload.h"

static void assert_planned(gs_settings s, const char *what) {
    gs_memory_plan plan;
    gs_result r;
    assert_ok(gs_memory_plan_create(&s, &plan));
    r = gs_test_train(&s);
    assert_same_memory(&plan, &r, what);
    gs_result_free(&r);
    gs_memory_plan_free(&plan);
}

/* What is elsewhere is all of it, and here is less. */
TEST(the_ledger_says_what_is_elsewhere) {
    static const gs_memory_kind kinds[] = {GS_MEMORY_OPTIMIZER, GS_MEMORY_ACTIVATIONS, GS_MEMORY_WEIGHTS};
    gs_memory_plan plain, plan;
    gs_settings s = gs_test_settings("cpu");
    s.batch = 60;
    s.steps = 2;
    s.epochs = 1;
    s.optimizer = &gs_adam;
    s.lr = s.momentum = (float)NAN;
    s.model = "flatten, linear 600, 9 x linear 600, linear 10";
    assert_ok(gs_memory_plan_create(&s, &plain));
    const double model = 4.0 * (double)plain.params;
    assert_true(gs_memory_total(&plain.worker[0].use[GS_OFFLOADED]) == 0);
    for (int i = 0; i < 3; i++) {
        s.offload = 1U << i;
        assert_ok(gs_memory_plan_create(&s, &plan));
        const double here = plan.worker[0].use[GS_ON_DEVICE].bytes[kinds[i]],
                     before = plain.worker[0].use[GS_ON_DEVICE].bytes[kinds[i]],
                     there = plan.worker[0].use[GS_OFFLOADED].bytes[kinds[i]];
        if (!(before - here > 0.2 * there) || !(there > 0) || (i != 1 && there < model * (i == 0 ? 2 : 1)))
            fail_msg("%s: %.0f bytes here instead of %.0f, and %.0f elsewhere", gs_memory_word(kinds[i]),
                     here, before, there);
        gs_memory_plan_free(&plan);
        assert_planned(s, gs_memory_word(kinds[i]));
    }
    gs_memory_plan_free(&plain);
    double places[2][GS_MEMORY_PLACES]; /* what backward makes again is not put away */
    for (int again = 0; again < 2; again++) {
        s.model = "flatten, linear 600, 9 x residual (linear 600, tanh, linear 600), linear 10";
        s.offload = GS_OFFLOAD_ACTIVATIONS;
        s.recompute = again ? GS_RECOMPUTE_BLOCKS : GS_RECOMPUTE_NONE;
        assert_ok(gs_memory_plan_create(&s, &plan));
        for (int p = 0; p < GS_MEMORY_PLACES; p++)
            places[again][p] = plan.worker[0].use[p].bytes[GS_MEMORY_ACTIVATIONS];
        gs_memory_plan_free(&plan);
        assert_planned(s, "activations, with --recompute or without");
    }
    assert_true(places[1][GS_OFFLOADED] < 0.6 * places[0][GS_OFFLOADED]);
    assert_true(places[1][GS_ON_DEVICE] <= places[0][GS_ON_DEVICE]);
    s.recompute = 3;
    s.offload = GS_OFFLOADS;
    assert_planned(s, "all, with --recompute 3");
    s.recompute = GS_RECOMPUTE_NONE;
    s.devices = "cpu,cpu";
    s.offload = GS_OFFLOADS;
    assert_planned(s, "all");
    s.tensor = 2;
    assert_planned(s, "all, with --tensor 2");
    s.tensor = 0;
    if (!gs_test_has_opencl()) return;
    s.devices = "cl";
    s.offload = GS_OFFLOAD_OPTIMIZER;
    assert_planned(s, "cl");
}

/* The process's memory falls by what the plan says, but for a tenth. */
TEST(the_process_takes_less) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    skip_because("a sanitizer has memory of its own");
#endif
    gs_test_need_whole();
    static const char RUN[] =
        "--model \"flatten, 10 x linear 1000, linear 10\" --steps 2 --batch 10 --threads 1 "
        "--optimizer adam --json";
    double took[2], planned[2];
    for (int i = 0; i < 2; i++) {
        const char *offload = i ? "--offload optimizer,weights" : "";
        char *output = gs_test_output(0, "train %s %s", RUN, offload);
        took[i] = 1e6 * gs_test_number_after(output, "\"peak_memory_mb\":");
        output = gs_test_output(0, "memory %s %s", RUN, offload);
        planned[i] = gs_test_number_after(output, "\"total\":");
    }
    assert_true(planned[0] - planned[1] > 80e6);
    if (took[0] - took[1] < 0.9 * (planned[0] - planned[1]))
        fail_msg("the process takes %.1f MB instead of %.1f MB, and the plans are %.1f MB and %.1f MB",
                 took[1] / 1e6, took[0] / 1e6, planned[1] / 1e6, planned[0] / 1e6);
}
