/* Settings that a program makes are checked like options on the command line. */
#include <limits.h>
#include <math.h>
#include "tests/support/training.h"
#include "predict/profile.h"
#include "train/sweep.h"
#include "train/settings.h"
#include "train/options/options.h"

/* All functions with a settings parameter reject these, with the command line's message. */
static void refuse(const gs_settings *s, const char *says) {
    gs_result r;
    gs_profile p;
    float *logits;
    size_t rows;
    int columns;
    gs_sweep sweep = {.settings = *s, .seeds = 1, .batch = {8}, .batches = 1};
    assert_fails(GS_E_USAGE, says, gs_train(s, NULL, &r));
    assert_null(r.weights);
    assert_fails(GS_E_USAGE, says, gs_eval(s, NULL, &r));
    assert_fails(GS_E_USAGE, says, gs_predict_all(s, NULL, &logits, &rows, &columns));
    assert_fails(GS_E_USAGE, says, gs_profile_run(s, 0.01, &p));
    assert_fails(GS_E_USAGE, says, gs_sweep_prepare(&sweep));
}

#define REFUSED(field, value, says)                                                                          \
    do {                                                                                                     \
        gs_settings wrong = gs_test_settings("cpu");                                                         \
        wrong.field = value;                                                                                 \
        refuse(&wrong, says);                                                                                \
    } while (0)

TEST(numbers_out_of_range) {
    REFUSED(epochs, 0, "--epochs: '0' is not a whole number from 1 to 1000000");
    REFUSED(momentum, 7, "--momentum: '7' is not a number from 0 to 0.999999");
    REFUSED(beta1, 1, "--beta1: '1' is not a number from 0 to 0.999999");
    REFUSED(label_smoothing, 1, "--label-smoothing: '1' is not a number from 0 to 0.999999");
    REFUSED(lr, INFINITY, "--lr: 'inf' is not");
    REFUSED(threads, -4, "--threads: '-4' is not a whole number from 0 to 1024");
    REFUSED(throttle, -1, "--throttle: '-1' is not a number from 0.001 to 1000000");
    REFUSED(throttle, NAN, "--throttle: 'nan' is not");
    REFUSED(steps, UINT64_MAX, "--steps: '18446744073709551615' is not");
    REFUSED(batch, SIZE_MAX,
            "--batch: '18446744073709551616' is not a whole number of samples from 1 up, or 'all'");
    REFUSED(std, GS_ALL_CHANNELS(-1), "--std: '-1' is not a number from 1e-08 to 1000000");
    REFUSED(offload, 9, "--offload: 9 is no sum of gs_offload's, at most 7");
    REFUSED(timeout, 0, "the timeout is 0 s; it must be more than 0");
    REFUSED(timeout, NAN, "the timeout is nan s");
}

/* Values below each option's minimum and above its maximum. None of these values is a default that means off. */
TEST(numbers_beyond_the_range_of_each_option) {
    int refused = 0;
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        for (int above = 0; above < 2; above++) {
            const bool has_no_sign = o->kind == GS_OPTION_COUNT || o->kind == GS_OPTION_BATCH;
            gs_settings s = gs_test_settings("cpu");
            if (!gs_option_is_number(o->kind) || o->at == offsetof(gs_settings, timeout)) continue;
            if (above ? !isfinite(o->max) : has_no_sign) continue;
            gs_option_set_number(o->kind, gs_run_option_of(o, &s).value, above ? 2 * o->max + 1 : o->min - 3);
            const char *says = gs_test_format("--%s: '", o->name);
            if (gs_check_each_setting(&s) != GS_E_USAGE) fail_msg("--%s is unchecked: %d", o->name, above);
            assert_non_null(strstr(gs_message(), says));
            refused++;
        }
    assert_true(refused > 50);
}

TEST(values_that_are_none) {
    REFUSED(devices, NULL, "--devices needs a value: LIST");
    REFUSED(sync, NULL, "--sync needs a value: NAME");
    REFUSED(data, NULL, "--data needs a value: NAME|DIR");
    REFUSED(optimizer, NULL, "--optimizer needs a value: NAME");
    REFUSED(wire, (gs_wire)77, "unknown --wire '77'; choose one of: f32, f16, bf16");
    REFUSED(lr_rule, (gs_lr_rule)9, "unknown --lr-rule '9'; choose one of: none, linear, sqrt");
    REFUSED(loss, (gs_loss)5, "unknown --loss '5'; choose one of: cross_entropy, squared_error");
    REFUSED(jitter, ((gs_jitter){1, {{0, NAN, 1}}}), "--jitter: '0:nanus@100%' is not RANK:TIME@SHARE%");
    REFUSED(link, ((gs_link){11, 1e6}), "--link: '11s,1MB/s' is not LATENCY,BANDWIDTH");
    REFUSED(link, ((gs_link){1e-3, NAN}), "--link: '1ms,nanB/s' is not LATENCY,BANDWIDTH");
    REFUSED(link, ((gs_link){1e-3, 0}), "--link: '1ms,0B/s' is not LATENCY,BANDWIDTH");
    REFUSED(jitter, ((gs_jitter){1, {{0, -1, 0.5}}}), "@50%' is not RANK:TIME@SHARE%, such as 3:20ms@5%");
    REFUSED(jitter, ((gs_jitter){1, {{0, 1, NAN}}}), "--jitter: '0:1s@nan%' is not RANK:TIME@SHARE%");
    REFUSED(trace, ((gs_step_range){7, 4}), "--trace-steps: '7-4' is not FIRST-LAST");
}

/* The message shows the value precisely, even if it is close to another one, such as the default. */
TEST(values_that_look_like_others) {
    const gs_by_channel nan = GS_ALL_CHANNELS(NAN);
    REFUSED(mean, nan, "--mean: 'nan' is not a number");
    REFUSED(std, nan, "--std: 'nan' is not a number");
    REFUSED(link, ((gs_link){NAN, 0}), "--link: 'nanus,0B/s' is not LATENCY,BANDWIDTH");
    REFUSED(link, ((gs_link){-1, 0}), "--link: '-1000000us,0B/s' is not LATENCY,BANDWIDTH");
    REFUSED(jitter, ((gs_jitter){-1, {{0}}}), "--jitter: '-1 pauses' is not RANK:TIME@SHARE%");
    REFUSED(jitter, ((gs_jitter){GS_PAUSES + 1, {{0, 1, 1}}}), "--jitter: '9 pauses' is not");
    REFUSED(jitter, ((gs_jitter){1, {{-3, 1, 1}}}), "--jitter: '-3:1s@100%' is not RANK:TIME@SHARE%");
    REFUSED(checkpoint_every, ((gs_checkpoint_every){0, NAN}), "--checkpoint-every: 'nanus' is not");
    REFUSED(checkpoint_every, ((gs_checkpoint_every){0, -1}), "--checkpoint-every: '-1000000us' is not");
    REFUSED(batch_norm, ((gs_batch_norm_groups){(gs_batch_norm_over)7, 4}), "'unknown:4' is not global");
    REFUSED(schedule, ((gs_lr_schedule){.kind = GS_SCHEDULE_COSINE, .drops = 2}), "'cosine of 2 drops' is");
    REFUSED(schedule, ((gs_lr_schedule){.kind = GS_SCHEDULE_STEP, .drops = -1, .factor = 1}),
            "'step of -1 drops' is not constant");
    REFUSED(schedule, ((gs_lr_schedule){.kind = GS_SCHEDULE_STEP, .drops = GS_LR_DROPS + 1, .factor = 1}),
            "'step of 9 drops' is not constant");
}

/* Values that the command line accepts are also accepted from a program, and printing and parsing keeps them. */
TEST(accepted_values_read_back) {
    static const struct {
        const char *option, *value[6];
    } all[] = {{"checkpoint-every", {"1000000s", "1ms", "999999.999999s", "1000000000000000"}},
               {"jitter",
                {"3:20ms@0.00001%", "3:1000s@100%", "2147483647:0.0000001us@33.3333333333333333%", "1:10us"}},
               {"link", {"0.00001us,1GB/s", "10s,1000GB/s", "0us,1B/s", "0.3333333us,123456789.123B/s"}},
               {"schedule", {"step:0.0000001,1000000@0.0000001", "step:30,30.000000000000004@1"}},
               {"batch-norm", {"ghost:1000000000", "ghost:1"}},
               {"augment", {"crop:9999,cutout:9999", "crop:1"}},
               {"recompute", {"1000000", "1"}},
               {"trace-steps", {"1-1", "1-18446744073709551615"}},
               {"mean", {"0.0000001", "-1000000,1e-30,0.1"}}};
    char text[GS_OPTION_TEXT_MOST];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 6 && all[i].value[k]; k++) {
            gs_settings s = gs_settings_default(), other = s;
            const gs_run_option *o = gs_run_option_named(all[i].option);
            const gs_option one = gs_run_option_of(o, &s), two = gs_run_option_of(o, &other);
            assert_ok(gs_option_read(&one, all[i].value[k]));
            assert_ok(gs_check_each_setting(&s));
            const char *shown = gs_option_text(o->kind, one.value, text, sizeof text);
            if (gs_option_read(&two, shown) != GS_OK) fail_msg("%s: %s", all[i].value[k], gs_message());
            assert_memory_equal(&s, &other, sizeof s);
        }
    for (const gs_run_option *o = gs_run_table; o->name; o++)
        for (int end = 0; end < 2; end++) {
            gs_settings s = gs_settings_default();
            const gs_option one = gs_run_option_of(o, &s);
            if (!gs_option_is_number(o->kind) || !isfinite(end ? o->max : o->min)) continue;
            gs_option_set_number(o->kind, one.value, end ? o->max : o->min);
            if (o->kind == GS_OPTION_INT && (end ? o->max : o->min) > INT_MAX) continue;
            const char *shown = gs_option_text(o->kind, one.value, text, sizeof text);
            if (gs_option_read(&one, shown) != GS_OK) fail_msg("--%s %s: %s", o->name, shown, gs_message());
        }
}

/* Values that the command line cannot express, and defaults that mean off, may be set by a program. */
TEST(values_that_only_a_program_sets) {
    gs_settings s = gs_test_settings("cpu --steps 2 --model softmax");
    s.accumulate = s.bucket = s.every = s.tests = 0;
    s.base_batch = s.verify = 0;
    s.throttle = 0;
    s.staleness = -1;
    s.mean = s.std = (gs_by_channel){0};
    s.batch = 0;
    s.timeout = 1e6; /* as much as GRADSUM_TIMEOUT allows */
    gs_result r = gs_test_train(&s);
    assert_int_equal(r.steps, 2);
    gs_sweep none = {.settings = s, .seeds = 1};
    assert_fails(GS_E_USAGE, "a sweep needs at least one batch", gs_sweep_prepare(&none));
    none.batches = 1;
    none.seeds = 65;
    assert_fails(GS_E_USAGE, "--seeds: '65' is not a whole number from 1 to 64", gs_sweep_prepare(&none));
}

/* Without a file to save to, the result holds the best epoch's weights. */
TEST(the_best_weights_in_memory) {
    gs_settings s = gs_test_settings("cpu,cpu --model softmax --batch 128 --lr 1 --seed 2 --keep best");
    s.steps = 0;
    gs_result best = gs_test_train(&s);
    assert_in_range(best.kept_epoch, 1, s.epochs - 1); /* otherwise this test would prove nothing */
    s.keep.best = false;
    s.epochs = best.kept_epoch;
    gs_result same = gs_test_train(&s);
    assert_same_bits(&best, &same, "the kept epoch");
    assert_near(same.test_accuracy, best.kept_accuracy, 0, 0);
}

/* Every pair of options in the table is rejected, with the table's message. */
TEST(what_does_not_go_together_is_refused) {
    static const struct {
        const char *option, *given; /* NULL: the option itself is sufficient */
    } all[] = {{"--tensor", "--tensor 2"},
               {"--pipeline", "--pipeline 2"},
               {"--zero", "--zero 1"},
               {"--exact", NULL},
               {"--sync local", "--sync local --every 2"},
               {"--sync async", "--sync async --staleness 1"},
               {"--sync", "--sync ring"},
               {"--bucket", "--bucket 10"},
               {"--wire", "--wire f16"},
               {"--precision f16", NULL},
               {"--save-state", "--save x.st --save-state"},
               {"--digest", "--digest x"},
               {"--accumulate", "--accumulate 2"},
               {"lars, lamb", "--optimizer lamb"},
               {"--keep best", "--keep best --save x.st"},
               {"--tests 0", NULL},
               {"--warmup", "--warmup 1"},
               {"--warmup-steps", "--warmup-steps 3"},
               {"--link", "--link 1us,1GB/s"},
               {"--sync gloo", NULL},
               {"--sync hierarchical", NULL},
               {"--offload optimizer", NULL},
               {"--offload weights", NULL}};
    enum { ALL = sizeof all / sizeof *all };
    gs_conflict r;
    int pairs = 0;
    for (; gs_conflict_of(pairs, &r); pairs++) {
        int a = 0, b = 0;
        while (a < ALL && strcmp(all[a].option, r.option) != 0) a++;
        while (b < ALL && strcmp(all[b].option, r.other) != 0) b++;
        if (a == ALL || b == ALL) fail_msg("give %s and %s here", r.option, r.other);
        const char *option = strcmp(r.option, "lars, lamb") == 0 ? all[a].given : r.option;
        assert_prints(2, gs_test_format("%s %s: it does not work with %s", option, r.why, r.other),
                      "train --devices cpu,cpu %s %s", all[a].given ? all[a].given : all[a].option,
                      all[b].given ? all[b].given : all[b].option);
    }
    assert_true(pairs > 20);
    assert_prints(0, "lars, lamb   not with --offload optimizer ", "layout --pairs");
    for (int zero = 1; zero <= 3; zero++) /* an option that was given is not recommended */
        assert_prints(2, zero < 3 ? "--offload weights; --zero 3 divides them" : "--offload weights\n",
                      "train --devices cpu,cpu --zero %d --offload weights", zero);
}

static gs_status is_not_written(gs_worker *w, gs_score *score) {
    (void)w, (void)score;
    return gs_fail(GS_E_USAGE, "the step is not written");
}

TEST(a_strategy_is_replaced) {
    static const gs_strategy mine = {.name = "zero", .option = "--zero", .step = is_not_written},
                             other = {.name = "other"};
    gs_settings s = gs_test_settings("cpu,cpu --zero 1");
    assert_fails(GS_E_USAGE, "'other' cannot replace 'zero'", gs_strategy_replace("zero", &other));
    assert_fails(GS_E_USAGE, "no strategy is called 'other'", gs_strategy_replace("other", &other));
    assert_ok(gs_strategy_replace("zero", &mine));
    assert_ptr_equal(gs_strategy_of(&s), &mine);
    assert_train_fails(GS_E_USAGE, "the step is not written", &s);
    assert_ok(gs_strategy_replace("zero", NULL));
    assert_ptr_equal(gs_strategy_of(&s), &gs_strategy_synchronous);
}
