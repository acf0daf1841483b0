/* Training steps in virtual time, without a clock: hidden sums, and layouts. */
#include "tests/support/training.h"

#include <math.h>

#include "predict/simulate.h"

static const gs_link fabric = {5e-6, 12.5e9}, none = {0, 0};

static gs_simulation lenet(int workers, gs_link link) {
    gs_simulation s = {.settings = gs_settings_default(), .workers = workers, .flops = 1e12, .gamma = -1};
    s.settings.model = "lenet";
    s.settings.batch = 0;
    s.settings.sync = "ring";
    s.settings.link = link;
    return s;
}

static gs_simulated simulated(gs_simulation s) {
    gs_simulated_work w;
    gs_simulated r;
    assert_ok(gs_simulation_settle(&s));
    assert_ok(gs_simulated_work_create(&s, &w));
    assert_ok(gs_simulate(&s, &w, &r));
    gs_simulated_work_free(&w);
    gs_simulated_free(&r);
    return r;
}

TEST(infinite_links_leave_compute) {
    for (int n = 1; n <= 9; n++) {
        const gs_simulated r = simulated(lenet(n, none));
        assert_near(r.step, r.compute, 2e-12, 0); /* forward and backward each in whole picoseconds */
        assert_near(r.efficiency, 1, 0, 1e-6);
    }
}

TEST(a_sum_during_backward_is_hidden) {
    gs_simulation s = lenet(4, fabric);
    s.flops = 1e10;
    const gs_simulated plain = simulated(s);
    s.settings.bucket = 1;
    const gs_simulated overlapped = simulated(s);
    assert_true(overlapped.buckets > 1);
    assert_true(overlapped.step < plain.step);
    assert_true(gs_simulated_hidden(&overlapped) > 0.5);
    assert_true(gs_simulated_hidden(&plain) < 0.01); /* worker 0 waits for the slowest worker's sum */
    assert_near(overlapped.between, plain.between, 0, 0);
}

/* A server receives a step's gradients while it still sends the previous step's sums, so its line is always busy. */
TEST(the_line_of_a_server_is_named) {
    gs_simulation s = lenet(128, fabric);
    s.flops = 1e13;
    s.settings.sync = "ps";
    const gs_simulated r = simulated(s);
    assert_true(r.busy > 0.9);
    assert_int_equal(r.busiest, 0);
    assert_non_null(strstr(r.bottleneck, "the line"));
}

/* A worker that pauses in every step delays all workers; the pauses are the same as in `train`. */
TEST(pauses_hold_up_all) {
    gs_simulation s = lenet(4, fabric);
    const double without = simulated(s).step;
    assert_true(gs_jitter_read("2:20ms@100%", &s.settings.jitter));
    assert_near(simulated(s).step, without + 20e-3, 0, 1e-3);
}

TEST(layouts_send_what_their_formulas_say) {
    const double weights = 4 * 61706.0;
    gs_simulation s = lenet(4, fabric);
    s.settings.layout = "dp4,zero1";
    assert_near(simulated(s).sent_most, 2 * 3 / 4.0 * weights, 0, 2e-3);
    s.settings.layout = "dp4,zero2";
    assert_near(simulated(s).sent_most, 2 * 3 / 4.0 * weights, 0, 2e-3);
    s.settings.layout = "dp4,zero3";
    assert_near(simulated(s).sent_most, 3 * 3 / 4.0 * weights, 0, 2e-3);
    s.settings.layout = "dp2,tp2";
    assert_true(simulated(s).sent_most > 0.5 * weights);
    s.settings.layout = "dp1,pp4";
    s.settings.link = none;
    s.settings.micro_batches = 8;
    const gs_simulated pipeline = simulated(s);
    assert_true(pipeline.efficiency < 8.0 / (8 + 3)); /* unequal stages wait longer */
    assert_true(pipeline.efficiency > 0.2);
}

static const char text[] = "embedding 40 16, positions, residual (layer_norm, linear 48, attention 2 causal, "
                           "linear 16), residual (layer_norm, linear 32, gelu, linear 16), layer_norm, tied";

/* Combines all layouts: the worker that sends most sends as much as in train, except for what train does not count:
 * barriers, requests to stop, and the workers' counts. And no worker waits forever. */
TEST(layouts_together_send_what_train_sends) {
    static const struct {
        const char *layout, *devices, *schedule;
        bool sequence;
    } all[] = {{"dp2,tp2,zero1", "cpu,cpu,cpu,cpu", NULL, false},
               {"dp2,tp2,zero3", "cpu,cpu,cpu,cpu", NULL, false},
               {"dp2,pp2,zero1", "cpu,cpu,cpu,cpu", "interleaved:2", false},
               {"dp2,tp2,pp2", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", NULL, false},
               {"dp2,tp2,pp2,zero1", "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", "interleaved:2", false},
               {"dp2,tp2,zero1", "cpu,cpu,cpu,cpu", NULL, true},
               {"tp2,pp2", "cpu,cpu,cpu,cpu", NULL, true}};
    const char *data = gs_test_format("text:%s", gs_test_text_file());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        gs_simulation s = lenet(gs_devices_count(all[i].devices), fabric);
        gs_settings run = gs_test_settings("%s", all[i].devices);
        s.settings.layout = run.layout = all[i].layout;
        s.settings.pipeline_schedule = run.pipeline_schedule = all[i].schedule;
        s.settings.batch = run.batch = 64;
        run = gs_test_with(run, "--model lenet --steps 2");
        if (all[i].sequence) {
            run.model = s.settings.model = text;
            run.data = data;
            run.context = s.input.c = 8;
            s.input.h = s.input.w = 1;
            run.sequence = s.settings.sequence = true;
        }
        run.pipeline_cut = strstr(run.layout, "pp") ? "flops" : NULL;
        const gs_simulated virtual = simulated(s);
        gs_result r = gs_test_train(&run);
        assert_near(virtual.sent_most, r.sent_most, 4 * GS_STATS * sizeof(float), 0);
        /* a group divides the work, but stages and groups also wait */
        assert_true(virtual.efficiency > 0 && virtual.efficiency < 1);
    }
}

/* A worker's main thread does work that another worker waits for; its second thread handles the messages. */
TEST(two_threads_wait_for_each_other) {
    enum { ITEMS = 19 };
    const gs_virtual_cluster cluster = {
        .ranks = 2, .hosts = 2, .between = {10, 1e12}}; /* every message takes 10 s */
    gs_virtual_item mine[ITEMS] = {
        {.op = GS_VIRTUAL_ASK},
        {.op = GS_VIRTUAL_RECV_ONE, .peer = 1}, /* 0 .. 13: the message is sent at 3, after a pause */
        {.op = GS_VIRTUAL_NOTE, .slot = 1},
        {.op = GS_VIRTUAL_LAYERS, .seconds = 4}, /* 0 .. 4 */
        {.op = GS_VIRTUAL_AWAIT, .slot = 1},
        {.op = GS_VIRTUAL_LAYERS, .seconds = 7}, /* 13 .. 20 */
        {.op = GS_VIRTUAL_ASK},
        {.op = GS_VIRTUAL_RECV_ONE, .peer = 1}, /* 20, though it arrived at 13 */
        {.op = GS_VIRTUAL_NOTE, .slot = 2},
        {.op = GS_VIRTUAL_LAYERS, .seconds = 2}, /* 20 .. 22 */
        {.op = GS_VIRTUAL_JOIN},
        {.op = GS_VIRTUAL_ASK},
        {.op = GS_VIRTUAL_LAYERS, .seconds = 5}, /* 22 .. 27, on the second thread */
        {.op = GS_VIRTUAL_NOTE, .slot = 3},
        {.op = GS_VIRTUAL_LAYERS, .seconds = 1}, /* 22 .. 23 */
        {.op = GS_VIRTUAL_RECV_ONE, .peer = 1},  /* 27: outside of jobs it waits for all of them */
        {.op = GS_VIRTUAL_LAYERS, .seconds = 2}, /* 27 .. 29 */
        {.op = GS_VIRTUAL_RECV_ONE, .peer = 1},  /* 29 .. 43 */
        {.op = GS_VIRTUAL_LAYERS, .seconds = 2}, /* 43 .. 45: the first thread has waited too */
    };
    enum { ITS = 5 };
    gs_virtual_item its[ITS];
    for (int i = 0; i < ITS; i++)
        its[i] = (gs_virtual_item){.op = GS_VIRTUAL_SEND_ONE, .peer = -1, .bytes = 4};
    its[3] = (gs_virtual_item){.op = GS_VIRTUAL_LAYERS, .seconds = 30}; /* 3 .. 33 */
    const gs_virtual_script scripts[] = {{mine, ITEMS, 0}, {its, ITS, 3}};
    gs_virtual *v;
    assert_ok(gs_virtual_create(&cluster, (gs_virtual_watch){0}, &v));
    assert_ok(gs_virtual_play(v, scripts));
    assert_near(gs_virtual_accounts(v)[0].ended, 45, 0, 1e-9);
    gs_virtual_free(v);
}

/* With infinitely fast links, background sums take no time. With slow ones, a step takes as long as its messages, and
 * with ZeRO 3 one and a half times as long as with ZeRO 2. */
TEST(zero_hides_what_it_can) {
    gs_simulation s = lenet(4, none);
    for (int stage = 1; stage <= 3; stage++) {
        const char *layout = gs_test_format("dp4,zero%d", stage);
        s.settings.layout = layout;
        const gs_simulated r = simulated(s);
        assert_near(r.step, r.compute, 1e-10, 0);
    }
    s.settings.link = (gs_link){0, 1e6};
    s.settings.layout = "dp4,zero2";
    const double two = simulated(s).step;
    s.settings.layout = "dp4,zero3";
    assert_near(simulated(s).step, 1.5 * two, 0, 0.02);
    s.flops = 1e8; /* more computation hides more messages */
    s.settings.layout = "dp4,zero1";
    const double one = simulated(s).step;
    s.settings.layout = "dp4,zero2";
    assert_true(simulated(s).step < one);
}

/* The bubble of equal stages is (p - 1) / (v m + p - 1): 1/5, then 1/9. These stages are not quite equal, because the
 * first layer computes no dx. */
TEST(interleaved_pipelines_wait_less) {
    gs_simulation s = lenet(2, none);
    s.settings.model = "linear 64, relu, linear 64, relu, linear 64, relu, linear 64";
    s.input = (gs_shape){64, 1, 1, 0};
    s.settings.layout = "pp2";
    s.settings.micro_batches = 4;
    assert_near(simulated(s).efficiency, 4 / 5.0, 0, 0.06);
    s.settings.pipeline_schedule = "interleaved:2";
    assert_near(simulated(s).efficiency, 8 / 9.0, 0, 0.06);
}

typedef struct heard {
    int times;
    double share;
} heard;

static void hear(void *context, int workers, int step, double share) {
    heard *h = context;
    assert_int_equal(workers, 1024);
    assert_int_equal(step, 1);
    if (!(share > h->share && share <= 1)) fail_msg("%g after %g", share, h->share);
    h->share = share;
    h->times++;
}

/* A ring of 1,024 ranks sends 4 million messages per step: enough to report progress several times. */
TEST(progress_is_told) {
    heard h = {0};
    gs_simulation s = lenet(1024, fabric);
    s.settings.steps = 1;
    s.progress = hear;
    s.context = &h;
    simulated(s);
    assert_true(h.times > 1 && h.share > 0.7);
}
