/* Processes meet in a folder, and every failure of the rendezvous is reported. */
#include "tests/support/files.h"
#include "tests/support/program.h"
#include "tests/support/rank_process.h"
#include "comm/rendezvous/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- meeting ---- */

static gs_status meet(int rank, int size, const char *folder, double timeout, const char *address) {
    gs_comm *c = NULL;
    gs_rendezvous r = {
        .rank = rank, .size = size, .directory = folder, .address = address, .timeout = timeout};
    gs_status status = gs_comm_gloo_create(&r, &c);
    if (status == GS_OK) gs_comm_free(c);
    return status;
}

static void write_file(const char *folder, const char *name, const char *text) {
    const char *path = gs_test_format("%s/%s", folder, name);
    write_text(path, text);
}

TEST(a_rank_that_never_comes_is_named) {
    char folder[400];
    gs_test_new_folder(folder);
    assert_fails(GS_E_PEER, "rank 0 waited 0.3 s for rank 1 of 2, which never arrived",
                 meet(0, 2, folder, 0.3, NULL));
    assert_int_not_equal(access(folder, F_OK), 0);

    gs_test_new_folder(folder);
    gs_test_rank p = gs_test_start_rank(3, 5, folder, 8);
    gs_test_await_rank(folder, 3);
    assert_fails(GS_E_PEER, "for ranks 1, 2 and 4 of 5", meet(0, 5, folder, 1, NULL));
    gs_test_rank_end(&p);
    gs_test_rank_says(&p, "rank 3 waited 8 s for ranks");
    assert_int_not_equal(access(folder, F_OK), 0);
}

TEST(a_folder_that_is_not_new_is_refused) {
    char folder[400];
    gs_test_new_folder(folder);
    write_file(folder, "notes.txt", "mine");
    assert_fails(GS_E_FILE, "holds 'notes.txt'", meet(0, 2, folder, 5, NULL));

    static const char *const of_no_rank[] = {"rank-7", "rank-01", "rank- 1", "rank-+1", "rank-1.new"};
    for (size_t i = 0; i < sizeof of_no_rank / sizeof *of_no_rank; i++) {
        gs_test_new_folder(folder);
        write_file(folder, of_no_rank[i], "");
        assert_fails(GS_E_FILE, of_no_rank[i], meet(0, 2, folder, 5, NULL));
    }

    gs_test_new_folder(folder);
    write_file(folder, "rank-0", "");
    assert_fails(GS_E_FILE, "rank 0 was started twice", meet(0, 2, folder, 5, NULL));
    write_file(folder, "rank-0", "anything at all\n");
    assert_fails(GS_E_FILE, "'anything at all'; it is not a rank's file", meet(1, 2, folder, 5, NULL));
    write_file(folder, "rank-0", "rank 0 of 3, process 1 on elsewhere\n");
    assert_fails(GS_E_PEER, "rank 1 is one of 2 processes, but rank 0 is one of 3",
                 meet(1, 2, folder, 5, NULL));

    assert_fails(GS_E_FILE, "No such file", meet(0, 2, "/no/such/folder", 5, NULL));
    assert_fails(GS_E_USAGE, "ranks are 0 to 1", meet(2, 2, folder, 5, NULL));
    assert_fails(GS_E_USAGE, "more than 0", meet(0, 2, folder, 0, NULL));
    assert_fails(GS_E_USAGE, "no folder", meet(0, 2, NULL, 5, NULL));
}

/* The others do not wait for a rank that died after it had joined. */
TEST(a_rank_that_died_at_the_meeting_is_named) {
    char folder[400];
    gs_test_new_folder(folder);
    gs_test_rank p = gs_test_start_rank(1, 2, folder, 60);
    gs_test_await_rank(folder, 1);
    kill(p.pid, SIGKILL);
    gs_test_rank_end(&p);
    const char *wanted = gs_test_format("rank 1 (process %d) has already ended", (int)p.pid);
    assert_fails(GS_E_PEER, wanted, meet(0, 2, folder, 60, NULL));
}

/* Machines with cloned disks may have the same name, but process ids of one mean nothing on the other. */
TEST(a_machine_of_the_same_name_is_another) {
    char folder[400], text[1024], boot[40] = "";
    gs_rank_info other;
    gs_rendezvous_state *m;
    gs_test_new_folder(folder);
    gs_rendezvous r = {.rank = 1, .size = 2, .directory = folder, .timeout = 60};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!f || fscanf(f, "%39s", boot) != 1) skip_because("this system does not number its boots");
    fclose(f);
    assert_ok(gs_rank_info_create(&r, &other));
    char *clone = strstr(other.machine, boot);
    if (!clone) fail_msg("no '%s' in '%s'", boot, other.machine);
    *clone = *clone == '0' ? '1' : '0';
    other.pid = 1 << 30; /* no process here has this id */
    gs_rank_info_text(&other, text, sizeof text);
    write_file(folder, "rank-1", gs_test_format("%s\n", text));
    r.rank = 0;
    assert_ok(gs_rendezvous_open(&r, &m));
    assert_ok(gs_rendezvous_wait(m));
    assert_int_equal(m->all[1].pid, 0);
    gs_rendezvous_close(m);
}

TEST(an_address_must_be_this_machines) {
    char folder[400];
    gs_test_new_folder(folder);
    assert_fails(GS_E_USAGE, "cannot resolve the address 'no.such.host.invalid' for the other processes",
                 meet(0, 2, folder, 5, "no.such.host.invalid"));
    assert_fails(GS_E_USAGE, "this machine cannot be reached at the address '192.0.2.1'",
                 meet(0, 2, folder, 5, "192.0.2.1"));
}

/* Runs launch with a limit of `limit` descriptors; it inherits only 0, 1 and 2 from the shell. */
static int launch_with_descriptors(int limit, char **output) {
    return gs_test_shell(output,
                         "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n %d; %s/gradsum launch -n 2 "
                         "--timeout 20 -- train --model softmax --threads 1 --steps 2",
                         limit, GS_BUILD_DIR);
}

/* A permanent lack of descriptors must not be reported as a slow peer. */
TEST(too_few_descriptors_are_named) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("UBSan needs a descriptor to inspect memory");
#endif
    char *output;
    int enough = 0;
    /* how many suffice depends on what the machine's libraries keep open */
    for (int limit = 8; limit <= 24; limit++) {
        const char *wanted = gs_test_format("too many open files: RLIMIT_NOFILE is %d (ulimit -n)", limit);
        int status = launch_with_descriptors(limit, &output);
        bool named = status == 1 && strstr(output, wanted) && !strstr(output, "within");
        if (status != 0 && !named) fail_msg("limit %d, exit %d: %s", limit, status, output);
        if (status == 0 && !enough) enough = limit;
        if (enough && status != 0) fail_msg("%d are enough, but %d are not: %s", enough, limit, output);
    }
    if (enough <= 10)
        fail_msg("the limit was never reached: of 8 to 24, %d was the first that was enough", enough);
}

TEST(the_environment_says_who_this_is) {
    static const struct {
        const char *rank, *size, *folder, *timeout, *message; /* NULL: success */
    } cases[] = {
        {NULL, NULL, NULL, NULL, NULL},
        {"2", "3", "/tmp/x", "2.5", NULL},
        {NULL, "3", "/tmp/x", NULL, "GRADSUM_RANK is not set; set all of"},
        {"0", NULL, "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is not set; set all of"},
        {"0", "3", NULL, NULL, "GRADSUM_RENDEZVOUS is not set"},
        {"0", "3", "", NULL, "GRADSUM_RENDEZVOUS is empty"},
        {"3", "3", "/tmp/x", NULL, "GRADSUM_RANK is '3'; it must be a whole number from 0 to 2"},
        {"-1", "3", "/tmp/x", NULL, "GRADSUM_RANK is '-1'"},
        {"1x", "3", "/tmp/x", NULL, "GRADSUM_RANK is '1x'"},
        {"0", "0", "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is '0'"},
        {"0", "99999999999999999999", "/tmp/x", NULL, "GRADSUM_WORLD_SIZE is '9999"},
        {NULL, NULL, NULL, "0", "GRADSUM_TIMEOUT is '0'"},
        {NULL, NULL, NULL, "nan", "GRADSUM_TIMEOUT is 'nan'"},
        {NULL, NULL, NULL, "soon", "GRADSUM_TIMEOUT is 'soon'"},
    };
    static const char *const names[] = {"GRADSUM_RANK", "GRADSUM_WORLD_SIZE", "GRADSUM_RENDEZVOUS",
                                        "GRADSUM_TIMEOUT"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const values[] = {cases[i].rank, cases[i].size, cases[i].folder, cases[i].timeout};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            if (values[k]) setenv(names[k], values[k], 1);
        gs_rendezvous r;
        gs_status status = gs_rendezvous_from_environment(&r);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) unsetenv(names[k]);
        if (cases[i].message) assert_fails(GS_E_USAGE, cases[i].message, status);
        if (cases[i].message) continue;
        assert_int_equal(status, GS_OK);
        assert_int_equal(r.rank, cases[i].rank ? 2 : 0);
        assert_int_equal(r.size, cases[i].size ? 3 : 1);
        assert_true(r.timeout == (cases[i].timeout ? 2.5 : GS_TIMEOUT));
        assert_null(r.address);
        if (!cases[i].folder) assert_null(r.directory);
    }
}
