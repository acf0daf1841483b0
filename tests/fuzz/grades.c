/* A lab grader's output about a hand-in, in every format. */
#include "lessons/grade/format.h"
#include "core/text.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static char *written(const gs_format *f, const cJSON *marks) {
    const gs_labs labs = {.has = {[7] = true}};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (f->begin) f->begin(out, &labs);
    f->student(out, &labs, marks);
    if (f->end) f->end(out);
    if (fclose(out) != 0) fuzz_wrong("no memory for a line");
    return text;
}

/* All of it must be plain text for a terminal and for an XML parser. The grader chooses the names of JSON members. */
static void check_text(const gs_format *f, const char *text) {
    size_t size = 4 * strlen(text) + 1;
    if (f == &gs_format_json) return;
    if (f == &gs_format_junit && (strstr(text, "\xef\xbf\xbe") || strstr(text, "\xef\xbf\xbf")))
        fuzz_wrong("%s: %s", f->name, text);
    char *clean = malloc(size);
    if (!clean) fuzz_wrong("no memory");
    if (strcmp(gs_printable_into(clean, size, text, "\n\t"), text) != 0) fuzz_wrong("%s: %s", f->name, clean);
    free(clean);
}

static void check_table(const gs_format *f, const char *text) {
    const char *first = strchr(text, '\n');
    if (!first || !first[1] || strchr(first + 1, '\n') != text + strlen(text) - 1)
        fuzz_wrong("%s: not two lines: %s", f->name, text);
    first += 1 + (first[1] == '"');
    if (strchr("=+-@", *first)) fuzz_wrong("%s: a formula: %s", f->name, first);
}

FUZZ(in) {
    char *text = fuzz_text(in), name[1021];
    cJSON *mark = cJSON_Parse(text), *marks = cJSON_CreateArray();
    if (!cJSON_IsObject(mark)) {
        cJSON_Delete(mark);
        mark = cJSON_CreateObject();
    }
    cJSON_DeleteItemFromObjectCaseSensitive(mark, "student");
    cJSON_AddStringToObject(mark, "student", gs_printable_into(name, sizeof name, text, ""));
    gs_mark_clean(mark);
    cJSON_AddItemToArray(marks, mark);
    for (int i = 0; gs_formats[i]; i++) {
        const gs_format *f = gs_formats[i];
        char *out = written(f, marks);
        check_text(f, out);
        if (f == &gs_format_csv || f == &gs_format_moodle) check_table(f, out);
        cJSON *back = cJSON_Parse(out);
        if ((f == &gs_format_json || f == &gs_format_gradescope) && !back) fuzz_wrong("%s: %s", f->name, out);
        cJSON_Delete(back);
        free(out);
    }
    cJSON_Delete(marks);
    free(text);
}
