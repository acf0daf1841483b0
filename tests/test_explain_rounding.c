/* Rounding that an optimiser enlarges, and how much of it `gradsum explain` allows: explain/rounding.h. */
#include "tests/files.h"
#include "tests/program.h"
#include "tests/training.h"

#include <sys/stat.h>

#include "explain/explain.h"

/* The gradient of a bias before batch_norm is rounding, of which Adam makes whole steps. */
static void rounding_that_adam_enlarges_is_no_difference(void **state) {
    (void)state;
    static const char *const optimizers[] = {"adamw --lr 0.01", "adam", "lamb"};
    for (int i = 0; i < 3; i++) {
        char folder[300];
        snprintf(folder, sizeof folder, "%s/bias%d", gs_test_folder(), i);
        gs_test_program_prints(
            0, "sha256",
            "train --model \"conv 4 3x3, batch_norm, relu, conv 4 3x3, batch_norm, relu, "
            "global_avg_pool, flatten, linear 10\" --batch 80 --batch-norm ghost:8 --steps 4 "
            "--threads 1 --devices cpu,cpu --digest %s --optimizer %s",
            folder, optimizers[i]);
        gs_test_program_prints(0, "no difference beyond rounding", "explain %s", folder);
    }
}

/* Gradients near 0 differ by rounding, and Adam's steps by more: with seed 7 the weights after step 1, with seed 2 what
 * step 2 computes from them. */
static void steps_of_rounding_are_no_difference(void **state) {
    (void)state;
    static const int seeds[] = {2, 7};
    for (int i = 0; i < 2; i++) {
        char one[300], two[300], run[600];
        snprintf(one, sizeof one, "%s/steps%d-one", gs_test_folder(), i);
        snprintf(two, sizeof two, "%s/steps%d-two", gs_test_folder(), i);
        snprintf(
            run, sizeof run,
            "train --model gpt --data text:%s --context 16 --batch 8 --optimizer adamw --steps 2 --seed %d "
            "--threads 1",
            gs_test_text_file(), seeds[i]);
        gs_test_program_prints(0, "sha256", "%s --digest %s", run, one);
        gs_test_program_prints(0, "sha256", "%s --digest %s --devices cpu,cpu --tensor 2", run, two);
        gs_test_program_prints(0, "steps 1 to 2: no difference beyond rounding", "explain %s %s", two, one);
    }
}

/* A record by hand of 16 weights, of which `turn` may turn: their 1 / S is 1e6, and the gradients differ by 1e-5. */
static void write_turned(const char *folder, int turn, double gradient, double weight) {
    char text[700];
    snprintf(
        text, sizeof text,
        "gradsum digest 2 rank 0 of 1\noption optimizer adam\nlayer 0 linear 0\nparam 0 0 16 0 0 0.w\nset 8\n"
        "start\nsum 1 0 0 16 1 16 %.10g 1 1 1\nslope 1 0 0 16 0.016 1.6e-05 0 0 0 0\n"
        "slope 1 0 10 %d %g %g 0 0 0 0\nupdated 1 0 0 16 1 16 %.10g 1 1 1\n"
        "score 1 1 1 8 0.001 1 1 1 0 0 8\nend 1\n",
        gradient, turn, turn * 1e6, turn * 1e12, weight);
    mkdir(folder, 0700);
    write_text(in_folder(folder, "rank-0.digest"), text);
}

/* Each that turns moves by 2 lr: together they show c n 2 lr at most, and 4 sqrt(n) 2 lr (explain/rounding.h). */
static void so_many_elements_may_turn(void **state) {
    (void)state;
    static const struct {
        int turn;
        double apart;
        bool found;
    } cases[] = {
        {1, 1.7 * 2e-3, false}, {1, 1.8 * 2e-3, true}, {9, 11.9 * 2e-3, false}, {9, 12.1 * 2e-3, true}};
    char one[300], two[300];
    snprintf(one, sizeof one, "%s/turned-one", gs_test_folder());
    snprintf(two, sizeof two, "%s/turned-two", gs_test_folder());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_digests run[2];
        gs_difference d;
        write_turned(one, cases[i].turn, 1, 1);
        write_turned(two, cases[i].turn, 1 + 1e-5, 1 + cases[i].apart + 4e-4); /* 4e-4: the tolerance */
        assert_ok(gs_digests_read(two, &run[0]));
        assert_ok(gs_digests_read(one, &run[1]));
        gs_explain(&run[0], &run[1], 1e-4, &d);
        if (d.found != cases[i].found || (d.found && d.kind != GS_DIGEST_updated))
            fail_msg("case %zu: found %d, kind %d", i, d.found, d.kind);
        gs_digests_free(&run[0]);
        gs_digests_free(&run[1]);
    }
}

GS_TESTS(explain_rounding, cmocka_unit_test(rounding_that_adam_enlarges_is_no_difference),
         cmocka_unit_test(steps_of_rounding_are_no_difference), cmocka_unit_test(so_many_elements_may_turn))
