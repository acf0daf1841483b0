/* launch --restarts: ranks are killed at several steps, and the run ends with the weights of an undisturbed one. A
 * failure that would repeat causes no restart. Nothing is left behind. tests/system/restarts.sh tests more. */
#include "tests/support/disturbed.h"
#include "tests/support/files.h"
#include "tests/support/launched.h"
#include "tests/support/training.h"

#include <unistd.h>

#define SMALL "--model softmax --threads 1 --batch 600 --epochs 9"

/* Kills rank 1 after step 4, then rank 0, which writes the checkpoints, after step 9: in the middle and at the end of
 * the first epoch. */
TEST(killed_twice) {
    disturbed d;
    gs_test_disturbed_start(&d, "-n 2 --restarts 3 -- train " SMALL
                                " --steps 90 --optimizer adam --jitter 0:30ms --checkpoint @ "
                                "--checkpoint-every 1 --keep 99");
    gs_test_disturbed_wait_for_step(&d, 4);
    gs_test_disturbed_send(&d, 1, SIGKILL);
    gs_test_disturbed_wait(d.err, "restart 1 of 3: it goes on after step ");
    gs_test_disturbed_wait_for_step(&d, 9);
    gs_test_disturbed_send(&d, 0, SIGKILL);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(&d, "gradsum launch: rank 1 was killed by signal 9 (Killed); ");
    gs_test_disturbed_said(&d, "gradsum launch: rank 0 was killed by signal 9 (Killed); ");
    gs_test_disturbed_said(&d, "restart 2 of 3: it goes on after step ");
    gs_test_disturbed_sha256(&d, "launch -n 2 -- train " SMALL " --steps 90 --optimizer adam");
}

/* Over TCP, with a network whose state is more than its weights. A restart does not read the initial weights again. */
TEST(killed_over_gloo) {
#define NORMED                                                                                               \
    "--model 'conv 4 3x3 stride 3 pad 1 no_bias, batch_norm, tanh, flatten, dropout 0.25, linear 10'"
    disturbed d;
    const char *weights = gs_test_format("%s/weights.safetensors", gs_test_folder());
    assert_prints(0, "sha256", "train %s --steps 2 %s --save %s", SMALL, NORMED, weights);
    const char *more = gs_test_format("train %s %s --exact --steps 60 --load %s", SMALL, NORMED, weights);
    const char *options = gs_test_format(
        "-n 4 --transport gloo --restarts 1 -- %s --jitter 1:50ms --checkpoint @ --checkpoint-every 2", more);
    gs_test_disturbed_start(&d, options);
    gs_test_disturbed_wait_for_step(&d, 2);
    gs_test_disturbed_send(&d, 3, SIGKILL);
    gs_test_disturbed_end(&d, 0);
    gs_test_disturbed_said(&d, "gradsum launch: rank 3 was killed by signal 9 (Killed); ");
    gs_test_disturbed_said(&d, "restart 1 of 1: it goes on after step ");
    gs_test_disturbed_sha256(&d, more);
}

/* Each attempt writes its own log. */
TEST(without_checkpoints_it_begins_again) {
    disturbed d;
    const char *log = gs_test_format("%s/log", gs_test_folder());
    const char *options =
        gs_test_format("-n 2 --restarts 1 -- train " SMALL " --steps 90 --jitter 0:30ms --log %s", log);
    gs_test_disturbed_start(&d, options);
    gs_test_disturbed_wait(d.out, "epoch 1/9");
    gs_test_disturbed_send(&d, 0, SIGKILL);
    gs_test_disturbed_end(&d, 0);
    options = gs_test_format("restart 1 of 1: it begins as before, because the command has no --checkpoint; "
                             "its log is in %s-restart-1",
                             log);
    gs_test_disturbed_said(&d, options);
    options = gs_test_format("%s-restart-1/run.json", log);
    assert_int_equal(access(options, F_OK), 0);
    gs_test_disturbed_sha256(&d, "launch -n 2 -- train " SMALL " --steps 90");
}

TEST(so_often_and_no_more) {
    disturbed d;
    gs_test_disturbed_start(&d, "-n 2 --restarts 1 -- train " SMALL
                                " --jitter 0:30ms --checkpoint @ --checkpoint-every 1");
    gs_test_disturbed_wait_for_step(&d, 2);
    gs_test_disturbed_send(&d, 1, SIGKILL);
    gs_test_disturbed_wait(d.err, "restart 1 of 1: it goes on after step ");
    gs_test_disturbed_wait_for_step(&d, 7);
    gs_test_disturbed_send(&d, 1, SIGKILL);
    gs_test_disturbed_end(&d, 1);
    gs_test_disturbed_said(&d, "; that was the last of 1 restart\n");
}

/* A rank is killed during the first step, which takes 5 s; the second time, launch gives up. */
TEST(not_twice_without_a_step) {
    disturbed d;
    gs_test_disturbed_start(&d, "-n 2 --restarts 9 -- train " SMALL " --jitter 0:5000ms");
    gs_test_disturbed_send(&d, 0, SIGKILL);
    gs_test_disturbed_wait(d.err, "restart 1 of 9: it begins as before");
    gs_test_disturbed_send(&d, 0, SIGKILL);
    gs_test_disturbed_end(&d, 1);
    gs_test_disturbed_said(&d, "; not started again: twice in a row no step was made\n");
}

/* train rejects a folder with another run's checkpoints, even if a rank was lost before that. If train is faster than
 * the kill, the test is repeated. */
TEST(checkpoints_of_another_run_are_not_taken) {
    bool lost = false;
    const char *folder = gs_test_format("%s/other", gs_test_folder());
    assert_prints(0, "sha256", "train %s --steps 2 --checkpoint %s", SMALL, folder);
    const char *options =
        gs_test_format("-n 1 --restarts 2 -- train " SMALL " --steps 4 --checkpoint %s", folder);
    for (int i = 0; i < 20 && !lost; i++) {
        disturbed d;
        gs_test_disturbed_start(&d, options);
        pid_t pid = 0;
        while (!pid && gs_test_lives(d.launcher)) pid = gs_test_rank_of(d.launcher, 0);
        if (pid > 0) kill(pid, SIGKILL);
        gs_test_disturbed_end(&d, 2);
        gs_test_disturbed_said(&d, "it has a checkpoint of another run");
        lost = strstr(d.said,
                      "restart 1 of 2: it begins as before, because there is no checkpoint of this run in");
    }
    assert_true(lost);
}

TEST(ctrl_c_is_no_failure) {
    disturbed d;
    gs_test_disturbed_start(&d, "-n 2 --restarts 3 -- train " SMALL
                                " --jitter 0:30ms --checkpoint @ --checkpoint-every 1");
    gs_test_disturbed_wait_for_step(&d, 2);
    kill(d.launcher, SIGINT);
    gs_test_disturbed_end(&d, 130);
    gs_test_disturbed_said(&d, "gradsum launch: stopped by signal 2 (Interrupt)\n");
    assert_null(strstr(d.said, "restart"));
}

TEST(what_would_fail_again_is_not_started_again) {
    char *output = gs_test_output(2, "launch -n 2 --restarts 2 -- train --steps x");
    assert_null(strstr(output, "restart"));
    assert_prints(1, "; not started again: it failed before its first step, and would again\n",
                  "launch -n 2 --restarts 2 -- train --data /no/such/folder");
    assert_prints(1, "; not started again: it would diverge again\n",
                  "launch -n 2 --restarts 2 -- train %s --lr 100000 --model mlp", SMALL);
}

TEST(what_it_goes_with) {
    assert_prints(2, "--restarts: '-1' is not a whole number", "launch -n 2 --restarts -1 -- train");
    assert_prints(2, "leave --meet out", "launch -n 2 --restarts 2 --meet file:/no/such/folder -- train");
    assert_prints(2, "--restarts is for train; 'eval' has nothing to go on with",
                  "launch -n 2 --restarts 2 -- eval");
    assert_prints(2, "does not know the best epoch before it",
                  "launch -n 2 --restarts 2 -- train --keep best,3 --save x --checkpoint y");
}
