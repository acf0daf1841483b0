/* Compares the prediction of `gradsum memory` with what the run used (predict/memory.h). */
#include "tests/support/devices.h"
#include "tests/support/draw.h"
#include "tests/support/heap.h"
#include "tests/support/training.h"

#include <math.h>

#include "core/memory.h"
#include "layer/memory/recompute.h"
#include "parallel/schedule.h"
#include "train/settings.h"

/* ---- random runs ---- */

typedef struct run {
    gs_settings settings;
    gs_dataset *train, *test;
    int slices;    /* the model can be divided into at least this many stages */
    bool has_pair; /* whether it has linear layers that two workers can divide */
    char model[300], what[1000], file[400];
} run;

static void draw_images(draw *d, run *r) {
    static const char *const models[] = {
        "flatten, linear 10",
        "flatten, linear %d, relu, linear %d, relu, linear 10",
        "conv %d 5x5 pad 2, relu, max_pool 2, conv %d 3x3, relu, flatten, linear 10",
        "conv %d 3x3 pad 1, batch_norm, relu, residual (conv %d 3x3 pad 1, batch_norm | conv %d 1x1), "
        "relu, global_avg_pool, flatten, linear 10",
        "conv %d 3x3 pad 1, tanh, avg_pool 2, dropout 0.2, conv %d 3x3 stride 2, silu, flatten, linear %d, "
        "sigmoid, linear 10",
        "conv %d 3x3 pad 1, batch_norm, relu, 3 x residual (conv same 3x3 pad 1, batch_norm, relu), "
        "global_avg_pool, flatten, linear 10",
    };
    const int wide = 4 + 4 * one_of(d, 8), side = 8 + 4 * one_of(d, 4), kind = one_of(d, 6);
    char *hole;
    snprintf(r->model, sizeof r->model, "%s", models[kind]);
    while ((hole = strstr(r->model, "same"))) memcpy(hole, " %d ", 4);
    const char *text = gs_test_format(r->model, wide, wide, wide);
    snprintf(r->model, sizeof r->model, "%s", text);
    r->slices = kind == 0 ? 1 : kind < 3 ? 3 : 4;
    r->has_pair = kind == 1 || kind == 4;
    const gs_shape shape = {1 + 2 * one_of(d, 2), side, side, 0};
    const size_t count = 20 + (size_t)one_of(d, 200);
    r->train = gs_test_made_set(shape, 10, count, false);
    r->test = gs_test_made_set(shape, 10, 1 + (size_t)one_of(d, 300), false);
}

static void draw_tokens(draw *d, run *r) {
    const int wide = 8 * (1 + one_of(d, 4)), length = 4 << one_of(d, 3), rows = 11 + one_of(d, 90);
    snprintf(r->model, sizeof r->model,
             "embedding %d %d, positions, %d x residual (layer_norm, linear %d, attention 2 causal, linear "
             "%d), residual (layer_norm, linear %d, gelu, linear %d), layer_norm, %s",
             rows, wide, 1 + one_of(d, 2), 3 * wide, wide, 4 * wide, wide, one_of(d, 2) ? "tied" : "linear ");
    const size_t used = strlen(r->model);
    if (r->model[used - 1] == ' ') snprintf(r->model + used, sizeof r->model - used, "%d", rows);
    r->slices = 4;
    r->has_pair = true;
    const gs_shape shape = {1, 1, 1, length};
    r->train = gs_test_made_set(shape, rows, 20 + (size_t)one_of(d, 60), true);
    r->test = gs_test_made_set(shape, rows, 1 + (size_t)one_of(d, 80), true);
}

static void draw_options(draw *d, run *r) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu", "cpu,cpu,cpu,cpu",
                                          "cl",  "cl,cl",   "cpu,cl"};
    static const char *const syncs[] = {"allreduce", "ring", "tree", "ps", "zero", "local", "async", "auto"};
    gs_settings *s = &r->settings;
    s->devices = devices[one_of(d, gs_test_has_opencl() ? 7 : 4)];
    const int workers = gs_devices_count(s->devices);
    s->threads = 1 + one_of(d, 3);
    s->batch = (size_t)workers + (size_t)one_of(d, (int)r->train->count - workers + 1);
    s->steps = 1 + (uint64_t)one_of(d, 6);
    s->batch_norm.over = GS_BATCH_NORM_LOCAL;
    s->optimizer = ONE_OF(d, gs_optimizers);
    if (one_of(d, 4) == 0) s->micro_batch = 1 + (uint64_t)one_of(d, 40);
    if (one_of(d, 5) == 0) s->clip = 1;
    if (one_of(d, 5) == 0) s->save_state = true;
    if (workers > 1) s->sync = syncs[one_of(d, 8)];
    if (strcmp(s->sync, "local") == 0) s->every = 2;
    if (strcmp(s->sync, "async") == 0)
        s->staleness = 1, s->optimizer = &gs_sgd, s->save_state = false, s->clip = 0;
    if (strcmp(s->sync, "zero") == 0) {
        s->sync = "allreduce", s->zero = 1;
        if (s->optimizer->whole) s->optimizer = &gs_adam;
    }
    if (strcmp(s->sync, "local") == 0 || strcmp(s->sync, "async") == 0 || s->zero) return;
    if (workers > 1 && one_of(d, 3) == 0) s->bucket = 1 + one_of(d, 30);
    if (workers > 1 && one_of(d, 4) == 0) s->wire = GS_WIRE_BF16;
    if (!strstr(s->devices, "cl") && workers != 3 && one_of(d, 4) == 0)
        s->exact = true, s->threads = 1, s->bucket = 0, s->wire = GS_WIRE_F32, s->sync = "allreduce";
    if (s->exact && !s->micro_batch && one_of(d, 2)) s->batch_norm.over = GS_BATCH_NORM_GLOBAL;
}

/* --tensor, if the model has a pair that divides evenly. */
static void draw_tensor(draw *d, run *r) {
    gs_settings *s = &r->settings;
    const int workers = gs_devices_count(s->devices);
    const bool apart = strcmp(s->sync, "local") == 0 || strcmp(s->sync, "async") == 0;
    if (workers % 2 || apart || !r->has_pair || strcmp(s->devices, "cpu,cl") == 0) return;
    if (s->exact && s->batch_norm.over == GS_BATCH_NORM_GLOBAL) return;
    if (one_of(d, 2)) return;
    s->tensor = 2;
    s->bucket = 0;
    if (workers == 2 || one_of(d, 2)) {
        s->zero = s->pipeline = s->micro_batches = 0;
        s->pipeline_schedule = s->pipeline_cut = NULL;
    } else if (s->pipeline) {
        s->zero = 0; /* four workers form one pipeline */
    }
    s->wire = GS_WIRE_F32;
    s->sync = "allreduce";
}

/* chunked: several chunks per stage, for which not all models have enough layers. */
static const char *draw_schedule(draw *d, bool chunked) {
    const int all = list_length((const void *const *)gs_pipeline_schedules());
    const gs_pipeline_schedule *drawn;
    do drawn = gs_pipeline_schedules()[one_of(d, all)];
    while (drawn->chunked && !chunked);
    return drawn->name;
}

/* Draws what several workers divide: --zero 1, 2, 3, or the model. */
static void draw_division(draw *d, run *r) {
    gs_settings *s = &r->settings;
    const int workers = gs_devices_count(s->devices), kind = one_of(d, 6),
              stages = workers == 4 ? 2 : workers;
    if (workers == 1 || kind == 5 || s->batch_norm.over == GS_BATCH_NORM_GLOBAL) return;
    s->bucket = s->every = 0;
    s->staleness = -1;
    s->wire = GS_WIRE_F32;
    s->sync = "allreduce";
    if (kind < 3) s->zero = kind + 1;
    if (s->exact) s->micro_batch = 0;
    if (kind < 3 || r->slices < stages) return;
    s->pipeline = stages;
    s->pipeline_cut = "flops"; /* a measured cut may differ from the plan's */
    const bool each =
        s->exact && strstr(r->model, "tied"); /* one table per micro-batch: not with interleaved schedules */
    s->pipeline_schedule = draw_schedule(d, 2 * stages <= r->slices && s->batch >= 8 && !each);
    s->micro_batch = 0;
    if (kind == 4) s->zero = 1 + one_of(d, 3);
    const int share = (int)s->batch / (workers / stages);
    if (!s->exact) s->micro_batches = share >= 8 ? stages * (1 + one_of(d, 3)) : share;
}

static void draw_run(int number, run *r) {
    draw d = {(uint64_t)number, 0};
    *r = (run){.settings = gs_settings_default()};
    if (one_of(&d, 4) == 0)
        draw_tokens(&d, r);
    else
        draw_images(&d, r);
    draw_options(&d, r);
    draw_division(&d, r);
    draw_tensor(&d, r);
    static const int recompute[] = {GS_RECOMPUTE_ALL, GS_RECOMPUTE_BLOCKS, 2, 3, 4};
    if (one_of(&d, 2) == 0) r->settings.recompute = recompute[one_of(&d, 5)];
    gs_settings *s = &r->settings;
    const bool alone = strcmp(s->sync, "local") == 0 || strcmp(s->sync, "async") == 0; /* not with f16 */
    s->precision = (gs_precision)one_of(&d, alone ? 2 : 3);
    s->offload = (unsigned)one_of(&d, GS_OFFLOADS + 1);
    if (gs_check_pairs(s) != GS_OK) s->offload &= GS_OFFLOAD_ACTIVATIONS;
    s->model = r->model;
    s->train_set = r->train;
    s->test_set = r->test;
    s->epochs = 2 + one_of(&d, 2);
    s->tests = one_of(&d, 4);
    s->keep.best = !s->save_state && s->tests > 0 && one_of(&d, 3) == 0;
    snprintf(r->file, sizeof r->file, "%s/drawn.safetensors", gs_test_folder());
    if (s->save_state) s->save = r->file;
    s->lr = 1e-4f;
    snprintf(
        r->what, sizeof r->what,
        "run %d: --devices %s --threads %d --batch %zu --micro-batch %llu --steps %llu --sync %s "
        "--optimizer %s%s%s --precision %d --bucket %d --zero %d --tensor %d --pipeline %d "
        "--pipeline-schedule %s --micro-batches %d --recompute %d --offload %u --epochs %d --tests %d%s: "
        "%s, %zu samples, %zu to test",
        number, s->devices, s->threads, s->batch, (unsigned long long)s->micro_batch,
        (unsigned long long)s->steps, s->sync, s->optimizer->name, s->exact ? " --exact" : "",
        s->save_state ? " --save-state" : "", (int)s->precision, s->bucket, s->zero, s->tensor, s->pipeline,
        s->pipeline_schedule ? s->pipeline_schedule : "-", s->micro_batches, s->recompute, s->offload,
        s->epochs, s->tests, s->keep.best ? " --keep best" : "", r->model, r->train->count, r->test->count);
}

/* Compares each kind separately, so that errors of two kinds cannot cancel. seen: how many runs had --zero 0 to 3,
 * --pipeline, --tensor. */
static void compare_with_plan(int number, int seen[6]) {
    run r;
    gs_memory_plan plan;
    gs_result result;
    draw_run(number, &r);
    if (gs_memory_plan_create(&r.settings, &plan) != GS_OK) fail_msg("%s: %s", r.what, gs_message());
    if (gs_train(&r.settings, NULL, &result) != GS_OK) fail_msg("%s: %s", r.what, gs_message());
    seen[r.settings.tensor ? 5 : r.settings.pipeline ? 4 : r.settings.zero]++;
    assert_int_equal(plan.workers, result.workers);
    assert_same_memory(&plan, &result, r.what);
    gs_result_free(&result);
    gs_memory_plan_free(&plan);
    gs_test_free(r.train);
    gs_test_free(r.test);
}

TEST(a_run_takes_what_its_plan_says) {
    const char *draws = getenv("GRADSUM_TEST_DRAWS"); /* make test-memory */
    const int count = draws ? atoi(draws) : 20;
    int seen[6] = {0};
    for (int i = 0; i < count; i++) compare_with_plan(i, seen);
    print_message(
        "%d runs without --zero, %d, %d, %d with --zero 1, 2, 3, %d with --pipeline, %d with --tensor\n",
        seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]);
    for (int i = 0; i < 6 && count >= 20; i++) assert_true(seen[i] > 0);
}

#ifdef GS_TEST_HEAP
/* Draws a run of some MB, on the CPU, in any layout with up to four workers. */
static const char *draw_large(int number, gs_settings *s) {
    static const char *const models[] = {
        "mlp", "lenet", "flatten, 6 x (linear 700, relu), linear 10",
        "conv 16 3x3 pad 1, batch_norm, relu, max_pool 2, conv 48 3x3 pad 1, relu, flatten, linear 10",
        "flatten, linear 1500, tanh, linear 400, relu, linear 10"};
    static const gs_optimizer_ops *const optimizers[] = {&gs_sgd, &gs_adam, &gs_nesterov, &gs_adamw};
    static const struct {
        const char *layout, *devices;
    } layouts[] = {
        {NULL, "cpu"},
        {"dp2", "cpu,cpu"},
        {"dp2,zero1", "cpu,cpu"},
        {"dp2,zero2", "cpu,cpu"},
        {"dp2,zero3", "cpu,cpu"},
        {"pp2", "cpu,cpu"},
        {"tp2", "cpu,cpu"},
        {"pp3", "cpu,cpu,cpu"},
        {"pp4", "cpu,cpu,cpu,cpu"},
        {"tp2,pp2", "cpu,cpu,cpu,cpu"},
        {"dp2,pp2", "cpu,cpu,cpu,cpu"},
        {"dp2,pp2,zero1", "cpu,cpu,cpu,cpu"},
        {"dp2,pp2,zero2", "cpu,cpu,cpu,cpu"},
        {"dp2,pp2,zero3", "cpu,cpu,cpu,cpu"},
        {"dp2,tp2", "cpu,cpu,cpu,cpu"},
        {"dp2,tp2,zero1", "cpu,cpu,cpu,cpu"},
        {"dp2,tp2,zero2", "cpu,cpu,cpu,cpu"},
        {"dp2,tp2,zero3", "cpu,cpu,cpu,cpu"},
    };
    static const int recompute[] = {0, 0, GS_RECOMPUTE_ALL, 2};
    draw d = {(uint64_t)number, 1 << 20};
    *s = gs_settings_default();
    int model = one_of(&d, 5), layout = one_of(&d, sizeof layouts / sizeof *layouts);
    s->batch = 64 << one_of(&d, 3);
    s->optimizer = optimizers[one_of(&d, 4)];
    s->layout = layouts[layout].layout;
    s->devices = layouts[layout].devices;
    s->recompute = recompute[one_of(&d, 4)];
    s->offload = (unsigned)one_of(&d, GS_OFFLOADS + 1);
    if (s->layout) s->offload &= GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_ACTIVATIONS;
    const char *stages = s->layout ? strstr(s->layout, "pp") : NULL;
    if (s->layout && strstr(s->layout, "tp")) model = model / 2 * 2; /* with a pair of linear layers */
    if (stages && stages[2] == '4') model = 2;                       /* the model with many layers */
    if (stages) {
        s->pipeline_cut = "flops"; /* a measured cut may differ from the plan's */
        s->pipeline_schedule = draw_schedule(&d, model == 2 && stages[2] == '2');
        s->micro_batches = 4 << one_of(&d, 2);
    }
    s->model = models[model];
    s->batch_norm.over = GS_BATCH_NORM_LOCAL;
    s->threads = 1;
    s->steps = 3;
    return gs_test_format(
        "run %d: --model '%s' --batch %zu --optimizer %s --layout %s --pipeline-schedule %s "
        "--micro-batches %d --recompute %d --offload %u",
        number, s->model, s->batch, s->optimizer->name, s->layout ? s->layout : "dp1",
        stages ? s->pipeline_schedule : "-", s->micro_batches, s->recompute, s->offload);
}

/* Compares the plan not with the ledger but with what the C library allocated. The latter includes some objects and
 * names, but not the copies of messages, which gs_test_heap_most leaves out. */
static double compare_with_malloc(int number) {
    enum { OBJECTS = 300000 };
    gs_memory_plan plan;
    gs_result result;
    gs_settings s;
    const char *what = draw_large(number, &s);
    if (gs_memory_plan_create(&s, &plan) != GS_OK) fail_msg("%s: %s", what, gs_message());
    double planned = plan.set_bytes,
           mapped = 0; /* the part of offloaded files in memory, which malloc does not count */
    for (int i = 0; i < plan.workers; i++) {
        planned += gs_memory_total(&plan.worker[i].use[GS_ON_DEVICE]);
        planned += gs_memory_total(&plan.worker[i].use[GS_ON_HOST]);
        mapped += gs_memory_total(&plan.worker[i].use[GS_OFFLOADED]);
    }
    gs_memory_plan_free(&plan);
    const size_t before = gs_test_heap();
    (void)gs_test_heap_most();
    if (gs_train(&s, NULL, &result) != GS_OK) fail_msg("%s: %s", what, gs_message());
    const double given = (double)(gs_test_heap_most() - before), error = (given - planned) / planned;
    gs_result_free(&result);
    if (given > 1.05 * planned + OBJECTS || given < 0.95 * planned - mapped)
        fail_msg("%s: malloc allocated %.0f bytes, but the plan was %.0f", what, given, planned);
    return mapped > 0 ? 0 : error;
}

TEST(malloc_gives_what_a_plan_says) {
    const char *draws = getenv("GRADSUM_TEST_DRAWS");
    const int count = draws ? 40 : 4;
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(compare_with_malloc(i)));
    print_message("%d plans, at most %.1f %% from what malloc gave out\n", count, 100 * most);
}
#endif

/* Loss scaling for f16 needs the largest gradient, for which OpenCL uses scratch memory that a small model does not
 * need otherwise. Tests with and without --zero. */
TEST(a_loss_scale_is_planned) {
    int seen[6] = {0};
    gs_test_need_opencl();
    compare_with_plan(166, seen);
    compare_with_plan(243, seen);
    assert_true(seen[0] == 1 && seen[2] == 1);
}

/* ---- refused plans ---- */

TEST(bad_use_gets_a_sentence) {
    assert_prints(2, "--fit says what to do at a limit: it needs --max-memory MB",
                  "memory --fit --device cl");
    assert_prints(2, "--fit says what to do at a limit: it needs --max-memory MB", "train --fit --device cl");
    assert_prints(2, "--max-memory: '0' is not a whole number from 1", "train --max-memory 0");
    assert_prints(2, "--micro-batch: '0' is not a whole number from 1", "train --micro-batch 0");
    assert_prints(2, "--pipeline 2: there is 1 worker; wanted a multiple of 2", "memory --pipeline 2");
    assert_prints(2, "'lenet' is not an option", "memory lenet");
    assert_prints(2, "--batch 2 is the global batch: it cannot be divided among 3 workers",
                  "memory --batch 2 --devices cpu,cpu,cpu");
    assert_prints(1, "layer 0 (conv 8 99x99)", "memory --model \"conv 8 99x99, flatten, linear 10\"");
    assert_prints(2, "device 'gpu'", "memory --device gpu");
}

/* Models that would need 5 to 60 GB are planned instantly on any machine: nothing is computed, not even what a kernel
 * prepares for its threads. */
TEST(a_plan_takes_no_memory) {
    static const char WIDE[] = "flatten, linear 40000, linear 40000, linear 10";
    static const struct {
        const char *model, *options;
        double least; /* GB */
    } cases[] = {{WIDE, "--devices cpu,cpu --exact", 45},
                 {WIDE, "--devices cpu,cpu --exact --zero 3", 32},
                 {WIDE, "--devices cpu,cpu --exact --pipeline 2", 44},
                 {WIDE, "--devices cpu,cpu --pipeline 2", 25},
                 {"conv 2048 3x3 pad 1, conv 8192 3x3 pad 1, max_pool 2, conv 4096 3x3 pad 1, "
                  "global_avg_pool, flatten, linear 10",
                  "--devices cpu", 5}};
    gs_dataset *set = gs_test_made_set((gs_shape){3, 16, 16, 0}, 10, 200, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_memory_plan plan;
        gs_settings s = gs_settings_default();
        s.train_set = s.test_set = set;
        s = gs_test_with(s, "--threads 1 --batch 32 --model '%s' %s", cases[i].model, cases[i].options);
        const double before = gs_peak_memory();
        assert_ok(gs_memory_plan_create(&s, &plan));
        print_message("%.1f GB\n", gs_memory_most(&plan, NULL) / 1e9);
        assert_true(gs_memory_most(&plan, NULL) > cases[i].least * 1e9);
        assert_true(gs_peak_memory() < before + 50e6);
        gs_memory_plan_free(&plan);
    }
}
