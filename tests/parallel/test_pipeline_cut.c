/* Cutting a model into runs of layers (parallel/cut.h), and models that compute only one of these runs. */
#include "tests/support/on_devices.h"

#include "parallel/cut.h"
#include "predict/times.h"

static const gs_shape image = {1, 28, 28, 0};

static void cut(const char *text, gs_shape in, int runs, const int *wanted) {
    int first[9];
    gs_model *plan = gs_test_plan(text, in);
    assert_ok(gs_pipeline_cut(plan->net, NULL, NULL, runs, first));
    for (int r = 0; r <= runs; r++)
        if (first[r] != wanted[r])
            fail_msg("%s in %d: run %d starts at %d, wanted %d", text, runs, r, first[r], wanted[r]);
}

TEST(runs_are_balanced) {
    static const char four[] = "flatten, linear 100, relu, linear 100, relu, linear 100, relu, linear 100";
    const gs_shape vector = {100, 1, 1, 0};
    cut(four, vector, 1, (int[]){0, 8});
    cut(four, vector, 4, (int[]){0, 3, 5, 7, 8});
    cut("linear 100, linear 100, linear 100, linear 100, dropout 0.5", vector, 2, (int[]){0, 2, 5});
    /* the second layer costs as much as all others together */
    cut("linear 10, linear 1000, linear 10, linear 10", vector, 2, (int[]){0, 2, 4});
    cut("lenet", image, 2, (int[]){0, 3, 12});
    cut("lenet", image, 5, (int[]){0, 3, 7, 9, 11, 12});
}

static double most_of(const double *cost, const int *first, int runs) {
    double most = 0;
    for (int r = 0; r < runs; r++) {
        double sum = 0;
        for (int i = first[r]; i < first[r + 1]; i++) sum += cost[i];
        if (sum > most) most = sum;
    }
    return most;
}

/* For models of a few layers, no other cut beats the one that was found, whether costs are FLOPs or random numbers. */
TEST(no_cut_is_better) {
    int first[4];
    double cost[7];
    gs_model *plan = gs_test_plan("linear 30, linear 70, relu, linear 20, linear 90, linear 40, linear 10",
                                  (gs_shape){50, 1, 1, 0});
    for (int turn = 0; turn < 50; turn++) {
        gs_pipeline_flops(plan->net, cost);
        for (int i = 0; i < 7 && turn > 0; i++) cost[i] = (turn * (i + 3) * 7919) % 101;
        assert_ok(turn > 0 ? gs_pipeline_cut(plan->net, NULL, cost, 3, first)
                           : gs_pipeline_cut(plan->net, "flops", NULL, 3, first));
        double best = 1e30;
        for (int a = 1; a < 6; a++)
            for (int b = a + 1; b < 7; b++) {
                if (a == 2 || b == 2) continue; /* between a layer and its relu */
                const double most = most_of(cost, (int[]){0, a, b, 7}, 3);
                if (most < best) best = most;
            }
        assert_true(most_of(cost, first, 3) == best);
    }
}

/* Each layer takes some time, except a relu that is fused into the layer before it. A layer with a thousand times the
 * work takes longer. */
TEST(layers_are_measured) {
    gs_layer_times t;
    gs_settings s = gs_settings_default();
    unsigned char pixels[4] = {0}, labels[1] = {0};
    gs_dataset set = {.shape = {4, 1, 1, 0}, .images = pixels, .labels = labels, .count = 1, .classes = 2};
    s.model = "linear 8, relu, linear 1000, tanh, linear 1000, linear 2";
    assert_ok(gs_layer_times_of(&(gs_layer_bench){&s, &set, "cpu", 1, 16, NULL, NULL, true}, &t));
    assert_int_equal(t.layers, 6);
    assert_int_equal(t.samples, 16);
    for (int i = 0; i < 6; i++) {
        assert_true(i == 1 ? t.both[i] == 0 : t.forward[i] > 0 && t.backward[i] > 0);
        assert_true(i == 4 || t.both[i] < t.both[4]);
    }
    assert_true(t.update > 0);
    gs_layer_times_free(&t);
    s.model = "embedding 9 4, linear 4, layer_norm, tied";
    set.shape = (gs_shape){1, 1, 1, 8};
    s.devices = "no device";
    assert_int_equal(gs_layer_times_of(&(gs_layer_bench){&s, &set, s.devices, 1, 2, NULL, NULL, false}, &t),
                     GS_E_USAGE);
    gs_layer_times_free(&t);
}

TEST(too_many_runs_are_refused) {
    int first[9];
    gs_model *plan = gs_test_plan("lenet", image);
    assert_fails(GS_E_USAGE, "has 5 layers with parameters",
                 gs_pipeline_cut(plan->net, NULL, NULL, 6, first));
}

TEST(tied_layers_are_found) {
    int first[9];
    gs_tied_runs tied;
    const gs_shape tokens = {1, 1, 1, 8};
    gs_model *plan = gs_test_plan("embedding 9 4, linear 4, layer_norm, tied", tokens);
    assert_ok(gs_pipeline_cut(plan->net, NULL, NULL, 3, first));
    assert_ok(gs_pipeline_tied(plan->net, 3, first, &tied));
    assert_true(tied.table && tied.lender == 0 && tied.borrower == 2);
    assert_ok(gs_pipeline_cut(plan->net, NULL, NULL, 1, first));
    assert_ok(gs_pipeline_tied(plan->net, 1, first, &tied));
    assert_null(tied.table);
    plan = gs_test_plan("embedding 9 4, linear 4, tied, linear 9", tokens);
    assert_ok(gs_pipeline_cut(plan->net, NULL, NULL, 3, first));
    assert_fails(GS_E_USAGE, "layer 2 (tied) uses the table of layer 0",
                 gs_pipeline_tied(plan->net, 3, first, &tied));
}

/* ---- a stage ---- */

/* With the same weights, the whole model and its stages in sequence give the same bits of logits, dx and gradients. */
TEST(stages_compute_what_the_whole_does) {
    static const char *const texts[] = {"lenet",
                                        "conv 3 3x3, relu, max_pool 2, dropout 0.5, conv 4 3x3, tanh, "
                                        "flatten, linear 9, dropout 0.3, linear 10",
                                        "conv 4 3x3 pad 1, residual (conv 4 3x3 pad 1, batch_norm, relu), "
                                        "batch_norm, relu, global_avg_pool, linear 10"};
    enum { N = 6 };
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        gs_model *whole, *stage[2];
        int first[3];
        gs_device *d = gs_test_device("cpu", 1);
        whole = gs_test_model(d, .text = texts[t], .in = image, .max_batch = N, .seed = 3);
        const size_t pixels = N * gs_shape_size(image), floats = whole->saved + GS_STATS;
        gs_mem x = gs_test_alloc(d, pixels * sizeof(float)), targets, logits, y, dx;
        float *host = gs_test_malloc(pixels * sizeof *host),
              *wanted = gs_test_malloc(floats * sizeof *wanted), *got = gs_test_malloc(floats * sizeof *got);
        assert_true(host && wanted && got);
        for (size_t i = 0; i < pixels; i++) host[i] = (float)(i % 17) / 17 - 0.4f;
        assert_ok(d->ops->write(d, x, host, pixels * sizeof *host));
        targets = gs_test_put(d, (int32_t[]){0, 3, 9, 1, 1, 5}, N * sizeof(int32_t));
        const gs_pass pass = {.n = N, .training = true, .fresh = true, .seed = 5, .step = 2, .first = 12};
        assert_ok(gs_model_clear_gradients(whole));
        assert_ok(gs_model_forward(whole, &pass, x, &logits));
        assert_ok(gs_model_loss(whole, &pass, logits, targets));
        assert_ok(gs_model_backward(whole, &pass, logits, targets));
        assert_ok(d->ops->read(d, wanted, whole->gradients, floats * sizeof *wanted));

        assert_ok(gs_model_clear_gradients(whole));
        assert_ok(gs_pipeline_cut(whole->net, NULL, NULL, 2, first));
        for (int s = 0; s < 2; s++)
            stage[s] = gs_test_model(d, .of = whole, .max_batch = N, .first = first[s], .last = first[s + 1]);
        assert_false(stage[0]->has_loss);
        assert_true(stage[1]->has_loss && gs_shape_same(stage[0]->out, stage[1]->in));
        assert_ok(gs_model_forward(stage[0], &pass, x, &y));
        assert_ok(gs_model_forward(stage[1], &pass, y, &logits));
        assert_ok(gs_model_loss(stage[1], &pass, logits, targets));
        assert_ok(gs_model_backward_stage(stage[1], &pass, logits, targets, GS_NONE, &dx));
        assert_ok(gs_model_backward_stage(stage[0], &pass, y, GS_NONE, dx, &dx));
        assert_null(dx.base);
        assert_ok(d->ops->read(d, got, whole->gradients, floats * sizeof *got));
        if (memcmp(wanted, got, floats * sizeof *got) != 0) fail_msg("%s: the gradients differ", texts[t]);
    }
}
