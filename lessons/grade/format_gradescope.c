/* results.json as Gradescope's autograders write it: https://gradescope-autograders.readthedocs.io/en/latest/specs/
 * There is one file per student, which lists the tasks of all labs as tests. */
#include "lessons/grade/format.h"

#include <stdlib.h>

#include "io/json.h"

static cJSON *test_of(const cJSON *mark, const cJSON *task) {
    double points = gs_mark_number(task, "points"), of = gs_mark_number(task, "of");
    char name[400];
    snprintf(name, sizeof name, "lab %s: %s", gs_mark_text(mark, "lab"), gs_mark_text(task, "what"));
    return GS_JSON_OBJECT(GS_FIELD("name", (const char *)name),
                          GS_FIELD("number", gs_mark_text(task, "task")), GS_FIELD("score", points),
                          GS_FIELD("max_score", of), GS_FIELD("status", points < of ? "failed" : "passed"),
                          GS_FIELD("output", gs_mark_text(task, "note")), GS_FIELD("output_format", "text"),
                          GS_FIELD("visibility", "visible"));
}

/* The output for a whole lab: "lab 07: 3/10: it does not compile", and the compiler's messages. */
static cJSON *output_of(const cJSON *marks) {
    const cJSON *mark;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return cJSON_CreateString("");
    cJSON_ArrayForEach(mark, marks) {
        const char *lab = gs_mark_text(mark, "lab"), *problem = gs_mark_text(mark, "problem");
        const char *messages = gs_mark_text(mark, "messages"), *changed = gs_mark_text(mark, "changed"),
                   *run = gs_mark_text(mark, "run");
        fprintf(out, "lab %s: %g/%g%s%s\n", lab, gs_mark_number(mark, "points"), gs_mark_number(mark, "of"),
                *problem ? ": " : "", problem);
        if (*messages) fprintf(out, "%s\n", messages);
        if (*changed) fprintf(out, "changed outside of the blanks:\n%s\n", changed);
        if (*run) fprintf(out, "%s\n", run);
    }
    fclose(out);
    cJSON *value = cJSON_CreateString(text ? text : "");
    free(text);
    return value;
}

static void student(FILE *out, const gs_labs *labs, const cJSON *marks) {
    (void)labs;
    const cJSON *mark, *task;
    cJSON *tests = cJSON_CreateArray();
    cJSON_ArrayForEach(mark, marks) {
        cJSON_ArrayForEach(task, cJSON_GetObjectItemCaseSensitive(mark, "tasks")) {
            cJSON_AddItemToArray(tests, test_of(mark, task));
        }
    }
    cJSON *more = GS_JSON_OBJECT(GS_FIELD("student", gs_mark_text(marks->child, "student")),
                                 GS_FIELD("max_score", gs_marks_sum(marks, "of")));
    cJSON *results =
        GS_JSON_OBJECT(GS_FIELD("score", gs_marks_sum(marks, "points")), GS_FIELD("output", output_of(marks)),
                       GS_FIELD("output_format", "text"), GS_FIELD("visibility", "visible"),
                       GS_FIELD("extra_data", more), GS_FIELD("tests", tests));
    char *text = gs_json_to_text(results, true);
    if (text) fprintf(out, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(results);
}

const gs_format gs_format_gradescope = {.name = "gradescope",
                                        .what = "results.json for Gradescope, a file for each student",
                                        .a_file_each = true,
                                        .extension = ".json",
                                        .student = student};
