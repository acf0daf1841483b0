/* Anybody can call a listening rank, but strangers neither get in nor delay the run's ranks. If ranks do not match, the
 * message names both sides. */
#include "tests/support/program.h"
#include "tests/support/rank_process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/rendezvous/store.h"
#include "comm/mesh.h"

/* ---- listening sockets ---- */

/* Whether the process owns the socket with this inode number. */
static bool has_socket(pid_t pid, unsigned long number) {
    char found[64];
    const char *path = gs_test_format("/proc/%d/fd", (int)pid);
    const char *wanted = gs_test_format("socket:[%lu]", number);
    DIR *files = opendir(path);
    bool has = false;
    for (const struct dirent *e; files && !has && (e = readdir(files));) {
        ssize_t n = readlinkat(dirfd(files), e->d_name, found, sizeof found - 1);
        found[n < 0 ? 0 : n] = '\0';
        has = strcmp(found, wanted) == 0;
    }
    if (files) closedir(files);
    return has;
}

/* Stores the address on which the process listens; false if it does not listen. */
static bool listens(pid_t pid, struct sockaddr_in *at) {
    enum { LISTEN = 10 };
    char line[256];
    unsigned address, port, state;
    unsigned long number;
    bool found = false;
    FILE *f = gs_test_open("/proc/net/tcp", "r");
    while (!found && fgets(line, sizeof line, f)) {
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x %*s %*s %*s %*s %*s %lu", &address, &port, &state,
                   &number) != 4)
            continue;
        found = state == LISTEN && has_socket(pid, number);
        *at = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = address};
    }
    fclose(f);
    return found;
}

/* ---- strangers ---- */

enum { STRANGERS = 100 };

/* Kind 0 hangs up at once, 1 is silent, 2 sends nonsense, 3 sends a correct hello but does not know the secret. */
static int call_as_stranger(const struct sockaddr_in *at, int kind, int *answered) {
    char nonsense[300];
    gs_hello hello;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s >= 0);
    if (connect(s, (const struct sockaddr *)at, sizeof *at) != 0) return s;
    ++*answered;
    memset(nonsense, 0x5a, sizeof nonsense);
    if (kind == 0) assert_int_equal(shutdown(s, SHUT_RDWR), 0);
    if (kind == 2) send(s, nonsense, sizeof nonsense, MSG_NOSIGNAL);
    if (kind == 3) {
        assert_ok(gs_hello_make(1, 0, 0, &hello));
        send(s, &hello, sizeof hello, MSG_NOSIGNAL);
        send(s, nonsense, GS_MAC, MSG_NOSIGNAL);
    }
    return s;
}

/* Rank 1 has joined but is stopped, so rank 0 listens for it. Strangers call rank 0 first. */
TEST(strangers_do_not_get_in) {
    char folder[400];
    struct sockaddr_in at;
    int stranger[STRANGERS], answered = 0;
    char end;
    gs_test_new_folder(folder);
    gs_test_rank one = gs_test_start_rank(1, 2, folder, 200);
    gs_test_await_rank(folder, 1);
    kill(one.pid, SIGSTOP);
    gs_test_rank zero = gs_test_start_rank(0, 2, folder, 200);
    bool found = false;
    for (int i = 0; i < 300000 && !(found = listens(zero.pid, &at)); i++) usleep(1000);
    for (int i = 0; found && i < STRANGERS; i++) stranger[i] = call_as_stranger(&at, i % 4, &answered);
    for (int i = 2; found && i < STRANGERS; i += 4) recv(stranger[i], &end, 1, 0); /* is rejected */
    kill(one.pid, SIGCONT);
    assert_true(found);
    int ends[] = {gs_test_rank_end(&zero), gs_test_rank_end(&one)};
    for (int i = 0; i < STRANGERS; i++) close(stranger[i]);
    gs_test_rank_says(&one, "success");
    assert_int_equal(ends[0], 0);
    assert_int_equal(ends[1], 0);
    assert_int_equal(answered, STRANGERS);
}

/* ---- connecting, rank by rank ---- */

typedef struct member {
    gs_rendezvous r;
    gs_rank_info all[2];
    int listener, socket[2];
    gs_status status;
    char message[400];
    pthread_t thread;
} member;

static void *connect_member(void *argument) {
    member *m = argument;
    m->status = gs_mesh_connect(&m->r, m->all, m->listener, NULL, 1, m->socket);
    snprintf(m->message, sizeof m->message, "%s", m->status == GS_OK ? "" : gs_message());
    gs_mesh_close(2, m->socket);
    return NULL;
}

static void meet(member m[2], double timeout) {
    for (int r = 0; r < 2; r++) {
        m[r] = (member){.r = {.rank = r, .size = 2, .timeout = timeout}};
        assert_ok(gs_rank_info_create(&m[r].r, &m[r].all[r]));
        assert_ok(gs_mesh_listen("127.0.0.1", &m[r].all[r], &m[r].listener));
    }
    m[0].all[1] = m[1].all[1];
    m[1].all[0] = m[0].all[0];
}

static void connect_both(member m[2]) {
    for (int r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&m[r].thread, NULL, connect_member, &m[r]), 0);
    for (int r = 0; r < 2; r++) pthread_join(m[r].thread, NULL);
    for (int r = 0; r < 2; r++) close(m[r].listener);
}

/* Rank `who` expects a secret that differs in one bit. */
static const char *wrong_proof_is_taken(double timeout, void *context) {
    const int who = *(int *)context;
    member m[2];
    meet(m, timeout);
    m[who].all[1 - who].secret[GS_SECRET - 1] ^= 1;
    connect_both(m);
    if (m[0].status != GS_E_PEER || !strstr(m[0].message, "rank 1 did not connect to 127.0.0.1 port") ||
        !strstr(m[0].message, "turned away"))
        return gs_test_wrong("%s", m[0].message);
    if (m[1].status != GS_E_PEER || !strstr(m[1].message, "rank 0 could not be reached at 127.0.0.1 port") ||
        !strstr(m[1].message, "what answers there does not belong to this run"))
        return gs_test_wrong("%s", m[1].message);
    return NULL;
}

TEST(both_sides_prove_who_they_are) {
    member m[2];
    meet(m, 200);
    connect_both(m);
    assert_int_equal(m[0].status, GS_OK);
    assert_int_equal(m[1].status, GS_OK);
    for (int who = 0; who < 2; who++) gs_test_patiently(0.3, wrong_proof_is_taken, &who);
}

/* If two ranks are on different networks, the message names the variable to set. */
TEST(a_rank_that_cannot_be_reached_is_named) {
    member m[2];
    meet(m, 0.2);
    close(m[0].listener); /* so rank 0 does not answer */
    connect_member(&m[1]);
    assert_int_equal(m[1].status, GS_E_PEER);
    if (!strstr(m[1].message, "Connection refused") || strstr(m[1].message, "GRADSUM_ADDRESS"))
        fail_msg("%s", m[1].message);
    snprintf(m[1].all[0].network, sizeof m[1].all[0].network, "another");
    connect_member(&m[1]);
    if (!strstr(m[1].message, "set GRADSUM_ADDRESS for each rank")) fail_msg("%s", m[1].message);
    close(m[1].listener);
}

/* A signal ends the wait at once instead of after 60 s. */
TEST(a_signal_ends_the_waiting) {
    static const volatile sig_atomic_t stop = 1;
    member m[2];
    meet(m, 60);
    m[0].r.stop = &stop;
    connect_member(&m[0]);
    assert_int_equal(m[0].status, GS_E_INTERRUPTED);
    for (int r = 0; r < 2; r++) close(m[r].listener);
}

/* ---- mismatched ranks ---- */

TEST(both_sides_are_named) {
    gs_rendezvous r = {.rank = 0, .size = 2};
    gs_rank_info a, b;
    assert_ok(gs_rank_info_create(&r, &a));
    snprintf(a.address, sizeof a.address, "127.0.0.1");
    b = a;
    b.rank = 1;
    assert_ok(gs_rank_info_compare(&a, &b));
    snprintf(b.network, sizeof b.network, "another");
    assert_fails(GS_E_USAGE, "set GRADSUM_ADDRESS for each rank", gs_rank_info_compare(&a, &b));
    snprintf(a.address, sizeof a.address, "10.0.0.1");
    assert_fails(GS_E_USAGE, "rank 1 listens at 127.0.0.1", gs_rank_info_compare(&a, &b));
    snprintf(b.address, sizeof b.address, "10.0.0.2");
    assert_ok(gs_rank_info_compare(&a, &b));
    snprintf(b.version, sizeof b.version, "9.9");
    assert_fails(GS_E_PEER, "rank 0 is gradsum " GRADSUM_VERSION ", but rank 1 is gradsum 9.9",
                 gs_rank_info_compare(&a, &b));
}

TEST(transports_that_differ_are_named) {
    static const char *const cases[][4] = {
        {"GRADSUM_TRANSPORT=auto", "GRADSUM_TRANSPORT=gloo", "rank 0 talks over auto, but rank 1 over gloo",
         "rank 1 talks over gloo, but rank 0 over auto"},
        {"SCHEME=gloo", "SCHEME=ring", "rank 0 talks over gloo (for --sync gloo), but rank 1 over auto",
         "rank 1 talks over auto, but rank 0 over gloo (for --sync gloo)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *output, folder[400];
        gs_test_new_folder(folder);
        gs_test_shell(
            &output,
            "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s SCHEME=allreduce\n"
            "run() { export GRADSUM_RANK=$1 $2; %s/gradsum train --model softmax --steps 1 --threads 1 "
            "--sync $SCHEME 2>&1; }\n"
            "run 0 %s & run 1 %s; wait",
            folder, GS_BUILD_DIR, cases[i][0], cases[i][1]);
        for (int k = 2; k < 4; k++) assert_has(output, cases[i][k]);
    }
}

/* A network namespace looks like another machine. */
TEST(hosts_without_an_address_are_told_what_to_set) {
    char *output, folder[400];
    int refused = gs_test_shell(&output, "unshare --net ip link set lo up");
    if (refused) skip_because("no network namespace can be created here");
    gs_test_new_folder(folder);
    gs_test_shell(
        &output,
        "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s GS_TEST_RANK=0\n"
        "run='timeout 200 %s/gradsum-test'\n"
        "GRADSUM_RANK=0 $run & GRADSUM_RANK=1 unshare --net sh -c \"ip link set lo up; $run\"; wait",
        folder, GS_BUILD_DIR);
    for (int r = 0; r < 2; r++)
        assert_has(output, r ? ": rank 1 runs on" : ": rank 0 runs on", "set GRADSUM_ADDRESS for each rank");
}

static gs_status keep(void *context, const char *key, const char *value) {
    (void)key;
    snprintf(context, 20, "%s", value);
    return GS_OK;
}

/* A file that another user left in the folder is rejected. */
TEST(a_file_of_another_user_is_refused) {
    char folder[400], value[GS_STORE_VALUE] = "mine", heard[20] = "";
    bool there;
    if (geteuid() != 0) skip_because("only root can create another user's file");
    gs_test_new_folder(folder);
    const gs_rendezvous r[] = {{.rank = 0, .size = 2, .directory = folder},
                               {.rank = 1, .size = 2, .directory = folder}};
    gs_store *s[2];
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) assert_ok(gs_store_open(&r[i], NULL, NULL, &s[i]));
    assert_ok(gs_store_put(s[1], "rank-1", value, &there));
    const char *path = gs_test_format("%s/rank-1", folder);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_fails(GS_E_FILE, "belongs to user 65534, but user 0 runs this rank",
                 gs_store_poll(s[0], 0, keep, heard));
    assert_string_equal(heard, "");
    assert_int_equal(chown(path, 0, 0), 0);
    assert_ok(gs_store_poll(s[0], 0, keep, heard));
    assert_string_equal(heard, "mine");
    for (int i = 0; i < 2; i++) gs_store_free(s[i]);
}
