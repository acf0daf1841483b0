#include "lessons/grade/mark.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

double gs_mark_number(const cJSON *o, const char *name) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

const char *gs_mark_text(const cJSON *o, const char *name) {
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(t) ? t->valuestring : "";
}

void gs_mark_clean(cJSON *mark) {
    cJSON *item;
    cJSON_ArrayForEach(item, mark) {
        if (item->child) gs_mark_clean(item);
        if (!cJSON_IsString(item)) continue;
        size_t size = 4 * strlen(item->valuestring) + 1; /* \xNN for each byte */
        char *clean = malloc(size);
        if (clean) cJSON_SetValuestring(item, gs_printable_into(clean, size, item->valuestring, "\n\t"));
        free(clean);
    }
}

/* Drops the incomplete character that may end a truncated text. */
static void end_whole(char *text, size_t size) {
    size_t used = strlen(text);
    if (used < size - 1) return;
    while (used > 0 && (text[used - 1] & 0xc0) == 0x80) used--;
    if (used > 0) used--;
    text[used] = '\0';
}

void gs_mark_points(const cJSON *mark, char *text, size_t size) {
    const cJSON *task;
    *text = '\0';
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(mark, "tasks")) {
        gs_append(text, size, "%s%s=%g", *text ? " " : "", gs_mark_text(task, "task"),
                  gs_mark_number(task, "points"));
    }
}

void gs_mark_note(const cJSON *mark, char *text, size_t size) {
    const cJSON *task;
    *text = '\0';
    gs_append(text, size, "%s", gs_mark_text(mark, "problem"));
    bool graded = !*text;
    const char *messages = gs_mark_text(mark, "messages");
    if (*messages && !graded) gs_append(text, size, ": %s", messages);
    cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(mark, "tasks")) {
        const char *note = gs_mark_text(task, "note");
        if (*note && graded)
            gs_append(text, size, "%s%s: %s", *text ? "; " : "", gs_mark_text(task, "task"), note);
    }
    const char *changed = gs_mark_text(mark, "changed");
    if (*changed && graded)
        gs_append(text, size, "%schanged outside of the blanks: %s", *text ? "; " : "", changed);
    const char *run = gs_mark_text(mark, "run");
    if (*run) gs_append(text, size, "%s%s", *text ? "; " : "", run);
    end_whole(text, size);
}

double gs_marks_sum(const cJSON *marks, const char *name) {
    const cJSON *mark;
    double sum = 0;
    cJSON_ArrayForEach(mark, marks) {
        sum += gs_mark_number(mark, name);
    }
    return sum;
}
