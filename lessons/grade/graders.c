#include "lessons/grade/graders.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json.h"
#include "lessons/grade/command.h"
#include "lessons/grade/exact_run.h"
#include "lessons/sandbox.h"
#include "train/train.h"

enum {
    OUTPUT = 1 << 20, /* bytes of a script's output: compiler messages, in which JSON may escape each byte */
    ROOM = 64 << 20,  /* bytes of free disk space that a grading may need */
};

/* ---- the tree ---- */

gs_status gs_graders_find(gs_graders *g) {
    *g = (gs_graders){.output = malloc(OUTPUT)};
    if (!g->output) return gs_fail(GS_E_MEMORY, "no memory for what graders print");
    GS_TRY(gs_tree_find("grading", &g->tree));
    g->known = gs_labs_of_tree(g->tree.path);
    return GS_OK;
}

void gs_graders_free(gs_graders *g) {
    for (int n = 0; n < GS_LABS; n++) cJSON_Delete(g->empty[n]);
    free(g->output);
    *g = (gs_graders){0};
}

gs_status gs_graders_build(const gs_graders *g) {
    char build[PATH_MAX + 2];
    bool worked = false;
    unsetenv("MAKEFLAGS");
    snprintf(build, sizeof build, "B=%s", g->tree.build);
    GS_TRY(gs_command_run(g->tree.path,
                          (const char *[]){"make", "--no-print-directory", "-s", "lab-graders", build, NULL},
                          g->output, OUTPUT, &worked));
    if (worked) return GS_OK;
    if (gs_stop_requested) return gs_fail(GS_E_INTERRUPTED, "stopped by a signal");
    return gs_fail(GS_E_FILE, "the graders cannot be built: %s", *g->output ? g->output : "see above");
}

gs_status gs_graders_check_sandbox(const gs_graders *g) {
    char folder[] = "/tmp/gradsum-sandbox-XXXXXX";
    lab_sandbox sandbox;
    if (g->trust) return GS_OK;
    if (!mkdtemp(folder)) return gs_fail(GS_E_FILE, "cannot make the folder %s: %s", folder, strerror(errno));
    gs_status status = lab_sandbox_create(&sandbox, folder, folder);
    rmdir(folder);
    if (status == GS_OK) return GS_OK;
    char why[400];
    snprintf(why, sizeof why, "%s", gs_message());
    return gs_fail(
        status,
        "%s. Hand-ins are strangers' code: install bubblewrap (Debian: bubblewrap), or grade with --trust "
        "if they may do whatever you may",
        why);
}

/* The path of a lab's file in the tree: lessons/07-all-reduce/lab.cl, or lab.c if there is none. False: no such lab. */
static bool find_lab_file(const gs_graders *g, int lab, char *path, size_t size) {
    glob_t found = {0};
    for (int k = 0; k < 2 && !found.gl_pathc; k++) {
        snprintf(path, size, "%s/lessons/%02d-*/lab.%s", g->tree.path, lab, k == 0 ? "cl" : "c");
        globfree(&found);
        found = (glob_t){0};
        glob(path, 0, NULL, &found);
    }
    if (found.gl_pathc) snprintf(path, size, "%s", found.gl_pathv[0]);
    globfree(&found);
    return *path && access(path, R_OK) == 0;
}

/* ---- one file ---- */

/* The file name's ending, in lower case: a compiler would take LAB-07.C for C++. */
static const char *ending_of(const char *path) {
    const char *dot = strrchr(path, '.');
    return !dot ? "" : strcasecmp(dot, ".c") == 0 ? ".c" : strcasecmp(dot, ".cl") == 0 ? ".cl" : dot;
}

/* Compiler messages start with the file's name. Removes the folder, which is gone when the messages are read. */
static void leave_out(char *text, const char *folder) {
    size_t length = strlen(folder);
    char *to = text;
    while (*text) {
        bool found = strncmp(text, folder, length) == 0 && text[length] == '/';
        if (found) text += length + 1;
        *to = *text;
        if (*text) to++, text++;
    }
    *to = '\0';
}

/* The verdict of the lab's script on the file, built in `folder` (relative to the tree); NULL: the script failed. */
static gs_status run_script(gs_graders *g, const char *lab, const char *file, const char *folder,
                            cJSON **mark) {
    char script[PATH_MAX + 40];
    bool worked = false;
    snprintf(script, sizeof script, "%s/lessons/%s/grade", g->tree.build, lab);
    const char *command[] = {
        script, file, folder, "--json", "--seed", *g->seed ? g->seed : "1", g->trust ? NULL : "--sandbox",
        NULL};
    GS_TRY(gs_command_run(g->tree.path, command, g->output, OUTPUT, &worked));
    leave_out(g->output, g->trust ? folder : "/work");
    cJSON *said = worked ? cJSON_Parse(g->output) : NULL;
    *mark = cJSON_IsObject(said) ? said : NULL;
    if (!*mark) cJSON_Delete(said);
    cJSON_DeleteItemFromObjectCaseSensitive(*mark, "file"); /* it names the copy */
    return GS_OK;
}

/* A stopped grader ends before the processes that it started, so a compiler may still be writing to the folder. */
static void remove_copy(const char *folder) {
    gs_file_remove_folder(folder);
    for (int i = 0; i < 100 && gs_stop_requested && access(folder, F_OK) == 0; i++) {
        usleep(20000);
        gs_file_remove_folder(folder);
    }
}

/* Grades a copy of `path`, in a folder inside the build folder, where the lab's program finds the data. problem: why
 * there is no mark. */
static gs_status grade_copy(gs_graders *g, const char *lab, const char *path, cJSON **mark, char *problem,
                            size_t size) {
    char made[2 * PATH_MAX + 60], file[2 * PATH_MAX + 80];
    snprintf(made, sizeof made, "%s/%s/lessons/%s/hand-in-XXXXXX", g->tree.path, g->tree.build, lab);
    *mark = NULL;
    *problem = '\0';
    if (!mkdtemp(made)) return gs_fail(GS_E_FILE, "cannot make the folder %s: %s", made, strerror(errno));
    gs_status status = gs_hand_in_room(made, ROOM);
    if (status != GS_OK) {
        remove_copy(made);
        return status;
    }
    snprintf(file, sizeof file, "%s/lab%s", made, ending_of(path));
    size_t begin = strlen(g->tree.path) + 1; /* the script expects paths relative to the tree */
    const gs_status copied = gs_hand_in_copy(path, file);
    if (copied == GS_E_FILE)
        snprintf(problem, size, "%s", gs_message());
    else if (copied != GS_OK)
        status = copied; /* this failure is not the student's fault */
    else if ((status = run_script(g, lab, file + begin, made + begin, mark)) == GS_OK && !*mark)
        snprintf(problem, size, "the grader of lab %s failed", lab);
    remove_copy(made);
    return gs_stop_requested ? gs_fail(GS_E_INTERRUPTED, "stopped by a signal") : status;
}

/* ---- marks ---- */

/* Remembers the lab's tasks and points, for students who score none. */
static void remember(gs_graders *g, int lab, const cJSON *mark) {
    cJSON *task, *empty = cJSON_Duplicate(mark, true);
    cJSON_ReplaceItemInObjectCaseSensitive(empty, "points", cJSON_CreateNumber(0));
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(empty, "tasks")) {
        cJSON_ReplaceItemInObjectCaseSensitive(task, "points", cJSON_CreateNumber(0));
    }
    cJSON_ReplaceItemInObjectCaseSensitive(empty, "messages", cJSON_CreateString(""));
    cJSON_ReplaceItemInObjectCaseSensitive(empty, "changed", cJSON_CreateString(""));
    cJSON_ReplaceItemInObjectCaseSensitive(empty, "remark", cJSON_CreateString(""));
    cJSON_Delete(g->empty[lab]);
    g->empty[lab] = empty;
}

/* Makes a mark without points for a lab without a graded hand-in so far: grading the lab's own file lists its tasks. */
static gs_status learn(gs_graders *g, int lab) {
    char path[PATH_MAX + 40], problem[400], number[12];
    cJSON *mark = NULL;
    snprintf(number, sizeof number, "%02d", lab);
    if (!find_lab_file(g, lab, path, sizeof path)) return GS_OK;
    GS_TRY(grade_copy(g, number, path, &mark, problem, sizeof problem));
    if (mark) remember(g, lab, mark);
    cJSON_Delete(mark);
    return GS_OK;
}

gs_status gs_graders_no_points(gs_graders *g, const char *lab, const char *problem, cJSON **mark) {
    int number = *lab ? atoi(lab) : -1;
    cJSON *task;
    if (number >= 0 && g->known.has[number] && !g->empty[number]) GS_TRY(learn(g, number));
    if (number >= 0 && g->empty[number])
        *mark = cJSON_Duplicate(g->empty[number], true);
    else
        *mark = GS_JSON_OBJECT(GS_FIELD("lab", lab), GS_FIELD("title", ""), GS_FIELD("points", 0),
                               GS_FIELD("of", 0), GS_FIELD("problem", ""), GS_FIELD("messages", ""),
                               GS_FIELD("changed", ""), GS_FIELD("remark", ""),
                               GS_FIELD("tasks", cJSON_CreateArray()));
    cJSON_ReplaceItemInObjectCaseSensitive(*mark, "problem", cJSON_CreateString(problem));
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(*mark, "tasks")) {
        cJSON_ReplaceItemInObjectCaseSensitive(task, "note", cJSON_CreateString(problem));
    }
    return GS_OK;
}

gs_status gs_graders_grade(gs_graders *g, const gs_hand_in *h, cJSON **mark) {
    char problem[400], wanted[PATH_MAX + 40], run[1000] = "";
    int lab = atoi(h->lab);
    *mark = NULL;
    snprintf(problem, sizeof problem, "%s", h->problem);
    if (!g->known.has[lab] || !find_lab_file(g, lab, wanted, sizeof wanted))
        snprintf(problem, sizeof problem, "unknown lab %s", h->lab);
    else if (!*problem && strcmp(ending_of(h->path), ending_of(wanted)) != 0)
        snprintf(problem, sizeof problem, "lab %s is written in lab%s, and this is a lab%s", h->lab,
                 ending_of(wanted), ending_of(h->path));
    else if (!*problem)
        GS_TRY(grade_copy(g, h->lab, h->path, mark, problem, sizeof problem));
    if (!*mark) return gs_graders_no_points(g, h->lab, problem, mark);
    if (!g->empty[lab]) remember(g, lab, *mark);
    snprintf(strrchr(wanted, '/'), sizeof "/exact.txt", "/exact.txt");
    gs_exact_run_check(wanted, h->path, run, sizeof run);
    if (*run) cJSON_AddStringToObject(*mark, "run", run);
    return GS_OK;
}
