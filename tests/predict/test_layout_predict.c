/* A layout's step time, from made-up layers and calls with round numbers, so that a reader can compute the result of
 * each formula in predict/layout_plan.h by hand. Nothing is measured. */
#include "layer/layer.h"
#include "tests/support/test.h"

#include <math.h>

#include "predict/layout_plan.h"
#include "train/settings.h"

static const gs_shape image = {1, 28, 28, 0};
static const char four[] = "flatten, linear 16, relu, linear 16, relu, linear 16, relu, linear 10";
enum { BATCH = 64, FIRST = 784 * 16 + 16, MIDDLE = 16 * 16 + 16, LAST = 16 * 10 + 10 };

/* ---- the parts ---- */

/* In seconds, for each layer with weights and each sample: LAYER in forward, twice that in backward; SLOWEST times as
 * much on the slowest worker, and HALF times as much for half a layer. */
static const double LAYER = 1e-5, SLOWEST = 1.5, HALF = 0.7;
static const double UPDATE = 1e-9, DATA = 1e-6, LOADER = 2e-6;

typedef struct made_up {
    gs_layout_measured measured;
    gs_layer_times times[2]; /* two, which successive measurements fill alternately */
    int asked, calls;        /* how often layers and calls were measured */
} made_up;

/* The time of all layers on the slowest worker, relative to the mean. */
static double uneven = 1;
static const char *devices = "cpu"; /* the workers', cyclically */

static double time_of(const gs_layout_call *c) {
    const double kind = c->scheme                           ? 1
                        : c->operation == GS_ALL_REDUCE     ? 2
                        : c->operation == GS_REDUCE_SCATTER ? 3
                        : c->operation == GS_ALL_GATHER     ? 4
                                                            : 5;
    return kind * (1e-6 + 1e-9 * (double)c->floats) * (c->whole ? 1 : 1.5) * c->ranks;
}

static gs_status call(gs_layout_measured *p, const gs_layout_call *c, double *seconds) {
    ((made_up *)p)->calls++;
    *seconds = time_of(c);
    return GS_OK;
}

static gs_status layers(gs_layout_measured *p, const gs_settings *s, size_t samples,
                        const gs_layer_times **out) {
    made_up *m = (made_up *)p;
    gs_layer_times *t = &m->times[m->asked++ % 2];
    gs_model *plan;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = s->model, .in = image}, &plan));
    gs_layer_times_free(t);
    assert_ok(gs_layer_times_create(plan->net->children, t));
    t->samples = samples;
    t->uneven = uneven;
    for (int i = 0; i < t->layers; i++) {
        const double one = LAYER * (double)samples * (s->tensor > 1 ? HALF : 1);
        if (gs_layer_params(plan->net->child[i]) == 0) continue;
        t->forward[i] = one;
        t->backward[i] = 2 * one;
        t->both[i] = 3 * one;
        t->slowest[i] = 3 * one * SLOWEST;
    }
    gs_model_free(plan);
    *out = t;
    return GS_OK;
}

static const gs_layout_source source = {layers, call};

/* Seconds per step of this layout. */
static double seconds_of_batch(size_t batch, const char *model, const char *layout, int cores, made_up *m,
                               gs_layout_cost *cost) {
    gs_settings s = gs_settings_default();
    gs_layout l;
    s.model = model;
    s.layout = layout;
    s.batch = batch;
    s.devices = devices;
    assert_ok(gs_layout_settle(&s));
    assert_ok(gs_layout_read(layout, &l));
    *m = (made_up){.measured = {.source = &source,
                                .settings = &s,
                                .workers = l.dp * l.tp * l.pp,
                                .threads = 1,
                                .cores = cores,
                                .update = UPDATE,
                                .data = DATA,
                                .loader = LOADER}};
    gs_model *plan = gs_test_plan(model, image);
    assert_ok(gs_layout_predict(&m->measured, &s, plan, batch, cost));
    for (int i = 0; i < 2; i++) gs_layer_times_free(&m->times[i]);
    return cost->seconds;
}

static double seconds_of(const char *model, const char *layout, int cores, made_up *m, gs_layout_cost *cost) {
    return seconds_of_batch(BATCH, model, layout, cores, m, cost);
}

static void is_predicted(const char *model, const char *layout, int cores, double wanted) {
    made_up m;
    gs_layout_cost cost;
    gs_test_near(seconds_of(model, layout, cores, &m, &cost), wanted, 0, 1e-6, layout, __FILE__, __LINE__);
}

static double group(int kind, size_t floats, int ranks) {
    return kind * (1e-6 + 1e-9 * (double)floats) * 1.5 * ranks;
}
static double all(int kind, size_t floats, int ranks) {
    return group(kind, floats, ranks) / 1.5;
}

enum { SUM = 1, ALL_REDUCE, SCATTER, GATHER, MESSAGE };

/* ---- replicas ---- */

TEST(replicas_share_samples_and_sum_gradients) {
    const size_t params = FIRST + 2 * MIDDLE + LAST;
    const double f = 4 * 3 * LAYER * BATCH / 2, sum = all(SUM, params + GS_STATS, 2),
                 update = UPDATE * (double)params;
    is_predicted(four, "dp2", 2, f + sum + update + BATCH / 2 * (DATA + LOADER));
    is_predicted(four, "dp2", 4, f + sum + update + BATCH / 2 * DATA); /* enough cores for the loaders */
    is_predicted(four, "dp1", 2, 2 * f + update + BATCH * DATA);
    /* four workers take turns on two cores for layers, update and data; measured calls already include this */
    is_predicted(four, "dp4", 2,
                 2 * (f / 2 + update + BATCH / 4 * (DATA + LOADER)) + all(SUM, params + GS_STATS, 4));
}

/* For the gradient sum, all ranks wait for the slowest core; in a group, ranks wait for the slowest in each layer. */
TEST(replicas_wait_for_the_slowest_core) {
    made_up m;
    gs_layout_cost cost;
    const double f = 4 * 3 * LAYER * BATCH / 2, even = seconds_of(four, "dp2", 2, &m, &cost),
                 four_on_two = seconds_of(four, "dp4", 2, &m, &cost),
                 groups = seconds_of(four, "tp2", 2, &m, &cost),
                 stages = seconds_of(four, "pp2", 2, &m, &cost);
    uneven = 1.25;
    const double slow = seconds_of(four, "dp2", 2, &m, &cost);
    const double others[] = {seconds_of(four, "dp4", 2, &m, &cost), seconds_of(four, "tp2", 2, &m, &cost),
                             seconds_of(four, "pp2", 2, &m, &cost)};
    uneven = 1;
    assert_near(slow, even + 0.25 * f, 0, 1e-6);
    assert_near(others[0], four_on_two, 0, 1e-6);
    assert_near(others[1], groups, 0, 1e-6);
    assert_near(others[2], stages, 0, 1e-6);
}

/* Layers are measured with one worker per OpenCL device (or half of one); workers that share one take turns. */
TEST(workers_of_one_device_take_turns) {
    made_up m;
    gs_layout_cost cost;
    const double f = 4 * 3 * LAYER * BATCH / 2;
    devices = "cl:0.0/0of2,cl:0.0/1of2";
    const double apart = seconds_of(four, "dp2", 2, &m, &cost),
                 stages = seconds_of(four, "pp2", 2, &m, &cost);
    devices = "cl";
    const double together = seconds_of(four, "dp2", 2, &m, &cost),
                 on_one = seconds_of(four, "pp2", 2, &m, &cost);
    devices = "cpu";
    const double params = FIRST + 2 * MIDDLE + LAST;
    assert_near(together - apart, f + UPDATE * params + BATCH / 2 * (DATA + LOADER), 0, 1e-6);
    assert_true(on_one > stages && on_one > 2 * f);
}

/* Counts batch_norm's sums over all workers, and the wait for the slowest worker in each layer. */
TEST(shared_statistics_are_calls_in_each_pass) {
    static const char model[] = "conv 4 3x3 pad 1, batch_norm, relu, flatten, linear 10";
    const size_t params = 4 * 9 + 4 + 4 + 4 + 784 * 4 * 10 + 10,
                 floats = params + 2 * 4; /* with running statistics */
    const double f = 3 * 3 * LAYER * BATCH / 2 * SLOWEST, sum = all(SUM, floats + GS_STATS, 2),
                 statistics = all(ALL_REDUCE, 2 * (1 + 2 * 4), 2) + all(ALL_REDUCE, 2 * 2 * 4, 2);
    is_predicted(model, "dp2", 2,
                 f + statistics + sum + UPDATE * (double)params + BATCH / 2 * (DATA + LOADER));
}

/* ---- ZeRO ---- */

static double zero_calls(int zero, double *after) {
    gs_partition units;
    double background = 0;
    const gs_settings s = {.zero = zero};
    const gs_worker w = {
        .settings = &s, .model = gs_test_plan(four, image), .groups.layout = {.dp = 2, .tp = 1, .pp = 1}};
    assert_ok(gs_partition_plan(&w, 0, &units));
    *after = all(ALL_REDUCE, units.rest + GS_STATS, 2);
    for (int i = 0; i < units.count; i++) {
        const size_t floats = 2 * units.unit[i].own;
        *(zero > 1 ? &background : after) += all(SCATTER, floats, 2);
        *(zero > 2 ? &background : after) += (zero > 2 ? 2 : 1) * all(GATHER, floats, 2);
    }
    assert_true(zero == 1 ? units.count == 1 : units.count > 1);
    gs_partition_free(&units);
    return background;
}

TEST(zero_sends_units_beside_layers_if_there_are_cores) {
    const double params = FIRST + 2 * MIDDLE + LAST, f = 4 * 3 * LAYER * BATCH / 2;
    for (int zero = 1; zero <= 3; zero++) {
        double after;
        const double background = zero_calls(zero, &after), update = UPDATE * params / 2;
        const char *layout = gs_test_format("dp2,zero%d", zero);
        assert_true(background < f);
        is_predicted(four, layout, 2, f + background + after + update + BATCH / 2 * (DATA + LOADER));
        is_predicted(four, layout, 4, f + after + update + BATCH / 2 * DATA);
    }
}

/* ---- parts of layers ---- */

TEST(groups_take_what_their_part_takes_and_sum) {
    /* worker 1 holds 8 of 16 outputs, or of 16 inputs */
    const double params = 784 * 8 + 8 + (16 * 8 + 16) + (16 * 8 + 8) + (8 * 10 + 10),
                 f = 4 * 3 * LAYER * BATCH * HALF * SLOWEST,
                 g = group(SUM, BATCH * 16, 2) + group(SUM, BATCH * 10, 2) /* y of each pair */
                     + group(SUM, BATCH * 16, 2),                          /* dx of the second */
        wishes = group(GATHER, 2, 2);
    is_predicted(four, "tp2", 2, f + g + wishes + UPDATE * params + BATCH * (DATA + LOADER));
    /* two such groups on two cores also sum the gradients of their halves; the other sums are for half the batch */
    const double half = group(SUM, BATCH / 2 * 16, 2) * 2 + group(SUM, BATCH / 2 * 10, 2);
    is_predicted(four, "dp2,tp2", 2,
                 2 * (f / 2 + UPDATE * params + BATCH / 2 * (DATA + LOADER)) + half + wishes +
                     group(SUM, (size_t)params + GS_STATS, 2));
}

/* ---- stages ---- */

TEST(stages_take_turns_in_virtual_time) {
    enum { M = 8, SAMPLES = BATCH / M };
    const double f = 2 * 3 * LAYER * SAMPLES,
                 e = group(MESSAGE, SAMPLES * 16, 2), /* half for a message there, half for one back */
        score = all(ALL_REDUCE, GS_STATS, 2), update = UPDATE * (FIRST + MIDDLE);
    is_predicted(four, "pp2", 2, (M + 1) * (f + e) + score + update + BATCH * (DATA + LOADER));
}

/* 12 samples in 8 micro-batches: four of two and four of one. */
TEST(micro_batches_need_not_be_equal) {
    enum { M = 8, FEW = 12 };
    made_up m;
    gs_layout_cost cost;
    const double f = 2 * 3 * LAYER * 1.5, e = (group(MESSAGE, 2 * 16, 2) + group(MESSAGE, 16, 2)) / 2,
                 score = all(ALL_REDUCE, GS_STATS, 2), update = UPDATE * (FIRST + MIDDLE);
    assert_near(seconds_of_batch(FEW, four, "pp2", 2, &m, &cost),
                (M + 1) * (f + e) + score + update + FEW * (DATA + LOADER), 0, 1e-6);
}

/* Two cores cannot do the work of four stages in the schedule's time. */
TEST(stages_need_cores) {
    enum { M = 16, SAMPLES = BATCH / M };
    const double f = 3 * LAYER * SAMPLES, e = group(MESSAGE, SAMPLES * 16, 4),
                 score = all(ALL_REDUCE, GS_STATS, 4);
    is_predicted(four, "pp4", 2,
                 M * 4 * f / 2 + M * 2 * e + score + 2 * (UPDATE * FIRST + BATCH * (DATA + LOADER)));
    made_up m;
    gs_layout_cost cost;
    const double enough = seconds_of(four, "pp4", 4, &m, &cost);
    assert_true(enough < (M + 3) * (f + 2 * e) + score + UPDATE * FIRST + BATCH * (DATA + LOADER));
    assert_true(enough > (M + 3) * f);
    assert_string_equal(cost.cut, "3,5,7");
}

/* One worker makes no calls, so none is measured. */
TEST(one_worker_sends_nothing) {
    made_up m;
    gs_layout_cost cost;
    (void)seconds_of(four, "dp1", 2, &m, &cost);
    assert_int_equal(m.calls, 0);
    assert_true(cost.sent <= 0);
    (void)seconds_of(four, "dp2,pp2,zero1", 2, &m, &cost);
    assert_true(m.calls > 0 && cost.sent > 0);
}
