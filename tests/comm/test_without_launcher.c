/* Ranks started by hand: there is no launcher to end the others when a rank fails, or to say which rank failed. */
#include "comm/rendezvous/rendezvous.h"
#include "tests/support/program.h"
#include "tests/support/rank_process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 90 /* seconds; no wait may last this long */ };

/* ---- while Gloo starts ---- */

/* Rank 1 of 3 connects, then sends itself the signal. Returns NULL if ranks 0 and 2 name it. */
static const char *ill_rank_is_not_named(double timeout, int ill, const char *wanted) {
    char folder[400], text[64];
    gs_test_new_folder(folder);
    gs_test_rank p[3];
    for (int r = 0; r < 3; r++)
        p[r] = r == 1 ? gs_test_start_ill_rank(r, 3, folder, timeout, ill)
                      : gs_test_start_rank(r, 3, folder, timeout);
    for (int r = 0; r < 3; r += 2) assert_int_not_equal(gs_test_rank_end(&p[r]), 0);
    kill(p[1].pid, SIGKILL);
    waitpid(p[1].pid, NULL, 0);
    snprintf(text, sizeof text, wanted, (long)p[1].pid);
    for (int r = 0; r < 3; r += 2) {
        /* they may check rank 1's process before it has connected to both, and then name it differently */
        const char *said = gs_test_rank_said(&p[r]);
        if (!strstr(said, text) && !(ill == SIGKILL && strstr(said, ": rank 1 (process ")))
            return gs_test_wrong("wanted '%s' in: %s", text, said);
    }
    return NULL;
}

TEST(a_rank_that_dies_while_gloo_begins_is_named) {
    const char *wrong = ill_rank_is_not_named(LONG, SIGKILL, "rank 1 was lost");
    if (wrong) fail_msg("%s", wrong);
}

static const char *stopped_rank_is_not_named(double timeout, void *context) {
    (void)context;
    return ill_rank_is_not_named(timeout, SIGSTOP, "from rank 1 (process %ld is stopped)");
}

TEST(a_rank_that_is_stopped_while_gloo_begins_is_named) {
    gs_test_patiently(1, stopped_rank_is_not_named, NULL);
}

/* ---- before the rendezvous ---- */

TEST(the_first_fault_is_told_by_all) {
    char folder[400];
    gs_test_new_folder(folder);
    const gs_rendezvous r[] = {{.rank = 0, .size = 3, .directory = folder},
                               {.rank = 2, .size = 3, .directory = folder}};
    gs_rendezvous_state *m[2];
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) assert_ok(gs_rendezvous_open(&r[i], &m[i]));
    assert_fails(GS_E_PEER, "0 saw it", gs_rendezvous_fail(m[0], gs_fail(GS_E_PEER, "0 saw it")));
    assert_fails(GS_E_PEER, "0 saw it", gs_rendezvous_fail(m[1], gs_fail(GS_E_FILE, "2 saw it")));
    for (int i = 0; i < 2; i++) gs_rendezvous_close(m[i]);
}

static gs_status meet(int rank, const char *folder, double timeout) {
    gs_comm *c = NULL;
    gs_rendezvous r = {.rank = rank, .size = 3, .directory = folder, .timeout = timeout};
    gs_status status = gs_comm_gloo_create(&r, &c);
    if (status == GS_OK) gs_comm_free(c);
    return status;
}

/* gs_comm_fail_early does nothing in processes that have reached the rendezvous, like this one: another one calls
 * it. */
static void fail_early(int rank, const char *folder) {
    gs_test_shell(
        NULL,
        "GRADSUM_RANK=%d GRADSUM_WORLD_SIZE=3 GRADSUM_RENDEZVOUS=%s %s/gradsum train --data /no/such 2>&1",
        rank, folder, GS_BUILD_DIR);
}

TEST(a_rank_that_fails_before_the_meeting_tells_the_others) {
    char folder[400];
    gs_test_new_folder(folder);
    fail_early(1, folder);
    assert_fails(GS_E_FILE, "rank 0: rank 1 failed before it joined: no data at '/no/such'",
                 meet(0, folder, LONG));
    assert_int_equal(access(folder, F_OK), 0); /* kept, because rank 2 must read the message too */
    assert_fails(GS_E_FILE, "rank 2: rank 1 failed before it joined: no data at '/no/such'",
                 meet(2, folder, LONG));
    assert_int_not_equal(access(folder, F_OK), 0); /* the next run can create it again */
}

/* An old failure message that no rank has read is ignored. */
TEST(old_word_is_not_believed) {
    char folder[400], path[420];
    struct timespec times[2] = {{0}, {0}};
    gs_test_new_folder(folder);
    fail_early(1, folder);
    snprintf(path, sizeof path, "%s/absent-1", folder);
    times[0].tv_sec = times[1].tv_sec = time(NULL) - 60;
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
    assert_fails(GS_E_PEER, "rank 0 waited 0.2 s for ranks 1 and 2 of 3", meet(0, folder, 0.2));
    fail_early(2, folder); /* in the next run; the old message does not hide this one */
    assert_fails(GS_E_FILE, "rank 0: rank 2 failed before it joined: no data at '/no/such'",
                 meet(0, folder, 30));
    assert_int_not_equal(access(folder, F_OK), 0);

    gs_test_new_folder(folder); /* a fault that an earlier run left in the folder is not reported again */
    gs_test_shell(NULL, "echo '-1 7 an old fault' >%s/fault", folder);
    assert_fails(GS_E_FILE, "holds 'fault'; use a new folder", meet(0, folder, LONG));

    gs_test_new_folder(folder);
    fail_early(1, folder);
    assert_fails(GS_E_PEER, "rank 1 waited 0.2 s", meet(1, folder, 0.2)); /* rank 1 joins after all */
    assert_int_not_equal(access(folder, F_OK), 0);
}

TEST(the_other_ranks_of_a_training_end_at_once) {
    char *output, folder[400];
    gs_test_new_folder(folder);
    gs_test_shell(&output,
                  "export GRADSUM_WORLD_SIZE=3 GRADSUM_TIMEOUT=%d GRADSUM_RENDEZVOUS=%s\n"
                  "run() { rank=$1; shift; GRADSUM_RANK=$rank timeout 200 %s/gradsum train --model softmax "
                  "--steps 1 --threads 1 \"$@\" 2>&1; echo \"rank $rank: status $?\"; }\n"
                  "run 0 & run 1 --no-such-option & run 2; wait",
                  LONG, folder, GS_BUILD_DIR);
    static const char *const wanted[] = {
        "gradsum train: unknown option --no-such-option",
        "rank 0: rank 1 failed before it joined: unknown option --no-such-option",
        "rank 2: rank 1 failed before it joined: unknown option --no-such-option",
        "rank 0: status 2",
        "rank 1: status 2",
        "rank 2: status 2"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(output, wanted[i])) fail_msg("wanted '%s': %s", wanted[i], output);
}

/* ---- different commands, different models ---- */

TEST(what_differs_is_named) {
    static const struct {
        const char *rank[2], *wanted[2];
    } cases[] = {
        {{"train --steps 1 --model softmax", "eval --load %s/weights --data fashion-mnist-small"},
         {"rank 0 was started to train, but rank 1 to eval: start all with the same command",
          "rank 1 was started to eval, but rank 0 to train: start all with the same command"}},
        {{"train --steps 1 --model softmax", "train --steps 1 --model mlp --data %s"},
         {"rank 1 and rank 0 differ in --model (", "rank 1 and rank 0 differ in --model ("}},
    };
    const char *own = gs_test_folder();
    /* the default data's files, but with the test set as training set, so the data differ */
    assert_int_equal(gs_test_shell(NULL,
                                   "for set in train t10k; do for part in images-idx3 labels-idx1; do ln -s "
                                   "\"%s/t10k-$part-ubyte.gz\" %s/$set-$part-ubyte.gz || exit 1; done; done",
                                   gs_test_source("datasets/fashion-mnist-small"), own),
                     0);
    assert_prints(0, "", "train --model softmax --steps 1 --threads 1 --save %s/weights", own);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output, folder[400], second[500];
        gs_test_new_folder(folder);
        snprintf(second, sizeof second, cases[i].rank[1], own);
        gs_test_shell(&output,
                      "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s\n"
                      "GRADSUM_RANK=0 %s/gradsum %s --threads 1 2>&1 & GRADSUM_RANK=1 %s/gradsum %s "
                      "--threads 1 2>&1; wait",
                      folder, GS_BUILD_DIR, cases[i].rank[0], GS_BUILD_DIR, second);
        for (int k = 0; k < 2; k++)
            if (!strstr(output, cases[i].wanted[k])) fail_msg("wanted '%s': %s", cases[i].wanted[k], output);
    }
}
