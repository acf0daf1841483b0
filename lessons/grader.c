/* The grader of one lab: compile the student's file, run each task's check in a process of its own, and say what came
 * of it.
 *
 *     grader --lab 07 --title all-reduce --source FILE --folder DIR [--kernels] [--json]
 *
 * It is built for each lab from that lab's check.c, of which it needs the list of tasks: nothing that a student has
 * written is a part of this program. make writes the script that calls it (lessons.mk); from there come LAB_COMPILE and
 * LAB_LINK, shell commands in which $1 is the student's file and $2 the folder.
 *
 * Exit status: 0 it was graded, whatever the points; 1 it could not be; 2 wrong usage.
 */
#include "grader.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SOURCE = 1 << 20 /* bytes of a file that somebody has written by hand */ };

static const lab_limits COMPILING = {60, (size_t)2 << 30, 1 << 20};

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- the program ---- */

static gs_status check_source(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode)) return gs_fail(GS_E_FILE, "%s is not a file", path);
    if (s.st_size > MOST_SOURCE)
        return gs_fail(GS_E_FILE, "%s has %lld bytes; a lab has at most %d", path, (long long)s.st_size,
                       MOST_SOURCE);
    if (access(path, R_OK) != 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    return GS_OK;
}

/* A command of the environment on the student's file; `messages` is what it has printed. */
static gs_status run_command(const lab_grading *g, const char *variable, bool *worked, char **messages) {
    const char *text = getenv(variable);
    if (!text)
        return gs_fail(GS_E_USAGE, "%s is not set: the grader is called by a script of make's", variable);
    char *command[] = {"sh", "-c", (char *)text, "sh", (char *)g->source, (char *)g->folder, NULL};
    lab_job job = {.command = command, .limits = COMPILING};
    GS_TRY(lab_contain(&job, 1, 1));
    *worked = job.end == LAB_EXITED && job.code == 0;
    if (job.end != LAB_EXITED)
        snprintf(job.output, 200, "the compiler needed more than %g s, or too much memory\n",
                 COMPILING.seconds);
    *messages = job.output;
    return GS_OK;
}

static gs_status build(const lab_grading *g, lab_grade *grade) {
    bool worked;
    GS_TRY(run_command(g, "LAB_COMPILE", &worked, &grade->messages));
    if (!worked) {
        grade->problem = "it does not compile";
        return GS_OK;
    }
    char *messages;
    GS_TRY(run_command(g, "LAB_LINK", &worked, &messages));
    if (worked) {
        free(messages);
        return GS_OK;
    }
    grade->problem = "it does not fit together with the library (the linker's messages)";
    free(grade->messages);
    grade->messages = messages;
    return GS_OK;
}

/* ---- the tasks ---- */

static void free_jobs(lab_job *jobs, int count) {
    for (int i = 0; i < count; i++) lab_job_free(&jobs[i]);
}

static gs_status run_tasks(const lab_grading *g, lab_grade *grade) {
    char program[4200], number[LAB_TASKS][16];
    lab_job jobs[LAB_TASKS] = {0};
    char *command[LAB_TASKS][4];
    snprintf(program, sizeof program, "%s/gradsum", g->folder);
    char *environment[] = {"POCL_SIGFPE_HANDLER=0", NULL};
    const lab_limits limits = {g->seconds, (size_t)1 << 30, 1 << 20};
    for (int i = 0; i < grade->count; i++) {
        snprintf(number[i], sizeof number[i], "%s", lab_tasks[i].number);
        memcpy(command[i], (char *[]){program, "grade-task", number[i], NULL}, sizeof command[i]);
        jobs[i] =
            (lab_job){.command = command[i], .environment = environment, .limits = limits, .judged = true};
    }
    int cores = gs_cpu_cores();
    gs_status status = lab_contain(jobs, grade->count, cores < 4 ? cores : 4);
    for (int i = 0; i < grade->count && status == GS_OK; i++) {
        lab_judge(g, &lab_tasks[i], &jobs[i], name_of(g->source), &grade->outcome[i]);
        grade->points += grade->outcome[i].points;
    }
    free_jobs(jobs, grade->count);
    return status;
}

/* ---- the command ---- */

static gs_status grade_lab(const lab_grading *g, lab_grade *grade) {
    for (const lab_task *t = lab_tasks; t->number; t++) {
        if (grade->count == LAB_TASKS) gs_bug("lab %s has more than %d tasks", g->lab, LAB_TASKS);
        grade->count++;
        grade->of += t->points;
    }
    GS_TRY(check_source(g->source));
    GS_TRY(build(g, grade));
    return grade->problem ? GS_OK : run_tasks(g, grade);
}

static bool parse(int argc, char **argv, lab_grading *g) {
    const struct option options[] = {
        {"lab", required_argument, NULL, 'l'},
        {"title", required_argument, NULL, 't'},
        {"source", required_argument, NULL, 's'},
        {"folder", required_argument, NULL, 'f'},
        {"kernels", no_argument, NULL, 'k'},
        {"json", no_argument, NULL, 'j'},
        {0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'l') g->lab = optarg;
        if (c == 't') g->title = optarg;
        if (c == 's') g->source = optarg;
        if (c == 'f') g->folder = optarg;
        if (c == 'k') g->kernels = true;
        if (c == 'j') g->json = true;
        if (c == '?') return false;
    }
    const char *seconds = getenv("LAB_SECONDS");
    g->seconds = seconds && *seconds ? strtod(seconds, NULL) : 10;
    return g->lab && g->title && g->source && g->folder && optind == argc && g->seconds >= 1 &&
           g->seconds <= 3600;
}

int main(int argc, char **argv) {
    lab_grading g = {0};
    lab_grade grade = {0};
    if (!parse(argc, argv, &g)) {
        fprintf(stderr,
                "usage: grader --lab NN --title NAME --source FILE --folder DIR [--kernels] [--json]\n"
                "LAB_SECONDS, if set: from 1 to 3600\n");
        return 2;
    }
    gs_status status = grade_lab(&g, &grade);
    if (status == GS_OK) (g.json ? lab_print_json : lab_print)(&g, &grade);
    free(grade.messages);
    if (status == GS_OK) return 0;
    fprintf(stderr, "lab %s: %s\n", g.lab, gs_message());
    return 1;
}
