/* --digest and `gradsum explain`. The mistakes that explain must name are in tests/faults/, a separate program. */
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <sys/stat.h>

#include "explain/explain.h"
#include "explain/sums.h"

static const char RUN[] = "train --model \"flatten, linear 10\" --steps 2 --threads 1";

/* The first step of a handwritten record: a layer whose parameter has 4 numbers, and each rank's rows. */
typedef struct by_hand {
    int ranks;                /* 0: one rank */
    int first;                /* step; 0: 1 */
    const char *options, *op; /* NULL: none; linear */
    const char *rows[4];      /* by rank; NULL: no row */
    const char *score[4];     /* by rank; NULL: the score row of an f32 step */
    const char *later;        /* appended to each file; NULL: nothing */
} by_hand;

static void read_by_hand(const by_hand *h, gs_digests *run) {
    static int made;
    const char *folder = gs_test_format("%s/hand%d", gs_test_folder(), made++);
    const int ranks = h->ranks ? h->ranks : 1, first = h->first ? h->first : 1;
    mkdir(folder, 0700);
    for (int r = 0; r < ranks; r++) {
        const char *rows = h->rows[r] ? h->rows[r] : "",
                   *score = h->score[r] ? h->score[r] : "1 1 8 1 1 1 1 0 0 8";
        write_text(gs_test_format("%s/rank-%d.digest", folder, r),
                   gs_test_format("gradsum digest 4 rank %d of %d\n%slayer 0 %s 0\nparam 0 0 4 0 0 0.w\nset "
                                  "8\nstart\n%sscore %d %s\nend %d\n%s",
                                  r, ranks, h->options ? h->options : "", h->op ? h->op : "linear", rows,
                                  first, score, first, h->later ? h->later : ""));
    }
    assert_ok(gs_digests_read(folder, run));
}

static gs_difference explain_by_hand(const by_hand *of_a, const by_hand *of_b) {
    gs_digests a, b;
    gs_difference d;
    read_by_hand(of_a, &a);
    read_by_hand(of_b, &b);
    gs_explain(&a, &b, &d);
    gs_digests_free(&a);
    gs_digests_free(&b);
    return d;
}

/* Checks the kind of a difference; -1: no difference. */
static void is_of_kind(const gs_difference *d, int kind, size_t number) {
    if (d->found != (kind >= 0) || (d->found && d->kind != kind))
        fail_msg("case %zu: found %d, kind %d; wanted kind %d", number, d->found, d->kind, kind);
}

TEST(fit_finds_what_an_array_is_made_of) {
    gs_fit fit = {.count = 2};
    double c[GS_FIT_MOST], rest;
    for (int p = 0; p < 3; p++) {
        gs_sketch x[2], y = {0};
        memset(x, 0, sizeof x);
        for (int k = 0; k < GS_ALONG; k++) {
            x[0].along[k] = p + k * k - 2;
            x[1].along[k] = 3 * p - k + 1;
            y.along[k] = 2 * x[0].along[k] - 0.5 * x[1].along[k];
        }
        gs_fit_add(&fit, &y, x);
    }
    assert_true(gs_fit_solve(&fit, c, &rest));
    assert_near(c[0], 2, 1e-9, 0);
    assert_near(c[1], -0.5, 1e-9, 0);
    assert_near(rest, 0, 1e-6, 0);
    const gs_fit none = {.count = 2};
    assert_false(gs_fit_solve(&none, c, &rest)); /* no equations */
}

/* A log's timeline covers the same layers. */
TEST(a_run_and_its_layout_are_the_same) {
    const char *one = gs_test_format("%s/one", gs_test_folder());
    const char *two = gs_test_format("%s/two", gs_test_folder());
    const char *log = gs_test_format("%s/log", gs_test_folder());
    assert_prints(0, "sha256", "%s --digest %s --log %s --trace-steps 2", RUN, one, log);
    assert_has(gs_test_text(in_folder(log, "trace.json"), NULL), "1.linear");
    assert_prints(0, "sha256", "launch -n 2 -- %s --digest %s", RUN, two);
    assert_prints(0, "no difference beyond rounding\n  These runs are compared up to rounding: train ",
                  "explain %s %s", two, one);
}

/* With --exact, all that is recorded has the same bits in all layouts. A difference would show at a relu's kink. */
TEST(exact_runs_are_the_same_to_the_bit) {
    static const char *const layouts[] = {"cpu,cpu", "cpu,cpu,cpu,cpu --layout dp2,tp2,zero3",
                                          "cpu,cpu --layout pp2 --recompute blocks"};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const char *folder = gs_test_format("%s/exact", gs_test_folder());
        assert_prints(0, "sha256",
                      "train --model lenet --batch 60 --optimizer adam --clip 0.5 --steps 3 --threads 1 "
                      "--exact --digest %s --devices %s",
                      folder, layouts[i]);
        assert_prints(0, "steps 1 to 3: the same, to the bit", "explain %s", folder);
    }
}

/* Runs each of the layouts, which must print `says`; explain must find no difference from the first run. */
static void layouts_agree(const char *model, const char *const *layouts, int count, const char *says,
                          const char *explained) {
    const char *folder = gs_test_folder();
    mkdir(folder, 0700);
    for (int i = 0; i < count; i++) {
        assert_prints(0, says, "train --model %s --threads 1 --digest %s/%d --devices %s", model, folder, i,
                      layouts[i]);
        if (i > 0) assert_prints(0, explained, "explain %s/%d %s/0", folder, i, folder);
    }
}

/* Each stage records its layers and their state, and only gradients of the recorded pass. */
TEST(stages_are_the_same_too) {
    static const char *const layouts[] = {"cpu", "cpu,cpu --layout pp2 --micro-batches 2",
                                          "cpu,cpu,cpu,cpu --layout dp2,pp2,zero1 --micro-batches 2"};
    layouts_agree("\"conv 4 3x3, batch_norm, relu, conv 4 3x3, batch_norm, relu, global_avg_pool, "
                  "flatten, linear 10\" --batch 80 --batch-norm ghost:4 --steps 2",
                  layouts, 3, "sha256", "steps 1 to 2: no difference beyond rounding");
}

/* With Adam and a rate of 1, the outputs are 1,000 times dy. */
TEST(large_steps_are_no_difference) {
    static const char *const layouts[] = {"cpu", "cpu,cpu,cpu --sync ring", "cpu,cpu,cpu,cpu --sync tree"};
    layouts_agree("softmax --optimizer adam --lr 1 --seed 2 --steps 8", layouts, 3, "sha256",
                  "steps 1 to 8: no difference beyond rounding");
}

/* Each rank of a group records its parts, at their positions in the whole. */
TEST(parts_add_up_to_the_whole) {
    static const char drops[] =
        "\"embedding 155 16, positions, dropout 0.1, 2 x residual (residual (layer_norm, linear 48, "
        "attention 4 causal, linear 16, dropout 0.2), residual (layer_norm, linear 32, gelu, linear 16)), "
        "layer_norm, tied\" --data text:%s --context 32 --batch 24",
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
                {"tp2", drops, 2}, /* the y of `dropout` is larger than any tensor */
                {"pp2,tp2 --sequence --recompute blocks --micro-batches 2", drops, 4},
                {"dp2,tp2,pp2,zero1 --micro-batches 2", gpt, 8},
                {"dp2,tp2,zero3", lenet, 4},
                {"dp2,tp2", conv, 4},
                {"dp2,tp2,zero1", norm, 4}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char devices[40] = "cpu";
        for (int w = 1; w < runs[i].workers; w++) strcat(devices, ",cpu");
        const char *model = gs_test_format(runs[i].model, gs_test_text_file()),
                   *layouts[] = {"cpu", gs_test_format("%s --layout %s", devices, runs[i].layout)};
        layouts_agree(gs_test_format("%s --steps 3", model), layouts, 2, "sha256",
                      "no difference beyond rounding");
    }
}

/* Changes the numbers in the line of a record that starts with `begins`. */
static void change_record(const char *folder, int rank, const char *begins) {
    const char *path = gs_test_format("%s/rank-%d.digest", folder, rank);
    char *text = gs_test_text(path, NULL), *line = strstr(text, begins);
    assert_non_null(line);
    for (char *c = line + strlen(begins); *c != '\n'; c++)
        if (*c >= '1' && *c <= '8') ++*c;
    write_text(path, text);
}

/* With --sequence each rank of a group records its own tokens, and an error of one rank is found. */
TEST(a_difference_in_some_tokens_is_found) {
    const char *folder = gs_test_format("%s/tokens", gs_test_folder());
    assert_prints(0, "sha256",
                  "train --model \"embedding 155 16, positions, residual (layer_norm, linear 32, gelu, "
                  "linear 16), layer_norm, tied\" --data text:%s --context 8 --batch 8 --steps 2 "
                  "--threads 1 --devices cpu,cpu --tensor 2 --sequence --digest %s",
                  gs_test_text_file(), folder);
    assert_prints(0, "steps 1 to 2: no difference", "explain %s", folder);
    change_record(folder, 1, "\ny 2 5 0 64 ");
    change_record(folder, 1, "\ny 2 3 0 64 "); /* the residual around that layer changes too */
    char *text = gs_test_output(1, "explain %s", folder);
    assert_has(text, "step 2: the first difference is in: y of layer 2.body.0 (layer_norm)");
    assert_has(text, "of what it should be, more than the 0.0001 allowed for rounding\n");
}

/* If there is no second record, a single worker produces the reference run. */
TEST(one_worker_makes_the_run_that_is_right) {
    static const char *const runs[] = {
        "train --model lenet --batch 60 --steps 3 --optimizer adamw --clip 0.5 --seed 4 --schedule cosine "
        "--warmup-steps 2 --batch-norm local --devices cpu,cpu --threads 1", /* without batch_norm */
        "train --model gpt --data text:%s --context 16 --batch 8 --steps 2 --optimizer adam --devices "
        "cpu,cpu --layout dp2,zero1",
        "launch -n 2 -- train --model lenet --batch 60 --steps 4 --layout dp2,zero2 --optimizer adam",
        "launch -n 3 -- train --model mlp --batch 64 --steps 6 --sync halving_doubling --optimizer nesterov",
        "train --model mlp --batch 64 --devices cl,cl --steps 4 --optimizer adamw", /* from here on OpenCL */
        "train --model resnet20 --batch 16 --devices cpu,cl --steps 2 --optimizer adamw",
        "train --model gpt --data text:%s --context 16 --batch 8 --devices cl,cpu --steps 4 --optimizer "
        "adamw"};
    char folder[300];
    for (int i = 0; i < (gs_test_has_opencl() ? 7 : 4); i++) {
        snprintf(folder, sizeof folder, "%s/alone%d", gs_test_folder(), i);
        const char *run = gs_test_format(runs[i], gs_test_text_file());
        assert_prints(0, "sha256", "%s --digest %s", run, folder);
        assert_prints(0, "no difference beyond rounding", "explain %s", folder);
    }
    snprintf(folder, sizeof folder, "%s/local", gs_test_folder());
    assert_prints(0, "sha256",
                  "train --model \"conv 4 3x3, batch_norm, flatten, linear 10\" --batch 80 --steps 1 "
                  "--batch-norm local --digest %s",
                  folder);
    assert_prints(2, "has --batch-norm local", "explain %s", folder);
}

/* f16's loss scaling skips a step in all layouts: its gradients are NaN, which is not a difference. */
TEST(a_step_that_was_left_out_is_no_difference) {
    static const char *const layouts[] = {"cpu", "cpu,cpu,cpu", "cpu,cpu --layout tp2"};
    layouts_agree("\"flatten, linear 16, relu, linear 16 std 8, linear 10 std 8\" --precision f16 --steps 4 "
                  "--optimizer adam --lr 0.05 --clip 1e6",
                  layouts, 3, "epoch 1, step 1: a gradient is not finite with a loss scale of 128",
                  "steps 1 to 4: no difference beyond rounding");
}

/* A record of two eighths of y (the first with *y0 as its bits), dw, and whether the update was skipped. */
static by_hand halves(const char *y0, const char *y1, const char *dw, int left_out) {
    const char *rows = gs_test_format("y 1 0 0 4 1 %s %s 1 1 1 %x\ny 1 0 1 4 1 %s %s 1 1 1 0\n"
                                      "dw 1 0 0 4 1 %s %s 1 1 1 0\n",
                                      y0, y0, *y0, y1, y1, dw, dw);
    return (by_hand){.rows = {rows},
                     .score = {left_out ? "1 1 8 1 1 1 1 65536 1 8" : "1 1 8 1 1 1 1 65536 0 8"}};
}

/* Finite values are compared even next to non-finite ones. A value that is finite in only one run is a difference. */
TEST(only_what_is_not_finite_is_left_out) {
    static const struct {
        const char *y1_of_a, *dw_of_a, *y0_of_b, *dw_of_b;
        int a_leaves_out, b_leaves_out, exact, kind; /* kind -1: no difference */
    } cases[] = {
        {"2", "nan", "4", "nan", 1, 1, 0, -1},       {"2", "nan", "inf", "inf", 1, 1, 0, -1},
        {"2", "4", "4", "nan", 1, 1, 0, -1},         {"3", "nan", "inf", "nan", 1, 1, 0, GS_DIGEST_y},
        {"2", "4", "4", "5", 1, 1, 0, GS_DIGEST_dw}, {"2", "nan", "4", "4", 1, 0, 0, GS_DIGEST_dw},
        {"2", "nan", "4", "nan", 0, 0, 0, -1}, /* both diverged */
        {"2", "nan", "inf", "nan", 0, 0, 0, -1},     {"2", "nan", "inf", "nan", 0, 0, 1, GS_DIGEST_y},
        {"2", "nan", "4", "inf", 0, 0, 1, -1},       {"2", "4", "4", "4", 1, 0, 0, GS_DIFFERS_loss_scale},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand a = halves("4", cases[i].y1_of_a, cases[i].dw_of_a, cases[i].a_leaves_out),
                b = halves(cases[i].y0_of_b, "2", cases[i].dw_of_b, cases[i].b_leaves_out);
        if (cases[i].exact) a.options = b.options = "option exact yes\n";
        const gs_difference d = explain_by_hand(&a, &b);
        is_of_kind(&d, cases[i].kind, i);
        if (d.found && d.kind == GS_DIFFERS_loss_scale) assert_string_equal(d.cause, "loss scale differs");
    }
}

/* One weight of a million may be invisible in the sums, but not in the bits. */
TEST(one_bit_is_a_difference) {
    for (int exact = 0; exact < 2; exact++) {
        const char *options = exact ? "option exact yes\n" : "option exact no\n";
        const gs_difference d =
            explain_by_hand(&(by_hand){.options = options, .rows = {"y 1 0 0 4 1 2 3 4 5 6 9f3a\n"}},
                            &(by_hand){.options = options, .rows = {"y 1 0 0 4 1 2 3 4 5 6 9f3b\n"}});
        assert_int_equal(d.found, exact);
        assert_true(d.rounded);
        if (d.found) assert_int_equal(d.kind, GS_DIGEST_y);
        if (d.found) assert_string_equal(d.cause, "last bits");
        const by_hand a = {.options = options, .score = {"1.0000000000000002 1 8 1 1 1 1 0 0 8"}};
        const gs_difference loss = explain_by_hand(&a, &(by_hand){.options = options});
        assert_int_equal(loss.found, exact);
        if (loss.found) assert_int_equal(loss.kind, GS_DIFFERS_loss);
    }
}

/* Without --exact, all of the first step is compared, with the tolerances of the table in explain.c. */
TEST(a_tolerance_for_each_quantity) {
    static const struct {
        const char *options, *op, *quantity, *along; /* along: for a norm of 1; run B: 0 */
        int kind;                                    /* -1: only rounding */
    } cases[] = {{"", "tanh", "y", "9e-5", -1},
                 {"", "tanh", "y", "2e-4", GS_DIGEST_y},
                 {"", "relu", "y", "2e-4", GS_DIGEST_y},
                 {"", "tanh", "dx", "2e-4", GS_DIGEST_dx},
                 {"", "relu", "dx", "0.2", -1},
                 {"", "max_pool2d", "dw", "0.2", -1},
                 {"", "relu", "dw", "0.3", GS_DIGEST_dw},
                 {"", "relu", "sum", "2e-4", GS_DIGEST_sum},
                 {"option wire f16\n", "tanh", "sum", "2e-3", -1},
                 {"option wire f16\n", "tanh", "sum", "4e-3", GS_DIGEST_sum},
                 {"option precision bf16\n", "tanh", "y", "0.09", -1},
                 {"option precision bf16\n", "tanh", "y", "0.2", GS_DIGEST_y},
                 {"", "tanh", "samples", "2e-8", GS_DIGEST_samples}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand of[2];
        for (int wrong = 0; wrong < 2; wrong++)
            of[wrong] = (by_hand){.options = cases[i].options,
                                  .op = cases[i].op,
                                  .rows = {gs_test_format("%s 1 0 0 4 0 1 %s 0 0 0 %d\n", cases[i].quantity,
                                                          wrong ? cases[i].along : "0", wrong)}};
        const gs_difference d = explain_by_hand(&of[1], &of[0]);
        is_of_kind(&d, cases[i].kind, i);
    }
}

/* A later step of a record, with 4 numbers for each quantity; the arguments are the first of them. */
static const char *later_step(int step, const char *samples, const char *weight, const char *y,
                              const char *dw, const char *sum, const char *rate) {
    const bool finite = !strpbrk(y, "nf");
    return gs_test_format(
        "samples %d 0 0 4 0 1 %s 0 0 0 0\nweight %d 0 0 4 0 1e4 %s 0 0 0 0\n"
        "y %d 0 0 4 0 %s %s 0 0 0 %d\ndw %d 0 0 4 0 1 %s 0 0 0 0\nsum %d 0 0 4 0 1 %s 0 0 0 0\n"
        "score %d 1 1 8 %s 1 1 1 0 0 8\nend %d\n",
        step, samples, step, weight, step, finite ? "1" : y, y, !finite, step, dw, step, sum, step, rate,
        step);
}

/* Rounding errors grow, so later steps are compared only in what these cannot affect, and with the same run's rows. */
TEST(later_steps_are_compared_where_rounding_does_not_reach) {
    static const struct {
        const char *samples, *weight, *y, *dw, *sum, *rate; /* run A's; run B has 0, and a rate of 1 */
        int kind;                                           /* -1: it is no difference */
    } cases[] = {{"0", "1", "0", "0", "0", "1", -1},        /* the run's own update gave these weights */
                 {"0", "1", "1", "0", "0", "1", -1},
                 {"0", "1", "0", "1", "1", "1", -1}, /* the sum of what its only rank adds */
                 {"1", "1", "0", "0", "0", "1", GS_DIGEST_samples},
                 {"0", "3", "0", "0", "0", "1", GS_DIGEST_weight},
                 {"0", "1", "0", "0", "1", "1", GS_DIGEST_sum},
                 {"0", "1", "0", "0", "0", "2", GS_DIFFERS_lr}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const by_hand a = {.options = "option optimizer adam\n",
                           .rows = {"weight 1 0 0 4 0 1e4 0.5 0 0 0 0\nupdated 1 0 0 4 0 1e4 1 0 0 0 0\n"},
                           .later = later_step(2, cases[i].samples, cases[i].weight, cases[i].y, cases[i].dw,
                                               cases[i].sum, cases[i].rate)},
                      b = {.options = a.options,
                           .rows = {"weight 1 0 0 4 0 1e4 0.5 0 0 0 0\nupdated 1 0 0 4 0 1e4 0 0 0 0 0\n"},
                           .later = later_step(2, "0", "0", "0", "0", "0", "1")};
        const gs_difference d = explain_by_hand(&a, &b);
        if (d.found != (cases[i].kind >= 0) || (d.found && (d.kind != cases[i].kind || d.step != 2)))
            fail_msg("case %zu: found %d, kind %d; wanted kind %d", i, d.found, d.kind, cases[i].kind);
        assert_int_equal(d.grown, 2);
    }
}

/* A step whose initial weights differ by up to a millionth is still compared in full: a step may enlarge a difference a
 * hundredfold, which the table still allows. With 1e-5, correct runs were accused. */
TEST(a_step_is_compared_whole_up_to_a_millionth) {
    for (int more = 0; more < 2; more++) {
        const char *apart = more ? "2e-4" : "5e-5"; /* difference of weights with a norm of 100 */
        const by_hand a = {.rows = {gs_test_format("updated 1 0 0 4 0 1e4 %s 0 0 0 0\n", apart)},
                           .later = later_step(2, "0", apart, "0.5", "0", "0", "1")},
                      b = {.rows = {"updated 1 0 0 4 0 1e4 0 0 0 0 0\n"},
                           .later = later_step(2, "0", "0", "0", "0", "0", "1")};
        const gs_difference d = explain_by_hand(&a, &b);
        assert_int_equal(d.found, !more);
        assert_int_equal(d.grown, more ? 2 : 0);
    }
}

/* With outputs of norm 1000 and a dy of norm 1, the outputs' rounding is 1e-3 of dy. */
TEST(backward_may_differ_as_the_outputs_do) {
    static const struct {
        const char *y, *dy, *dw;
        int kind; /* -1: only rounding */
    } cases[] = {
        {"1e-3", "5e-3", "5e-3", -1},        {"1e-3", "2e-2", "0", GS_DIGEST_dy},
        {"1e-3", "0", "2e-2", GS_DIGEST_dw}, {"1e-6", "5e-3", "0", GS_DIGEST_dy},
        {"9e-2", "0.15", "0", -1},           {"9e-2", "0.5", "0", GS_DIGEST_dy}, /* as if it were halved */
        {"0.2", "0", "0", GS_DIGEST_y}};
    static const char rows[] =
        "y 1 0 0 4 0 1e6 %s 0 0 0 0\ndy 1 0 0 4 0 1 %s 0 0 0 0\ndw 1 0 0 4 0 1 %s 0 0 0 0\n";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gs_difference d = explain_by_hand(
            &(by_hand){.op = "tanh", .rows = {gs_test_format(rows, cases[i].y, cases[i].dy, cases[i].dw)}},
            &(by_hand){.op = "tanh", .rows = {gs_test_format(rows, "0", "0", "0")}});
        is_of_kind(&d, cases[i].kind, i);
    }
}

/* Two ranks add 1000 and -999.99: the sum is 0.01, with its large terms' rounding error. In B the sum is as small. */
TEST(a_sum_is_rounded_as_what_is_added) {
    static const struct {
        const char *sum;
        bool found;
    } cases[] = {{"0.02", false}, {"0.5", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sum = gs_test_format("sum 1 0 0 4 0 1e-4 %s 0 0 0 0\n", cases[i].sum);
        const by_hand a = {.ranks = 2,
                           .rows = {gs_test_format("dw 1 0 0 4 0 1e6 1000 0 0 0 0\n%s", sum),
                                    gs_test_format("dw 1 0 0 4 0 1e6 -999.99 0 0 0 0\n%s", sum)}},
                      b = {.rows = {"dw 1 0 0 4 0 1e-4 0.01 0 0 0 0\nsum 1 0 0 4 0 1e-4 0.01 0 0 0 0\n"}};
        const gs_difference d = explain_by_hand(&a, &b);
        assert_int_equal(d.found, cases[i].found);
        if (d.found) assert_int_equal(d.kind, GS_DIGEST_sum);
    }
}

/* Weights of norm 1 move by 0.01; a wrong update moves them in another direction. */
TEST(an_update_is_measured_by_its_own_step) {
    static const struct {
        const char *options, *op, *updated;
        bool found;
    } cases[] = {{"option optimizer sgd\n", "relu", "0.0124", false},
                 {"option optimizer sgd\n", "relu", "0", true}, /* no update */
                 {"option optimizer sgd\n", "relu", "0.0127", true},
                 {"option optimizer sgd\n", "tanh", "0.0100", false},
                 {"option optimizer sgd\n", "tanh", "0.0102", true},
                 {"option optimizer adam\n", "relu", "-0.009", false},
                 {"option optimizer adam\n", "relu", "0.031", true},
                 {"option optimizer sgd\noption exact yes\n", "relu", "0.0100001", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand of[2];
        for (int wrong = 0; wrong < 2; wrong++)
            of[wrong] = (by_hand){
                .options = cases[i].options,
                .op = cases[i].op,
                .rows = {gs_test_format("weight 1 0 0 4 0 1 0 0 0 0 0\nupdated 1 0 0 4 0 1 %s 0 0 0 %d\n",
                                        wrong ? cases[i].updated : "0.01", wrong)}};
        const gs_difference d = explain_by_hand(&of[1], &of[0]);
        if (d.found != cases[i].found || (d.found && d.kind != GS_DIGEST_updated))
            fail_msg("case %zu: found %d, kind %d; wanted %d", i, d.found, d.kind, cases[i].found);
    }
}

/* A starts at step 2, when B's weights, whose norm is 1, have moved by 0.01. */
TEST(a_resumed_run_has_the_weights_that_were_saved) {
    static const struct {
        const char *options, *weight, *cause; /* NULL: only rounding */
    } cases[] = {{"option optimizer sgd\n", "0.01", NULL},
                 {"option optimizer sgd\n", "0.0124", NULL},
                 {"option optimizer sgd\n", "0.0127", "weights not restored"},
                 {"option optimizer sgd\n", "1", "weights not restored"},
                 {"option optimizer sgd\n", "0", "stale weight"},
                 {"option optimizer adam\n", "-0.009", NULL},
                 {"option optimizer adam\n", "0.5", "weights not restored"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char step[] = "weight 2 0 0 4 0 %s %s 0 0 0 0\n";
        const by_hand a = {.first = 2,
                           .options = cases[i].options,
                           .rows = {gs_test_format(step, "2", cases[i].weight)}},
                      b = {.options = a.options,
                           .rows = {"weight 1 0 0 4 0 1 0 0 0 0 0\nupdated 1 0 0 4 0 1 0.01 0 0 0 0\n"},
                           .later = gs_test_format("%sscore 2 1 1 8 1 1 1 1 0 0 8\nend 2\n",
                                                   gs_test_format(step, "1", "0.01"))};
        const gs_difference d = explain_by_hand(&a, &b);
        if (d.found != (cases[i].cause != NULL) ||
            (d.found && (d.kind != GS_DIGEST_weight || strcmp(d.cause, cases[i].cause) != 0)))
            fail_msg("case %zu: found %d, kind %d: %s", i, d.found, d.kind, d.found ? d.cause : "none");
    }
}

/* Rank 1 of 2 has an error in y, in an eighth of which it holds only a part, or only in its gradient. */
TEST(ranks_that_are_divided_alike_are_compared_one_by_one) {
    static const char right[] =
        "y 1 0 %d 4 1 1 1 0 0 0 0\ny 1 0 %d 4 1 1 1 0 0 0 0\ndw 1 0 0 4 1 1 1 0 0 0 0\n",
                      wrong[] =
                          "y 1 0 %d 4 1 1 1 0 0 0 0\ny 1 0 %d 4 1 1 %s 0 0 0 0\ndw 1 0 0 4 1 1 %s 0 0 0 0\n";
    for (int of_dw = 0; of_dw < 2; of_dw++) {
        const by_hand b = {.ranks = 2, .rows = {gs_test_format(right, 0, 1), gs_test_format(right, 4, 5)}},
                      a = {.ranks = 2,
                           .rows = {b.rows[0], gs_test_format(wrong, 4, 5, of_dw ? "1" : "2", "2")}};
        const gs_difference d = explain_by_hand(&a, &b);
        assert_true(d.found);
        assert_int_equal(d.kind, of_dw ? GS_DIGEST_dw : GS_DIGEST_y);
        assert_false(d.rank[0]);
        assert_true(d.rank[1]);
    }
}

/* A record in which each rank's gradient is 1 in a different direction, and which has this sum. */
static by_hand sums(int ranks, const char *sum) {
    static const char *const own[] = {"1 0 0 0", "0 1 0 0", "0 0 1 0", "0 0 0 1"};
    by_hand h = {.ranks = ranks};
    for (int r = 0; r < ranks; r++)
        h.rows[r] = gs_test_format("dw 1 0 0 4 1 1 %s 0\nsum 1 0 0 4 1 4 %s 0\n",
                                   ranks > 1 ? own[r] : "1 1 1 1", sum);
    return h;
}

TEST(all_ranks_of_a_wrong_sum_are_named) {
    static const char *const cases[][2] = {
        {"1 0 1 1", "the gradient of rank 1 is not in the sum"},
        {"1 0 1 0", "the gradients of ranks 1, 3 are not in the sum"},
        {"1 2 1 1", "the gradient of rank 1 is in the sum twice"},
        {"2 1 2 2", "the gradients of ranks 0, 2, 3 are in the sum twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const by_hand wrong = sums(4, cases[i][0]), right = sums(1, "1 1 1 1");
        const gs_difference d = explain_by_hand(&wrong, &right);
        assert_true(d.found);
        assert_string_equal(d.sentence, cases[i][1]);
    }
}

/* If no known cause fits, or a single rank made the mistake, the printed sentence claims nothing untrue. Each case has
 * the rows of both ranks of a handwritten record. */
TEST(every_difference_gets_a_sentence) {
    static const char finite[] = "y 1 0 0 4 1 4 1 1 1 1 0\n",
                      wild[] = "y 1 0 0 4 nan nan nan nan nan nan 0\n";
    static const struct {
        const char *right[2], *wrong[2];
        const char *score_of_wrong; /* of rank 1, if it made the mistake */
        int ranks;                  /* 1: rank 0, 2: rank 1, 3: both */
        const char *cause, *sentence;
    } cases[] = {
        {{"samples 1 0 0 4 1 4 1 1 1 1 0\n", "samples 1 0 1 4 1 4 1 1 1 1 0\n"},
         {"samples 1 0 0 4 9 9 9 1 2 7 0\n", "samples 1 0 1 4 9 9 9 1 2 7 0\n"},
         NULL,
         3,
         "other samples or targets",
         "the right run has these samples in no step: another order was drawn, or other random changes"},
        {{"answers 1 0 0 4 1 4 1 1 1 1 0\n", ""},
         {"answers 1 0 0 4 9 9 9 1 2 7 0\n", ""},
         NULL,
         1,
         "other samples or targets",
         "the samples are right, but the targets are not"},
        {{"", ""}, {"", ""}, "1 1 8 1 0 1 1 0 0 8", 2, "update missing", "no update was made"},
        /* the stage on rank 1 lacks this tensor, and so has no correct sum */
        {{"sum 1 0 0 4 1 4 1 1 1 1 0\n", ""},
         {"sum 1 0 0 4 1 4 1 2 0 1 0\n", ""},
         NULL,
         1,
         "another sum",
         "what the ranks add is right, but the sum is not"},
        {{"sum 1 0 0 4 1 4 1 1 1 1 0\n", "sum 1 0 0 4 1 4 1 1 1 1 0\n"},
         {"sum 1 0 0 4 1 4 1 2 0 1 0\n", "sum 1 0 0 4 1 4 1 1 1 1 0\n"},
         NULL,
         1,
         "sum changed on a rank",
         "the other ranks have the right sum"},
        {{"dy 1 0 0 4 1 4 1 1 1 1 0\n", ""},
         {"dy 1 0 0 4 1 4 1.0003 1.0003 1.0003 1.0003 0\n", ""},
         NULL,
         1,
         "another loss",
         "the outputs and the targets are right"},
        {{finite}, {wild}, NULL, 1, "not finite", "it holds NaN or infinity in this run, and"},
        {{wild}, {finite}, NULL, 1, "not finite", "it holds NaN or infinity in the right run, and"},
        {{"", ""}, {"", ""}, "1 1 8 1 1 inf 1 0 0 8", 2, "not finite", "it is NaN or infinity in this run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        by_hand wrong = {.ranks = 2, .options = "option augment flip\n"}, right = wrong;
        for (int r = 0; r < 2; r++) {
            wrong.rows[r] = cases[i].wrong[r];
            right.rows[r] = cases[i].right[r];
        }
        wrong.score[1] = cases[i].score_of_wrong;
        const gs_difference d = explain_by_hand(&wrong, &right);
        assert_true(d.found);
        assert_int_equal(d.rank[0] + 2 * d.rank[1], cases[i].ranks);
        if (strcmp(d.cause, cases[i].cause) != 0 || !strstr(d.sentence, cases[i].sentence))
            fail_msg("case %zu: %s: %s; wanted %s: %s", i, d.cause, d.sentence, cases[i].cause,
                     cases[i].sentence);
    }
}

/* Stages that load the same samples are no mistake, and not the cause of different draws. */
TEST(stages_of_a_pipeline_load_the_same_samples) {
    static const char rows[] = "samples 1 0 0 4 9 9 9 1 2 7 0\nown 1 0 0 4 9 9 9 1 2 7 0\n";
    const gs_difference d =
        explain_by_hand(&(by_hand){.ranks = 2, .options = "option pipeline 2\n", .rows = {rows, rows}},
                        &(by_hand){.rows = {"samples 1 0 0 4 1 4 1 1 1 1 0\n"}});
    assert_string_equal(d.cause, "other samples or targets");
}

/* If two runs diverged, they are compared up to that step, and in it wherever they are finite. */
TEST(runs_that_both_diverged_are_compared_until_then) {
    static const struct {
        const char *options, *weight;                /* A's, after rounding */
        const char *y_of_a[2], *y_of_b[2], *samples; /* y of steps 2 and 3; the samples of A in step 3 */
        int found_in, a, b;                          /* the step that differs; the expected d.diverged */
    } cases[] = {{"", "0", {"0", "nan"}, {"0", "nan"}, "0", 0, 3, 3},
                 {"", "0", {"0", "inf"}, {"0", "nan"}, "0", 0, 3, 3},
                 {"", "1", {"nan", "nan"}, {"0", "nan"}, "0", 0, 2, 3},
                 {"", "1", {"0", "nan"}, {"nan", "nan"}, "0", 0, 3, 2},
                 {"", "0", {"nan", "nan"}, {"0", "nan"}, "0", 2, 0, 0},
                 {"", "0", {"0", "nan"}, {"0", "nan"}, "1", 3, 0, 0},
                 {"", "0", {"0", "nan"}, {"0", "0"}, "0", 3, 0, 0},
                 {"option exact yes\n", "0", {"0", "nan"}, {"0", "nan"}, "0", 0, 3, 3},
                 {"option exact yes\n", "0", {"nan", "nan"}, {"0", "nan"}, "0", 2, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *w = cases[i].weight, *const *a = cases[i].y_of_a, *const *b = cases[i].y_of_b;
        const gs_difference d = explain_by_hand(
            &(by_hand){.options = cases[i].options,
                       .later = gs_test_format("%s%s", later_step(2, "0", w, a[0], "0", "0", "1"),
                                               later_step(3, cases[i].samples, w, a[1], "0", "0", "1"))},
            &(by_hand){.options = cases[i].options,
                       .later = gs_test_format("%s%s", later_step(2, "0", "0", b[0], "0", "0", "1"),
                                               later_step(3, "0", "0", b[1], "0", "0", "1"))});
        if ((int)d.step != cases[i].found_in || (int)d.diverged[0] != cases[i].a ||
            (int)d.diverged[1] != cases[i].b)
            fail_msg("case %zu: found in step %d, diverged in steps %d and %d", i, (int)d.step,
                     (int)d.diverged[0], (int)d.diverged[1]);
    }
    const char *one = gs_test_format("%s/wild1", gs_test_folder()),
               *two = gs_test_format("%s/wild2", gs_test_folder());
    static const char WILD[] = "train --model mlp --lr 1e6 --steps 8 --threads 1";
    static const char both[] = "both runs diverged, A in step 3 and B in step 3: nothing after step 3 was";
    assert_prints(1, "diverged at step 3", "%s --digest %s", WILD, one);
    assert_prints(1, "diverged at step 3", "%s --digest %s --devices cpu,cpu", WILD, two);
    assert_prints(0, both, "explain %s %s", two, one);
    assert_prints(0, both, "explain %s", two);
}

/* A truncated record is compared as far as it goes, and the message names the record. */
TEST(steps_that_a_record_lacks_are_told) {
    const char *one = gs_test_format("%s/whole", gs_test_folder()),
               *two = gs_test_format("%s/cut", gs_test_folder());
    const char *path = gs_test_format("%s/rank-1.digest", two);
    assert_prints(0, "sha256", "%s --steps 5 --digest %s", RUN, one);
    assert_prints(0, "sha256", "%s --steps 5 --digest %s --devices cpu,cpu", RUN, two);
    char *text = gs_test_text(path, NULL), *cut = strstr(text, "\nscore 4 ");
    assert_non_null(cut);
    cut[1] = '\0';
    write_text(path, text);
    const char *told =
        gs_test_format("steps 1 to 3: no difference beyond rounding\n  Steps 4 to 5 were not compared:\n"
                       "  %s ends with step 3",
                       path);
    assert_prints(0, told, "explain %s %s", two, one);
    assert_prints(0, told, "explain %s %s", one, two);
    assert_prints(0, told, "explain %s", two);
}

TEST(runs_of_two_trainings_are_refused) {
    const char *one = gs_test_format("%s/one", gs_test_folder());
    const char *other = gs_test_format("%s/other", gs_test_folder());
    assert_prints(0, "sha256", "%s --digest %s", RUN, one);
    assert_prints(0, "sha256", "%s --digest %s --seed 7", RUN, other);
    assert_prints(2, "--seed is '7' in", "explain %s %s", other, one);
    assert_prints(1, "is there already; wanted a new folder", "%s --digest %s", RUN, one);
}

TEST(wrong_use_gets_a_sentence) {
    const char *folder = gs_test_folder();
    assert_prints(2, "wanted one or two folders", "explain");
    assert_prints(1, "No such file or directory; wanted a folder that gradsum train --digest has written",
                  "explain %s", folder);
    assert_prints(1, "cannot read", "explain %s %s", folder, folder);
    assert_prints(2, "it does not work with --digest", "%s --sync local --every 2 --digest %s/a", RUN,
                  folder);
    assert_prints(2, "it does not work with --digest", "%s --sync async --digest %s/a", RUN, folder);
    assert_prints(1, "cannot make the folder", "%s --digest %s/none/c", RUN, folder);
}
