/* --digest and `gradsum explain`. Mistakes that it must name are in tests/faults/, which is a program of its own. */
#include "tests/files.h"
#include "tests/program.h"
#include "tests/training.h"

#include <sys/stat.h>

#include "explain/explain.h"
#include "explain/fit.h"
#include "explain/tolerance.h"

static const char RUN[] = "train --model \"flatten, linear 10\" --steps 2 --threads 1";

static void write_record(const char *folder, int rank, const char *text) {
    mkdir(folder, 0700);
    const char *path = gs_test_format("%s/rank-%d.digest", folder, rank);
    write_text(path, text);
}

TEST(fit_finds_what_an_array_is_made_of) {
    gs_fit fit = {.count = 2};
    double c[GS_FIT_MOST], rest;
    for (int p = 0; p < 3; p++) {
        gs_numbers x[2], y = {0};
        memset(x, 0, sizeof x);
        for (int k = 0; k < GS_ALONG; k++) {
            x[0].along[k] = p + k * k - 2;
            x[1].along[k] = 3 * p - k + 1;
            y.along[k] = 2 * x[0].along[k] - 0.5 * x[1].along[k];
        }
        gs_fit_add(&fit, &y, (const gs_numbers *const[]){&x[0], &x[1]});
    }
    assert_true(gs_fit_solve(&fit, c, &rest));
    assert_near(c[0], 2, 1e-9, 0);
    assert_near(c[1], -0.5, 1e-9, 0);
    assert_near(rest, 0, 1e-6, 0);
    const gs_fit none = {.count = 2};
    assert_false(gs_fit_solve(&none, c, &rest)); /* no equations */
}

/* The timeline of a log watches the same layers. */
TEST(a_run_and_its_layout_are_the_same) {
    const char *one = gs_test_format("%s/one", gs_test_folder());
    const char *two = gs_test_format("%s/two", gs_test_folder());
    const char *log = gs_test_format("%s/log", gs_test_folder());
    gs_test_program_prints(0, "sha256", "%s --digest %s --log %s --trace-steps 2", RUN, one, log);
    assert_has(gs_test_text(in_folder(log, "trace.json"), NULL), "1.linear");
    gs_test_program_prints(0, "sha256", "launch -n 2 -- %s --digest %s", RUN, two);
    gs_test_program_prints(0,
                           "no difference beyond rounding\n  These runs are compared up to rounding: train ",
                           "explain %s %s", two, one);
}

/* With --exact all that is recorded has the same bits in all layouts, which the relu's kinks show soonest. */
TEST(exact_runs_are_the_same_to_the_bit) {
    static const char *const layouts[] = {"cpu,cpu", "cpu,cpu,cpu,cpu --layout dp2,tp2,zero3",
                                          "cpu,cpu --layout pp2 --recompute blocks"};
    for (int i = 0; i < 3; i++) {
        const char *folder = gs_test_format("%s/exact%d", gs_test_folder(), i);
        gs_test_program_prints(
            0, "sha256",
            "train --model lenet --batch 60 --optimizer adam --clip 0.5 --steps 3 --threads 1 "
            "--exact --digest %s --devices %s",
            folder, layouts[i]);
        gs_test_program_prints(0, "steps 1 to 3: the same, to the bit", "explain %s", folder);
    }
}

/* Each stage records its own layers, with the state that they have, and no other pass's gradient. */
TEST(stages_are_the_same_too) {
    const char *folder = gs_test_folder();
    mkdir(folder, 0700);
    static const char *const layouts[] = {"cpu", "cpu,cpu --layout pp2 --micro-batches 2",
                                          "cpu,cpu,cpu,cpu --layout dp2,pp2,zero1 --micro-batches 2"};
    for (int i = 0; i < 3; i++) {
        gs_test_program_prints(
            0, "sha256",
            "train --model \"conv 4 3x3, batch_norm, relu, conv 4 3x3, batch_norm, relu, global_avg_pool, "
            "flatten, linear 10\" --batch 80 --batch-norm ghost:4 --steps 2 --threads 1 --digest %s/%d "
            "--devices %s",
            folder, i, layouts[i]);
        if (i > 0)
            gs_test_program_prints(0, "steps 1 to 2: no difference beyond rounding", "explain %s/%d %s/0",
                                   folder, i, folder);
    }
}

/* Each part of a group records what it has, at the places in the whole. */
TEST(parts_add_up_to_the_whole) {
    static const char drops[] =
        "\"embedding 155 16, positions, dropout 0.1, 2 x residual (residual (layer_norm, "
        "linear 48, attention 4 causal, linear 16, dropout 0.2), residual (layer_norm, "
        "linear 32, gelu, linear 16)), layer_norm, tied\" --data text:%s --context 8 "
        "--batch 12",
                      lenet[] = "lenet --batch 60 --optimizer adamw --clip 0.5",
                      gpt[] = "gpt --data text:%s --context 8 --batch 12 --optimizer adam",
                      norm[] = "\"conv 6 3x3, batch_norm, relu, conv 4 3x3, global_avg_pool, flatten, "
                               "linear 10\" --batch 40",
                      conv[] = "\"conv 5 3x3, batch_norm, relu, conv 4 3x3, batch_norm, relu, "
                               "global_avg_pool, flatten, dropout 0.1, linear 10\" --batch 80 --batch-norm "
                               "ghost:4 --optimizer lamb";
    static const struct {
        const char *layout, *model;
        int workers;
    } runs[] = {{"tp2", gpt, 2},
                {"pp2,tp2 --sequence --recompute blocks --micro-batches 2", drops, 4},
                {"dp2,tp2,pp2,zero1 --micro-batches 2", gpt, 8},
                {"dp2,tp2,zero3", lenet, 4},
                {"dp2,tp2", conv, 4},
                {"dp2,tp2,zero1", norm, 4}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char folder[300], devices[40] = "cpu";
        for (int w = 1; w < runs[i].workers; w++) strcat(devices, ",cpu");
        snprintf(folder, sizeof folder, "%s/parts%zu", gs_test_folder(), i);
        const char *model = gs_test_format(runs[i].model, gs_test_text_file());
        gs_test_program_prints(0, "sha256", "train --model %s --steps 3 --threads 1 --digest %s-one", model,
                               folder);
        gs_test_program_prints(0, "sha256",
                               "train --model %s --layout %s --devices %s --steps 3 --threads 1 --digest %s",
                               model, runs[i].layout, devices, folder);
        gs_test_program_prints(0, "no difference beyond rounding", "explain %s %s-one", folder, folder);
    }
}

/* Line `begins` of a record: its numbers from there on are made others. Steps then end without their checks. */
static void change_record(const char *folder, int rank, const char *begins) {
    const char *path = gs_test_format("%s/rank-%d.digest", folder, rank);
    char *text = gs_test_text(path, NULL), *line = strstr(text, begins);
    assert_non_null(line);
    for (char *c = line + strlen(begins); *c != '\n'; c++)
        if (*c >= '1' && *c <= '8') ++*c;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n")) {
        const bool ends = strncmp(l, "end ", 4) == 0;
        fprintf(file, "%.*s\n", (int)(ends ? 4 + strcspn(l + 4, " ") : strlen(l)), l);
    }
    fclose(file);
}

/* With --sequence each of a group records its own tokens: what one of them has wrong is found. */
TEST(a_difference_in_some_tokens_is_found) {
    const char *folder = gs_test_format("%s/tokens", gs_test_folder());
    gs_test_program_prints(
        0, "sha256",
        "train --model \"embedding 155 16, positions, residual (layer_norm, linear 32, gelu, "
        "linear 16), layer_norm, tied\" --data text:%s --context 8 --batch 8 --steps 2 "
        "--threads 1 --devices cpu,cpu --tensor 2 --sequence --digest %s",
        gs_test_text_file(), folder);
    gs_test_program_prints(0, "steps 1 to 2: no difference", "explain %s", folder);
    change_record(folder, 1, "\ny 2 5 0 64 ");
    change_record(folder, 1, "\ny 2 3 0 64 "); /* and so in the residual around that layer */
    char *text = gs_test_output(1, "explain %s", folder);
    assert_has(text, "step 2: the first difference is in: y of layer 2.body.0 (layer_norm)");
    assert_has(text, "of what it should be, more than the 0.0001 allowed for rounding\n");
}

/* Without a second record one worker makes it. */
TEST(one_worker_makes_the_run_that_is_right) {
    static const char *const runs[] = {
        "train --model lenet --batch 60 --steps 3 --optimizer adamw --clip 0.5 --seed 4 --schedule cosine "
        "--warmup-steps 2 --batch-norm local --devices cpu,cpu --threads 1", /* without batch_norm */
        "train --model gpt --data text:%s --context 16 --batch 8 --steps 2 --optimizer adam --devices "
        "cpu,cpu "
        "--layout dp2,zero1"};
    char folder[300];
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/alone%d", gs_test_folder(), i);
        const char *run = gs_test_format(runs[i], gs_test_text_file());
        gs_test_program_prints(0, "sha256", "%s --digest %s", run, folder);
        gs_test_program_prints(0, "no difference beyond rounding", "explain %s", folder);
    }
    snprintf(folder, sizeof folder, "%s/local", gs_test_folder());
    gs_test_program_prints(
        0, "sha256",
        "train --model \"conv 4 3x3, batch_norm, flatten, linear 10\" --batch 80 --steps 1 "
        "--batch-norm local --digest %s",
        folder);
    gs_test_program_prints(2, "has --batch-norm local", "explain %s", folder);
}

/* A step that f16's loss scaling leaves out, in all layouts: its gradients are NaN, and that is no difference. */
TEST(a_step_that_was_left_out_is_no_difference) {
    static const char *const layouts[] = {"cpu", "cpu,cpu,cpu", "cpu,cpu --layout tp2"};
    const char *folder = gs_test_folder();
    for (int i = 0; i < 3; i++) {
        gs_test_program_prints(
            0, "epoch 1, step 1: a gradient is not finite with a loss scale of 128",
            "train --model \"flatten, linear 16, relu, linear 16 std 8, linear 10 std 8\" --precision f16 "
            "--steps 4 --optimizer adam "
            "--lr 0.05 --clip 1e6 --threads 1 --digest %s/left%d --devices %s",
            folder, i, layouts[i]);
        if (i > 0)
            gs_test_program_prints(0, "steps 1 to 4: no difference beyond rounding",
                                   "explain %s/left%d %s/left0", folder, i, folder);
    }
}

/* Step 1 of a record by hand: two eighths of y, dw, and whether the update was left out. */
static const char *by_hand(const char *y0, const char *y1, const char *dw, int left_out) {
    char text[600];
    const char *folder = gs_test_folder();
    snprintf(text, sizeof text,
             "gradsum digest 3 rank 0 of 1\nlayer 0 linear 0\nparam 0 0 4 0 0 0.w\nset 8\nstart\n"
             "y 1 0 0 4 1 %s %s 1 1 1 0\ny 1 0 1 4 1 %s %s 1 1 1 0\ndw 1 0 0 4 1 %s %s 1 1 1 0\n"
             "score 1 1 1 8 1 1 1 1 65536 %d 8\nend 1\n",
             y0, y0, y1, y1, dw, dw, left_out);
    write_record(folder, 0, text);
    return folder;
}

/* What is finite is compared all the same, beside what is not; and one run alone that is not finite differs. */
TEST(only_what_is_not_finite_is_left_out) {
    static const struct {
        const char *y1_of_a, *dw_of_a, *y0_of_b, *dw_of_b;
        int a_leaves_out, b_leaves_out, kind; /* -1: no difference */
    } cases[] = {
        {"2", "nan", "4", "nan", 1, 1, -1},
        {"2", "nan", "inf", "inf", 1, 1, -1},
        {"2", "4", "4", "nan", 1, 1, -1},
        {"3", "nan", "inf", "nan", 1, 1, GS_DIGEST_y},
        {"2", "4", "4", "5", 1, 1, GS_DIGEST_dw},
        {"2", "nan", "4", "4", 1, 0, GS_DIGEST_dw},
        {"2", "nan", "4", "nan", 0, 0, GS_DIGEST_dw},
        {"2", "4", "4", "4", 1, 0, GS_DIFFERS_loss_scale},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_digests a, b;
        gs_difference d;
        assert_ok(
            gs_digests_read(by_hand("4", cases[i].y1_of_a, cases[i].dw_of_a, cases[i].a_leaves_out), &a));
        assert_ok(
            gs_digests_read(by_hand(cases[i].y0_of_b, "2", cases[i].dw_of_b, cases[i].b_leaves_out), &b));
        gs_explain(&a, &b, &d);
        if (d.found != (cases[i].kind >= 0) || (d.found && d.kind != cases[i].kind))
            fail_msg("case %zu: found %d, kind %d; wanted kind %d", i, d.found, d.kind, cases[i].kind);
        gs_digests_free(&a);
        gs_digests_free(&b);
    }
}

/* One weight of a million may hide in the sums, but not in the bits. */
TEST(one_bit_is_a_difference) {
    for (int exact = 0; exact < 2; exact++) {
        gs_digests run[2];
        gs_difference d;
        for (int i = 0; i < 2; i++) {
            char text[400];
            const char *folder = gs_test_folder();
            snprintf(text, sizeof text,
                     "gradsum digest 3 rank 0 of 1\noption exact %s\nlayer 0 linear 0\nparam 0 0 4 0 0 0.w\n"
                     "set 8\nstart\ny 1 0 0 4 1 2 3 4 5 6 %x\nscore 1 1 1 8 1 1 1 1 0 0 8\nend 1\n",
                     exact ? "yes" : "no", 0x9f3a + i);
            write_record(folder, 0, text);
            assert_ok(gs_digests_read(folder, &run[i]));
        }
        gs_explain(&run[0], &run[1], &d);
        assert_int_equal(d.found, exact);
        assert_true(d.rounded);
        if (d.found) assert_int_equal(d.kind, GS_DIGEST_y);
        for (int i = 0; i < 2; i++) gs_digests_free(&run[i]);
    }
}

/* The rules of explain/tolerance.h, of runs that are not exact. */
TEST(tolerances_follow_from_what_was_seen) {
    static const struct {
        const char *head, *op;
        double rounding, dx_of_none, dx_of_much; /* where y differs by 0 and by 0.03 */
    } cases[] = {{"", "tanh", 1e-4, 1e-4, 0.3},
                 {"", "relu", 1e-4, 0.25, 0.4},
                 {"", "max_pool2d", 1e-4, 0.25, 0.4},
                 {"option wire f16\n", "tanh", 3e-3, 3e-3, 0.3},
                 {"option precision bf16\n", "relu", 2e-2, 0.25, 0.4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        const char *folder = gs_test_folder();
        gs_digests run;
        gs_tolerance t;
        snprintf(text, sizeof text,
                 "gradsum digest 3 rank 0 of 1\n%slayer 0 %s 0\nparam 0 0 4 0 0 0.w\nset 8\nstart\n"
                 "score 1 1 1 8 1 1 1 1 0 0 8\nend 1\n",
                 cases[i].head, cases[i].op);
        write_record(folder, 0, text);
        assert_ok(gs_digests_read(folder, &run));
        gs_tolerance_begin(&t, &run, &run);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_y), cases[i].rounding, 1e-9, 0);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_dx), cases[i].dx_of_none, 1e-9, 0);
        gs_tolerance_saw(&t, GS_DIGEST_y, 0.03);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_y), 0.3, 1e-9, 0);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_dx), cases[i].dx_of_much, 1e-9, 0);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_sum), cases[i].rounding, 1e-9, 0);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_samples), GS_AS_WRITTEN, 1e-15, 0);
        gs_tolerance_next(&t); /* what was seen in one step is no reason for y in the next */
        assert_near(gs_tolerance_of(&t, GS_DIGEST_y), cases[i].rounding, 1e-9, 0);
        assert_near(gs_tolerance_of(&t, GS_DIGEST_vector0), cases[i].dx_of_much, 1e-9, 0);
        gs_digests_free(&run);
    }
}

/* A record by hand of ranks whose gradients are 1 in the direction of their own, and of a sum. */
static const char *sum_by_hand(const char *name, int ranks, const char *sum) {
    static const char *const own[] = {"1 0 0 0", "0 1 0 0", "0 0 1 0", "0 0 0 1"};
    static char folder[300];
    snprintf(folder, sizeof folder, "%s/%s", gs_test_folder(), name);
    for (int r = 0; r < ranks; r++) {
        char text[600];
        snprintf(text, sizeof text,
                 "gradsum digest 3 rank %d of %d\nlayer 0 linear 0\nparam 0 0 4 0 0 0.w\nset 8\nstart\n"
                 "dw 1 0 0 4 1 1 %s 0\nsum 1 0 0 4 1 4 %s 0\nscore 1 1 1 8 1 1 1 1 65536 0 8\nend 1\n",
                 r, ranks, ranks > 1 ? own[r] : "1 1 1 1", sum);
        write_record(folder, r, text);
    }
    return folder;
}

TEST(all_ranks_of_a_wrong_sum_are_named) {
    static const char *const cases[][2] = {
        {"1 0 1 1", "the gradient of rank 1 is not in the sum"},
        {"1 0 1 0", "the gradients of ranks 1, 3 are not in the sum"},
        {"1 2 1 1", "the gradient of rank 1 is in the sum twice"},
        {"2 1 2 2", "the gradients of ranks 0, 2, 3 are in the sum twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_digests a, b;
        gs_difference d;
        const char *name = gs_test_format("wrong%zu", i);
        assert_ok(gs_digests_read(sum_by_hand(name, 4, cases[i][0]), &a));
        assert_ok(gs_digests_read(sum_by_hand("right", 1, "1 1 1 1"), &b));
        gs_explain(&a, &b, &d);
        assert_true(d.found);
        assert_string_equal(d.sentence, cases[i][1]);
        gs_digests_free(&a);
        gs_digests_free(&b);
    }
}

TEST(runs_of_two_trainings_are_refused) {
    const char *one = gs_test_format("%s/one", gs_test_folder());
    const char *other = gs_test_format("%s/other", gs_test_folder());
    gs_test_program_prints(0, "sha256", "%s --digest %s", RUN, one);
    gs_test_program_prints(0, "sha256", "%s --digest %s --seed 7", RUN, other);
    gs_test_program_prints(2, "--seed is '7' in", "explain %s %s", other, one);
    gs_test_program_prints(1, "is there already; wanted a new folder", "%s --digest %s", RUN, one);
}

TEST(wrong_use_gets_a_sentence) {
    const char *folder = gs_test_folder();
    gs_test_program_prints(2, "wanted one or two folders", "explain");
    gs_test_program_prints(
        1, "No such file or directory; wanted a folder that gradsum train --digest has written", "explain %s",
        folder);
    gs_test_program_prints(1, "cannot read", "explain %s %s", folder, folder);
    gs_test_program_prints(2, "does not work with --sync local", "%s --sync local --every 2 --digest %s/a",
                           RUN, folder);
    gs_test_program_prints(1, "cannot make the folder", "%s --digest %s/none/c", RUN, folder);
}
