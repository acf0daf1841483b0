/* gradsum grade: a teacher's folder of hand-ins, as one table.
 *
 * Each hand-in is graded by the script that `make lab-NN` uses (build/lessons/NN/grade), on a copy of the one file:
 * other files that came with it are not seen. The graders are built first, where they are not.
 */
#include "cli/cli.h"
#include "lessons/grade/command.h"
#include "lessons/grade/hand_ins.h"
#include "core/text.h"
#include "io/file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct grading {
    const char *labs; /* "06,07", or NULL: all */
    bool json;
    char tree[PATH_MAX];  /* the source tree */
    char build[PATH_MAX]; /* the build folder, seen from there */
    FILE *out;
} grading;

/* ---- output ---- */

/* A field of CSV (RFC 4180). */
static void print_field(FILE *out, const char *text, bool last) {
    char shown[4096]; /* names and notes are a student's: they give no orders to the teacher's terminal */
    text = gs_printable_into(shown, sizeof shown, text, "\r\n");
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
    }
    if (quoted) fputc('"', out);
    fputc(last ? '\n' : ',', out);
}

static double number_of(const cJSON *o, const char *name) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static const char *text_of(const cJSON *o, const char *name) {
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(t) ? t->valuestring : "";
}

/* "7.1=3 7.2=0", and "7.2: did not end within 10 s; ..." */
static void describe_tasks(const cJSON *grade, char *points, size_t points_size, char *note,
                           size_t note_size) {
    const cJSON *task;
    size_t p = 0, n = 0;
    *points = *note = '\0';
    if (*text_of(grade, "problem")) n += (size_t)snprintf(note, note_size, "%s", text_of(grade, "problem"));
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(grade, "tasks")) {
        const char *what = text_of(task, "note"), *name = text_of(task, "task");
        if (p < points_size)
            p += (size_t)snprintf(points + p, points_size - p, "%s%s=%g", p ? " " : "", name,
                                  number_of(task, "points"));
        if (*what && n < note_size && !*text_of(grade, "problem"))
            n += (size_t)snprintf(note + n, note_size - n, "%s%s: %s", n ? "; " : "", name, what);
    }
}

static void print_csv(FILE *out, const gs_hand_in *h, const cJSON *grade) {
    char tasks[400] = "", note[2000] = "", points[24] = "0", of[24] = "";
    if (grade) {
        describe_tasks(grade, tasks, sizeof tasks, note, sizeof note);
        snprintf(points, sizeof points, "%g", number_of(grade, "points"));
        snprintf(of, sizeof of, "%g", number_of(grade, "of"));
    } else {
        snprintf(note, sizeof note, "%s", h->problem);
    }
    const char *fields[] = {h->student, h->lab, tasks, points, of, note};
    for (size_t i = 0; i < 6; i++) print_field(out, fields[i], i == 5);
}

static void print_json(FILE *out, const gs_hand_in *h, cJSON *grade) {
    cJSON *o = grade ? grade : cJSON_CreateObject();
    cJSON_AddStringToObject(o, "student", h->student);
    if (!grade) {
        cJSON_AddStringToObject(o, "lab", h->lab);
        cJSON_AddNumberToObject(o, "points", 0);
        cJSON_AddStringToObject(o, "problem", h->problem);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(o, "file"); /* a copy's */
    char *text = cJSON_PrintUnformatted(o);
    if (text) fprintf(out, "%s\n", text);
    cJSON_free(text);
    if (!grade) cJSON_Delete(o);
}

/* ---- grading ---- */

/* The source tree, which has the lessons, and the build folder in it, which this program is in. */
static gs_status find_tree(grading *g) {
    char program[PATH_MAX];
    GS_TRY(gs_context(gs_file_of_gradsum("lessons", g->tree, sizeof g->tree),
                      "grading needs the source tree with its lessons/ and build/"));
    *strrchr(g->tree, '/') = '\0';
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    size_t begin = strlen(g->tree);
    if (strncmp(program, g->tree, begin) != 0 || program[begin] != '/')
        return gs_fail(GS_E_FILE, "this program is not in the source tree %s: grade with its build/gradsum",
                       g->tree);
    char *labs = strstr(program + begin + 1, "/lessons/"), *slash = strrchr(program, '/');
    *(labs ? labs : slash) = '\0'; /* build/gradsum, or a lab's own build/lessons/07/gradsum */
    snprintf(g->build, sizeof g->build, "%s", program + begin + 1);
    return GS_OK;
}

enum { OUTPUT = 1 << 18 };

static gs_status run(const grading *g, const char *const *command, char output[OUTPUT], bool *worked) {
    return gs_command_run(g->tree, command, output, OUTPUT, worked);
}

static gs_status build_graders(const grading *g) {
    char output[OUTPUT] = "", build[PATH_MAX + 2];
    bool worked = false;
    unsetenv("MAKEFLAGS");
    snprintf(build, sizeof build, "B=%s", g->build);
    GS_TRY(run(g, (const char *[]){"make", "--no-print-directory", "-s", "lab-graders", build, NULL}, output,
               &worked));
    if (!worked) return gs_fail(GS_E_FILE, "the graders cannot be built: %s", *output ? output : "see above");
    return GS_OK;
}

/* Is there each of the labs in --labs? */
static gs_status check_labs(const grading *g) {
    for (const char *from = g->labs; from && *from;) {
        char pattern[PATH_MAX + 40], lab[16];
        glob_t found = {0};
        int length = (int)strcspn(from, ",");
        snprintf(lab, sizeof lab, "%.*s", length, from);
        snprintf(pattern, sizeof pattern, "%s/lessons/%s-*", g->tree, lab);
        bool digits = length == 2 && strspn(lab, "0123456789") == 2;
        bool is = digits && glob(pattern, 0, NULL, &found) == 0;
        globfree(&found);
        if (!is)
            return gs_fail(GS_E_USAGE, "--labs %s: unknown lab '%s'; wanted numbers such as 06,07", g->labs,
                           gs_printable(lab));
        from += length + (from[length] == ',');
    }
    return GS_OK;
}

static bool wanted(const grading *g, const char *lab) {
    return !g->labs || !*lab || strstr(g->labs, lab);
}

static gs_status grade_copy(const grading *g, gs_hand_in *h, const char *folder, const char *name,
                            cJSON **result) {
    char script[PATH_MAX], to[2 * PATH_MAX + 60], file[PATH_MAX + 60], output[OUTPUT] = "";
    bool worked = false;
    snprintf(to, sizeof to, "%s/%s/%s", g->tree, folder, name);
    if (gs_hand_in_copy(h->path, to) != GS_OK) {
        snprintf(h->problem, sizeof h->problem, "%s", gs_message());
        return GS_OK;
    }
    snprintf(script, sizeof script, "%.4000s/lessons/%s/grade", g->build, h->lab);
    snprintf(file, sizeof file, "%s/%s", folder, name);
    GS_TRY(run(g, (const char *[]){script, file, folder, "--json", NULL}, output, &worked));
    if (worked) *result = cJSON_Parse(output);
    if (!*result) snprintf(h->problem, sizeof h->problem, "the grader of lab %s failed", h->lab);
    return GS_OK;
}

/* In a folder below the build folder, so that the lab's program finds the data. *result is NULL where h->problem says
 * why. */
static gs_status grade(const grading *g, gs_hand_in *h, cJSON **result) {
    char script[2 * PATH_MAX], folder[PATH_MAX], made[2 * PATH_MAX];
    *result = NULL;
    if (*h->problem) return GS_OK;
    snprintf(script, sizeof script, "%s/%.4000s/lessons/%s/grade", g->tree, g->build, h->lab);
    if (access(script, X_OK) != 0) {
        snprintf(h->problem, sizeof h->problem, "unknown lab %s", h->lab);
        return GS_OK;
    }
    snprintf(folder, sizeof folder, "%.4000s/lessons/%s/hand-in-%d", g->build, h->lab, (int)getpid());
    snprintf(made, sizeof made, "%s/%.4090s", g->tree, folder);
    if (mkdir(made, 0700) != 0)
        return gs_fail(GS_E_FILE, "cannot make the folder %s: %s", made, strerror(errno));
    bool kernels = strcmp(strrchr(h->path, '.'), ".cl") == 0;
    gs_status status = grade_copy(g, h, folder, kernels ? "lab.cl" : "lab.c", result);
    gs_file_remove_folder(made);
    return status;
}

static gs_status grade_all(const grading *g, gs_hand_ins *all) {
    if (!g->json) fputs("student,lab,tasks,points,of,note\n", g->out);
    for (int i = 0; i < all->count; i++) {
        gs_hand_in *h = &all->list[i];
        cJSON *result;
        if (!wanted(g, h->lab)) continue;
        GS_TRY(grade(g, h, &result));
        g->json ? print_json(g->out, h, result) : print_csv(g->out, h, result);
        cJSON_Delete(result);
        fflush(g->out);
        if (g->out != stdout) fprintf(stderr, "%s %s %s\n", gs_printable(h->student), h->lab, h->problem);
    }
    return GS_OK;
}

/* ---- the command ---- */

static gs_status find_all(int words, char **argv, gs_hand_ins *all) {
    char path[PATH_MAX];
    if (words == 0) return gs_fail(GS_E_USAGE, "a folder of hand-ins is required; --help says what it holds");
    for (int i = 1; i <= words; i++) {
        if (!realpath(argv[i], path))
            return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", argv[i], strerror(errno));
        GS_TRY(gs_hand_ins_find(path, all));
    }
    return GS_OK;
}

static gs_status grade_into(grading *g, const char *path, gs_hand_ins *all) {
    gs_file_writer w = {0};
    g->out = stdout;
    GS_TRY(find_tree(g));
    GS_TRY(check_labs(g));
    if (path) {
        GS_TRY(gs_file_writer_open(path, &w));
        g->out = w.file;
    }
    gs_status status = build_graders(g);
    if (status == GS_OK) status = grade_all(g, all);
    if (path && status == GS_OK) return gs_file_writer_commit(&w);
    if (path) gs_file_writer_discard(&w);
    return status;
}

int gs_cmd_grade(int argc, char **argv) {
    grading g = {0};
    const char *out = NULL;
    int words, exit_status;
    const gs_option options[] = {
        {"labs", GS_OPTION_TEXT, &g.labs, 0, 0, "LIST", "only these: 06,07"},
        {"json", GS_OPTION_FLAG, &g.json, 0, 0, NULL, "one JSON object per lab, one per line"},
        {"out", GS_OPTION_TEXT, &out, 0, 0, "FILE", "write to this file instead of standard output"},
        {0},
    };
    const gs_help help = {"grade DIR... [options]",
                          "Grade hand-ins, as CSV: student, lab, points by task, points, of how many, note.\n"
                          "DIR holds one folder per student, with NN/lab.c or lab-NN.c for each lab (lab.cl\n"
                          "for kernels). The programs run with your rights, in processes with limits on\n"
                          "time, memory and output: that contains accidents, but not an attacker.",
                          "gradsum grade hand-ins -o points.csv", NULL};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_hand_ins all = {0};
    gs_status status = find_all(words, argv, &all);
    if (status == GS_OK) status = grade_into(&g, out, &all);
    gs_hand_ins_free(&all);
    return status == GS_OK ? GS_EXIT_OK : gs_failed("grade", status);
}
