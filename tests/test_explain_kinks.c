/* What `gradsum explain` allows near a kink, and what it does not: explain/kinks.h. Mistakes in the backward of relu
 * and of max_pool2d are in tests/faults/. */
#include "tests/devices.h"
#include "tests/program.h"
#include "tests/training.h"

#include <math.h>
#include <sys/stat.h>

#include "explain/explain.h"

/* ---- records by hand: linear, a layer with kinks, linear; one step ---- */

/* What may differ between two records. */
typedef struct made {
    const char *kinks; /* what follows "kink 1 1 0 " */
    double y, dx, dw;  /* of the kinked layer, of it, and of the first linear */
    double later_dw;   /* of the last linear, which backward comes to before */
} made;

static void write_record(const char *folder, const char *op, const made *m) {
    char path[400];
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/rank-0.digest", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "gradsum digest 2 rank 0 of 1\nlayer 0 linear 0\nlayer 1 %s 1\nlayer 2 linear 2\n", op);
    fprintf(file, "param 0 0 9 0 0 0.weight\nparam 1 9 9 0 2 2.weight\nset 8\nstart\n");
    fprintf(file, "y 1 1 0 1000 0 400 %.10g 10 10 10\n", m->y);
    fprintf(file, "dw 1 0 0 9 0 9 %.10g 3 3 3\ndw 1 1 0 9 0 9 %.10g 3 3 3\n", m->dw, m->later_dw);
    fprintf(file, "dx 1 1 0 1000 0 100 %.10g 5 5 5\n", m->dx);
    if (*m->kinks) fprintf(file, "kink 1 1 0 %s\n", m->kinks);
    fprintf(file, "score 1 1 1 8 1 1 1 1 0 0 8\nend 1\n");
    assert_false(fclose(file));
}

static gs_difference explained(const char *op, const made *a, const made *b) {
    gs_digests run[2];
    gs_difference d;
    char one[300], two[300];
    snprintf(one, sizeof one, "%s/one", gs_test_folder());
    snprintf(two, sizeof two, "%s/two", gs_test_folder());
    write_record(one, op, b);
    write_record(two, op, a);
    assert_ok(gs_digests_read(two, &run[0]));
    assert_ok(gs_digests_read(one, &run[1]));
    gs_explain(&run[0], &run[1], 1e-4, &d);
    gs_digests_free(&run[0]);
    gs_digests_free(&run[1]);
    return d;
}

/* y differs by 2e-4 in one of four sums: 1e-4 as a root mean square, of 500 elements that pass. So delta is 7.2e-5. One
 * gap of each run is in 2^-15 .. 2^-14, or in 2^-12 .. 2^-11, and 499 are larger; |dy| is 0.5 where the gap is
 * small. */
#define NEAR "-15 3 1 0.5 0.25 0 0 0 499 100 50"
#define FAR "-12 2 1 0.5 0.25 499 100 50"

static void as_much_as_hangs_on_small_gaps_is_no_difference(void **state) {
    (void)state;
    static const struct {
        const char *op, *a, *b;
        double y, dx; /* by how much they differ */
        bool found;
    } cases[] = {
        {"relu", NEAR, NEAR, 2e-4, 0.5, false},
        {"relu", NEAR, NEAR, 2e-4, 1.7, false}, /* c |D|_1 is 1.734 */
        {"relu", NEAR, NEAR, 2e-4, 1.8, true},
        {"relu", NEAR, FAR, 2e-4, 0.5, false},
        {"relu", FAR, NEAR, 2e-4, 0.5, false},
        {"relu", NEAR, FAR, 2e-4, 0.86, false},
        {"relu", NEAR, FAR, 2e-4, 0.9, true},
        {"relu", FAR, FAR, 2e-4, 0.5, true},
        {"relu", "", "", 2e-4, 0.5, true},
        {"relu", NEAR, NEAR, 0, 0.5, true}, /* x is the same */
        {"tanh", NEAR, NEAR, 2e-4, 0.5, true},
        {"relu", NEAR, NEAR, 5e-2, 0.5, true}, /* y is not */
        {"max_pool2d", NEAR, NEAR, 2e-4, 0.5, false},
        {"max_pool2d", NEAR, NEAR, 1e-4, 0.5, false}, /* two x may differ, each by delta */
        {"relu", NEAR, NEAR, 1e-4, 0.5, false},
        {"relu", NEAR, NEAR, 5e-5, 0.5, true},
        {"max_pool2d", NEAR, NEAR, 3e-5, 0.5, true},
        {"relu", NEAR, NEAR, 2e-4, NAN, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const made a = {cases[i].a, 10 + cases[i].y, 5 + cases[i].dx, 3, 3}, b = {cases[i].b, 10, 5, 3, 3};
        const gs_difference d = explained(cases[i].op, &a, &b);
        if (d.found != cases[i].found) fail_msg("case %zu: found %d", i, d.found);
        if (!d.found) assert_int_equal(d.switched, 1);
        if (d.found && cases[i].y < 1e-2) assert_int_equal(d.kind, GS_DIGEST_dx);
    }
}

/* Where many gaps are small, an eighth of them and 8 may be another choice. */
static void few_of_many_are_another_choice(void **state) {
    (void)state;
    static const struct {
        double dx;
        bool found;
    } cases[] = {{4 * 0.8, false}, {4 * 1.2, true}};
    /* 96 in each run, each of |dy| 0.1 : 192 of them, of which 32 may; 0.566 is their norm, and 19.2 the sum */
    static const char many[] = "-15 3 96 9.6 0.96 0 0 0 404 100 50";
    for (int i = 0; i < 2; i++) {
        const made a = {many, 10 + 2e-4, 5 + cases[i].dx * 0.5657, 3, 3}, b = {many, 10, 5, 3, 3};
        assert_int_equal(explained("relu", &a, &b).found, cases[i].found);
    }
}

/* A share r of dx is 10 r of what follows, and of nothing else. */
static void what_follows_may_differ_as_much(void **state) {
    (void)state;
    static const struct {
        double dx, dw, later_dw;
        bool found;
    } cases[] = {
        {0.5, 1.3, 0, false}, /* r = 0.05, and |dw| is 3 */
        {0.5, 1.6, 0, true},      {0, 0.1, 0, true},     {0.5, 0, 0.1, true},
        {5e-4, 1.5e-3, 0, false}, /* r is half the tolerance: |dw| may be 1e-4 + 10 r, times 3 */
        {5e-4, 2e-3, 0, true},    {5e-5, 4e-4, 0, true}, /* r is a twentieth, and counts for nothing */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const made a = {NEAR, 10 + 2e-4, 5 + cases[i].dx, 3 + cases[i].dw, 3 + cases[i].later_dw},
                   b = {NEAR, 10, 5, 3, 3};
        const gs_difference d = explained("relu", &a, &b);
        assert_int_equal(d.found, cases[i].found);
        if (d.found) assert_int_equal(d.kind, GS_DIGEST_dw);
        if (d.found) assert_int_equal(d.number, cases[i].later_dw > 0 ? 1 : 0);
    }
}

static void damaged_kinks_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *kinks, *part;
    } cases[] = {
        {"-15 0", "line 13 is not 'kink STEP LAYER EIGHTH EXPONENT COUNT'"},
        {"-15 65 1 1 1", "line 13 is not 'kink"},
        {"2147483647 2 1 1 1 1 1 1", "line 13 is not 'kink"},
        {"-43 1 1 1 1", "line 13 is not 'kink"},
        {"x", "line 13 is not 'kink"},
        {"-15 2 1 0.5 0.25 1 0.5", "line 13 has not three numbers for each power of two"},
        {"-15 1 1 0.5 0.25 7", "line 13 goes on after its last number"},
        {"-15 1 1 1 1\nkink 1 3 0 -15 1 1 1 1", "line 14 is not 'kink"},
        {"-15 1 1 1 1\nkink 1 1 8 -15 1 1 1 1", "line 14 is not 'kink"},
        {"-15 1 1 1 1\nkink 2 1 0 -15 1 1 1 1", "line 15 ends a step with kinks of another one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_digests run;
        const char *folder = gs_test_folder();
        write_record(folder, "relu", &(made){cases[i].kinks, 10, 5, 3, 3});
        assert_fails(GS_E_FORMAT, cases[i].part, gs_digests_read(folder, &run));
    }
}

/* With seed 6 the two choose differently in step 1, in a max_pool2d, where OpenBLAS has the kernels of SkylakeX. */
static void a_run_that_chose_differently_is_right(void **state) {
    (void)state;
    static const char *const seeds[] = {"6", "6 --optimizer adam"};
    for (int i = 0; i < 2; i++) {
        char folder[300];
        snprintf(folder, sizeof folder, "%s/chose%d", gs_test_folder(), i);
        gs_test_program_prints(
            0, "sha256",
            "train --model \"conv 8 3x3 pad 1, batch_norm, relu, conv 8 3x3 pad 1, batch_norm, "
            "relu, max_pool 2, flatten, linear 10\" --batch 80 --steps 3 --threads 1 --devices "
            "cpu,cpu --digest %s --seed %s",
            folder, seeds[i]);
        char *output;
        assert_int_equal(gs_test_program(&output, "explain %s", folder), 0);
        const bool is_right = strstr(output, "steps 1 to 3: no difference beyond rounding") != NULL;
        const bool switched = strstr(output, "rounding made the runs choose differently") != NULL;
        free(output);
        assert_true(is_right);
        if (!switched) skip_because("with this machine's kernels the runs choose alike");
    }
}

/* An OpenCL device rounds what each layer stores to 16 bits; the run that is right, on the CPU, does not. */
static void what_a_device_stores_is_rounded(void **state) {
    (void)state;
    gs_test_need_opencl();
    for (int seed = 2; seed < 8; seed += 4) {
        char folder[300];
        snprintf(folder, sizeof folder, "%s/stored%d", gs_test_folder(), seed);
        gs_test_program_prints(
            0, "sha256",
            "train --data text:%s --context 8 --batch 32 --steps 3 --precision bf16 --device cl --seed %d "
            "--digest %s --model \"embedding 155 16, positions, residual (layer_norm, linear 48, attention 2 "
            "causal, linear 16, dropout 0.1), layer_norm, linear 155\"",
            gs_test_text_file(), seed, folder);
        gs_test_program_prints(0, "no difference beyond rounding", "explain %s", folder);
    }
}

/* A max_pool2d's gradient that moves from place to place is in the record, and what follows from it is right. With seed
 * 1 the four weights of two such places must not be the same, as signs were; with seed 2 what the move shows is within
 * the tolerance, and conv2d, before it, makes more of it. */
static void a_move_in_a_pooling_is_no_mistake_of_conv2d(void **state) {
    (void)state;
    gs_test_need_opencl();
    for (int seed = 1; seed < 3; seed++) {
        char folder[300];
        snprintf(folder, sizeof folder, "%s/move%d", gs_test_folder(), seed);
        gs_test_program_prints(
            0, "sha256",
            "train --model lenet --batch 32 --threads 1 --steps 1 --precision f16 --device cl "
            "--seed %d --digest %s",
            seed, folder);
        gs_test_program_prints(0, "no difference beyond rounding", "explain %s", folder);
    }
}

GS_TESTS(explain_kinks, cmocka_unit_test(as_much_as_hangs_on_small_gaps_is_no_difference),
         cmocka_unit_test(few_of_many_are_another_choice), cmocka_unit_test(what_follows_may_differ_as_much),
         cmocka_unit_test(damaged_kinks_are_refused), cmocka_unit_test(a_run_that_chose_differently_is_right),
         cmocka_unit_test(what_a_device_stores_is_rounded),
         cmocka_unit_test(a_move_in_a_pooling_is_no_mistake_of_conv2d))
