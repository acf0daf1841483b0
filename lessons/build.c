/* Turns the student's file into a program: preprocess, check, compile, check again, link. Every command that reads the
 * file runs in the sandbox, if there is one. */
#include "grader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/file.h"
#include "source_check.h"

enum { MOST_SOURCE = 1 << 20 /* maximum bytes of a hand-written file */ };

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

/* These functions return paths as the command sees them. */
static const char *source_of(const lab_grading *g) {
    static char path[4200];
    const char *slash = strrchr(g->source, '/');
    if (!g->sandbox) return g->source;
    snprintf(path, sizeof path, "/work/%s", slash ? slash + 1 : g->source);
    return path;
}

static const char *folder_of(const lab_grading *g) {
    return g->sandbox ? "/work" : g->folder;
}

/* Runs a command from the environment on the student's file; `messages` receives its output. */
static gs_status run_command(const lab_grading *g, const char *variable, bool inside, bool *worked,
                             char **messages) {
    const char *text = getenv(variable), *words[LAB_SANDBOX_WORDS + 8];
    if (!text) return gs_fail(GS_E_USAGE, "%s is not set: run the grader through make", variable);
    int count = inside && g->sandbox ? lab_sandbox_words(g->sandbox, true, NULL, words) : 0;
    const char *command[] = {
        "sh", "-c", text, "sh", inside ? source_of(g) : g->source, inside ? folder_of(g) : g->folder, NULL};
    memcpy(words + count, command, sizeof command);
    lab_job job = {.command = (char *const *)words, .limits = COMPILING};
    GS_TRY(lab_contain(&job, 1, 1));
    *worked = job.end == LAB_EXITED && job.code == 0;
    if (job.end != LAB_EXITED)
        snprintf(job.output, 200, "the compiler needed more than %g s, or too much memory\n",
                 COMPILING.seconds);
    *messages = job.output;
    return GS_OK;
}

/* Reads a whole file; NULL if it does not exist, or is not text: a zero byte would hide the rest of the file. */
static char *text_in(const char *path) {
    enum { MOST = 64 << 20 };
    FILE *f;
    uint64_t size;
    if (gs_file_open_stream(path, &f, &size) != GS_OK) return NULL;
    char *text = size <= MOST ? calloc(1, (size_t)size + 1) : NULL;
    bool is_text = text && fread(text, 1, (size_t)size, f) == size && strlen(text) == size;
    fclose(f);
    if (is_text) return text;
    free(text);
    return NULL;
}

/* Reads a file in the folder, written by the compiler or nm. */
static char *text_of(const lab_grading *g, const char *name) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    return text_in(path);
}

/* Runs one of the commands; the caller checks the texts that it wrote. If *worked is false, grade->problem is set. */
static gs_status step(const lab_grading *g, lab_grade *grade, const char *variable, bool inside,
                      const char *problem, bool *worked) {
    char *messages;
    GS_TRY(run_command(g, variable, inside, worked, &messages));
    if (!grade->messages || *messages || !*worked) {
        free(grade->messages);
        grade->messages = messages;
    } else {
        free(messages);
    }
    if (!*worked) snprintf(grade->problem, sizeof grade->problem, "%s", problem);
    return GS_OK;
}

/* Checks a text that a command wrote. Returns true if it is acceptable. */
static bool accept(lab_grade *grade, char *text, const char *wrong) {
    if (!text) wrong = "a text to look at is missing, or has a zero byte in it";
    if (wrong) snprintf(grade->problem, sizeof grade->problem, "%s", wrong);
    free(text);
    return !wrong;
}

gs_status lab_build(const lab_grading *g, lab_grade *grade) {
    bool worked = false;
    char *text, *wanted;
    if (g->kernels && !g->unchecked) {
        text = text_in(g->source);
        if (!accept(grade, text, text ? lab_check_kernels(text) : NULL)) return GS_OK;
    }
    if (!g->kernels) {
        GS_TRY(step(g, grade, "LAB_PREPROCESS", true, "it does not compile", &worked));
        if (!worked) return GS_OK;
    }
    if (!g->kernels && !g->unchecked) {
        text = text_of(g, "lab.d");
        if (!accept(grade, text, text ? lab_check_includes(text, source_of(g)) : NULL)) return GS_OK;
        text = text_of(g, "lab.macros");
        if (!accept(grade, text, text ? lab_check_words(text, source_of(g)) : NULL)) return GS_OK;
    }
    GS_TRY(step(g, grade, "LAB_COMPILE", true, "it does not compile", &worked));
    if (!worked) return GS_OK;
    if (!g->kernels && !g->unchecked) {
        GS_TRY(step(g, grade, "LAB_SYMBOLS", false, "its symbols cannot be read", &worked));
        if (!worked) return GS_OK;
        text = text_of(g, "lab.symbols");
        wanted = text_of(g, "wanted.symbols");
        const char *wrong = text && wanted ? lab_check_symbols(text, lab_may_call, wanted) : NULL;
        free(wanted);
        if (!accept(grade, text, wrong)) return GS_OK;
    }
    const char *problem = "it does not link with the library (the linker's messages)";
    GS_TRY(step(g, grade, "LAB_LINK", false, problem, &worked));
    if (!worked || g->sandbox || g->no_program) return GS_OK;
    return step(g, grade, "LAB_PROGRAM", false, problem, &worked); /* the program that students run */
}
