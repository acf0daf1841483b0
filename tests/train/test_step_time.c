/* The time of a step: which steps count, and which one is the median. */
#include "tests/support/program.h"

TEST(median_of) {
    gs_step_times p = {0};
    double now = 100;
    assert_true(gs_step_times_median(&p) == 0);
    p.since = now;
    const double took[] = {4, 1, 16, 2, 8};
    for (size_t i = 0; i < sizeof took / sizeof *took; i++) gs_step_times_ended(&p, now += took[i], true);
    assert_true(gs_step_times_median(&p) == 4);
    gs_step_times_ended(&p, now += 0.5, true); /* the lower median of 0.5 1 2 4 8 16 */
    assert_true(gs_step_times_median(&p) == 2);
}

TEST(pauses_and_other_batches_do_not_count) {
    gs_step_times p = {0};
    p.since = 10;
    gs_step_times_ended(&p, 11, true);
    gs_step_times_ended(&p, 18, false); /* fewer samples */
    gs_step_times_ended(&p, 20, true);  /* measured from the previous step's end */
    p.since = 50;
    gs_step_times_ended(&p, 53, true);
    assert_int_equal(p.steps, 3);
    assert_true(gs_step_times_median(&p) == 2); /* the median of 1 2 3 */
}

TEST(old_steps_make_room) {
    gs_step_times p = {0};
    double now = 0;
    for (int i = 0; i < GS_STEP_TIMES; i++) gs_step_times_ended(&p, now += 8, true);
    for (int i = 0; i < GS_STEP_TIMES / 2; i++) gs_step_times_ended(&p, now += 2, true);
    assert_true(gs_step_times_median(&p) == 2); /* equally many 2s and 8s: the lower one */
    for (int i = 0; i < GS_STEP_TIMES / 2; i++) gs_step_times_ended(&p, now += 1, true);
    assert_true(gs_step_times_median(&p) == 1); /* no 8 is left */
    gs_step_times_ended(&p, now += 8, true);    /* replaces a 2 */
    gs_step_times_ended(&p, now += 8, true);
    assert_true(gs_step_times_median(&p) == 1);
    assert_int_equal(p.steps, 2 * GS_STEP_TIMES + 2);
}
