/* gradsum profile with a layout: what workers send each other, and what of it is hidden. Nothing here asks how long
 * anything took. */
#include "tests/training.h"

#include "train/profile/profile_calls.h"

/* A worker's layers, its thread's calls beside them, and its own after them: all in seconds from 0. */
TEST(calls_are_hidden_where_layers_are_computed) {
    const gs_span span[] = {
        {.start = 0, .end = 10, .kind = GS_SPAN_STEP},
        {.start = 0, .end = 2, .kind = GS_SPAN_FORWARD_LAYER, .index = 1},
        {.start = 0.5, .end = 1, .kind = GS_SPAN_FORWARD_LAYER, .index = 2}, /* inside of that one */
        {.start = 4, .end = 6, .kind = GS_SPAN_BACKWARD_LAYER, .index = 1},
        {.start = 1, .end = 5, .bytes = 100, .row = GS_ROW_SYNC, .kind = GS_SPAN_UNIT_GATHER}, /* 2 of 4 */
        {.start = 6, .end = 7, .bytes = 10, .row = GS_ROW_SYNC, .kind = GS_SPAN_UNIT_REDUCE},  /* 0 of 1 */
        {.start = 4.5, .end = 5, .bytes = 8, .kind = GS_SPAN_GROUP_CALL}, /* the worker's own */
        {.start = 6, .end = 9, .kind = GS_SPAN_PHASE, .index = GS_PHASE_SYNC},
        {.start = 7, .end = 8, .bytes = 5, .kind = GS_SPAN_SEND},
        {.start = 8, .end = 8.5, .bytes = 7, .kind = GS_SPAN_RECEIVE},
        {.start = 0, .end = 10, .bytes = 1000, .row = GS_ROW_LOADER, .kind = GS_SPAN_GATHER},
    };
    const gs_timeline_part one = {.span = (gs_span *)span, .count = sizeof span / sizeof *span},
                           none = {.count = 0};
    const gs_timeline_part parts[] = {one, none};
    static const double wanted[GS_PROFILE_ACTS][4] = {
        {1, 4, 100, 2}, {1, 1, 10, 0}, {1, 0.5, 8, 0}, {2, 1.5, 5, 0}, {1, 1.5, 0, 0}};
    gs_profile_calls c;
    assert_ok(
        gs_profile_calls_count(parts, 2, 1, &c)); /* the mean of two workers, of which one does nothing */
    assert_near(2 * c.step, 10, 1e-9, 0);
    assert_near(2 * c.layers, 4, 1e-9, 0);
    for (int i = 0; i < GS_PROFILE_ACTS; i++) {
        const double got[] = {c.act[i].calls, c.act[i].seconds, c.act[i].bytes, c.act[i].hidden};
        for (int k = 0; k < 4; k++)
            gs_test_near(2 * got[k], wanted[i][k], 1e-9, 0, gs_profile_act_names[i], __FILE__, __LINE__);
    }
}

/* Of a run: what is sent by the formula; and whose own calls nobody can hide. */
TEST(layouts_send_what_they_must) {
    static const struct {
        const char *layout;
        int act;
        double bytes; /* 0: some */
    } cases[] = {{"dp2,zero1", GS_PROFILE_GATHERS, 61706 / 2 * 4},
                 {"dp2,zero2", GS_PROFILE_SCATTERS, 61706 / 2 * 4},
                 {"dp2,zero3", GS_PROFILE_GATHERS, 2 * 61706 / 2 * 4},
                 {"tp2", GS_PROFILE_GROUP, 0},
                 {"pp2", GS_PROFILE_MESSAGES, 0},
                 {"dp2", GS_PROFILE_OTHERS, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_settings s = gs_settings_default();
        gs_profile_calls c;
        s = gs_test_with(s, "--devices cpu,cpu --model lenet");
        s.batch = i == 0 ? 6000 : 32; /* an epoch of one step */
        s.layout = cases[i].layout;
        assert_ok(gs_layout_settle(&s));
        assert_ok(gs_profile_calls_run(&s, &c));
        assert_int_equal(c.workers, 2);
        assert_true(c.layers > 0 && c.layers < c.step);
        assert_true(c.act[cases[i].act].calls > 0 && c.act[cases[i].act].seconds > 0);
        if (cases[i].bytes > 0)
            gs_test_near(c.act[cases[i].act].bytes, cases[i].bytes, 0, 1e-3, cases[i].layout, __FILE__,
                         __LINE__);
        for (int k = 0; k < GS_PROFILE_ACTS; k++) assert_true(c.act[k].hidden <= c.act[k].seconds + 1e-9);
        if (s.zero < 2) assert_true(c.act[GS_PROFILE_GATHERS].hidden <= 0);
    }
}

TEST(the_program_profiles_layouts) {
    char *output = gs_test_output(0, "profile --seconds 0.05 --model softmax --batch 16 --zero 3 --json");
    assert_has(output, "\"layout\":\"dp2,zero3\",\"workers\":2", "\"all-gathers of weights\"",
               "\"hidden_seconds\":");
    gs_test_program_prints(2, "names 3 devices for 2 workers",
                           "profile --zero 1 --workers 2 --devices cpu,cpu,cpu");
    gs_test_program_prints(2, "--workers is for several workers, and profile has one", "profile --workers 2");
    gs_test_program_prints(2, "--timeout is for several workers", "profile --timeout 3");
    gs_test_program_prints(2, "there is no term 'dq2'", "profile --layout dq2");
}
