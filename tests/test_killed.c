/* A process is killed in the middle of each collective: all others end with a message that names it. */
#include "tests/program.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sync/call.h"

enum { COUNT = 300000, MOST_THREADS = 2, MOST_RANKS = 4 };

static void *kill_this_process(void *argument) {
    (void)argument;
    usleep(700);
    raise(SIGKILL);
    return NULL;
}

/* ---- this program, started again as a process of some ranks ---- */

static gs_operation operation_called(const char *name) {
    int o = 0;
    while (o < GS_BARRIER && strcmp(gs_operation_name((gs_operation)o), name) != 0) o++;
    return (gs_operation)o;
}

/* The same call until it fails. In round GS_TEST_DIES a thread is started that kills the process. */
static void *call_for_ever(void *argument) {
    gs_comm *c = argument;
    gs_call call = {operation_called(getenv("GS_TEST_CALL")), COUNT, GS_F32, GS_SUM, 0};
    const char *dies = getenv("GS_TEST_DIES");
    pthread_t killer;
    void *in = calloc((size_t)COUNT * MOST_RANKS, 4), *out = calloc((size_t)COUNT * MOST_RANKS, 4);
    gs_status status = in && out ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a test");
    for (int round = 0; status == GS_OK; round++) {
        if (dies && round == atoi(dies)) pthread_create(&killer, NULL, kill_this_process, NULL);
        status = gs_call_run(c, &call, in, out);
    }
    char text[1200];
    int length = snprintf(text, sizeof text, "survivor: %s: %s\n", gs_status_name(status), gs_message());
    if (write(STDOUT_FILENO, text, (size_t)length) != length) abort();
    free(in);
    free(out);
    gs_comm_free(c);
    return NULL;
}

static gs_status be_a_process(int local) {
    gs_rendezvous r;
    gs_comm *processes, *comms[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    GS_TRY(gs_rendezvous_from_environment(&r));
    if (getenv("GS_TEST_DIES") && r.rank != r.size - 1) unsetenv("GS_TEST_DIES");
    GS_TRY(gs_comm_gloo_create(&r, &processes));
    GS_TRY(gs_comm_world_create(local, processes, r.timeout, comms));
    for (int i = 0; i < local; i++) pthread_create(&threads[i], NULL, call_for_ever, comms[i]);
    for (int i = 0; i < local; i++) pthread_join(threads[i], NULL);
    return GS_OK;
}

__attribute__((constructor)) static void maybe_be_a_process(void) {
    const char *local = getenv("GS_TEST_LOCAL");
    if (!local) return;
    if (be_a_process(atoi(local)) != GS_OK) printf("cannot begin: %s\n", gs_message());
    exit(0);
}

/* ---- the test ---- */

static void kill_one_of(int processes, int local, const char *dead) {
    for (int o = GS_BROADCAST; o <= GS_BARRIER; o++) {
        const char *name = gs_operation_name((gs_operation)o), *at;
        char folder[400], *output;
        int survivors = 0;
        snprintf(folder, sizeof folder, "%s/meet", gs_test_folder());
        assert_int_equal(mkdir(folder, 0700), 0);
        int status = gs_test_shell(
            &output,
            "export GS_TEST_CALL=%s GS_TEST_LOCAL=%d GS_TEST_DIES=20 GRADSUM_WORLD_SIZE=%d "
            "GRADSUM_RENDEZVOUS=%s GRADSUM_TIMEOUT=3\n"
            "rank=0; while [ $rank -lt %d ]; do GRADSUM_RANK=$rank %s/gradsum-test & rank=$((rank + 1)); "
            "done; wait",
            name, local, processes, folder, processes, GS_BUILD_DIR);
        assert_int_equal(status, 0);
        for (at = output; (at = strstr(at, "survivor: ")); at++) {
            char line[1200];
            snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
            survivors++;
            bool named = strstr(line, dead) && (strstr(line, "lost") || strstr(line, "no answer within 3 s"));
            if (!strstr(line, name) || !named) fail_msg("%s: %s", name, line);
        }
        if (survivors != (processes - 1) * local)
            fail_msg("%s: %d survivors of %d: %s", name, survivors, (processes - 1) * local, output);
        if (access(folder, F_OK) == 0) fail_msg("%s: %s is still there", name, folder);
        free(output);
    }
}

static void a_killed_rank_is_named_in_every_collective(void **state) {
    (void)state;
    kill_one_of(3, 1, "2");
}

static void a_killed_process_of_threads_is_named(void **state) {
    (void)state;
    kill_one_of(2, 2, "process 1");
}

GS_TESTS(killed, cmocka_unit_test(a_killed_rank_is_named_in_every_collective),
         cmocka_unit_test(a_killed_process_of_threads_is_named))
