/* --layout: one word that says how a run's workers divide the work. */
#include "tests/support/devices.h"
#include "tests/support/training.h"
#include "tests/support/tiny_set.h"
#include "predict/layout_plan.h"

TEST(terms_come_in_any_order) {
    static const struct {
        const char *text;
        gs_layout is;
        const char *written;
    } cases[] = {
        {"dp2,tp3,pp4,zero1", {2, 3, 4, 1}, "dp2,tp3,pp4,zero1"},
        {"zero2,pp4,dp2", {2, 1, 4, 2}, "dp2,pp4,zero2"},
        {"pp64", {1, 1, 64, 0}, "pp64"},
        {"tp1,dp01", {1, 1, 1, 0}, "dp1"},
        {"zero0,dp4096", {4096, 1, 1, 0}, "dp4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_layout l;
        char text[GS_LAYOUT_TEXT];
        assert_ok(gs_layout_read(cases[i].text, &l));
        assert_memory_equal(&l, &cases[i].is, sizeof l);
        assert_string_equal(gs_layout_text(&l, text), cases[i].written);
    }
}

TEST(what_is_no_layout_is_told) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"ring", "there is no term 'ring'; wanted some of dpN, tpN, ppN and zeroN"},
        {"dp2,", "there is no term ''"},
        {",dp2", "there is no term ''"},
        {"dp2;pp2", "'dp2;pp2' is out of range"},
        {"dp2, pp2", "there is no term ' pp2'"},
        {"DP2", "there is no term 'DP2'"},
        {"dp2,pp2,dp2", "a second 'dp2'"},
        {"zero1,zero2", "a second 'zero2'"},
        {"dp0", "'dp0' is out of range; wanted dp1 to dp4096"},
        {"pp0", "wanted pp1 to pp64"},
        {"pp65", "wanted pp1 to pp64"},
        {"tp65", "wanted tp1 to tp64"},
        {"pp-2", "'pp-2' is out of range"},
        {"pp", "'pp' is out of range"},
        {"zero4", "wanted zero0 to zero3"},
        {"dp2x", "'dp2x' is out of range"},
        {"dp99999999999999999999", "wanted dp1 to dp4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_layout l;
        assert_int_equal(gs_layout_read(cases[i].text, &l), GS_E_USAGE);
        if (!strstr(gs_message(), cases[i].says)) fail_msg("%s: %s", cases[i].text, gs_message());
    }
}

/* The ranks of a tensor group are consecutive, then come replicas; each coordinate has exactly one rank. */
TEST(ranks_are_places) {
    const gs_layout l = {3, 2, 4, 0};
    for (int rank = 0; rank < 24; rank++) {
        const gs_coordinates p = gs_coordinates_of(&l, rank);
        assert_true(p.tp < 2 && p.dp < 3 && p.pp < 4);
        assert_int_equal((p.pp * 3 + p.dp) * 2 + p.tp, rank);
    }
}

/* The weights have the same bits as with the separate options. */
TEST(it_stands_for_other_options) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu,cpu --pipeline 2");
    gs_result apart = gs_test_train(&s);
    s.pipeline = 0;
    s.layout = "pp2,dp2";
    gs_result together = gs_test_train(&s);
    assert_same_bits(&apart, &together, "--layout pp2,dp2");
    assert_int_equal(together.bubble.stages, 2);
    s.pipeline = 2;
    gs_test_train(&s);
    s.layout = "tp2,dp2";
    s.pipeline = 0;
    together = gs_test_train(&s);
    s.layout = NULL;
    s.tensor = 2;
    apart = gs_test_train(&s);
    assert_same_bits(&apart, &together, "--layout tp2,dp2");
    assert_int_equal(together.tensor.workers, 2);
}

TEST(it_must_fit_the_workers_and_the_model) {
    static const struct {
        const char *run, *says;
    } cases[] = {
        {"--layout dp2,pp2",
         "needs 2 x 1 x 2 = 4 workers (dp x tp x pp), and there is 1; wanted 4 (--devices or launch -n)"},
        {"--devices cpu,cpu,cpu --layout pp2", "needs 1 x 1 x 2 = 2 workers (dp x tp x pp), and there are 3"},
        {"--devices cpu,cpu --layout dp1", "needs 1 x 1 x 1 = 1 worker (dp x tp x pp), and there are 2"},
        {"--devices cpu,cpu --layout tp2,pp2", "needs 1 x 2 x 2 = 4 workers (dp x tp x pp), and there are 2"},
        {"--devices cpu,cpu --layout tp2,dp2", "needs 2 x 2 x 1 = 4 workers (dp x tp x pp), and there are 2"},
        {"--devices cpu,cpu --layout tp2 --tensor 3", "has tp2, and --tensor is 3; use only one of them"},
        {"--model softmax --devices cpu,cpu --layout tp2", "the model has nothing to divide"},
        {"--devices cpu,cpu --layout pp2 --pipeline 3", "has pp2, and --pipeline is 3; use only one of them"},
        {"--devices cpu,cpu --layout dp2 --zero 1", "has zero0, and --zero is 1; use only one of them"},
        {"--devices cpu,cpu --layout ''", "--layout is empty; wanted LIST"},
        {"--model mlp --devices cpu,cpu,cpu,cpu --layout pp4", "has 3 layers with parameters"},
        {"--devices cpu,cpu --layout dp2,zero1 --sync ring", "does not work with --sync ring"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_prints(2, cases[i].says, "train %s", cases[i].run);
}

/* Each process detects the mistake by itself, so no process is reported as lost. */
TEST(bad_use_is_told_on_every_rank) {
    static const struct {
        int ranks;
        const char *options, *says;
    } cases[] = {
        {2, "--layout dp2,pp2", "2 x 1 x 2 = 4 workers"},
        {2, "--model softmax --layout pp2", "has 1 layer with parameters"},
        {2, "--layout dp2,dp2", "a second 'dp2'"},
        {2, "--layout dp2,pp0", "'pp0' is out of range"},
        {2, "--layout dq2", "there is no term 'dq2'"},
        {2, "--layout tp2,zero2,dp2", "2 x 2 x 1 = 4 workers"},
        {2, "--model softmax --pipeline 2", "has 1 layer with parameters"},
        {3, "--model lenet --pipeline 2", "there are 3 workers"},
        {2, "--model lenet --pipeline 2 --micro-batches 1 --batch 900", "at most 256"},
        {2, "--model softmax --tensor 2", "nothing to divide"},
        {3, "--model lenet --tensor 2", "there are 3 workers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output = gs_test_output(2, "launch -n %d -- train %s", cases[i].ranks, cases[i].options);
        assert_has(output, cases[i].says,
                   gs_test_format("all %d processes failed with this error", cases[i].ranks));
    }
}

/* What a run reports about its gradient sums matches its layout. */
TEST(sums_are_as_the_layout_has_them) {
    static const struct {
        const char *run, *says;
    } cases[] = {
        {"--devices cpu", "none with one worker"},
        {"--devices cpu,cpu --sync ring", "ring"},
        {"--devices cpu,cpu --exact", "one fixed tree"},
        {"--devices cpu,cpu --sync local --every 2", "weights averaged every 2 steps"},
        {"--devices cpu,cpu --layout pp2", "none among replicas, as there is one"},
        {"--devices cpu,cpu --layout tp2,zero1", "none among replicas, as there is one"},
        {"--devices cpu,cpu --layout dp2,zero2", "reduce-scatter, then all-gather of the new weights"},
        {"--devices cpu,cpu --layout dp2,zero3",
         "reduce-scatter, and all-gather of the weights before forward and backward"},
        {"--devices cpu,cpu,cpu,cpu --layout dp2,tp2", "ring, among the 2 replicas of each part"},
        {"--devices cpu,cpu,cpu,cpu --layout dp2,pp2", "all-reduce, among the 2 replicas of each stage"},
        {"--devices cpu,cpu,cpu,cpu --layout dp2,pp2,zero1",
         "reduce-scatter, then all-gather of the new weights, among the 2 replicas of each stage"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *says = gs_test_format("\"sums\":\"%s\"", cases[i].says);
        assert_prints(0, says, "train --model mlp --batch 16 --steps 1 --json %s", cases[i].run);
    }
}

/* The report is not truncated; a worker's share of the weights refers to those of its stage. */
TEST(what_tensor_says_is_whole) {
    static const char RUN[] = "train --model \"flatten, linear 24, relu, linear 10\" --batch 8 --steps 1 "
                              "--devices cpu,cpu";
    assert_prints(0, "part of the weights (ZeRO 1)\n", "%s --layout tp2,zero1", RUN);
    assert_prints(0, "1: nothing is divided, as there is one replica", "%s --layout tp2,zero1", RUN);
    assert_prints(0, "worker 0 holds 0.03768 MB", "%s,cpu,cpu --layout tp2,pp2 --pipeline-cut 3", RUN);
}

TEST(each_device_is_named) {
    gs_test_need_opencl();
    assert_prints(
        0, "\n         cl:", "train --model mlp --batch 8 --steps 1 --devices cpu,cl --layout dp2,zero1");
}

/* ---- gradsum layout ---- */

/* For each layout, the bytes sent equal the formula's, and the memory equals the dry run's. */
TEST(formulas_hold) {
    static const char devices[] = "cpu,cpu,cpu,cpu";
    gs_settings s = gs_settings_default();
    gs_layout_plan plan;
    s = gs_test_with(s, "--model lenet --batch 96 --threads 1 --optimizer adam");
    assert_ok(gs_layout_plan_create(&s, devices, 4, NULL, NULL, &plan));
    /* dp4, dp2,tp2 and dp2,pp2, each with zero 0 to 3; tp4; tp2,pp2; pp4 */
    assert_int_equal(plan.costs, 15);
    assert_int_equal(plan.refused, 0);
    for (int i = 0; i < plan.costs; i++) {
        const gs_layout_cost *c = &plan.cost[i];
        const bool by_threads = c->layout.pp == 1 && c->layout.tp == 1 &&
                                c->layout.zero == 0; /* these ranks read each other's gradients */
        gs_result r;
        char name[GS_LAYOUT_TEXT];
        double memory = 0;
        gs_layout_text(&c->layout, name);
        assert_true(c->seconds > 0 && (i == 0 || c->seconds >= plan.cost[i - 1].seconds));
        assert_ok(gs_layout_plan_run(&plan, c, 1, NULL, &r));
        for (int w = 0; w < 4; w++) {
            const double total = gs_memory_total(&r.worker[w].memory[GS_ON_DEVICE]);
            if (total > memory) memory = total;
        }
        if (!by_threads) gs_test_near(r.sent_most, c->sent, 0.02 * c->sent, 0, name, __FILE__, __LINE__);
        gs_test_near(memory, c->memory, 0.03 * memory, 0, name, __FILE__, __LINE__);
        gs_result_free(&r);
    }
    gs_layout_plan_free(&plan);
}

/* Runs a command, whose output must fit into 80 columns and contain `says` `times` times. */
static void fits_80_columns(const char *command, const char *says, int times) {
    const char *output = gs_test_output(0, "%s", command);
    const int found = gs_test_count(output, says);
    if (found != times) fail_msg("%s: '%s' %d times: %s", command, says, found, output);
    gs_test_fits(output, 80);
}

TEST(tables_fit_80_columns) {
    static const char GPT[] = "--model 'embedding 40 8, positions, residual (layer_norm, linear 24, "
                              "attention 4 causal, linear 8), tied' --context 8 --threads 1";
    fits_80_columns("layout --model softmax --workers 2 --run", "\n  measured  ", 3);
    fits_80_columns(gs_test_format("layout %s --batch 8 --data text:%s --workers 4 --sequence --run", GPT,
                                   gs_test_text_file()),
                    "tp4 --sequence ", 1);
    fits_80_columns(gs_test_format("simulate %s --batch 32 --data text:%s --layout dp2,tp2,zero3 --workers 4 "
                                   "--link 5us,12GB/s",
                                   GPT, gs_test_text_file()),
                    "sums  ", 1);
    fits_80_columns(
        "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu --layout dp2,tp2,pp2,zero1 --model lenet --steps 1",
        " part repl.", 1);
}

TEST(layouts_are_listed) {
    assert_prints(0, "\"measured_sent_bytes\":", "layout --model softmax --workers 2 --run --json");
    assert_prints(0, "s need more than the 3 MB of --max-memory",
                  "layout --model 'flatten, linear 80, relu, linear 10' --workers 2 --threads 1 "
                  "--max-memory 3");
    assert_prints(1, "no layout of 2 workers fits --max-memory 1; the smallest needs ",
                  "layout --model softmax --workers 2 --max-memory 1");
    assert_prints(2, "--workers N is required", "layout --model lenet");
    assert_prints(2, "'GPIPE' is not a schedule", "layout --workers 2 --pipeline-schedule GPIPE");
    assert_prints(2, "'a,b' is no cut", "layout --workers 2 --pipeline-cut a,b");
    assert_prints(2, "names 3 devices for 2 workers; wanted one, or 2",
                  "layout --workers 2 --devices cpu,cpu,cpu");
    assert_prints(2, "no layout of 3 workers can run; dp3: ", "layout --workers 3 --exact --model softmax");
    assert_prints(2, "layout lists every stage", "layout --workers 2 --zero 1");
}

TEST(places_are_drawn) {
    assert_prints(0, "   2 cpu             1    0     0 3-11          61,550     all       all     1/2",
                  "train --devices cpu,cpu,cpu,cpu --layout dp2,pp2,zero1 --pipeline-cut flops "
                  "--model lenet --steps 1");
    assert_prints(0, "   1 cpu             0    0     1 all            7,850     1/2       1/2     1/2",
                  "launch -n 2 -- train --layout dp2,zero3 --model softmax --steps 1");
    char *output = gs_test_output(0, "train --devices cpu,cpu --tensor 2 --model lenet --steps 1");
    assert_has(output, "rank device      stage part repl. layers",
               "   1 cpu             0    1     0 all           31,328     all       all     all");
    output = gs_test_output(0, "train --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu --layout dp2,tp2,pp2,zero1 "
                               "--pipeline-cut flops --model lenet --steps 1");
    assert_has(output, "rank device      stage part repl. layers",
               "   5 cpu             1    1     0 3-11          31,250     all       all     1/2");
}
