/* gradsum-test [--tests | --failures] [NAME...]
 *
 * With names of groups (zero), folders (train/) or tests (with *), only these run, in this process. Without names, each
 * group runs in its own process, one process per core, and one summary closes the run. `make test` runs --tests, `make
 * test-failures` runs --failures; without either option, all tests run.
 *
 *     gradsum-test --wrong all_to_all ...      run `gradsum collectives ...` with this collective made wrong
 */
#include "core/clock.h"
#include "tests/support/devices.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* Groups, and individual tests of other groups, that kill, stop, disconnect, flood or wait: what happens in them
 * depends on when the system schedules a process. */
static const char *const failures[] = {
    "without_launcher",
    "checkpoint_harm",
    "doctor",
    "elastic",
    "hosts",
    "inject",
    "killed",
    "launch",
    "rendezvous",
    "nodes",
    "restarts",
    "signals",
    "store",
    "strangers",
    "sweep_command",
    /* of bucket, overlap */ "a_killed_process_is_told",
    "a_signal_ends_all_workers",
    "a_failed_sum_ends_the_run",
    /* batch_norm_workers, async, accumulate_slow */ "exact_with_a_worker_that_hangs",
    "async_ends_when_a_worker_is_lost",
    "a_sleeper_wakes_when_another_fails",
    /* comm, shm, mpi, split */ "abort_reaches_everyone",
    "a_late_rank_is_named",
    "a_message_of_another_length_is_an_error",
    "recv_names_the_silent_rank",
    "a_chain_of_threads_is_followed_to_its_end",
    "who_waits_is_not_blamed",
    "an_abort_reaches_everyone",
    "nothing_hangs_when_a_rank_is_killed",
    "a_failing_process_ends_the_run",
    "a_timeout_names_the_ranks_of_the_parent",
    "a_failure_names_the_rank_of_the_parent",
    /* run_summary */ "stopped_before_the_first_test",
    "stopped_after_a_test",
    /* gloo, link */ "an_abort_ends_an_exchange",
    "death_in_the_middle_of_a_message_is_noticed",
    "longer_than_the_timeout_is_an_error",
    /* log_harm, write */ "a_killed_run_leaves_what_it_wrote",
    "an_interrupted_run_says_so",
    "a_removed_record_is_told",
    /* sandbox */ "children_end_with_it",
    "memory_of_*",
    "time_*",
    "sleep_ends",
    "naps_do_not_add_up"};

/* The longest groups start first, so that none of them runs alone at the end. The failure tests' groups come last. */
static const char longest[] = " layout mpi pipeline train offload bucket collectives checkpoint "
                              "no_allocation resume in_one_file link cores zero lab sequence_parallel "
                              "split offload_memory cl_tiles offload_bits usage explain sync limits "
                              "operators cl_cache killed restarts launch hosts doctor nodes sandbox ";

enum { MAX_GROUPS = 256, MAX_TESTS = 128, ANY = 0, TESTS, FAILURES };
static struct group {
    char folder[16], name[40];
    struct CMUnitTest tests[MAX_TESTS];
    int line[MAX_TESTS];
    size_t count;
} groups[MAX_GROUPS];
static size_t group_count;

void gs_test_register(const char *file, const char *group, int line, struct CMUnitTest test) {
    char folder[sizeof groups->folder], name[sizeof groups->name];
    if (sscanf(file, "tests/%15[^/]/test_%39[^.]", folder, name) != 2) gs_bug("tests in %s", file);
    if (group) snprintf(name, sizeof name, "%s", group);
    struct group *g = groups;
    while (g < groups + group_count && strcmp(g->name, name) != 0) g++;
    if (g == groups + MAX_GROUPS) gs_bug("more than %d groups of tests", MAX_GROUPS);
    if (g->count == MAX_TESTS) gs_bug("more than %d tests in the group %s", MAX_TESTS, name);
    if (!test.teardown_func) test.teardown_func = gs_test_end;
    if (g == groups + group_count) group_count++, strcpy(g->folder, folder), strcpy(g->name, name);
    size_t i = g->count++;
    for (; i > 0 && g->line[i - 1] > line; i--) g->tests[i] = g->tests[i - 1], g->line[i] = g->line[i - 1];
    g->tests[i] = test, g->line[i] = line;
}

/* ---- which tests ---- */

/* Whether `name`, of a group, of a test, or of tests (with *), matches this test. "train/" is all of tests/train/,
 * "train/sweep" only that group. */
static bool means(const char *name, const struct group *g, const char *test) {
    const size_t length = strcspn(name, "/");
    if (name[length])
        return strlen(g->folder) == length && strncmp(name, g->folder, length) == 0 &&
               (!name[length + 1] || strcmp(name + length + 1, g->name) == 0);
    if (strchr(name, '*')) return fnmatch(name, test, 0) == 0;
    return strcmp(name, g->name) == 0 || strcmp(name, test) == 0;
}

static bool belongs(int set, size_t g, size_t i) {
    bool fails = false;
    for (size_t k = 0; k < sizeof failures / sizeof *failures && !fails; k++)
        fails = means(failures[k], &groups[g], groups[g].tests[i].name);
    return set == ANY || fails == (set == FAILURES);
}

static size_t count_of(int set, size_t g) {
    size_t n = 0;
    for (size_t i = 0; i < groups[g].count; i++) n += belongs(set, g, i);
    return n;
}

/* ---- in this process ---- */

static int end_group(void **state) {
    gs_test_end(state);
    return gs_test_close_devices(state);
}

static void print_groups(void) {
    for (size_t first = 0, g; first < group_count; first++) {
        for (g = 0; strcmp(groups[g].folder, groups[first].folder) != 0;) g++;
        if (g < first) continue;
        int column = fprintf(stderr, "\n%s/", groups[g].folder) + 80; /* starts a new line */
        for (; g < group_count; g++) {
            if (strcmp(groups[g].folder, groups[first].folder) != 0) continue;
            if (column + 1 + (int)strlen(groups[g].name) > 80) column = fprintf(stderr, "\n   ") - 1;
            column += fprintf(stderr, " %s", groups[g].name);
        }
    }
    fputc('\n', stderr);
}

static int run_here(int set, char **names, int name_count) {
    static struct CMUnitTest all[4096];
    size_t count = 0;
    bool *found = calloc((size_t)name_count, sizeof *found);
    if (!found) gs_bug("no memory");
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            bool wanted = false;
            for (int a = 0; a < name_count; a++)
                if (means(names[a], &groups[g], groups[g].tests[i].name)) wanted = found[a] = true;
            if (!wanted || !belongs(set, g, i)) continue;
            if (count == sizeof all / sizeof *all) gs_bug("too many tests");
            all[count++] = groups[g].tests[i];
        }
    for (int a = 0; a < name_count; a++) {
        if (found[a]) continue;
        fprintf(stderr, "gradsum-test: no group and no test is called '%s'; the groups are:", names[a]);
        print_groups();
        free(found);
        return 2;
    }
    free(found);
    gs_cl_choose_settings(true);
    return _cmocka_run_group_tests("gradsum", all, count, NULL, end_group) != 0;
}

/* ---- side by side, each group in a process ---- */

typedef struct job {
    size_t group, tests, passed, skipped;
    pid_t pid; /* also its process group; 0: not started, or ended */
    int status;
    double began;
    FILE *output;
} job;

static volatile sig_atomic_t interrupted;
static void interrupt(int signal) {
    interrupted = signal;
}

static void begin(job *j, int set) {
    j->output = tmpfile();
    if (!j->output) gs_bug("cannot create a file for the output of %s", groups[j->group].name);
    fcntl(fileno(j->output), F_SETFD, FD_CLOEXEC);
    j->began = gs_seconds();
    j->pid = fork();
    if (j->pid < 0) gs_bug("cannot create a process for %s", groups[j->group].name);
    if (j->pid == 0) {
        setpgid(0, 0);
        const int input = open("/dev/null", O_RDONLY);
        if (input < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(fileno(j->output), STDOUT_FILENO) < 0 ||
            dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
            _exit(99);
        static const char *const options[] = {"--all", "--tests", "--failures"};
        char name[100];
        snprintf(name, sizeof name, "%s/%s", groups[j->group].folder, groups[j->group].name);
        execl("/proc/self/exe", "gradsum-test", options[set], name, (char *)NULL);
        _exit(99);
    }
    setpgid(j->pid, j->pid);
}

static char *output_of(const job *j) {
    fseek(j->output, 0, SEEK_END);
    const size_t size = (size_t)ftell(j->output);
    char *text = calloc(1, size + 1);
    rewind(j->output);
    if (!text || fread(text, 1, size, j->output) != size) gs_bug("cannot read the output of a group");
    for (size_t i = 0; i < size; i++)
        if (!text[i]) text[i] = ' ';
    return text;
}

/* The number in the line of cmocka's summary that starts with `begin`; 0 without such a line. Newer versions of cmocka
 * put the program's name before the number. */
static size_t number_after(const char *summary, const char *begin) {
    const char *at = strstr(summary, begin);
    return at ? (size_t)atol(at + strcspn(at, "0123456789\n")) : 0;
}

/* cmocka's summary at the end of the text; NULL if the process ended before it. */
static const char *summary_of(const char *text) {
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, "[==========]")); at++) last = at;
    return last && strstr(last, "[  PASSED  ]") ? last : NULL;
}

static void end(job *j, int status) {
    kill(-j->pid, SIGKILL); /* ends whatever its tests left running */
    j->pid = 0;
    j->status = status;
    char *text = output_of(j);
    const char *summary = summary_of(text);
    j->passed = summary ? number_after(summary, "[  PASSED  ] ") : 0;
    j->skipped = summary ? number_after(summary, "[  SKIPPED ] ") : 0;
    if (status == 0 && j->passed + j->skipped != j->tests) j->status = -1;
    printf("%s %s: %zu passed", j->status ? "[  FAILED  ]" : "[       OK ]", groups[j->group].name,
           j->passed);
    if (j->skipped) printf(", %zu skipped", j->skipped);
    printf(", %.0f s\n", gs_seconds() - j->began);
    for (const char *at = text; (at = strstr(at, "           left out: ")); at++)
        printf("%.*s\n", (int)strcspn(at, "\n"), at);
    fflush(stdout);
    free(text);
}

static void show(const job *j) {
    char *text = output_of(j);
    const char *name = groups[j->group].name;
    printf("\n---- %s: gradsum-test %s\n%s", name, name, text);
    if (!summary_of(text)) {
        if (WIFSIGNALED(j->status))
            printf("---- %s: the process was ended by signal %d (%s)\n", name, WTERMSIG(j->status),
                   strsignal(WTERMSIG(j->status)));
        else
            printf("---- %s: the process ended with status %d before all tests had run\n", name,
                   WEXITSTATUS(j->status));
    }
    free(text);
}

/* Prints "[  FAILED  ] group: test" for each test that the summary names, or only the group if it names none. */
static void name_failed(const job *j) {
    static const char mark[] = "[  FAILED  ] ";
    char *text = output_of(j);
    bool named = false;
    for (const char *at = summary_of(text); at;) {
        at = strstr(at, mark);
        if (!at) break;
        at += strlen(mark);
        const int length = (int)strcspn(at, "\n");
        if (memmem(at, (size_t)length, "listed below", 12)) continue;
        printf("%s%s: %.*s\n", mark, groups[j->group].name, length, at);
        named = true;
    }
    if (!named) printf("%s%s\n", mark, groups[j->group].name);
    free(text);
}

/* cmocka's summary, over all groups. */
static int summarise(const job *jobs, size_t count) {
    size_t tests = 0, passed = 0, skipped = 0, failed = 0, broken = 0;
    for (size_t k = 0; k < count; k++) {
        tests += jobs[k].tests, passed += jobs[k].passed, skipped += jobs[k].skipped;
        if (jobs[k].status) show(&jobs[k]), broken++;
    }
    failed = tests - passed - skipped;
    printf("[==========] %zu test(s) run.\n[  PASSED  ] %zu test(s).\n", tests, passed);
    if (skipped) printf("[  SKIPPED ] %zu test(s), named above.\n", skipped);
    if (broken) printf("[  FAILED  ] %zu test(s) of %zu group(s), listed below:\n", failed, broken);
    for (size_t k = 0; k < count; k++)
        if (jobs[k].status) name_failed(&jobs[k]);
    return broken > 0;
}

/* Ends all running groups and names them. */
static void stop(job *jobs, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (jobs[k].pid <= 0) continue;
        kill(-jobs[k].pid, SIGTERM);
        printf("[  FAILED  ] %s: interrupted after %.0f s\n", groups[jobs[k].group].name,
               gs_seconds() - jobs[k].began);
    }
    fflush(stdout);
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}

static size_t rank_of(size_t group) {
    char word[sizeof groups->name + 2];
    snprintf(word, sizeof word, " %s ", groups[group].name);
    const char *at = strstr(longest, word);
    return at ? (size_t)(at - longest) : sizeof longest;
}

static int longest_first(const void *a, const void *b) {
    const job *x = a, *y = b;
    const size_t i = rank_of(x->group), k = rank_of(y->group);
    return i != k ? (i > k) - (i < k) : (x->group > y->group) - (x->group < y->group);
}

static int run_side_by_side(int set) {
    static job jobs[MAX_GROUPS];
    size_t count = 0, begun = 0, running = 0;
    for (size_t g = 0; g < group_count; g++)
        if (count_of(set, g)) jobs[count++] = (job){.group = g, .tests = count_of(set, g)};
    qsort(jobs, count, sizeof *jobs, longest_first);
    cpu_set_t cores;
    size_t most = sched_getaffinity(0, sizeof cores, &cores) == 0 ? (size_t)CPU_COUNT(&cores) : 2;
    if (set == FAILURES) most *= 2; /* these tests mostly wait */
    struct sigaction a = {.sa_handler = interrupt};
    const int signals[] = {SIGHUP, SIGINT, SIGTERM};
    for (int i = 0; i < 3; i++) sigaction(signals[i], &a, NULL);
    printf("[==========] Running %zu groups of tests, %zu at a time.\n", count, most);
    fflush(stdout);
    while (begun < count || running > 0) {
        for (; begun < count && running < most; running++) begin(&jobs[begun++], set);
        int status;
        const pid_t pid = wait(&status);
        if (interrupted) stop(jobs, begun);
        for (size_t k = 0; k < begun && pid > 0; k++)
            if (jobs[k].pid == pid) end(&jobs[k], status), running--;
    }
    return summarise(jobs, count);
}

int main(int argc, char **argv) {
    /* The programs that tests start must receive these signals, even where nohup or `make test &` started this
     * program. */
    const int signals[] = {SIGHUP, SIGINT, SIGQUIT};
    for (int i = 0; i < 3; i++) signal(signals[i], SIG_DFL);
    setenv("GRADSUM_CHECK", "1", 0);       /* by default, runs check their communication */
    setenv("GRADSUM_TIMEOUT", "200", 0);   /* a busy machine may exceed the default */
    setenv("POCL_SIGFPE_HANDLER", "0", 0); /* PoCL's handler could hide a division by zero */
    int set = ANY, first = 1;
    if (argc > 2 && strcmp(argv[1], "--wrong") == 0) return gs_test_wrong_collectives(argc - 2, argv + 2);
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        const char *const names[] = {"--all", "--tests", "--failures"};
        for (set = ANY; set <= FAILURES && strcmp(argv[first], names[set]) != 0; set++) {
        }
        if (set > FAILURES) {
            fprintf(stderr, "gradsum-test: unknown option '%s'; wanted --tests or --failures\n", argv[first]);
            return 2;
        }
    }
    return first < argc ? run_here(set, argv + first, argc - first) : run_side_by_side(set);
}
