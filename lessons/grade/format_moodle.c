/* CSV for Moodle's gradebook: Grades > Import > CSV file. One line per student: a column that identifies the student,
 * and two columns per lab, points and feedback. Moodle asks which grade item each column belongs to. Import both
 * columns: a feedback without its grade clears the grade. (Moodle Docs, "Grade import")
 */
#include "lessons/grade/format.h"

#include <string.h>

static void begin(FILE *out, const gs_labs *labs) {
    gs_csv_field(out, "identifier", gs_labs_next(labs, 0) < 0);
    for (int n = -1; (n = gs_labs_next(labs, n + 1)) >= 0;) {
        char name[40];
        snprintf(name, sizeof name, "lab %02d", n);
        gs_csv_field(out, name, false);
        snprintf(name, sizeof name, "lab %02d feedback", n);
        gs_csv_field(out, name, gs_labs_next(labs, n + 1) < 0);
    }
}

/* Moodle shows feedback as HTML, where "<float.h>" would be invisible. */
static void print_feedback(FILE *out, const char *text, bool last) {
    char html[5 * 4000 + 8] = ""; /* enough for the longest note, if all of it is & */
    size_t used = 0;
    for (; *text && used + 6 < sizeof html; text++) {
        const char *word = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        used += (size_t)snprintf(html + used, sizeof html - used, word ? "%s" : "%.1s", word ? word : text);
    }
    gs_csv_field(out, html, last);
}

static void student(FILE *out, const gs_labs *labs, const cJSON *marks) {
    const char *name = gs_mark_text(marks->child, "student"), *end = strstr(name, "_assignsubmission_");
    char participant
        [64]; /* Moodle's worksheet identifies the folder "Jane Doe_123_assignsubmission_file" by this */
    while (end && end > name && end[-1] != '_') end--;
    if (end)
        snprintf(participant, sizeof participant, "Participant %.*s", (int)strspn(end, "0123456789"), end);
    gs_csv_field(out, end ? participant : name, gs_labs_next(labs, 0) < 0);
    const cJSON *mark = marks->child;
    for (int n = -1; (n = gs_labs_next(labs, n + 1)) >= 0 && mark; mark = mark->next) {
        char points[24], note[4000];
        snprintf(points, sizeof points, "%g", gs_mark_number(mark, "points"));
        gs_mark_note(mark, note, sizeof note);
        gs_csv_field(out, points, false);
        print_feedback(out, note, gs_labs_next(labs, n + 1) < 0);
    }
}

const gs_format gs_format_moodle = {
    .name = "moodle", .what = "CSV for Moodle's gradebook", .begin = begin, .student = student};
