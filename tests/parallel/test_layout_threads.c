/* Which of a layout's calls run in the background: the prediction assumes this exactly where training uses a thread. */
#include "tests/support/devices.h"
#include "tests/support/tiny_set.h"
#include "tests/support/training.h"

#include "predict/layout_plan.h"
#include "predict/dry_run.h"
#include "train/timeline.h"

/* The number of collectives for units in a run, and how many of them run in a background thread. */
typedef struct counted {
    int all, background;
} counted;

static void count(void *context, const gs_rank_timeline *parts, int workers) {
    counted *c = context;
    for (int r = 0; r < workers; r++)
        for (size_t i = 0; i < parts[r].count; i++) {
            const gs_span *s = &parts[r].span[i];
            if (s->kind != GS_SPAN_UNIT_GATHER && s->kind != GS_SPAN_UNIT_REDUCE) continue;
            c->all++;
            c->background += s->row == GS_ROW_SYNC;
        }
}

static counted of_a_run(const gs_settings *settings) {
    gs_settings s = *settings;
    gs_result result;
    counted c = {0, 0};
    const gs_observer observer = {.context = &c, .timeline = count};
    s = gs_test_with(s, "--steps 1 --log");
    s.trace = (gs_step_range){1, 1};
    assert_ok(gs_train(&s, &observer, &result));
    gs_result_free(&result);
    return c;
}

/* The same counts, in the dry run from which the prediction is made. */
static counted of_the_prediction(const gs_settings *s) {
    gs_memory_plan memory;
    gs_model *plan;
    gs_dry_run r;
    counted c = {0, 0};
    const int workers = gs_devices_count(s->devices);
    gs_settings settled = *s;
    assert_ok(gs_layout_settled(&settled, workers, &memory, &plan));
    settled = memory.settings;
    settled.devices = s->devices;
    assert_ok(gs_dry_run_create(&settled, plan->in, gs_model_targets(plan), workers, 0, &r));
    for (size_t i = 0; i < r.items; i++) {
        const gs_operation made = r.item[i].key.call.operation;
        if (r.item[i].op != GS_VIRTUAL_LIST || r.item[i].axis != GS_DP) continue;
        if (made != GS_ALL_GATHER && made != GS_REDUCE_SCATTER) continue;
        c.all++;
        c.background += r.item[i].in_job;
    }
    gs_dry_run_free(&r);
    gs_model_free(plan);
    gs_memory_plan_free(&memory);
    return c;
}

static const char plain[] = "flatten, linear 16, relu, linear 16, relu, linear 4",
                  with_statistics[] = "conv 4 3x3 pad 1, batch_norm, relu, flatten, linear 4";

/* In a run, calls happen in the background exactly as predicted. */
static void agree(const char *model, const char *devices, const char *layout, gs_batch_norm_over over,
                  bool background) {
    gs_settings s = gs_test_options("--model '%s' --devices %s --batch 16", model, devices);
    s.data = gs_test_tiny_data();
    s.layout = layout;
    s.batch_norm.over = over;
    const counted predicted = of_the_prediction(&s), run = of_a_run(&s);
    if (predicted.all == 0 || run.all == 0) fail_msg("%s on %s: no call of a unit", layout, devices);
    if (predicted.background != (background ? predicted.all : 0) ||
        run.background != (background ? run.all : 0))
        fail_msg("%s of %s on %s: predicted %d of %d calls in the background; the run has %d of %d", layout,
                 model, devices, predicted.background, predicted.all, run.background, run.all);
}

TEST(a_thread_beside_layers_is_predicted_where_a_run_has_it) {
    agree(plain, "cpu,cpu", "dp2,zero3", GS_BATCH_NORM_GLOBAL, true);
    agree(with_statistics, "cpu,cpu", "dp2,zero3", GS_BATCH_NORM_LOCAL, true);
    agree(with_statistics, "cpu,cpu", "dp2,zero3", GS_BATCH_NORM_GLOBAL, false);
    agree(plain, "cpu,cpu,cpu,cpu", "dp2,tp2,zero3", GS_BATCH_NORM_GLOBAL, false);
    if (!gs_test_has_opencl()) return;
    agree(plain, "cl,cl", "dp2,zero3", GS_BATCH_NORM_GLOBAL, false);
}

/* A background call is measured as it runs: in such a thread, alone, and only once. */
TEST(a_call_of_a_thread_is_measured_by_itself) {
    gs_settings s = gs_settings_default();
    gs_layout_plan plan;
    double seconds = 0;
    s = gs_test_with(s, "--model '%s' --batch 16 --threads 1", plain);
    s.data = gs_test_tiny_data();
    assert_ok(gs_layout_plan_create(&s, "cpu,cpu", 2, NULL, NULL, &plan));
    gs_layout_measured *p = plan.measured;
    const size_t before = p->calls_known;
    gs_layout_call call = {.operation = GS_ALL_GATHER, .ranks = 2, .whole = true, .floats = 12346};
    for (int i = 0; i < 4; i++) {
        call.background = i % 2;
        assert_ok(p->source->call(p, &call, &seconds));
        assert_true(seconds > 0);
        assert_int_equal(p->calls_known, before + (i < 2 ? i + 1 : 2));
    }
    gs_layout_plan_free(&plan);
}
