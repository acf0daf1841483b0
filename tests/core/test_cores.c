/* Binding workers to separate cores: which cores they get, that they stay on them, that --bind none disables it, and
 * that nothing stays bound afterwards. */
#include "tests/support/training.h"

#include "core/usable.h"
#include "comm/create.h"
#include "comm/shm/shm.h"

/* Divides CPUs 0 .. count-1, except `without`, into n shares; returns share i, such as "0 1 4". */
static const char *share_of(const int core_of[CPU_SETSIZE], int count, int without, int i, int n) {
    static char text[200];
    cpu_set_t allowed, share;
    CPU_ZERO(&allowed);
    for (int c = 0; c < count; c++)
        if (c != without) CPU_SET((size_t)c, &allowed);
    if (!gs_cores_divide(&allowed, core_of, i, n, &share)) return "none";
    text[0] = '\0';
    for (int c = 0; c < CPU_SETSIZE; c++) {
        size_t used = strlen(text);
        if (CPU_ISSET((size_t)c, &share)) snprintf(text + used, sizeof text - used, used ? " %d" : "%d", c);
    }
    return text;
}

TEST(cores_are_divided) {
    int plain[CPU_SETSIZE], twins[CPU_SETSIZE]; /* twins: CPUs c and c + 4 are hyperthreads of one core */
    for (int c = 0; c < CPU_SETSIZE; c++) plain[c] = c, twins[c] = c < 8 ? c % 4 : c;
    assert_string_equal(share_of(plain, 2, -1, 0, 2), "0");
    assert_string_equal(share_of(plain, 2, -1, 1, 2), "1");
    assert_string_equal(share_of(plain, 2, -1, 0, 3), "none");
    assert_string_equal(share_of(plain, 5, 2, 0, 2), "0 1");
    assert_string_equal(share_of(plain, 5, 2, 1, 2), "3 4");
    assert_string_equal(share_of(plain, 5, -1, 0, 2), "0 1");
    assert_string_equal(share_of(plain, 5, -1, 1, 2), "2 3 4");
    assert_string_equal(share_of(twins, 8, -1, 0, 2), "0 1 4 5");
    assert_string_equal(share_of(twins, 8, -1, 3, 4), "3 7");
    assert_string_equal(share_of(twins, 8, 4, 0, 4), "0"); /* a whole core, of which only CPU 0 is usable */
    assert_string_equal(share_of(twins, 8, -1, 0, 8), "0");
    assert_string_equal(share_of(twins, 8, -1, 1, 8), "4");
    assert_string_equal(share_of(twins, 8, -1, 0, 9), "none");
}

/* Finds the first `count` CPUs that this thread may use; false if there are fewer. */
static bool first_cpus(int count, cpu_set_t *out) {
    cpu_set_t mine;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    CPU_ZERO(out);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(out) < count; c++)
        if (CPU_ISSET((size_t)c, &mine)) CPU_SET((size_t)c, out);
    return CPU_COUNT(out) == count;
}

/* Calls `run` with only `count` CPUs usable, then restores them all; false if there are fewer. */
static bool with_cpus(int count, void (*run)(void)) {
    cpu_set_t before, few;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (!first_cpus(count, &few)) {
        print_message("         there are fewer than %d CPUs here\n", count);
        return false;
    }
    assert_true(gs_cores_bind(&few));
    run();
    assert_true(gs_cores_bind(&before));
    return true;
}

static void one_cpu_is_not_divided(void) {
    cpu_set_t share, one;
    first_cpus(1, &one);
    assert_true(gs_cores_share(0, 1, &share));
    assert_true(CPU_EQUAL(&share, &one));
    assert_false(gs_cores_share(0, 2, &share));
}

TEST(a_mask_is_respected) {
    with_cpus(1, one_cpu_is_not_divided);
}

/* Writes a file below a made-up root, such as "sys/fs/cgroup/cpu.max". */
static void put(const char *root, const char *path, const char *text) {
    char *output;
    if (gs_test_shell(&output, "mkdir -p $(dirname %s/%s) && printf -- '%s' > %s/%s", root, path, text, root,
                      path))
        fail_msg("%s", output);
}

static void quota_is(const char *root, double quota, double bytes, double left) {
    const gs_usable u = gs_usable_under(root);
    if (u.quota != quota || u.bytes != bytes || u.free != left)
        fail_msg("quota %g of %g, %g of %g bytes, %g of %g free", u.quota, quota, u.bytes, bytes, u.free,
                 left);
    assert_true(u.cpus >= 1 && (quota <= 0 || u.cpus == (quota > 1 ? 2 : 1)));
}

#define GROUPS "sys/fs/cgroup/"

TEST(quotas_of_version_2_are_found) {
    const char *root = gs_test_folder();
    put(root, "proc/meminfo", "MemTotal: 8000 kB\\nMemAvailable: 4000 kB\\n");
    quota_is(root, 0, 8192000, 4096000);
    put(root, "proc/self/cgroup", "0::/a/b\\n");
    put(root, GROUPS "a/b/cpu.max", "max 100000\\n");
    put(root, GROUPS "a/b/memory.max", "max\\n");
    quota_is(root, 0, 8192000, 4096000);
    put(root, GROUPS "a/b/cpu.max", "50000 100000\\n");
    put(root, GROUPS "a/cpu.max", "80000 100000\\n"); /* a parent group: a looser limit, */
    put(root, GROUPS "a/memory.max", "2000000\\n");   /* and a tighter one */
    put(root, GROUPS "a/memory.current", "1500000\\n");
    put(root, GROUPS "a/memory.stat", "anon 1\\ninactive_file 250000\\n");
    quota_is(root, 0.5, 2000000, 750000);
    put(root, GROUPS "a/memory.current", "3000000\\n");
    quota_is(root, 0.5, 2000000, 0);
    put(root, "proc/self/cgroup", "0::/not/mounted/here\\n"); /* a container mounts only its group */
    put(root, GROUPS "cpu.max", "25000 100000\\n");
    quota_is(root, 0.25, 8192000, 4096000);
}

TEST(quotas_of_version_1_are_found) {
    const char *root = gs_test_folder();
    put(root, "proc/meminfo", "MemTotal: 8000 kB\\nMemAvailable: 4000 kB\\n");
    put(root, "proc/self/cgroup", "5:cpuset:/x\\n4:cpuacct,cpu:/a/b\\n3:memory:/m\\n0::/\\n");
    put(root, GROUPS "cpu/a/b/cpu.cfs_quota_us", "-1\\n");
    put(root, GROUPS "cpu/a/b/cpu.cfs_period_us", "100000\\n");
    put(root, GROUPS "memory/memory.limit_in_bytes", "9223372036854771712\\n");
    put(root, GROUPS "memory/memory.usage_in_bytes", "5000000\\n");
    quota_is(root, 0, 8192000, 4096000);
    put(root, GROUPS "cpu/a/cpu.cfs_quota_us", "50000\\n");
    put(root, GROUPS "cpu/a/cpu.cfs_period_us", "200000\\n");
    put(root, GROUPS "memory/m/memory.limit_in_bytes", "3000000\\n");
    put(root, GROUPS "memory/m/memory.usage_in_bytes", "1000000\\n");
    put(root, GROUPS "memory/m/memory.stat", "inactive_file 7\\ntotal_inactive_file 100\\n");
    quota_is(root, 0.25, 3000000, 2000100);
}

/* Runs the command in a real version 1 cgroup; skips the test where none can be created. */
static void in_group(const char *controller, const char *file, const char *limit, const char *command,
                     const char *wanted) {
    char *output;
    const int status =
        gs_test_shell(&output,
                      "g=/sys/fs/cgroup/%s/gradsum-test-$$; mkdir $g && echo %s > $g/%s || exit 77\n"
                      "(sh -c 'echo $PPID' > $g/cgroup.procs && exec %s/gradsum %s); rmdir $g; true",
                      controller, limit, file, GS_BUILD_DIR, command);
    const bool made = status != 77;
    if (made && !strstr(output, wanted)) fail_msg("%s: wanted '%s' in: %s", command, wanted, output);
    if (!made) skip_because("no control group can be created here");
}

TEST(a_quota_of_one_cpu_binds_nobody) {
    if (gs_cpu_cores() < 2) skip_because("there is one CPU");
    in_group("cpu", "cpu.cfs_quota_us", "100000", "doctor -n 2", "2 processes share 1 core");
    in_group("cpu", "cpu.cfs_quota_us", "100000", "launch -n 2 -- train --model softmax --steps 1 --json",
             "\"bound_cpus\":0");
    in_group("cpu", "cpu.cfs_quota_us", "100000", "train --devices cpu,cpu --model softmax --steps 1 --json",
             "\"bound_cpus\":0");
}

TEST(a_limit_of_memory_is_seen) {
    in_group("memory", "memory.limit_in_bytes", "200M", "doctor", "of 0.2 GB are free (a limit of its");
    in_group("memory", "memory.limit_in_bytes", "100M", "memory --model cnn --batch 1024 --fit",
             "--fit chose");
}

static void busy_says(gs_busy b, const char *wanted) {
    char text[GS_BUSY_TEXT];
    gs_busy_text(&b, text);
    if (*wanted ? !strstr(text, wanted) : *text) fail_msg("wanted '%s' in '%s'", wanted, text);
}

TEST(a_busy_machine_is_named) {
    busy_says((gs_busy){.threads = 2, .cpus = 2, .waited = 0.1}, "");
    busy_says((gs_busy){.threads = 2, .cpus = 2, .waited = 0.35},
              "a worker waited for a core 35 % of the time");
    busy_says((gs_busy){.threads = 1, .cpus = 1, .quota = 0.5, .waited = 0.5},
              "the CPU quota of 0.5 is used up");
    busy_says((gs_busy){.threads = 4, .cpus = 2, .waited = 0.5}, "4 threads of workers share 2 cores:");
    busy_says(
        gs_busy_worse((gs_busy){.threads = 1, .cpus = 2, .waited = 0.4}, (gs_busy){.threads = 3, .cpus = 2}),
        "3 threads of workers share 2 cores:");
    busy_says(
        gs_busy_worse((gs_busy){.threads = 1, .cpus = 2, .waited = 0.4}, (gs_busy){.threads = 2, .cpus = 2}),
        "other programs use the cores: a worker waited for a core 40 %");
}

static void more_workers_than_cores_are_named(void) {
    static const char *const commands[] = {
        "train --model softmax --steps 1 --devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
        "launch -n 8 -- train --model softmax --steps 1",
        "compare --model softmax --steps 1 --devices-list 'cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu'"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        assert_prints(0, "8 threads of workers share 1 core:", commands[i]);
    const char *folder = gs_test_folder();
    char *output =
        gs_test_shell_output(0,
                             "cd %s && %s/gradsum %s --log run && %s/gradsum report run -o page.html && "
                             "grep -o 'machine was busy: 8 threads' page.html; cat run/run.json",
                             folder, GS_BUILD_DIR, commands[0], GS_BUILD_DIR);
    assert_has(output, "machine was busy: 8 threads", "\"busy\":");
}

TEST(an_oversubscribed_run_is_named) {
    with_cpus(1, more_workers_than_cores_are_named);
}

enum { MOST = 8 };
static cpu_set_t seen[MOST]; /* where each worker ran */

static void look_where(gs_worker *w) {
    sched_getaffinity(0, sizeof seen[0], &seen[w->comm->rank]);
}

static gs_result train_on(const char *devices, bool bind) {
    gs_settings s = gs_settings_default();
    cpu_set_t before, after;
    s = gs_test_with(s, "--model softmax --devices %s --steps 1", devices);
    s.bind = bind;
    s.test_hook = look_where;
    memset(seen, 0, sizeof seen);
    sched_getaffinity(0, sizeof before, &before);
    gs_result result = gs_test_train(&s);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after)); /* the calling thread is not bound afterwards */
    return result;
}

static void on_two_cpus(void) {
    cpu_set_t all, both;
    first_cpus(2, &all);
    assert_int_equal(train_on("cpu,cpu", true).cpus, 1);
    CPU_OR(&both, &seen[0], &seen[1]);
    assert_int_equal(CPU_COUNT(&seen[0]), 1);
    assert_int_equal(CPU_COUNT(&seen[1]), 1);
    assert_true(CPU_EQUAL(&both, &all));

    assert_int_equal(train_on("cpu,cpu", false).cpus, 0);
    for (int r = 0; r < 2; r++) assert_true(CPU_EQUAL(&seen[r], &all));
    assert_int_equal(train_on("cpu,cpu,cpu", true).cpus, 0); /* more workers than CPUs */
    for (int r = 0; r < 3; r++) assert_true(CPU_EQUAL(&seen[r], &all));
    assert_int_equal(train_on("cpu", true).cpus, 0); /* a single worker uses all CPUs */
    assert_true(CPU_EQUAL(&seen[0], &all));
}

TEST(threads_are_bound) {
    if (!with_cpus(2, on_two_cpus)) skip_because("this process may use fewer than 2 CPUs");
}

/* The CPUs of the first two processes of a launch, in the kernel's list format, one line each. */
static void cpus_of_processes(int processes, const char *options, char line[2][200]) {
    char *output = gs_test_shell_output(
        0,
        "%s/gradsum launch -n %d %s -- train --model softmax --epochs 100000 >/dev/null 2>&1 & launcher=$!\n"
        "for i in $(seq 6000); do\n"
        "  set -- $(cat /proc/$launcher/task/$launcher/children)\n"
        "  [ $# = %d ] && tr '\\0' ' ' </proc/$2/cmdline | grep -q '^gradsum train' && break\n"
        "  sleep 0.05\n"
        "done\n"
        "cat /proc/$1/status /proc/$2/status | sed -n 's/^Cpus_allowed_list:[^0-9]*//p'\n"
        "kill $launcher; wait $launcher; exit 0",
        GS_BUILD_DIR, processes, options, processes);
    if (sscanf(output, "%199[^\n]\n%199[^\n]", line[0], line[1]) != 2) fail_msg("not two lines: %s", output);
}

static void two_processes(void) {
    char line[2][200];
    cpus_of_processes(2, "", line);
    if (strcmp(line[0], line[1]) == 0 || strchr(line[0], ',') || strchr(line[1], ','))
        fail_msg("one process has CPUs %s, the other %s", line[0], line[1]);
    cpus_of_processes(2, "--bind none", line);
    assert_string_equal(line[0], line[1]);
    cpus_of_processes(3, "", line); /* more processes than CPUs */
    assert_string_equal(line[0], line[1]);
}

TEST(processes_are_bound) {
    if (!with_cpus(2, two_processes)) skip_because("this process may use fewer than 2 CPUs");
}

static void the_run_says_so(void) {
    static const char bound[] = "bound    each worker to 1 CPU of its own (--bind none undoes it)";
    assert_prints(0, bound, "train --model softmax --steps 1 --devices cpu,cpu");
    assert_prints(0, bound, "launch -n 2 -- train --model softmax --steps 1");
    assert_prints(0, "each rank is bound", "schemes -n 2 --over shm --seconds 0");
    assert_prints(2, "unknown --bind 'sockets'; choose one of: none, cores", "train --bind sockets");
    assert_prints(2, "unknown --bind 'sockets'; choose one of: none, cores",
                  "launch -n 2 --bind sockets -- train");
    static const char *const free_runs[] = {"train --model softmax --steps 1 --devices cpu,cpu --bind none",
                                            "launch -n 2 -- train --model softmax --steps 1 --bind none",
                                            "launch -n 2 --transport gloo -- train --model softmax --steps 1",
                                            "launch -n 2 -- train --model softmax --steps 1 --sync=gloo",
                                            "schemes -n 2 --over gloo --seconds 0",
                                            "schemes -n 2 --seconds 0 --bind none"};
    for (size_t i = 0; i < sizeof free_runs / sizeof *free_runs; i++) {
        char *output = gs_test_output(0, "%s", free_runs[i]);
        if (strstr(output, "bound")) fail_msg("%s: %s", free_runs[i], output);
    }
}

TEST(binding_is_said) {
    if (!with_cpus(2, the_run_says_so)) skip_because("this process may use fewer than 2 CPUs");
}

TEST(the_transport_decides) {
    assert_true(gs_cores_may_bind("threads"));
    for (const gs_process_transport *t = gs_process_transports; t->name; t++)
        assert_int_equal(gs_cores_may_bind(t->name), strcmp(t->name, "gloo") != 0);
}

/* The table of collectives measures one transport after another, so its ranks are alternately bound (b) and free (f).
 * OpenCL is disabled, because its threads may stay bound. */
static void bound_and_free_in_turn(void) {
    char *output = gs_test_shell_output(
        0,
        "OCL_ICD_VENDORS=/nonexistent %s/gradsum collectives -n 2 --size 65536 >/dev/null 2>&1 & ranks=$!\n"
        "seen=\n"
        "for i in $(seq 12000); do\n"
        "  kinds=$(sed -n 's/^Cpus_allowed_list://p' /proc/$ranks/task/*/status 2>/dev/null | sort -u | wc "
        "-l)\n"
        "  case $kinds in 0) break;; 1) now=f;; *) now=b;; esac\n"
        "  case $seen in *$now) ;; *) seen=$seen$now;; esac\n"
        "  case $seen in *bfb*) break;; esac\n"
        "  grep -q '^State:.*Z' /proc/$ranks/status && break\n"
        "done\n"
        "kill $ranks 2>/dev/null; wait $ranks\n"
        "echo \"seen: $seen\"",
        GS_BUILD_DIR);
    assert_has(output, "bfb");
}

TEST(collectives_are_free_over_gloo) {
    if (!with_cpus(2, bound_and_free_in_turn)) skip_because("this process may use fewer than 2 CPUs");
}

typedef struct meeting {
    char folder[320];
    int spins[2]; /* 1: a waiting process spins; 0: it yields */
} meeting;

typedef struct guest {
    meeting *m;
    int rank;
} guest;

static void *meet(void *argument) {
    guest *g = argument;
    gs_rendezvous r = {.rank = g->rank, .size = 2, .directory = g->m->folder, .timeout = 30};
    gs_comm *gloo, *shm;
    char why[256];
    g->m->spins[g->rank] = -1;
    if (gs_comm_gloo_create(&r, &gloo) != GS_OK) return NULL;
    if (gs_comm_shm_create(gloo, &shm, why, sizeof why) == GS_OK && shm)
        g->m->spins[g->rank] = ((const gs_shm *)shm->state)->spins;
    gs_comm_free(shm);
    gs_comm_free(gloo);
    return NULL;
}

/* Two ranks over shared memory: checks whether a waiting rank keeps its CPU. */
static void expect_spinning(int wanted) {
    meeting m = {.spins = {-1, -1}};
    guest guests[2] = {{&m, 0}, {&m, 1}};
    pthread_t thread;
    snprintf(m.folder, sizeof m.folder, "%s", gs_test_folder());
    assert_int_equal(pthread_create(&thread, NULL, meet, &guests[1]), 0);
    meet(&guests[0]);
    pthread_join(thread, NULL);
    for (int r = 0; r < 2; r++) assert_int_equal(m.spins[r], wanted);
}

static void on_one(void) {
    expect_spinning(0);
}

static void on_two(void) {
    expect_spinning(1);
}

/* If two ranks share a CPU, a spinning rank would keep the other from running. */
TEST(nobody_spins_on_a_shared_cpu) {
    with_cpus(1, on_one);
    if (!with_cpus(2, on_two)) skip_because("this process may use fewer than 2 CPUs");
}
