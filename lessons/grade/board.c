#include "lessons/grade/board.h"

#include <stdlib.h>
#include <string.h>

#include "cli/wrapped.h"
#include "lessons/grade/mark.h"

void gs_board_add(gs_board *b, const cJSON *marks) {
    const cJSON *mark, *task;
    if (!b->places) b->places = cJSON_CreateArray();
    cJSON_ArrayForEach(mark, marks) {
        cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(mark, "tasks")) {
            if (!*gs_mark_text(task, "unit")) continue;
            if (gs_mark_number(task, "points") < gs_mark_number(task, "of")) continue;
            cJSON *place = cJSON_Duplicate(task, true);
            cJSON_AddStringToObject(place, "student", gs_mark_text(mark, "student"));
            cJSON_AddStringToObject(place, "lab", gs_mark_text(mark, "lab"));
            cJSON_AddItemToArray(b->places, place);
        }
    }
}

/* Negative, 0, positive: by lab and task. */
static int compare_tasks(const cJSON *x, const cJSON *y) {
    const int labs = strcmp(gs_mark_text(x, "lab"), gs_mark_text(y, "lab"));
    return labs ? labs : strcmp(gs_mark_text(x, "task"), gs_mark_text(y, "task"));
}

static int compare(const void *a, const void *b) {
    const cJSON *x = *(cJSON *const *)a, *y = *(cJSON *const *)b;
    const double less = gs_mark_number(x, "measured") - gs_mark_number(y, "measured");
    const int tasks = compare_tasks(x, y);
    if (tasks) return tasks;
    return less < 0 ? -1 : less > 0 ? 1 : strcmp(gs_mark_text(x, "student"), gs_mark_text(y, "student"));
}

void gs_board_print(gs_board *b, FILE *out) {
    const int count = cJSON_GetArraySize(b->places);
    cJSON **place = calloc((size_t)count + 1, sizeof *place), *next = b->places ? b->places->child : NULL;
    for (int i = 0; place && next; next = next->next) place[i++] = next;
    if (place) qsort(place, (size_t)count, sizeof *place, compare);
    for (int i = 0, rank = 0, first = 0; place && i < count; i++) {
        const double measured = gs_mark_number(place[i], "measured");
        const bool begins = i == 0 || compare_tasks(place[i], place[i - 1]) != 0;
        if (begins)
            fprintf(out, "%sboard: %s %s: %s\n", i > 0 ? "\n" : "", gs_mark_text(place[i], "task"),
                    gs_mark_text(place[i], "what"), gs_mark_text(place[i], "unit"));
        if (begins) first = i;
        if (begins || measured > gs_mark_number(place[i - 1], "measured")) rank = i - first + 1;
        fprintf(out, "%4d  %-24s %12s\n", rank, gs_mark_text(place[i], "student"), gs_thousands(measured));
    }
    if (count == 0) fprintf(out, "board: no hand-in has all points of a task that it ranks\n");
    free(place);
    cJSON_Delete(b->places);
    *b = (gs_board){0};
}
