/* The report for a student, in 80 columns, and the one line of JSON for scripts. */
#include "grader.h"
#include "io/json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 80, INDENT = 12 };

/* Prints `text` wrapped at spaces; later lines start at column INDENT. A newline in the text starts a new line. */
static void print_wrapped(const char *first, const char *text) {
    int column = printf("%*s%s", INDENT, "", first);
    bool begin = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!begin && column + 1 + (int)word > COLUMNS) {
            column = printf("\n%*s", INDENT, "") - 1;
            begin = true;
        }
        column += printf("%s%.*s", begin ? "" : " ", (int)word, text);
        begin = false;
        text += word;
        if (*text == '\n') {
            column = printf("\n%*s", INDENT, "") - 1;
            begin = true;
        }
        text += *text != '\0';
    }
    printf("\n");
}

static void print_task(const lab_task *task, const lab_outcome *o) {
    printf("  %-5s %d/%d  %s\n", task->number, o->points, task->points, task->what);
    if (*o->note) print_wrapped("", o->note);
    if (*o->hint) print_wrapped("hint: ", o->hint);
}

void lab_print(const lab_grading *g, const lab_grade *grade) {
    char title[120];
    snprintf(title, sizeof title, "lab %s: %s", g->lab, g->title);
    const char *name = g->source;
    size_t most = COLUMNS - strlen(title) - 2;
    if (strlen(name) > most) name += strlen(name) - most;
    printf("%s%*s\n", title, COLUMNS - (int)strlen(title), name);
    if (grade->messages && *grade->messages) printf("%s\n", grade->messages);
    for (int i = 0; i < grade->count && !*grade->problem; i++) print_task(&lab_tasks[i], &grade->outcome[i]);
    if (grade->remark) print_wrapped("", grade->remark);
    if (*grade->changed) printf("  changed outside of the blanks:\n%s\n", grade->changed);
    printf("  total %d/%d%s%s\n", grade->points, grade->of, *grade->problem ? ": " : "", grade->problem);
    fflush(stdout);
}

void lab_print_json(const lab_grading *g, const lab_grade *grade) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "lab", g->lab);
    cJSON_AddStringToObject(o, "title", g->title);
    cJSON_AddStringToObject(o, "file", g->source);
    cJSON_AddNumberToObject(o, "points", grade->points);
    cJSON_AddNumberToObject(o, "of", grade->of);
    cJSON_AddStringToObject(o, "problem", grade->problem);
    cJSON_AddStringToObject(o, "messages", grade->messages ? grade->messages : "");
    cJSON_AddStringToObject(o, "changed", grade->changed);
    cJSON_AddStringToObject(o, "remark", grade->remark ? grade->remark : "");
    cJSON *tasks = cJSON_AddArrayToObject(o, "tasks");
    for (int i = 0; i < grade->count; i++) {
        cJSON *t = cJSON_CreateObject();
        cJSON_AddStringToObject(t, "task", lab_tasks[i].number);
        cJSON_AddStringToObject(t, "what", lab_tasks[i].what);
        if (*grade->outcome[i].unit) {
            cJSON_AddStringToObject(t, "unit", grade->outcome[i].unit);
            cJSON_AddNumberToObject(t, "measured", grade->outcome[i].measured);
        }
        cJSON_AddNumberToObject(t, "points", grade->outcome[i].points);
        cJSON_AddNumberToObject(t, "of", lab_tasks[i].points);
        cJSON_AddStringToObject(t, "note", *grade->problem ? grade->problem : grade->outcome[i].note);
        cJSON_AddItemToArray(tasks, t);
    }
    char *text = gs_json_to_text(o, false);
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
    fflush(stdout);
}
