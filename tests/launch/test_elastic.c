/* launch --elastic: ranks are killed and the others continue. With --exact, or if new ranks replace the lost ones, the
 * weights equal an undisturbed run's. Nothing is left behind. tests/system/restarts.sh adds random hangs. */
#include "cli/launch/launch.h"
#include "tests/support/disturbed.h"
#include "tests/support/files.h"
#include "tests/support/ranks.h"
#include "tests/support/training.h"

#include "persist/snapshots.h"

#define SMALL "--model softmax --threads 1 --batch 600 --epochs 9"
#define NORMED                                                                                               \
    "--model 'conv 4 3x3 stride 3 pad 1 no_bias, batch_norm, tanh, flatten, dropout 0.25, linear 10' "       \
    "--threads 1 --batch 600 --epochs 9"

/* How many seconds a rank sleeps before an operation: enough that even a late signal arrives during the sleep, but less
 * than the timeout of the ranks that wait for it. */
#define HELD "seconds=25"

/* In the middle of the second epoch, kills the rank that `held` delays, while that rank sleeps. */
static void kill_in_epoch_2(disturbed *d, const char *options, int rank, const char *held) {
    setenv("GRADSUM_FAULT", held, 1);
    gs_test_disturbed_start(d, options);
    unsetenv("GRADSUM_FAULT");
    gs_test_disturbed_wait(d->out, "epoch 1/9");
    gs_test_disturbed_wait(d->err, "delay at operation");
    gs_test_disturbed_send(d, rank, SIGKILL);
}

/* Kills rank 0, which prints the output: another process becomes the new rank 0. */
TEST(a_new_one_takes_its_place) {
    disturbed d;
    kill_in_epoch_2(&d, "-n 3 --elastic 1:3 -- train " SMALL " --steps 16 --optimizer adam", 0,
                    "delay:rank=0,operation=34," HELD);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(&d, "rank 0 was killed by signal 9 (Killed); generation 2: 2 go on, 1 new\n");
    gs_test_disturbed_went_on(&d, 3, 10);
    gs_test_disturbed_sha256(&d, "launch -n 3 -- train " SMALL " --steps 16 --optimizer adam");
}

/* Continues with 4, 2 and 1 workers; after the second loss only one process is left. */
TEST(exact_until_one_is_left) {
    disturbed d;
    kill_in_epoch_2(&d, "-n 4 --transport gloo --elastic 1 -- train --exact " NORMED " --steps 18", 3,
                    "delay:rank=3,operation=101," HELD ";delay:rank=1,operation=25,generation=2," HELD);
    gs_test_disturbed_wait(d.out, "elastic  2 workers go on after step 1");
    gs_test_disturbed_wait(d.err, "rank 1: delay at operation 25");
    gs_test_disturbed_send(&d, 1, SIGKILL);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(
        &d, "rank 3 was killed by signal 9 (Killed); generation 2: 2 go on, 1 let go, for --exact");
    gs_test_disturbed_said(&d, "rank 1 was killed by signal 9 (Killed); generation 3: 1 goes on\n");
    gs_test_disturbed_sha256(&d, "train --exact " NORMED " --steps 18");
}

/* If --jitter names a rank that was lost, no rank pauses any longer. */
TEST(the_slow_one_is_lost) {
    disturbed d;
    kill_in_epoch_2(&d, "-n 2 --elastic 1 -- train " SMALL " --steps 14 --jitter 1:1ms", 1,
                    "delay:rank=1,operation=32," HELD);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(&d, "rank 1 was killed by signal 9 (Killed); generation 2: 1 goes on\n");
}

/* The resumed file makes the run exact; no option does. */
TEST(exact_by_a_file) {
    disturbed d;
    const char *folder = gs_test_folder();
    assert_prints(0, "saved", "train --exact " SMALL " --steps 2 --save %s/exact.safetensors --save-state",
                  folder);
    const char *options = gs_test_format(
        "-n 4 --elastic 1 -- train --threads 1 --resume %s/exact.safetensors --steps 18", folder);
    kill_in_epoch_2(&d, options, 3, "delay:rank=3,operation=52," HELD);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(
        &d, "rank 3 was killed by signal 9 (Killed); generation 2: 2 go on, 1 let go, for --exact\n");
    gs_test_disturbed_sha256(&d, "train --exact " SMALL " --steps 18");
}

TEST(too_few_are_left) {
    disturbed d;
    kill_in_epoch_2(&d, "-n 2 --elastic 2 -- train " SMALL, 1, "delay:rank=1,operation=32," HELD);
    gs_test_disturbed_end(&d, 1);
    gs_test_disturbed_said(
        &d, "rank 1 was killed by signal 9 (Killed); the others do not go on: they are too few\n");
}

/* Another generation would only repeat the mistake. */
TEST(wrong_usage_ends_all) {
    char *output;
    const int status = gs_test_shell(&output,
                                     "unset GRADSUM_CHECK; GRADSUM_FAULT=usage:rank=2,operation=12 "
                                     "%s/gradsum launch -n 3 --elastic 1:3 -- train " SMALL " --steps 12",
                                     GS_BUILD_DIR);
    if (status != 2 || strstr(output, "generation") ||
        !strstr(output, "gradsum launch: rank 2 failed with exit status 2; the others do not go on: wrong "
                        "usage would fail again\n"))
        fail_msg("exit status %d: %s", status, output);
}

TEST(ctrl_c_is_no_loss) {
    disturbed d;
    gs_test_disturbed_start(&d, "-n 2 --elastic 1 -- train " SMALL " --jitter 1:30ms");
    gs_test_disturbed_wait(d.out, "epoch 1/9");
    kill(d.launcher, SIGINT);
    gs_test_disturbed_end(&d, 130);
    assert_null(strstr(d.said, "generation"));
}

/* The state that a process keeps in memory is complete: a second run continues from it. */
TEST(a_carried_state_is_whole) {
    gs_settings s = gs_test_settings("cpu --optimizer adam");
    gs_result whole = gs_test_train(&s), both;
    const gs_state *begin = NULL;
    s.steps = GS_TEST_STEPS - 7;
    assert_ok(gs_snapshots_create(&s.snapshots));
    assert_ok(gs_snapshots_settle(s.snapshots, NULL, &begin));
    assert_null(begin);
    both = gs_test_train(&s);
    s.steps = GS_TEST_STEPS;
    both = gs_test_train(&s);
    assert_same_bits(&whole, &both, "carried");
    gs_snapshots_free(s.snapshots);
}

/* The snapshots from a run of `steps` steps. */
static gs_snapshots *snapshots_of(uint64_t steps, uint64_t seed, size_t *params) {
    gs_settings s = gs_test_settings("cpu");
    s.steps = steps;
    s.seed = seed;
    assert_ok(gs_snapshots_create(&s.snapshots));
    gs_result r = gs_test_train(&s);
    *params = r.params;
    return s.snapshots;
}

typedef struct survivor {
    gs_snapshots *snapshots;
    const gs_state *begin;
} survivor;

static gs_status settle_after_step_5(gs_comm *c, void *context) {
    survivor *me = (survivor *)context + c->rank;
    GS_TRY(gs_snapshots_settle(me->snapshots, c, &me->begin));
    RANK_CHECK(me->begin && me->begin->step == 5, "rank %d does not resume after step 5", c->rank);
    return GS_OK;
}

/* Rank 0 has finished one step more than rank 1, and rank 2 is new. */
TEST(the_last_step_that_all_have) {
    static const gs_test_layout layout = {"3 threads", 0, {3}};
    size_t params;
    gs_test_outcome outcome[GS_TEST_RANKS];
    survivor of[3] = {{snapshots_of(6, 1, &params), NULL}, {snapshots_of(5, 1, &params), NULL}, {NULL, NULL}};
    assert_ok(gs_snapshots_create(&of[2].snapshots));
    gs_test_run_ranks(&layout, 10, settle_after_step_5, of, outcome);
    for (int r = 0; r < 3; r++) {
        if (outcome[r].status != GS_OK) fail_msg("rank %d: %s", r, outcome[r].message);
        assert_memory_equal(of[r].begin->weights, of[1].begin->weights, params * sizeof(float));
    }
    for (int r = 0; r < 3; r++) gs_snapshots_free(of[r].snapshots);
}

TEST(other_weights_are_found) {
    static const gs_test_layout layout = {"2 threads", 0, {2}};
    size_t params;
    gs_test_outcome outcome[GS_TEST_RANKS];
    survivor of[2] = {{snapshots_of(5, 1, &params), NULL}, {snapshots_of(5, 2, &params), NULL}};
    gs_test_run_ranks(&layout, 10, settle_after_step_5, of, outcome);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(outcome[r].status, GS_E_DIFFER);
        assert_non_null(
            strstr(outcome[r].message, "after step 5 the states of ranks 0 and 1 differ (SHA-256 "));
        gs_snapshots_free(of[r].snapshots);
    }
}

/* Slot 2 hangs, slot 3 ends because others were lost, and slot 4 was dropped earlier. */
TEST(all_that_were_lost_are_named) {
    const gs_launch launch = {.size = 5};
    const gs_elastic e = {.lost = 1}, cut_off = {.lost = -1};
    gs_launch_processes p = {.launch = &launch,
                             .child = {{.pid = 77},
                                       {.status = SIGKILL},
                                       {.status = SIGKILL, .hangs = "process 7 is stopped"},
                                       {.status = 1 << 8},
                                       {.status = SIGKILL}},
                             .rank = {1, 0, 2, 3, -1}};
    char text[300] = "";
    gs_elastic_append_lost(&e, &p, text, sizeof text);
    assert_string_equal(text, "rank 0 was killed by signal 9 (Killed), rank 2 hangs: process 7 is stopped");
    *text = 0;
    gs_elastic_append_lost(&cut_off, &p, text, sizeof text);
    assert_string_equal(text, "a rank was cut off");
}

TEST(what_it_goes_with) {
    static const struct {
        const char *options, *says;
    } wrong[] = {
        {"--elastic x -- train", "--elastic: 'x' is not MIN or MIN:MAX"},
        {"--elastic 2: -- train", "--elastic: '2:' is not MIN or MIN:MAX"},
        {"--elastic 4294967298 -- train", "--elastic: '4294967298' is not MIN or MIN:MAX"}, /* 2^32 + 2 */
        {"--elastic 0 -- train", "--elastic: '0' is not MIN or MIN:MAX"},
        {"--elastic 2:1 -- train", "--elastic: '2:1' is not MIN or MIN:MAX, such as 2:3: the fewest "},
        {"--elastic 1:3 -- train", "--elastic 1:3: more than the 2 processes of -n"},
        {"--elastic 1 --restarts 2 -- train", "use only one of them"},
        {"--elastic 1 --meet file:/no/such -- train", "leave --meet out"},
        {"--elastic 1 -- eval", "--elastic is for train; 'eval' has nothing to go on with"},
        {"--elastic 1 -- train --zero 1", "--elastic needs workers that each hold the whole state"},
        {"--elastic 1 -- train --exact --zero 3", "; wanted --sync allreduce or --exact, without --zero,"},
        {"--elastic 1 -- train --sync ring", "--elastic works with --sync allreduce, and with --exact"},
        {"--elastic 1 -- train --devices cpu,cpu", "--elastic has one worker in each process"},
        {"--elastic 1 -- train --checkpoint x", "use launch --restarts with it"},
        {"--elastic 1 -- train --log x", "--log and --digest record one group of ranks"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_prints(2, wrong[i].says, "launch -n 2 %s", wrong[i].options);
}
