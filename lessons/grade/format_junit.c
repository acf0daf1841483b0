/* XML in JUnit's format, which most services that run tests can show: a testsuite per hand-in, a testcase per task. */
#include "lessons/grade/format.h"

#include <string.h>

/* U+FFFE and U+FFFF are valid in UTF-8, but are not XML characters. */
static bool is_no_character(const char *at) {
    return strncmp(at, "\xef\xbf\xbe", 3) == 0 || strncmp(at, "\xef\xbf\xbf", 3) == 0;
}

void gs_xml_text(FILE *out, const char *text) {
    for (; *text; text++) {
        const char *name = *text == '&'    ? "&amp;"
                           : *text == '<'  ? "&lt;"
                           : *text == '>'  ? "&gt;"
                           : *text == '"'  ? "&quot;"
                           : *text == '\'' ? "&apos;"
                           : *text == '\n' ? "&#10;" /* unescaped, an attribute would make it a space */
                           : *text == '\t' ? "&#9;"
                                           : NULL;
        if (name)
            fputs(name, out);
        else if (is_no_character(text))
            text += 2;
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, out);
    }
}

/* points: "0/3: " for a task that lost points; NULL: it has all its points. */
static void print_case(FILE *out, const cJSON *mark, const char *name, const char *points, const char *note) {
    fputs("    <testcase classname=\"", out);
    gs_xml_text(out, gs_mark_text(mark, "student"));
    gs_xml_text(out, ".");
    gs_xml_text(out, gs_mark_text(mark, "lab"));
    fputs("\" name=\"", out);
    gs_xml_text(out, name);
    fputs(points ? "\">\n      <failure type=\"points\" message=\"" : "\"/>\n", out);
    if (!points) return;
    gs_xml_text(out, points);
    gs_xml_text(out, note);
    fputs("\"/>\n    </testcase>\n", out);
}

static bool lost_points(const cJSON *task) {
    return gs_mark_number(task, "points") < gs_mark_number(task, "of");
}

static void begin_suite(FILE *out, const cJSON *mark) {
    const cJSON *task, *tasks = cJSON_GetObjectItemCaseSensitive(mark, "tasks");
    int cases = 0, failures = 0;
    cJSON_ArrayForEach(task, tasks) {
        cases++;
        failures += lost_points(task);
    }
    if (cases == 0) cases = failures = 1;
    fputs("  <testsuite name=\"", out);
    gs_xml_text(out, gs_mark_text(mark, "student"));
    gs_xml_text(out, ": lab ");
    gs_xml_text(out, gs_mark_text(mark, "lab"));
    fprintf(out, "\" tests=\"%d\" failures=\"%d\" errors=\"0\">\n", cases, failures);
    fprintf(out,
            "    <properties><property name=\"points\" value=\"%g\"/><property name=\"of\" "
            "value=\"%g\"/></properties>\n",
            gs_mark_number(mark, "points"), gs_mark_number(mark, "of"));
}

static void print_suite(FILE *out, const cJSON *mark) {
    const cJSON *task, *tasks = cJSON_GetObjectItemCaseSensitive(mark, "tasks");
    const char *messages = gs_mark_text(mark, "messages"), *run = gs_mark_text(mark, "run");
    begin_suite(out, mark);
    cJSON_ArrayForEach(task, tasks) {
        char name[400], points[60];
        snprintf(name, sizeof name, "%s %s", gs_mark_text(task, "task"), gs_mark_text(task, "what"));
        snprintf(points, sizeof points, "%g/%g: ", gs_mark_number(task, "points"),
                 gs_mark_number(task, "of"));
        print_case(out, mark, name, lost_points(task) ? points : NULL, gs_mark_text(task, "note"));
    }
    if (!cJSON_GetArraySize(tasks)) print_case(out, mark, "hand-in", "", gs_mark_text(mark, "problem"));
    if (*messages || *run) {
        fputs("    <system-err>", out);
        gs_xml_text(out, messages);
        gs_xml_text(out, run);
        fputs("</system-err>\n", out);
    }
    fputs("  </testsuite>\n", out);
}

static void begin(FILE *out, const gs_labs *labs) {
    (void)labs;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"gradsum grade\">\n", out);
}

static void student(FILE *out, const gs_labs *labs, const cJSON *marks) {
    const cJSON *mark;
    (void)labs;
    cJSON_ArrayForEach(mark, marks) {
        print_suite(out, mark);
    }
}

static void end(FILE *out) {
    fputs("</testsuites>\n", out);
}

const gs_format gs_format_junit = {
    .name = "junit", .what = "XML as JUnit writes it", .begin = begin, .student = student, .end = end};
