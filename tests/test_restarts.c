/* launch --restarts: ranks are killed at several steps, and the run ends with the weights of one that was never
 * disturbed; what would fail again is not started again. Nothing is left. tests/restarts.sh has more ways to train. */
#include "tests/files.h"
#include "tests/launched.h"
#include "tests/training.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/checkpoint/folder.h"

#define SMALL "--model softmax --threads 1 --batch 600 --epochs 9"

typedef struct disturbed {
    pid_t launcher;
    char tmp[400], out[400], err[400], checkpoints[400]; /* in a folder of the test's */
    char *said;                                          /* on standard error, at the end */
} disturbed;

/* gradsum launch <options>; "@" stands for the folder of checkpoints. */
static void start(disturbed *d, const char *options) {
    static int runs;
    char root[300], command[1200] = "";
    snprintf(root, sizeof root, "%s/%d", gs_test_folder(), runs++);
    *d = (disturbed){0};
    snprintf(d->tmp, sizeof d->tmp, "%s-tmp", root);
    snprintf(d->out, sizeof d->out, "%s-out", root);
    snprintf(d->err, sizeof d->err, "%s-err", root);
    snprintf(d->checkpoints, sizeof d->checkpoints, "%s-steps", root);
    const char *at = strchr(options, '@');
    snprintf(command, sizeof command, "exec " GS_BUILD_DIR "/gradsum launch %.*s%s%s",
             at ? (int)(at - options) : (int)strlen(options), options, at ? d->checkpoints : "",
             at ? at + 1 : "");
    assert_int_equal(mkdir(d->tmp, 0700), 0);
    const int out = open(d->out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int err = open(d->err, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    d->launcher = fork();
    if (d->launcher == 0) {
        if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
        setenv("TMPDIR", d->tmp, 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(99);
    }
    assert_true(out >= 0 && err >= 0 && d->launcher > 0);
    close(out);
    close(err);
}

static char *text_of(const char *path) {
    char *text;
    size_t size;
    assert_ok(gs_file_read(path, 1 << 20, &text, &size));
    return text;
}

static void wait_for_text(const char *path, const char *part) {
    bool found = false;
    for (int i = 0; i < 3000 && !found; i++, usleep(10000)) {
        char *text = text_of(path);
        found = strstr(text, part) != NULL;
        free(text);
    }
    if (!found) fail_msg("'%s' never came into %s: %s", part, path, text_of(path));
}

static void wait_for_step(const disturbed *d, uint64_t step) {
    for (int i = 0; i < 3000 && !gs_checkpoint_is_there(d->checkpoints, step); i++) usleep(10000);
    if (!gs_checkpoint_is_there(d->checkpoints, step)) fail_msg("no step %d: %s", (int)step, text_of(d->err));
}

static void send(const disturbed *d, int rank, int number) {
    pid_t pid = 0;
    for (int i = 0; i < 3000 && !pid; i++, usleep(1000)) pid = gs_test_rank_of(d->launcher, rank);
    assert_true(pid > 0);
    assert_int_equal(kill(pid, number), 0);
}

/* wanted: the exit status; -1: any failure. */
static void end(disturbed *d, int wanted) {
    const int status = gs_test_launcher_end(d->launcher);
    d->said = text_of(d->err);
    const bool right = WEXITSTATUS(status) == wanted || (wanted < 0 && WEXITSTATUS(status) > 0);
    if (!WIFEXITED(status) || !right)
        fail_msg("wait status %d, wanted the exit status %d: %s", status, wanted, d->said);
    assert_int_equal(entries(d->tmp), 0);
    for (int r = 0; r < 4; r++) assert_int_equal(gs_test_rank_of(d->launcher, r), 0);
}

static void assert_said(const disturbed *d, const char *part) {
    if (!strstr(d->said, part)) fail_msg("wanted '%s' in: %s", part, d->said);
}

static void assert_sha256(const disturbed *d, const char *undisturbed) {
    char sha256[65], *out = text_of(d->out);
    gs_test_sha256(undisturbed, sha256);
    if (!strstr(out, sha256)) fail_msg("wanted the weights %s: %s%s", sha256, out, d->said);
    free(out);
}

/* ---- the same bits ---- */

/* Rank 1 after step 4, then rank 0, which writes the checkpoints, after step 9: in the middle of the first epoch and at
 * its end. */
static void killed_twice(void **state) {
    (void)state;
    disturbed d;
    start(&d, "-n 2 --restarts 3 -- train " SMALL " --steps 16 --optimizer adam --slow 0:30 --checkpoint @ "
              "--checkpoint-every 1 --keep 99");
    wait_for_step(&d, 4);
    send(&d, 1, SIGKILL);
    wait_for_text(d.err, "restart 1 of 3: it goes on after step ");
    wait_for_step(&d, 9);
    send(&d, 0, SIGKILL);
    end(&d, 0);
    assert_said(&d, "gradsum launch: rank 1 was killed by signal 9 (Killed); ");
    assert_said(&d, "gradsum launch: rank 0 was killed by signal 9 (Killed); ");
    assert_said(&d, "restart 2 of 3: it goes on after step ");
    assert_sha256(&d, "launch -n 2 -- train " SMALL " --steps 16 --optimizer adam");
    free(d.said);
}

/* The weights that it begins with are not asked for again; over connections; a network whose state is more than its
 * weights. */
static void killed_over_gloo(void **state) {
    (void)state;
#define NORMED                                                                                               \
    "--model 'conv 4 3x3 stride 3 pad 1 no_bias, batch_norm, tanh, flatten, dropout 0.25, linear 10'"
    disturbed d;
    char weights[400], more[600], options[1200];
    snprintf(weights, sizeof weights, "%s/weights.safetensors", gs_test_folder());
    gs_test_program_prints(0, "sha256", "train %s --steps 2 %s --save %s", SMALL, NORMED, weights);
    snprintf(more, sizeof more, "train %s %s --exact --steps 6 --load %s", SMALL, NORMED, weights);
    snprintf(options, sizeof options,
             "-n 4 --transport gloo --restarts 1 -- %s --slow 1:50 --checkpoint @ "
             "--checkpoint-every 2",
             more);
    start(&d, options);
    wait_for_step(&d, 2);
    send(&d, 3, SIGKILL);
    end(&d, 0);
    assert_said(&d, "gradsum launch: rank 3 was killed by signal 9 (Killed); ");
    assert_said(&d, "restart 1 of 1: it goes on after step ");
    assert_sha256(&d, more);
    free(d.said);
}

/* Each attempt has a log of its own. */
static void without_checkpoints_it_begins_again(void **state) {
    (void)state;
    disturbed d;
    char log[400], options[1200];
    snprintf(log, sizeof log, "%s/log", gs_test_folder());
    snprintf(options, sizeof options, "-n 2 --restarts 1 -- train " SMALL " --steps 14 --slow 0:20 --log %s",
             log);
    start(&d, options);
    wait_for_text(d.out, "epoch 1/9");
    send(&d, 0, SIGKILL);
    end(&d, 0);
    snprintf(options, sizeof options,
             "restart 1 of 1: it begins as before, because the command has no --checkpoint; its log is in "
             "%s-restart-1",
             log);
    assert_said(&d, options);
    snprintf(options, sizeof options, "%s-restart-1/run.json", log);
    assert_int_equal(access(options, F_OK), 0);
    assert_sha256(&d, "launch -n 2 -- train " SMALL " --steps 14");
    free(d.said);
}

/* ---- no more attempts ---- */

static void so_often_and_no_more(void **state) {
    (void)state;
    disturbed d;
    start(&d, "-n 2 --restarts 1 -- train " SMALL " --slow 0:30 --checkpoint @ --checkpoint-every 1");
    wait_for_step(&d, 2);
    send(&d, 1, SIGKILL);
    wait_for_text(d.err, "restart 1 of 1: it goes on after step ");
    wait_for_step(&d, 7);
    send(&d, 1, SIGKILL);
    end(&d, 1);
    assert_said(&d, "; that was the last of 1 restart\n");
    free(d.said);
}

/* Before the first step, which takes 5 s: the second time is the last. */
static void not_twice_without_a_step(void **state) {
    (void)state;
    disturbed d;
    start(&d, "-n 2 --restarts 9 -- train " SMALL " --slow 0:5000");
    send(&d, 1, SIGKILL);
    wait_for_text(d.err, "restart 1 of 9: it begins as before");
    send(&d, 1, SIGKILL);
    end(&d, 1);
    assert_said(&d, "; not started again: twice in turn no step was made\n");
    free(d.said);
}

/* A folder with another run's checkpoints is refused by train; a loss before that does not make them this run's. */
static void checkpoints_of_another_run_are_not_taken(void **state) {
    (void)state;
    disturbed d;
    char folder[400], options[1200];
    snprintf(folder, sizeof folder, "%s/other", gs_test_folder());
    gs_test_program_prints(0, "sha256", "train %s --steps 2 --checkpoint %s", SMALL, folder);
    snprintf(options, sizeof options, "-n 2 --restarts 2 -- train " SMALL " --steps 4 --checkpoint %s",
             folder);
    start(&d, options);
    send(&d, 0, SIGKILL);
    end(&d, -1); /* 2, unless rank 1 was still waiting for the others */
    assert_said(&d, "restart 1 of 2: it begins as before, because there is no checkpoint of this run in");
    assert_said(&d, "it has a checkpoint of another run");
    free(d.said);
}

static void ctrl_c_is_no_failure(void **state) {
    (void)state;
    disturbed d;
    start(&d, "-n 2 --restarts 3 -- train " SMALL " --slow 0:30 --checkpoint @ --checkpoint-every 1");
    wait_for_step(&d, 2);
    kill(d.launcher, SIGINT);
    end(&d, 130);
    assert_said(&d, "gradsum launch: stopped by signal 2 (Interrupt)\n");
    assert_null(strstr(d.said, "restart"));
    free(d.said);
}

static void what_would_fail_again_is_not_started_again(void **state) {
    (void)state;
    char *output;
    assert_int_equal(gs_test_program(&output, "launch -n 2 --restarts 2 -- train --steps x"), 2);
    assert_null(strstr(output, "restart"));
    free(output);
    gs_test_program_prints(1, "; not started again: it failed before its first step, and would again\n",
                           "launch -n 2 --restarts 2 -- train --data /no/such/folder");
    gs_test_program_prints(1, "; not started again: it would diverge again\n",
                           "launch -n 2 --restarts 2 -- train %s --lr 100000 --model mlp", SMALL);
}

static void what_it_goes_with(void **state) {
    (void)state;
    gs_test_program_prints(2, "--restarts: '-1' is not a whole number", "launch -n 2 --restarts -1 -- train");
    gs_test_program_prints(
        2, "--restarts 2: a launcher starts the ranks of its own node again, and --nodes 2",
        "launch -n 2 --restarts 2 --nodes 2 --node-rank 0 --meet tcp://127.0.0.1:29433 -- train");
    gs_test_program_prints(2, "leave --meet out",
                           "launch -n 2 --restarts 2 --meet file:/no/such/folder -- train");
    gs_test_program_prints(2, "--restarts 2 is for train; 'eval' has nothing to go on with",
                           "launch -n 2 --restarts 2 -- eval");
    gs_test_program_prints(2, "does not know the best epoch before it",
                           "launch -n 2 --restarts 2 -- train --keep best,3 --save x --checkpoint y");
}

GS_TESTS(restarts, cmocka_unit_test(killed_twice), cmocka_unit_test(killed_over_gloo),
         cmocka_unit_test(without_checkpoints_it_begins_again), cmocka_unit_test(so_often_and_no_more),
         cmocka_unit_test(not_twice_without_a_step),
         cmocka_unit_test(checkpoints_of_another_run_are_not_taken), cmocka_unit_test(ctrl_c_is_no_failure),
         cmocka_unit_test(what_would_fail_again_is_not_started_again), cmocka_unit_test(what_it_goes_with))
