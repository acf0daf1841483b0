/* Why pipeline stages wait (train/strategies/pipeline.c), with made-up times and with bad schedules. */
#include "tests/support/training.h"

#include "train/strategies/pipeline.h"

enum { MOST_STAGES = 9 };

/* Analyses passes with these times, in a step that takes `took`; 0 stands for the time that equal stages need. */
static gs_bubble look(const gs_pipeline_schedule *schedule, const gs_pipeline *p, const double *forward,
                      const double *backward, double took) {
    gs_instructions list[MOST_STAGES];
    gs_stage_times times = {.span = took};
    gs_bubble b;
    for (int s = 0; s < p->stages; s++) assert_ok(gs_instructions_create(schedule, p, s, &list[s]));
    for (int r = 0; r < p->stages * p->chunks; r++) {
        times.seconds[0][r] = p->micro_batches * (forward ? forward[r] : 1);
        times.seconds[1][r] = p->micro_batches * (backward ? backward[r] : 2);
    }
    assert_ok(gs_bubble_of(p, list, &times, &b));
    for (int s = 0; s < p->stages; s++) gs_instructions_free(&list[s]);
    return b;
}

static void assert_is(double found, double wanted, const char *what, int line) {
    gs_test_near(found, wanted, 1e-9, 1e-9, what, __FILE__, line);
}

/* If all stages take equally long, fill and drain match the formula with every schedule. */
TEST(equal_stages_wait_as_the_formula_says) {
    for (int p = 1; p <= MOST_STAGES; p++)
        for (int m = 1; m <= 20; m++)
            for (const gs_pipeline_schedule *const *s = gs_pipeline_schedules(); *s; s++) {
                const int v = (*s)->chunked && p > 1 ? 1 + m % 3 : 1;
                const gs_pipeline shape = {p, v > 1 ? p * (1 + m % 5) : m, v, GS_TIED_NONE};
                const gs_bubble b = look(*s, &shape, NULL, NULL, 1000);
                gs_test_near(b.alone, b.formula, 0, 0.01, "fill and drain", __FILE__, __LINE__);
                assert_is(b.virtual_time, b.alone, "in virtual time", __LINE__);
                assert_is(b.unequal, 0, "unequal stages", __LINE__);
                assert_is(b.fill + b.rest, b.measured, "the parts", __LINE__);
            }
}

/* p = 2, m = 8. The stages compute for 24 and 26.4: the second is slower. A step would take T_1 = 1 + 8 x 3.3 + 2 =
 * 29.4; with equal stages, whose passes take 1.05 and 2.1, T_0 = 9 x 3.15 = 28.35. This step took 30. */
TEST(a_slow_stage_by_hand) {
    const gs_pipeline p = {2, 8, 1, GS_TIED_NONE};
    const gs_bubble b = look(&gs_1f1b, &p, (double[]){1, 1.1}, (double[]){2, 2.2}, 30);
    assert_is(b.measured, 1 - 50.4 / 60, "measured", __LINE__);
    assert_is(b.fill, (56.7 - 50.4) / 60, "fill and drain", __LINE__);
    assert_is(b.unequal, 2 * (29.4 - 28.35) / 60, "unequal stages", __LINE__);
    assert_is(b.rest, 2 * (30 - 29.4) / 60, "the rest", __LINE__);
    assert_is(b.alone, 1.0 / 9, "fill and drain alone", __LINE__);
    assert_is(b.virtual_time, 1 - 50.4 / 58.8, "in virtual time", __LINE__);
}

static gs_status one_by_one(const gs_pipeline *p, int stage, gs_instructions *out) {
    for (int k = 0; k < p->micro_batches; k++) {
        gs_then_forward(out, p, stage, k, 0);
        gs_then_backward(out, p, stage, k, 0);
    }
    return GS_OK;
}

/* 1F1B whose stages run one micro-batch fewer ahead than they could, and so wait in the middle. */
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

TEST(a_bad_schedule_has_more_fill_and_drain) {
    for (int p = 2; p <= MOST_STAGES; p++)
        for (int m = 2; m <= 20; m++)
            for (size_t which = 0; which < sizeof slow / sizeof *slow; which++) {
                const gs_pipeline shape = {p, m, 1, GS_TIED_NONE};
                const gs_bubble b = look(&slow[which], &shape, NULL, NULL, 1000);
                if (b.alone < 1.05 * b.formula && (which == 0 || m >= p))
                    fail_msg("%s, p = %d, m = %d: %g, by the formula %g", slow[which].title, p, m, b.alone,
                             b.formula);
                if (which == 0) assert_is(b.alone, (p - 1.0) / p, "one by one", __LINE__);
            }
}

/* The waits are also seen in a run: in all steps, in the last step, and in a run of one step. */
TEST(a_bad_schedule_is_seen_in_a_run) {
    for (int steps = 1; steps <= 4; steps += 3) {
        gs_settings s = gs_test_settings("cpu,cpu --pipeline 2 --micro-batches 4 --pipeline-schedule gpipe");
        s.steps = (uint64_t)steps;
        assert_ok(gs_pipeline_schedule_replace("gpipe", &slow[0]));
        gs_result r = {0};
        const gs_status status = gs_train(&s, NULL, &r);
        assert_ok(gs_pipeline_schedule_replace("gpipe", NULL));
        assert_ok(status);
        for (int i = 0; i < 2; i++) {
            const gs_bubble *b = i == 0 ? &r.bubble : &r.bubble_last;
            assert_is(b->alone, 0.5, "one by one", __LINE__);
            assert_is(b->formula, 0.2, "the formula", __LINE__);
            assert_is(b->fill + b->unequal + b->rest, b->measured, "the parts", __LINE__);
            assert_true(b->measured > 0.2 && b->measured < 1);
        }
        if (steps == 1) assert_true(r.bubble.measured == r.bubble_last.measured);
        gs_result_free(&r);
    }
}
