/* Why the stages of a pipeline wait (train/pipeline/waits.h): of made-up times, and of a schedule that is planted. */
#include "tests/training.h"

#include <math.h>

#include "core/philox.h"
#include "train/pipeline/virtual_time.h"
#include "train/pipeline/waits.h"

enum { SCHEDULES = 4, MOST_STAGES = 9, MOST_MICRO_BATCHES = 45, MOST_CHUNKS = 4, DRAWN = 200 };

typedef struct made_up {
    const gs_pipeline_schedule *schedule;
    gs_pipeline pipeline;
    gs_pipeline_times times;
    size_t steps; /* 0: one */
} made_up;

typedef struct found {
    gs_pipeline_waits waits;
    double took,
        busy; /* of the runs in virtual time: the sum over the steps of p T, and of what stages compute */
    double formula;
} found;

/* Each step the same instructions in virtual time, whose passes are then looked at. times.each has those of each step,
 * one behind the other. */
static found look(const made_up *m) {
    const gs_pipeline *p = &m->pipeline;
    const size_t passes = gs_passes_of_stage(p), stages = (size_t)p->stages, steps = m->steps ? m->steps : 1;
    gs_instructions list[MOST_STAGES];
    gs_pass_time *step = calloc(stages * passes, sizeof *step),
                 *all = calloc(steps * stages * passes, sizeof *all);
    double busy[MOST_STAGES];
    gs_pipeline_run run = {.busy = busy, .pass = step};
    found f = {.formula = gs_pipeline_bubble(p)};
    assert_true(step && all);
    for (int s = 0; s < p->stages; s++) assert_ok(gs_instructions_create(m->schedule, p, s, &list[s]));
    for (size_t i = 0; i < steps; i++) {
        gs_pipeline_times times = m->times;
        if (times.each) times.each += i * stages * passes;
        assert_ok(gs_pipeline_in_virtual_time(p, list, &times, &run));
        f.took += p->stages * run.took;
        for (size_t s = 0; s < stages; s++) {
            f.busy += busy[s];
            for (size_t n = 0; n < passes; n++) {
                const gs_pass_time *t = &step[s * passes + n];
                const double clock = 100.0 * (double)i; /* steps need not have one clock */
                all[(s * steps + i) * passes + n] = (gs_pass_time){t->start + clock, t->end + clock};
            }
        }
    }
    assert_ok(gs_pipeline_waits_of(p, list, all, steps, &f.waits, NULL));
    for (int s = 0; s < p->stages; s++) gs_instructions_free(&list[s]);
    free(step);
    free(all);
    return f;
}

static void assert_is(double found, double wanted, const char *what, int line) {
    gs_test_near(found, wanted, 1e-9, 1e-9, what, __FILE__, line);
}

/* ---- the parts are the whole ---- */

static int between(uint32_t word, int least, int most) {
    return least + (int)(word % (uint32_t)(most - least + 1));
}

static made_up draw(uint64_t i, double *each) {
    uint32_t a[4];
    gs_philox(21, 1, i, a);
    made_up m = {
        .schedule = gs_pipeline_schedules()[i % SCHEDULES],
        .pipeline = {.stages = between(a[0], 1, 5), .micro_batches = between(a[1], 1, 9), .chunks = 1},
        .steps = (size_t)between(a[2], 1, 3)};
    gs_pipeline *p = &m.pipeline;
    if (m.schedule->chunked && p->stages > 1) {
        p->chunks = between(a[3], 1, MOST_CHUNKS);
        p->micro_batches = p->stages * between(a[1], 1, 3);
    }
    const size_t count = m.steps * (size_t)p->stages * gs_passes_of_stage(p);
    for (size_t n = 0; n < count; n++) {
        uint32_t word[4];
        gs_philox(22, i, n, word);
        each[n] = 0.1 + (double)gs_uniform(word[0]);
    }
    m.times = (gs_pipeline_times){.message = i % 2 ? 0.3 : 0, .each = each};
    return m;
}

TEST(the_parts_are_the_whole) {
    static double each[3 * 5 * 2 * 15 * MOST_CHUNKS];
    for (uint64_t i = 0; i < DRAWN; i++) {
        const made_up m = draw(i, each);
        const found f = look(&m);
        const gs_pipeline_waits *w = &f.waits;
        assert_is(w->all, f.took, "the stages' time", __LINE__);
        assert_is(w->busy, f.busy, "what they compute", __LINE__);
        assert_is(w->fill + w->unequal + w->uneven + w->messages, f.took - f.busy, "the waits", __LINE__);
        if (i % 2 == 0) assert_is(w->messages, 0, "messages that take no time", __LINE__);
        if (i % 2 && m.pipeline.stages > 1) assert_true(w->messages > 0);
    }
}

/* ---- one cause at a time ---- */

/* Equal stages: all is fill and drain, and the formula is right. */
TEST(equal_stages_wait_as_the_formula_says) {
    for (int p = 1; p <= MOST_STAGES; p++)
        for (int m = 1; m <= 20; m++)
            for (int which = 0; which < SCHEDULES; which++) {
                const int v = which == 2 && p > 1 ? 1 + m % 3 : 1;
                const found f =
                    look(&(made_up){.schedule = gs_pipeline_schedules()[which],
                                    .pipeline = {p, v > 1 ? p * (1 + m % 5) : m, v, GS_TIED_NONE}});
                const gs_pipeline_waits *w = &f.waits;
                gs_test_near(gs_pipeline_fill_alone(w), f.formula, 0, 0.01, "fill and drain", __FILE__,
                             __LINE__);
                gs_test_near(1 - w->busy / w->all, f.formula, 0, 0.01, "the whole", __FILE__, __LINE__);
                assert_is(w->unequal, 0, "unequal stages", __LINE__);
                assert_is(w->uneven, 0, "uneven times", __LINE__);
                assert_is(w->messages, 0, "messages", __LINE__);
            }
}

/* p = 2, m = 8, the second stage takes 1.1 times as long: T = 1 + 8 x 3.3 + 2 = 29.4, and the stages compute for 24 and
 * 26.4. The path has nine passes each way, of 3.15 for both on average: 2 x 9 x 3.15 - 50.4 = 6.3 of fill and drain. */
TEST(a_slow_stage_by_hand) {
    const made_up m = {.schedule = &gs_1f1b,
                       .pipeline = {2, 8, 1, GS_TIED_NONE},
                       .times = {.forward = (double[]){1, 1.1}, .backward = (double[]){2, 2.2}}};
    const found f = look(&m);
    assert_is(f.waits.all, 58.8, "all", __LINE__);
    assert_is(f.waits.busy, 50.4, "busy", __LINE__);
    assert_is(f.waits.fill, 6.3, "fill and drain", __LINE__);
    assert_is(f.waits.unequal, 2.1, "unequal stages", __LINE__);
    assert_is(f.waits.uneven, 0, "uneven times", __LINE__);
    assert_is(f.waits.messages, 0, "messages", __LINE__);
    assert_is(gs_pipeline_fill_alone(&f.waits), f.formula, "fill and drain alone", __LINE__);
}

/* Messages that take 0.01: of equal stages they are all that is added to the formula's. */
TEST(messages_by_themselves) {
    for (int which = 0; which < 2; which++) {
        made_up m = {.schedule = gs_pipeline_schedules()[which], .pipeline = {3, 6, 1, GS_TIED_NONE}};
        const found without = look(&m);
        m.times.message = 0.01;
        const found f = look(&m);
        assert_true(f.waits.messages >= 3 * 4 * 0.01); /* two ways through two cuts, of three stages */
        assert_is(f.waits.messages, f.took - without.took, "messages", __LINE__);
        assert_is(gs_pipeline_fill_alone(&f.waits), f.formula, "fill and drain alone", __LINE__);
    }
}

/* Stage 1 takes 1 longer for the backward of micro-batch 3, and 1 less for that of 5: the same mean, but the other
 * stage has waited. 1F1B of stage 1: F0 B0 F1 B1 ..., so these are passes 7 and 11 of its list. */
TEST(uneven_times_by_themselves) {
    enum { PASSES = 16 };
    double each[2 * PASSES];
    made_up m = {.schedule = &gs_1f1b, .pipeline = {2, 8, 1, GS_TIED_NONE}};
    const found even = look(&m);
    gs_instructions list;
    for (int s = 0; s < 2; s++) {
        size_t n = 0;
        assert_ok(gs_instructions_create(&gs_1f1b, &m.pipeline, s, &list));
        for (size_t i = 0; i < list.count; i++)
            if (gs_action_computes(list.list[i].action))
                each[s * PASSES + n++] = list.list[i].action == GS_DO_FORWARD ? 1 : 2;
        assert_int_equal(n, PASSES);
        gs_instructions_free(&list);
    }
    each[PASSES + 7] += 1;
    each[PASSES + 11] -= 1;
    m.times.each = each;
    const found f = look(&m);
    assert_true(f.took > even.took + 1);
    assert_is(f.waits.uneven, f.took - even.took, "uneven times", __LINE__);
    assert_is(f.waits.fill, even.waits.fill, "fill and drain", __LINE__);
    assert_is(f.waits.unequal, 0, "unequal stages", __LINE__);
}

/* ---- schedules that wait where they need not ---- */

static gs_status one_by_one(const gs_pipeline *p, int stage, gs_instructions *out) {
    for (int k = 0; k < p->micro_batches; k++) {
        gs_then_forward(out, p, stage, k, 0);
        gs_then_backward(out, p, stage, k, 0);
    }
    return GS_OK;
}

/* 1F1B in which a stage goes ahead once less than it could: it waits in the middle. */
static gs_status too_few_ahead(const gs_pipeline *p, int stage, gs_instructions *out) {
    const int m = p->micro_batches, most = p->stages - 2 - stage, ahead = most < 0 ? 0 : most < m ? most : m;
    for (int k = 0; k < ahead; k++) gs_then_forward(out, p, stage, k, 0);
    for (int k = ahead; k < m; k++) {
        gs_then_forward(out, p, stage, k, 0);
        gs_then_backward(out, p, stage, k - ahead, 0);
    }
    for (int k = m - ahead; k < m; k++) gs_then_backward(out, p, stage, k, 0);
    return GS_OK;
}

static const gs_pipeline_schedule slow[] = {{"gpipe", "one by one", false, one_by_one},
                                            {"gpipe", "1F1B, too few ahead", false, too_few_ahead}};

TEST(a_bad_schedule_has_a_longer_path) {
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int m = 2; m <= 20; m++)
            for (int which = 0; which < 2; which++) {
                const found f =
                    look(&(made_up){.schedule = &slow[which], .pipeline = {p, m, 1, GS_TIED_NONE}});
                const double alone = gs_pipeline_fill_alone(&f.waits);
                if (alone < 1.05 * f.formula && (which == 0 || m >= p))
                    fail_msg("%s, p = %d, m = %d: %g, by the formula %g", slow[which].title, p, m, alone,
                             f.formula);
                if (which == 0) assert_is(alone, (p - 1.0) / p, "one by one", __LINE__);
                assert_is(f.waits.unequal + f.waits.uneven + f.waits.messages, 0, "other waits", __LINE__);
            }
}

/* The same in a run: its path goes through all passes of both stages, whatever they take. */
TEST(a_bad_schedule_is_seen_in_a_run) {
    gs_settings s = gs_test_settings("cpu,cpu --pipeline 2 --micro-batches 4 --pipeline-schedule gpipe "
                                     "--steps 4");
    assert_ok(gs_pipeline_schedule_replace("gpipe", &slow[0]));
    gs_result r = {0};
    const gs_status status = gs_train(&s, NULL, &r);
    assert_ok(gs_pipeline_schedule_replace("gpipe", NULL));
    assert_ok(status);
    for (int i = 0; i < 2; i++) {
        const gs_bubble *b = i == 0 ? &r.bubble : &r.bubble_last;
        assert_is(b->alone, 0.5, "one by one", __LINE__);
        assert_is(b->formula, 0.2, "the formula", __LINE__);
        assert_is(b->fill + b->unequal + b->uneven + b->messages, b->measured, "the parts", __LINE__);
        assert_true(b->measured > 0.2 && b->messages > 0);
    }
    gs_result_free(&r);
}
