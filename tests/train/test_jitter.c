/* --jitter: the seed determines in which steps a worker pauses; only time changes. */
#include "tests/support/training.h"

#include <math.h>
#include "core/clock.h"

TEST(jitter_is_read_and_printed) {
    static const char *const right[][2] = {{"3:20ms@5%", "3:20ms@5%"},
                                           {"0:1500us@100%", "0:1.5ms@100%"},
                                           {"1:2.5ms,3:20ms@5%", "1:2.5ms@100%,3:20ms@5%"},
                                           {"1:5ms@0.1%,0:2s@12.5%", "1:5ms@0.1%,0:2s@12.5%"}};
    static const char *const wrong[] = {
        "",
        "3",
        "3:20@5%",
        "1:",
        "x:5ms",
        "3:20ms@",
        "3:20ms:3",
        "1:-5ms",
        "3:20ms@5",
        "3:20ms@0%",
        "0:0ms@5%",
        "-1:5ms@5%",
        "3:20ms@101%",
        ":20ms@5%",
        "1:5ms@5%,",
        "1:2s@5%,1:3s@5%",
        "99999999999:1s@1%",
        "1:1001s@5%",
        "0:1s@1%,1:1s@1%,2:1s@1%,3:1s@1%,4:1s@1%,5:1s@1%,6:1s@1%,7:1s@1%,8:1s@1%"};
    gs_jitter j;
    char text[GS_JITTER_TEXT];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_true(gs_jitter_read(right[i][0], &j));
        assert_string_equal(gs_jitter_text(&j, text, sizeof text), right[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (gs_jitter_read(wrong[i], &j)) fail_msg("'%s' was accepted", wrong[i]);
    assert_prints(2, "--jitter: '3:20' is not RANK:TIME@SHARE%, such as 3:20ms@5%", "train --jitter 3:20");
    assert_prints(2, "--jitter: there is no worker 2; workers are 0 to 1",
                  "train --model softmax --devices cpu,cpu --jitter 1:1ms@5%%,2:1ms@5%%");
}

enum { STEPS = 20000 };

/* The number of steps in which both workers pause or both do not. */
static int agree(const gs_jitter *j, uint64_t seed, int rank, uint64_t other_seed, int other) {
    int same = 0;
    for (uint64_t step = 0; step < STEPS; step++)
        same += (gs_jitter_seconds(j, seed, rank, step) > 0) ==
                (gs_jitter_seconds(j, other_seed, other, step) > 0);
    return same;
}

TEST(pauses_are_drawn_from_the_seed) {
    static const double shares[] = {0.05, 0.2, 1};
    gs_jitter j;
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        j = (gs_jitter){2, {{3, 0.5, shares[s]}, {1, 0.25, shares[s]}}};
        int pauses = 0;
        for (uint64_t step = 0; step < STEPS; step++) {
            double seconds = gs_jitter_seconds(&j, 7, 3, step);
            assert_true(seconds == 0 || seconds == 0.5);
            pauses += seconds > 0;
            assert_true(gs_jitter_seconds(&j, 7, 2, step) == 0); /* this rank has no pause */
        }
        /* 5 standard deviations of a binomial distribution; these draws are always the same */
        assert_near(pauses, shares[s] * STEPS, 5 * sqrt(STEPS * shares[s] * (1 - shares[s])), 0);
    }
    /* two independent workers with 20 % each agree in 0.2 * 0.2 + 0.8 * 0.8 = 68 % of their steps */
    j.pause[0].share = j.pause[1].share = 0.2;
    assert_int_equal(agree(&j, 7, 3, 7, 3), STEPS);
    assert_near(agree(&j, 7, 3, 8, 3), 0.68 * STEPS, 5 * sqrt(STEPS * 0.68 * 0.32), 0);
    assert_near(agree(&j, 7, 3, 7, 1), 0.68 * STEPS, 5 * sqrt(STEPS * 0.68 * 0.32), 0);
}

/* With every strategy the worker pauses as often as it should, which gives a lower bound for the time. */
TEST(a_run_pauses) {
    static const char *const syncs[] = {"ps", "async", "local"};
    for (size_t i = 0; i < sizeof syncs / sizeof *syncs; i++) {
        gs_settings s = gs_test_settings("cpu,cpu");
        s.sync = syncs[i];
        s.staleness = i == 1 ? 0 : -1;
        s.every = i == 2 ? 4 : 0;
        gs_result calm = gs_test_train(&s), r;
        assert_true(gs_jitter_read("1:10ms@30%", &s.jitter));
        double least = 0;
        for (uint64_t step = 0; step < GS_TEST_STEPS; step++)
            least += gs_jitter_seconds(&s.jitter, s.seed, 1, step);
        assert_true(least > 0);
        double start = gs_seconds();
        r = gs_test_train(&s);
        assert_true(gs_seconds() - start >= least);
        assert_true(r.samples_per_s <= (6000 + 333) / least);
        assert_same_bits(&calm, &r, syncs[i]);
    }
    assert_prints(0, "jitter   worker 1 pauses 2.5 ms in 50 % of its steps",
                  "train --model softmax --steps 2 --devices cpu,cpu --jitter 1:2.5ms@50%%");
    assert_prints(0, "\"jitter\":\"1:2ms@50%\"",
                  "train --model softmax --steps 2 --devices cpu,cpu --jitter 1:2ms@50%% --json");
}
