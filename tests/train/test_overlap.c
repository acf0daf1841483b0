/* --bucket: sums that start during backward. For any division into buckets, the weights equal those of one sum after
 * backward. The test group overlap is short enough for ThreadSanitizer; bucket is not. */
#include "layer/layer.h"
#include "tests/support/on_devices.h"
#include "tests/support/training.h"

#include <math.h>

/* As in test_train.c: 6000 samples in batches of 333; step 19 has 6 samples, so two of 8 workers have none; step 20
 * starts epoch 2. The last layer is smaller than a bucket of 1 KB, the linear layer before it larger. */
static const char MODEL[] = "conv 4 3x3 stride 2 pad 1, relu, max_pool 2, residual (conv 4 3x3 pad 1, relu | "
                            "conv 4 1x1), flatten, dropout 0.25, linear 16, tanh, linear 10";
enum { BATCH = 333, STEPS = GS_TEST_STEPS, BUCKETS = 2 };
static const double TOLERANCE = 1e-6; /* only rounding: see test_train.c */

static gs_settings settings_for(const char *devices, const char *sync) {
    gs_settings s = gs_test_settings("%s --model '%s'", devices, MODEL);
    s.sync = sync;
    return s;
}

static bool depends_on_the_cut(const char *sync) {
    return strcmp(sync, "ring") == 0 || strcmp(sync, "auto") == 0;
}

static void compare(gs_settings s, int buckets) {
    s.bucket = 0;
    gs_result plain = gs_test_train(&s);
    s.bucket = 1;
    gs_result r = gs_test_train(&s);
    double d = gs_test_difference(&plain, &r);
    if (!(d <= (depends_on_the_cut(s.sync) ? TOLERANCE : 0)))
        fail_msg("%s by %s: with buckets the weights differ by %g", s.devices, s.sync, d);
    assert_true(fabs(r.train_loss - plain.train_loss) <= (d > 0 ? 1e-5 : 0));
    assert_int_equal(plain.overlap.buckets, 0);
    assert_int_equal(r.overlap.buckets, buckets);
    assert_true(r.overlap.summed > 0 && r.overlap.waited > 0);
}

TEST_IN(bucket, every_scheme_gives_the_same_weights) {
    static const char *const several[] = {"cpu,cpu", "cpu,cpu,cpu"};
    for (int i = 0; gs_sync_schemes()[i]; i++)
        for (size_t k = 0; k < sizeof several / sizeof *several; k++)
            compare(settings_for(several[k], gs_sync_schemes()[i]->name), BUCKETS);
}

/* Several passes per step, micro-batches within a pass, workers without samples: only a step's last pass releases
 * buckets. */
TEST(passes_and_ragged_batches) {
    gs_settings s = settings_for("cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", "ps");
    compare(s, BUCKETS);
    s.accumulate = 3;
    compare(s, BUCKETS);
    s = gs_test_with(settings_for("cpu,cpu", "allreduce"), "--accumulate 4");
    compare(s, BUCKETS);
    s.accumulate = 1;
    s.batch = 800; /* a worker's 400 samples in micro-batches of 128 */
    s.micro_batch = 128;
    s.steps = 9; /* the eighth has 400 samples */
    compare(s, BUCKETS);
}

/* Buckets also work with 16 bits on the wire, because ps rounds each element separately. The counts are not rounded. */
TEST_IN(bucket, buckets_go_with_wire) {
    gs_settings s = gs_test_with(settings_for("cpu,cpu,cpu", "ps"), "--wire bf16 --verify 1");
    compare(s, BUCKETS);
    s = gs_test_with(s, "--sync recursive_doubling --wire f16");
    compare(s, BUCKETS);
    s = gs_test_with(s, "--bucket 1 --sync ps");
    gs_result r = gs_test_train(&s); /* rank 0 sends each parameter in 2 bytes, each count in 4 */
    assert_near(r.sent_most, 2 * (2.0 * (double)r.params + 4 * GS_STATS), 1e-6, 0);
}

TEST_IN(bucket, opencl_devices_too) {
    gs_test_need_opencl();
    compare(settings_for("cl,cl", "allreduce"), BUCKETS);
    compare(settings_for("cl,cpu,cl", "ps"), BUCKETS);
    gs_settings s = gs_test_with(settings_for("cl,cl", "ring"), "--accumulate 2");
    compare(s, BUCKETS);
}

/* Where buckets end. A single bucket is one sum, with nothing left to overlap it. */
TEST_IN(bucket, buckets_end_at_layers) {
    static const struct {
        const char *model;
        int kb, buckets;
    } cases[] = {
        {MODEL, 1, 2},
        {MODEL, 1000000, 1},
        {"flatten, linear 10", 1, 1},
        {"mlp", 1, 3},   /* a bucket per layer: no layer is divided, not even the first, of 1.6 MB */
        {"mlp", 100, 2}, /* 256 x 10 and 512 x 256 floats together, then 784 x 512 */
        {"mlp", 1000, 1},
        {"residual (conv 4 3x3 pad 1 | conv 4 1x1), flatten, linear 10", 1, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_settings s = gs_test_with(settings_for("cpu,cpu", "allreduce"), "--steps 2");
        s.model = cases[i].model;
        s.bucket = cases[i].kb;
        gs_result r = gs_test_train(&s);
        if (r.overlap.buckets != cases[i].buckets)
            fail_msg("%s in buckets of %d KB: %d, wanted %d", cases[i].model, cases[i].kb, r.overlap.buckets,
                     cases[i].buckets);
    }
}

/* ---- what backward reports ---- */

typedef struct told {
    gs_model *model;
    size_t last;
    int calls;
    float *final; /* the gradients when they were reported final */
} told;

static gs_status take_final(void *context, size_t first) {
    told *t = context;
    if (first > t->last) return gs_fail(GS_E_SHAPE, "final from %zu on, after %zu", first, t->last);
    gs_device *d = t->model->device;
    GS_TRY(d->ops->read(d, t->final + first, gs_at(t->model->gradients, first),
                        (t->last - first) * sizeof(float)));
    t->last = first;
    t->calls++;
    return GS_OK;
}

/* Gradients that were reported as final no longer change; at the end all are final. */
TEST(what_is_final_stays) {
    FOR_EACH_DEVICE (d) {
        enum { N = 3 };
        told t = {0};
        t.model = gs_test_model(d, .text = MODEL, .in = {1, 28, 28, 0}, .max_batch = N, .seed = 1);
        size_t all = t.model->params + GS_STATS;
        t.final = calloc(all, sizeof *t.final);
        float *after = calloc(all, sizeof *after);
        gs_mem x = gs_test_alloc(d, N * 784 * sizeof(float)), labels = gs_test_alloc(d, N * sizeof(int32_t)),
               logits;
        assert_ok(d->ops->fill(d, x, 0.5f, N * 784));
        gs_pass pass = {.n = N, .training = true, .final = take_final, .final_context = &t};
        t.last = all;
        assert_ok(gs_model_forward(t.model, &pass, x, &logits));
        assert_ok(gs_model_loss(t.model, &pass, logits, labels));
        assert_ok(gs_model_backward(t.model, &pass, logits, labels));
        assert_int_equal(t.last, 0);
        int own = 0; /* layers that are not fused into the previous one */
        for (int k = 0; k < t.model->net->children; k++) own += !t.model->net->child[k]->fused;
        assert_true(own >= 7 && t.calls >= own);
        assert_ok(d->ops->read(d, after, t.model->gradients, all * sizeof *after));
        assert_memory_equal(after, t.final, all * sizeof *after);
        assert_true(after[t.model->params + GS_STAT_SAMPLES] == N && after[0] != 0);
        free(t.final);
        free(after);
    }
}

/* ---- between processes ---- */

static gs_result train_by_program(const char *launch, const gs_result *like) {
    const char *path = gs_test_format("%s/w.safetensors", gs_test_folder());
    gs_result r = *like;
    gs_test_output(0,
                   "launch %s --model '%s' --batch %d --steps %d --weight-decay 1e-3 --threads 1 --save %s",
                   launch, MODEL, BATCH, STEPS, path);
    gs_model *plan = gs_test_plan(MODEL, (gs_shape){1, 28, 28, 0});
    assert_int_equal(plan->params, like->params);
    r.weights = gs_test_malloc(r.params * sizeof(float));
    assert_ok(gs_safetensors_load(path, plan, r.weights));
    return r;
}

TEST_IN(bucket, processes_give_the_same_weights) {
    static const struct {
        const char *launch;
        double tolerance;
    } cases[] = {
        {"-n 2 -- train --sync ps", 0},
        {"-n 3 -- train --sync tree --accumulate 2", 0},
        {"-n 3 -- train --sync ring", 1e-6},
        {"-n 2 -- train --sync allreduce", 1e-6},
        {"-n 2 -- train --sync allreduce --devices cpu,cpu", 1e-6},
        {"-n 2 -- train --sync ps --devices cpu,cl", 0},
    };
    gs_settings s = settings_for("cpu", "allreduce");
    gs_result alone = gs_test_train(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *launch = cases[i].launch;
        if (strstr(launch, "cl") && !gs_test_has_opencl()) continue;
        const gs_result plain = train_by_program(launch, &alone),
                        with = train_by_program(gs_test_format("%s --bucket 1", launch), &alone);
        const double d = gs_test_difference(&plain, &with);
        if (!(d <= cases[i].tolerance)) fail_msg("%s: with buckets the weights differ by %g", launch, d);
        assert_same_within_rounding(&alone, &with, launch);
    }
}

/* ---- failures ---- */

static int failing_rank;

static void fail_at_step_5(gs_worker *w) {
    if (w->comm->rank == failing_rank && w->step == 5) gs_comm_abort(w->comm, "lost on purpose");
}

/* The step reports a failure in the summing thread, with its message; nothing is left waiting. */
TEST(a_failed_sum_ends_the_run) {
    for (failing_rank = 0; failing_rank < 3; failing_rank++) {
        gs_settings s = settings_for("cpu,cpu,cpu", failing_rank == 2 ? "ring" : "allreduce");
        s.bucket = 1;
        s.test_hook = fail_at_step_5;
        assert_train_fails(GS_E_PEER, "lost on purpose", &s);
        if (!strstr(gs_message(), "epoch 1, step ")) fail_msg("%s", gs_message());
    }
    gs_settings s = settings_for("cpu,cpu", "allreduce");
    s = gs_test_with(s, "--bucket 1 --timeout 0.3 --jitter 1:2000ms");
    assert_train_fails(GS_E_PEER, "no answer within 0.3 s from ", &s);
}

/* Rank 1 is killed in the middle of training: rank 0 reports it and ends. */
TEST_IN(bucket, a_killed_process_is_told) {
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        char *output;
        const char *folder = gs_test_folder();
        int status = gs_test_shell(
            &output,
            "cd %s && mkdir meet && export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 "
            "GRADSUM_RENDEZVOUS=$PWD/meet; "
            "G='%s/gradsum train --model lenet --threads 1 --epochs 100000 --bucket 16 --sync %s'; "
            "GRADSUM_RANK=1 $G & V=$!; GRADSUM_RANK=0 $G >out & " GS_TEST_AWAIT(
                "epoch 1/") "kill -KILL $V; wait $!; S=$?; cat out; exit $S",
            folder, GS_BUILD_DIR, (*s)->name);
        const char *told = strstr(output, "gradsum train: "); /* in a step, or in an evaluation */
        if (status != 1 || !told || !strstr(told, "rank 1") ||
            !(strstr(told, "epoch ") || strstr(told, "test after step ")))
            fail_msg("exit %d: %s", status, output);
    }
}

/* The request to stop travels with the first bucket: all workers end after the same step. */
TEST_IN(bucket, a_signal_ends_all_workers) {
    char *output;
    gs_test_shell(&output,
                  "cd %s; %s/gradsum train --model lenet --threads 1 --devices cpu,cpu --epochs 100000 "
                  "--bucket 16 >out & " GS_TEST_AWAIT("step ") "kill -TERM $!; wait $!; cat out",
                  gs_test_folder(), GS_BUILD_DIR);
    assert_has(output, "stopped by a signal after step", "sha256");
}

/* ---- the report ---- */

TEST(the_hidden_share) {
    assert_near(gs_overlap_hidden((gs_overlap_times){2, 4, 1}), 0.75, 1e-12, 0);
    assert_near(gs_overlap_hidden((gs_overlap_times){2, 4, 0}), 1, 1e-12, 0);
    assert_near(gs_overlap_hidden((gs_overlap_times){2, 4, 5}), 0, 1e-12, 0); /* the thread started late */
    assert_near(gs_overlap_hidden((gs_overlap_times){0}), 0, 1e-12, 0);
}

TEST_IN(bucket, it_is_shown) {
    static const char args[] = "--model lenet --steps 10 --threads 1";
    assert_prints(0, "buckets  of at least 16 KB", "train %s --devices cpu,cpu --bucket 16", args);
    assert_prints(0, "overlap  3 buckets; ", "train %s --devices cpu,cpu --bucket 16", args);
    assert_prints(0, "\"hidden\":", "train %s --devices cpu,cpu --bucket 16 --json", args);
    assert_prints(0, "overlap  3 buckets; ", "launch -n 2 -- train %s --bucket 16", args);
    char *output = gs_test_output(0, "train %s --bucket 16", args);
    assert_null(strstr(output, "overlap")); /* one worker sums nothing */
    for (int bucket = 0; bucket <= 16; bucket += 16) {
        output = gs_test_output(
            0, "compare %s --devices-list 'cpu; cpu,cpu; cpu,cpu,cpu,cpu,cpu' --bucket %d", args, bucket);
        if (!!strstr(output, " hid ") != (bucket > 0)) fail_msg("--bucket %d: %s", bucket, output);
        gs_test_fits(output, 80);
    }
    assert_prints(0, "\"hidden\":", "compare %s --devices-list 'cpu; cpu,cpu' --bucket 16 --json", args);
}

TEST_IN(bucket, wrong_use_is_refused) {
    assert_prints(2, "--bucket: '1.5' is not a whole number", "train --bucket 1.5");
    assert_ranks_print(2, "rank 1 and rank 0 differ in --bucket (none versus 4)",
                       "train --model softmax --steps 3 --threads 1", "--bucket 4", "");
}
