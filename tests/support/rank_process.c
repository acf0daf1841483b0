#include "tests/support/rank_process.h"
#include "tests/support/files.h"
#include "comm/mesh.h"
#include "comm/rendezvous/rendezvous.h"
#include "tests/support/launched.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- in the process ---- */

static gs_status join(void) {
    gs_rendezvous r;
    gs_comm *c;
    GS_TRY(gs_rendezvous_from_environment(&r));
    GS_TRY(gs_comm_gloo_create(&r, &c));
    gs_comm_free(c);
    return GS_OK;
}

/* Connects as gs_comm_gloo_create does, then raises the signal instead of using the connections. */
static gs_status connect_and_raise(int signal) {
    enum { MOST = 8 };
    gs_rendezvous r;
    gs_rendezvous_state *m;
    int socket[MOST];
    GS_TRY(gs_rendezvous_from_environment(&r));
    if (r.size < 3 || r.size > MOST) return gs_fail(GS_E_USAGE, "%d ranks", r.size);
    GS_TRY(gs_rendezvous_open(&r, &m));
    GS_TRY(gs_rendezvous_wait(m));
    GS_TRY(gs_mesh_connect(&r, m->all, m->listener, NULL, 1, socket));
    gs_rendezvous_close(m);
    raise(signal);
    return GS_OK;
}

__attribute__((constructor)) static void be_a_rank(void) {
    const char *what = getenv("GS_TEST_RANK");
    if (!what) return;
    gs_status status = atoi(what) > 0 ? connect_and_raise(atoi(what)) : join();
    printf("%s: %s\n", gs_status_name(status), gs_message());
    exit(status != GS_OK);
}

/* ---- in the test ---- */

static void set_number(const char *name, double value) {
    char text[16];
    snprintf(text, sizeof text, "%g", value);
    setenv(name, text, 1);
}

void gs_test_await_rank(const char *folder, int rank) {
    struct stat s = {0};
    const char *path = gs_test_format("%s/rank-%d", folder, rank);
    for (int i = 0; i < 30000 && (stat(path, &s) != 0 || s.st_size == 0); i++) usleep(10000);
    assert_true(s.st_size > 0);
    assert_int_equal(s.st_mode & 0777, 0600);
}

gs_test_rank gs_test_start_rank(int rank, int size, const char *folder, double timeout) {
    return gs_test_start_ill_rank(rank, size, folder, timeout, 0);
}

gs_test_rank gs_test_start_ill_rank(int rank, int size, const char *folder, double timeout, int signal) {
    gs_test_rank p;
    snprintf(p.log, sizeof p.log, "%s/log", gs_test_folder());
    set_number("GS_TEST_RANK", signal);
    setenv("GRADSUM_RENDEZVOUS", folder, 1);
    set_number("GRADSUM_RANK", rank);
    set_number("GRADSUM_WORLD_SIZE", size);
    set_number("GRADSUM_TIMEOUT", timeout);
    p.pid = fork();
    if (p.pid == 0) {
        int log = open(p.log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (log >= 0) dup2(log, STDOUT_FILENO);
        execl("/proc/self/exe", "gradsum-test", (char *)NULL);
        _exit(99);
    }
    assert_true(p.pid > 0);
    static const char *const names[] = {"GS_TEST_RANK", "GRADSUM_RANK", "GRADSUM_WORLD_SIZE",
                                        "GRADSUM_RENDEZVOUS", "GRADSUM_TIMEOUT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    return p;
}

int gs_test_rank_end(const gs_test_rank *p) {
    return gs_test_launcher_end(p->pid);
}

const char *gs_test_rank_said(const gs_test_rank *p) {
    return gs_test_text(p->log, NULL);
}

void gs_test_rank_says(const gs_test_rank *p, const char *part) {
    const char *text = gs_test_rank_said(p);
    if (!strstr(text, part)) fail_msg("wanted '%s' in: %s", part, text);
}

void gs_test_new_folder(char folder[400]) {
    snprintf(folder, 400, "%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
}
