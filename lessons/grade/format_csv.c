/* A table for a spreadsheet: one line per student and lab. */
#include "lessons/grade/format.h"

#include <string.h>

void gs_csv_field(FILE *out, const char *text, bool last) {
    char first = text[strspn(text, " \n")];
    bool formula = first && strchr("=+-@\t\r", first);
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) fputc('"', out);
    if (formula) fputc('\'', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
    }
    if (quoted) fputc('"', out);
    fputc(last ? '\n' : ',', out);
}

static void begin(FILE *out, const gs_labs *labs) {
    (void)labs;
    fputs("student,lab,tasks,points,of,note\n", out);
}

static void student(FILE *out, const gs_labs *labs, const cJSON *marks) {
    const cJSON *mark;
    (void)labs;
    cJSON_ArrayForEach(mark, marks) {
        char tasks[400], points[24], of[24], note[4000];
        gs_mark_points(mark, tasks, sizeof tasks);
        gs_mark_note(mark, note, sizeof note);
        snprintf(points, sizeof points, "%g", gs_mark_number(mark, "points"));
        snprintf(of, sizeof of, "%g", gs_mark_number(mark, "of"));
        const char *fields[] = {
            gs_mark_text(mark, "student"), gs_mark_text(mark, "lab"), tasks, points, of, note};
        for (size_t i = 0; i < 6; i++) gs_csv_field(out, fields[i], i == 5);
    }
}

const gs_format gs_format_csv = {
    .name = "csv", .what = "a line for each student and lab", .begin = begin, .student = student};
