/* From the student's file to a program. */
#include "grader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SOURCE = 1 << 20 /* bytes of a file that somebody has written by hand */ };

static const lab_limits COMPILING = {60, (size_t)2 << 30, 1 << 20};

gs_status lab_check_source(const char *path) {
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
    if (!text) return gs_fail(GS_E_USAGE, "%s is not set: run the grader through make", variable);
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

/* The compiler has written down what it has read, so no macro hides an #include. */
static bool includes_solution(const lab_grading *g) {
    char path[4200], word[4200];
    bool found = false;
    snprintf(path, sizeof path, "%s/lab.d", g->folder);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%4199s", word) == 1) {
        const char *slash = strrchr(word, '/');
        bool itself = strcmp(word, g->source) == 0;
        if (!itself && strncmp(slash ? slash + 1 : word, "solution.", 9) == 0) found = true;
    }
    if (f) fclose(f);
    return found;
}

gs_status lab_build(const lab_grading *g, lab_grade *grade) {
    bool worked = false;
    GS_TRY(run_command(g, "LAB_COMPILE", &worked, &grade->messages));
    if (!worked) {
        grade->problem = "it does not compile";
        return GS_OK;
    }
    if (includes_solution(g)) {
        grade->problem = "it includes a solution";
        return GS_OK;
    }
    char *messages;
    GS_TRY(run_command(g, "LAB_LINK", &worked, &messages));
    if (worked) {
        free(messages);
        return GS_OK;
    }
    grade->problem = "it does not link with the library (the linker's messages)";
    free(grade->messages);
    grade->messages = messages;
    return GS_OK;
}
