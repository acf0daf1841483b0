/* Kills a process in each collective and each scheme, mostly in the middle of a long message. All others must end with
 * a message that names it, and long before the timeout: a process that waits for the timeout is killed too, and is then
 * missing from the survivors. */
#include "tests/support/program.h"

#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 300000, MOST_THREADS = 2, MOST_RANKS = 4 };

static void *kill_this_process(void *argument) {
    (void)argument;
    usleep(700); /* mostly in the middle of a message, but the test holds at any moment */
    raise(SIGKILL);
    return NULL;
}

static gs_operation operation_called(const char *name) {
    int o = 0;
    while (name && o < GS_BARRIER && strcmp(gs_operation_name((gs_operation)o), name) != 0) o++;
    return (gs_operation)o;
}

/* Repeats the sum by the scheme GS_TEST_SCHEME, or the collective GS_TEST_CALL, until it fails. In round GS_TEST_DIES,
 * starts a thread that kills the process. */
static gs_status repeat(gs_comm *c, gs_sync *sync, void *in, void *out) {
    const char *dies = getenv("GS_TEST_DIES");
    gs_call call = {operation_called(getenv("GS_TEST_CALL")), COUNT, GS_F32, GS_SUM, 0};
    pthread_t killer;
    for (int round = 0;; round++) {
        if (dies && round == atoi(dies)) pthread_create(&killer, NULL, kill_this_process, NULL);
        GS_TRY(sync ? gs_sync_run(sync, out, COUNT) : gs_call_run(c, &call, in, out));
    }
}

static void *call_for_ever(void *argument) {
    gs_comm *c = argument;
    const char *name = getenv("GS_TEST_SCHEME");
    const gs_sync_scheme *scheme;
    gs_sync *sync = NULL;
    void *in = gs_test_calloc((size_t)COUNT * MOST_RANKS, 4),
         *out = gs_test_calloc((size_t)COUNT * MOST_RANKS, 4);
    gs_status status = in && out ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for a test");
    if (status == GS_OK && name) status = gs_sync_find(name, &scheme);
    if (status == GS_OK && name) status = gs_sync_create(scheme, c, COUNT, &sync);
    if (status == GS_OK) status = repeat(c, sync, in, out);
    char text[1200];
    int length = snprintf(text, sizeof text, "survivor: %s: %s\n", gs_status_name(status), gs_message());
    if (write(STDOUT_FILENO, text, (size_t)length) != length) abort();
    gs_sync_free(sync);
    gs_comm_free(c);
    return NULL;
}

static gs_status be_a_process(int local) {
    gs_rendezvous r;
    gs_comm *processes, *comms[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    GS_TRY(gs_rendezvous_from_environment(&r));
    if (getenv("GS_TEST_DIES") && r.rank != r.size - 1) unsetenv("GS_TEST_DIES");
    GS_TRY(gs_comm_processes_create(&r, &processes));
    GS_TRY(gs_comm_workers_create(local, processes, r.timeout, comms));
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

/* "ranks 0 and 2 were lost" also names rank 2: survivors that ended before this one are reported as lost too. */
static bool names(const char *line, const char *dead) {
    const char *number = strrchr(dead, ' ');
    const char *among_others = gs_test_format(" and%s were lost", number);
    return strstr(line, dead) || strstr(line, among_others);
}

/* Runs with GS_TEST_<what>=name in this many processes. Each survivor's message names the dead rank and contains
 * `word`. */
static void kill_one_of(const char *transport, int processes, int local, const char *dead, const char *what,
                        const char *name, const char *word) {
    char folder[400], *output;
    int survivors = 0;
    snprintf(folder, sizeof folder, "%s/meet", gs_test_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    int status = gs_test_shell(&output,
                               "export GS_TEST_%s=%s GS_TEST_LOCAL=%d GS_TEST_DIES=20 GRADSUM_WORLD_SIZE=%d "
                               "GRADSUM_RENDEZVOUS=%s GRADSUM_TIMEOUT=600 GRADSUM_TRANSPORT=%s\n"
                               "rank=0; while [ $rank -lt %d ]; do GRADSUM_RANK=$rank timeout --foreground "
                               "-s KILL 200 %s/gradsum-test & rank=$((rank + 1)); "
                               "done; wait",
                               what, name, local, processes, folder, transport, processes, GS_BUILD_DIR);
    assert_int_equal(status, 0);
    for (const char *at = output; (at = strstr(at, "survivor: ")); at++) {
        char line[1200];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        survivors++;
        bool named = names(line, dead) && strstr(line, " lost (");
        if (!strstr(line, word) || !named || !strstr(line, "survivor: another worker was lost"))
            fail_msg("%s over %s: %s", name, transport, line);
    }
    if (survivors != (processes - 1) * local)
        fail_msg("%s over %s: %d survivors of %d: %s", name, transport, survivors, (processes - 1) * local,
                 output);
    if (access(folder, F_OK) == 0) fail_msg("%s: %s still exists", name, folder);
}

static void kill_in_each_collective(const char *transport, int processes, int local, const char *dead) {
    for (int o = GS_BROADCAST; o <= GS_BARRIER; o++) {
        const char *name = gs_operation_name((gs_operation)o);
        kill_one_of(transport, processes, local, dead, "CALL", name, name);
    }
}

TEST(a_killed_rank_is_named_in_every_collective) {
    kill_in_each_collective("gloo", 2, 1, "rank 1");
    kill_in_each_collective("gloo", 3, 1, "rank 2");
    kill_in_each_collective("shm", 3, 1, "rank 2");
}

TEST(a_killed_process_of_threads_is_named) {
    kill_in_each_collective("gloo", 2, 2, "process 1");
    kill_in_each_collective("shm", 2, 2, "process 1");
}

/* Kills the last of 3 ranks, which takes part in every scheme, even in those that need a power of two. */
TEST(a_killed_rank_is_named_in_every_scheme) {
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++) {
        if (*s == &gs_sync_auto) continue; /* chooses one of the others */
        bool messages = (*s)->cost != NULL;
        for (int shm = 0; shm < 2; shm++) {
            const char *transport = shm ? "shm" : "gloo";
            if (shm && *s == &gs_sync_gloo) continue; /* implemented by Gloo */
            kill_one_of(transport, 3, 1, "rank 2", "SCHEME", (*s)->name,
                        messages ? " bytes" : "all_reduce of 300000 f32");
            kill_one_of(transport, 2, 2, "process 1", "SCHEME", (*s)->name, "");
        }
    }
}
