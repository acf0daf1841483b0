/* Runs each task's check in a separate process; kernel tasks then run again under Oclgrind. */
#include "grader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* AddressSanitizer cannot check kernels, and many races are harmless in the order in which PoCL runs work-items. */
enum { OCLGRIND_SECONDS = 20, SIMULATOR = 6 /* words before the program's own */ };

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The checkers of all tasks; or, with the hand-in under a simulator, those of the tasks that passed. */
typedef struct task_jobs {
    int count, task[LAB_TASKS];
    lab_job job[LAB_TASKS];
    char number[LAB_TASKS][16], checker[4200], program[4200];
    char log[LAB_TASKS][4200], log_inside[LAB_TASKS][4200]; /* the same file, inside the sandbox */
    const char *command[LAB_TASKS][LAB_SANDBOX_WORDS + SIMULATOR + 8];
    char seed[40];
    char *environment[5], *for_checker[6]; /* for the hand-in; for the checker, the same with the seed */
} task_jobs;

static const char *folder_of(const lab_grading *g) {
    return g->sandbox ? "/work" : g->folder;
}

/* Adds the words that start a hand-in process. */
static void add_hand_in(task_jobs *t, const lab_grading *g, const char *log, const char **words) {
    int count = g->sandbox ? lab_sandbox_words(g->sandbox, log != NULL, t->environment, words) : 0;
    const char *simulator[SIMULATOR] = {"oclgrind",      "--data-races", "--uninitialized",
                                        "--inst-counts", "--log",        log};
    for (int i = 0; log && i < SIMULATOR; i++) words[count++] = simulator[i];
    words[count] = t->program;
}

static void add(task_jobs *t, const lab_grading *g, int task, bool simulated) {
    int i = t->count++, words = 0;
    const char **command = t->command[i];
    t->task[i] = task;
    snprintf(t->number[i], sizeof t->number[i], "%s", lab_tasks[task].number);
    snprintf(t->checker, sizeof t->checker, "%s", g->checker);
    snprintf(t->program, sizeof t->program, "%s/hand-in", folder_of(g));
    snprintf(t->log[i], sizeof t->log[i], "%s/oclgrind-%s.log", g->folder, lab_tasks[task].number);
    snprintf(t->log_inside[i], sizeof t->log_inside[i], "%s/oclgrind-%s.log", folder_of(g),
             lab_tasks[task].number);
    t->environment[0] = (char *)"POCL_SIGFPE_HANDLER=0";
    t->environment[1] = simulated ? (char *)"GRADSUM_LAB_SMALL=1" : NULL;
    t->environment[2] = simulated ? (char *)"GRADSUM_CACHE=off" : NULL;
    /* When counting, Oclgrind aborts if LANG names a language that is not installed. */
    t->environment[3] = simulated ? (char *)"LC_ALL=C" : NULL;
    snprintf(t->seed, sizeof t->seed, "%s=%s", LAB_SEED, g->seed ? g->seed : "1");
    t->for_checker[0] = t->seed;
    memcpy(t->for_checker + 1, t->environment, sizeof t->environment);
    command[words++] = t->checker;
    command[words++] = t->number[i];
    command[words++] = g->source;
    add_hand_in(t, g, simulated ? t->log_inside[i] : NULL, command + words);
    t->job[i] = (lab_job){
        .command = (char *const *)command,
        .environment = t->for_checker,
        .limits = {simulated && g->seconds < OCLGRIND_SECONDS ? OCLGRIND_SECONDS : g->seconds,
                   (size_t)1 << 30, 1 << 20},
        .judged = true,
    };
}

static gs_status run(task_jobs *t) {
    int cores = gs_cpu_cores();
    return lab_contain(t->job, t->count, cores < 4 ? cores : 4);
}

static void free_jobs(task_jobs *t) {
    for (int i = 0; i < t->count; i++) lab_job_free(&t->job[i]);
    free(t);
}

/* ---- under Oclgrind ---- */

static bool in_path(const char *program) {
    char path[4200];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, at, program);
        if (access(path, X_OK) == 0) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

/* The first finding in a log: its kind, and "At line 12 (column 9) of lab.cl"; for a race, both lines. Skips the kernel
 * and its work-items in between, and the source line after each place, which Oclgrind takes from the text with all
 * #includes expanded, so it is not the student's line. */
static bool read_finding(const char *log, char *text, size_t size) {
    char line[2000];
    int places = 0;
    *text = '\0';
    FILE *f = fopen(log, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *begin = line + strspn(line, " \t\n");
        int length = (int)strcspn(begin, "\n");
        bool place = strncmp(begin, "At line", 7) == 0;
        if (*text && length > 0 && begin == line) break; /* the next finding: this one's lines are indented */
        if (length == 0 || (*text && !place)) continue;
        size_t used = strlen(text);
        const char *join = places > 0 ? ", and a" : used > 0 ? ". A" : "";
        if (place) begin++, length -= 2; /* drop the "A" and the colon */
        snprintf(text + used, size - used, "%s%.*s", join, length, begin);
        places += place;
    }
    if (f) fclose(f);
    return *text != '\0';
}

static void judge_simulated(const lab_task *task, const lab_job *job, const char *log, lab_outcome *o) {
    char finding[600] = "";
    bool told = job->has_verdict && !job->verdict.ended;
    bool passed = told && job->verdict.passed && !*job->verdict.blank;
    bool found = read_finding(log, finding, sizeof finding);
    o->measured = job->verdict.measured; /* only the simulator counts loads */
    memcpy(o->unit, job->verdict.unit, sizeof o->unit);
    if (passed && !found) return;
    const char *what = found                      ? finding
                       : job->end == LAB_TOO_LONG ? "it does not end"
                       : told                     ? job->verdict.message
                                                  : "it ended before its check had finished";
    o->points = 0;
    snprintf(o->hint, sizeof o->hint, "%s", task->hint ? task->hint : "");
    snprintf(o->note, sizeof o->note, "right on the device, but the simulator Oclgrind says: %s", what);
}

static gs_status run_simulated(const lab_grading *g, lab_grade *grade) {
    task_jobs *t = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory for %d tasks", grade->count);
    for (int i = 0; i < grade->count; i++)
        if (!*grade->outcome[i].note) add(t, g, i, true);
    for (int i = 0; i < t->count; i++) unlink(t->log[i]);
    gs_status status = run(t);
    for (int i = 0; i < t->count && status == GS_OK; i++)
        judge_simulated(&lab_tasks[t->task[i]], &t->job[i], t->log[i], &grade->outcome[t->task[i]]);
    free_jobs(t);
    return status;
}

/* ---- all tasks ---- */

gs_status lab_run_tasks(const lab_grading *g, lab_grade *grade) {
    task_jobs *t = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory for %d tasks", grade->count);
    for (int i = 0; i < grade->count; i++) add(t, g, i, false);
    gs_status status = run(t);
    for (int i = 0; i < grade->count && status == GS_OK; i++)
        lab_judge(g, &lab_tasks[i], &t->job[i], name_of(g->source), &grade->outcome[i]);
    free_jobs(t);
    if (g->kernels && !in_path("oclgrind"))
        grade->remark = "Oclgrind is not installed (Debian: oclgrind): races and reads beyond the end were "
                        "not looked for, and loads were not counted";
    else if (status == GS_OK && g->kernels)
        status = run_simulated(g, grade);
    for (int i = 0; i < grade->count; i++) grade->points += grade->outcome[i].points;
    return status;
}
