/* --sync local: each worker trains alone, and the weights are averaged. */
#include "tests/support/training.h"

/* ---- --sync local ---- */

/* H = 1 equals the synchronous step, even if parts differ in size (333 samples for 2 to 8 workers; in the last batch,
 * of 6 samples, two of 8 workers have none). This holds for plain SGD and also with momentum, because the velocity is
 * averaged too. */
TEST(local_sgd_with_h_1_is_synchronous) {
    static const char local[] = "--sync local --every 1";
    for (int momentum = 0; momentum <= 9; momentum += 9)
        assert_ways_are_near(gs_test_format("--momentum 0.%d", momentum), local,
                             gs_test_format(ON_2 "%s", local), gs_test_format(ON_4 "%s", local),
                             gs_test_format(ON_8 "%s", local));
}

/* One step of plain SGD without weight decay, on parts of 3 and 2 samples: the average weighted by 3/5 and 2/5 equals
 * the step on all 5. An unweighted one would not. The run ends before 7 steps, and therefore averages. */
TEST(local_sgd_weighs_by_samples) {
    assert_ways_are_near(ON_2
                         "--model 'flatten, linear 10' --batch 5 --steps 1 --momentum 0 --weight-decay 0",
                         "--sync local --every 7");
}

/* All copies are equal after each average (--verify), the run is repeatable bit for bit, and it learns. With H > 1 the
 * algorithm differs from the synchronous one. */
TEST(local_sgd_averages_and_learns) {
    gs_settings s = gs_test_settings("cpu,cpu,cpu");
    gs_result synchronous = gs_test_train(&s);
    s = gs_test_with(s, "--sync local --every 4 --verify 4");
    gs_result a = gs_test_train(&s), b = gs_test_train(&s);
    assert_same_bits(&a, &b, "a second run");
    assert_true(gs_test_difference(&a, &synchronous) > 1e-4);
    s = gs_test_options("--devices cpu,cpu,cpu --threads 1 --epochs 1 --sync local --every 8");
    a = gs_test_train(&s);
    assert_int_equal(a.steps, 47);
    assert_true(a.test_accuracy > 0.6);
}

TEST(local_sgd_between_processes) {
    assert_prints(0, "weights averaged every 3 steps",
                  "launch -n 2 -- train --model softmax --steps 20 --sync local --every 3 --verify 6");
    assert_prints(0, "\"every\":3",
                  "launch -n 2 -- train --devices cpu,cpu --model softmax --steps 20 --sync local --every "
                  "3 --verify 3 --json");
    assert_prints(2, "--sync local needs --every H", "train --sync local");
    assert_prints(2, "--every 3 works only with --sync local; --sync is allreduce", "train --every 3");
    assert_prints(2, "wanted a multiple of --every 4", "train --sync local --every 4 --verify 6");
    assert_prints(2, "does not work with --sync local", "train --sync local --every 4 --exact");
}
