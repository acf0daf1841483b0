/* Which rank is to blame when all ranks wait. */
#include "tests/support/test.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/process.h"
#include "comm/waits.h"

enum { RANKS = 4, TIMEOUT = 10 };

static const char *explained(const gs_waits *w) {
    static char text[400];
    *text = '\0';
    gs_waits_explain(w, text, sizeof text);
    return text;
}

/* Rank 0 gives up. In `waits`, "ab" means that rank a waits for rank b. */
TEST(the_end_of_the_chain_is_to_blame) {
    static const struct {
        const char *waits[6]; /* rank 0's come first */
        double young;         /* the age of the last wait; 0: TIMEOUT, as for the others */
        const char *message;
    } cases[] = {
        {{"01"}, 0, "no answer within 10 s from rank 1"},
        {{"01", "12"}, 0, "no answer within 10 s from rank 1, which waits for rank 2"},
        {{"01", "12", "23"}, 0, "no answer within 10 s from rank 1, which waits for rank 3"},
        {{"01", "12"}, 1, "no answer within 10 s from rank 1"}, /* rank 0 itself was late */
        {{"01", "02", "03", "12", "13"}, 0, "no answer within 10 s from ranks 2 and 3"},
        {{"01", "10"}, 0, "no answer within 10 s from rank 1; all are alive and waiting for others: "},
        {{"01", "12", "20"}, 0, "no answer within 10 s from rank 1; all are alive and waiting for others: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool awaited[RANKS] = {false};
        double age[RANKS * RANKS] = {0};
        const long pid[RANKS] = {0};
        int last = 0;
        for (int k = 0; k < 6 && cases[i].waits[k]; k++) {
            int from = cases[i].waits[k][0] - '0', to = cases[i].waits[k][1] - '0';
            age[last = from * RANKS + to] = TIMEOUT;
            if (from == 0) awaited[to] = true;
        }
        if (cases[i].young > 0) age[last] = cases[i].young;
        gs_waits w = {
            .noun = "rank", .size = RANKS, .timeout = TIMEOUT, .awaited = awaited, .age = age, .pid = pid};
        const char *text = explained(&w);
        if (strncmp(text, cases[i].message, strlen(cases[i].message)) != 0 ||
            (text[strlen(cases[i].message)] && !strstr(text, "all are alive")))
            fail_msg("case %zu: wanted '%s', got '%s'", i, cases[i].message, text);
    }
}

/* Some libraries do not report for which rank they are waiting. */
TEST(one_of_several_is_named_where_it_is_known) {
    const bool awaited[RANKS] = {false, true, true, true};
    const long pid[RANKS] = {0};
    double age[RANKS * RANKS] = {0, TIMEOUT, TIMEOUT, TIMEOUT};
    gs_waits w = {.noun = "rank",
                  .size = RANKS,
                  .timeout = TIMEOUT,
                  .awaited = awaited,
                  .one_of = true,
                  .age = age,
                  .pid = pid};
    assert_string_equal(explained(&w), "no answer within 10 s from one of ranks 1, 2 and 3");
    for (int r = 1; r < RANKS; r += 2) /* ranks 1 and 3 wait too */
        for (int to = 0; to < RANKS; to++) age[r * RANKS + to] = r == to ? 0 : TIMEOUT;
    assert_string_equal(explained(&w), "no answer within 10 s from rank 2");
}

/* "ab" means that nothing that rank a sends reaches rank b. The waits form a cycle: 0 for 1, 1 for 2, and 2 for 0. */
TEST(a_cut_network_is_named_and_no_rank_is_blamed) {
    static const struct {
        const char *silent[4];
        const char *message;
    } cases[] = {
        {{"02"}, "between rank 0 (10.0.0.1) and rank 2 (10.0.0.3)"},
        {{"20"}, "between rank 0 (10.0.0.1) and rank 2 (10.0.0.3)"},
        {{"12", "21"}, "between rank 1 (10.0.0.2) and rank 2 (10.0.0.3)"},
        {{"12", "01"}, "between rank 1 (10.0.0.2) and each of rank 0 (10.0.0.1) and rank 2 (10.0.0.3)"},
    };
    static const char address[RANKS][GS_ADDRESS] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"};
    static const char nowhere[RANKS][GS_HOST] = {""};
    const bool awaited[RANKS] = {false, true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long pid[RANKS] = {0};
        double age[RANKS * RANKS] = {0};
        bool silent[RANKS * RANKS] = {false};
        age[0 * RANKS + 1] = age[1 * RANKS + 2] = age[2 * RANKS + 0] = TIMEOUT;
        for (int k = 0; k < 4 && cases[i].silent[k]; k++)
            silent[(cases[i].silent[k][0] - '0') * RANKS + cases[i].silent[k][1] - '0'] = true;
        gs_waits w = {
            .noun = "rank", .size = RANKS, .timeout = TIMEOUT, .awaited = awaited, .age = age, .pid = pid};
        w.silent = silent;
        w.address = address;
        w.host = nowhere;
        const char *wanted = gs_test_format("no answer within 10 s from rank 1; nothing gets through %s: the "
                                            "network is cut there, or a machine is down",
                                            cases[i].message);
        assert_string_equal(explained(&w), wanted);
        pid[3] = 0x7ffffff0; /* no process has this id, so its rank is reported first */
        assert_string_equal(
            explained(&w),
            "no answer within 10 s from rank 1, which waits for rank 3 (process 2147483632 has ended)");
    }
}

TEST(a_message_says_where_it_ran_and_what_it_did_last) {
    const bool awaited[RANKS] = {false, true};
    const double age[RANKS * RANKS] = {[0 * RANKS + 1] = TIMEOUT, [1 * RANKS + 2] = TIMEOUT};
    const long pid[RANKS] = {0, 0, 0x7ffffff0};
    const char host[RANKS][GS_HOST] = {"anna", "anna", "bert", "anna"};
    const gs_call sum = {GS_ALL_REDUCE, 8, GS_F32, GS_SUM, 0}, sent = {GS_SEND, 400, GS_U8, GS_SUM, 3};
    const _Atomic uint64_t last[RANKS] = {0, gs_call_pack(&sent), gs_call_pack(&sum)};
    gs_waits w = {
        .noun = "rank", .size = RANKS, .timeout = TIMEOUT, .awaited = awaited, .age = age, .pid = pid};
    w.host = host;
    w.last = last;
    w.did = "last began";
    assert_string_equal(explained(&w),
                        "no answer within 10 s from rank 1, which waits for rank 2 (process 2147483632 has "
                        "ended) on host bert; rank 2 last began all_reduce of 8 f32");
    w.first = 4; /* these ranks run on a second machine */
    assert_has(explained(&w), " on host bert; rank 6 last began all_reduce of 8 f32");
    w.first = 0;
    const long elsewhere[RANKS] = {0};
    const double one[RANKS * RANKS] = {[0 * RANKS + 1] = TIMEOUT};
    w.pid = elsewhere;
    w.age = one;
    assert_string_equal(
        explained(&w),
        "no answer within 10 s from rank 1 on host anna; rank 1 last began send of 400 bytes to rank 3");
}

TEST(those_who_wait_for_each_other_are_listed) {
    const bool awaited[RANKS] = {false, true};
    const long pid[RANKS] = {0};
    double age[RANKS * RANKS] = {
        [0 * RANKS + 1] = TIMEOUT, [1 * RANKS + 2] = TIMEOUT, [2 * RANKS + 0] = TIMEOUT};
    gs_waits w = {
        .noun = "rank", .size = RANKS, .timeout = TIMEOUT, .awaited = awaited, .age = age, .pid = pid};
    assert_has(explained(&w), " (rank 0 waits for rank 1, rank 1 for rank 2, rank 2 for rank 0)");
}

TEST(a_process_shows_what_it_does) {
    char does[80];
    gs_process_does(getpid(), does, sizeof does);
    assert_string_equal(does, "computes");
    assert_false(gs_process_is_stopped(getpid()));
    assert_false(gs_process_has_ended(getpid()));
    assert_true(gs_process_has_ended(0x7ffffff0)); /* above the largest possible id */
}

/* Under strace a process stops briefly at each system call. That is not a hang, and the process must not be killed. */
TEST(a_debugger_is_no_stop) {
    char does[80];
    for (int traced = 0; traced <= 1; traced++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (traced && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(1);
            raise(SIGSTOP);
            _exit(0);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
        bool stopped = gs_process_is_stopped(pid);
        gs_process_does(pid, does, sizeof does);
        kill(pid, SIGKILL);
        if (WIFSTOPPED(status)) waitpid(pid, NULL, 0);
        if (traced && WIFEXITED(status)) skip_because("ptrace is not allowed here");
        assert_string_equal(does, traced ? "is stopped by a debugger" : "is stopped");
        assert_int_equal(stopped, !traced);
    }
}

/* /proc prints the name of a process before its state, so the name must not look like a state. */
TEST(a_name_hides_no_state) {
    static const char *const names[] = {"a) T 1", "a\nb", ")) Z"};
    char own[16], does[80];
    assert_int_equal(prctl(PR_GET_NAME, own), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        prctl(PR_SET_NAME, names[i]);
        gs_process_does(getpid(), does, sizeof does);
        prctl(PR_SET_NAME, own);
        assert_string_equal(does, "computes");
    }
}
