/* Finds what a hand-in changes outside the blanks. Changes are allowed, for instance an #include, or a function that a
 * blank calls. They are shown, so that readers of hand-ins need not search for them. */
#include "grader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 2000, SHOWN = 12 /* lines */ };

/* Writes a file without the text between the markers "task 7.1:" and "end of task 7.1", and without empty lines.
 * Ignores the comment at the start of a blank, another system's line ends, and a byte order mark. */
static gs_status write_outside(const char *path, const char *to) {
    char line[LINE];
    bool blank = false;
    FILE *in = fopen(path, "r"), *out = fopen(to, "w");
    while (in && out && fgets(line, sizeof line, in)) {
        const char *own = line + (strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
        const char *text = own + strspn(own, " \t\r\n"), *task = strstr(line, "/* task ");
        if (strstr(line, "/* end of task ")) blank = false;
        if (!blank && *text) fprintf(out, "%.*s\n", (int)strcspn(own, "\r\n"), own);
        if (task && isdigit((unsigned char)task[8])) blank = true;
    }
    bool good = in && out && !ferror(out);
    if (in) fclose(in);
    if (out) good = fclose(out) == 0 && good;
    return good ? GS_OK : gs_fail(GS_E_FILE, "cannot compare %s with the file that was handed out", path);
}

/* Shows the first lines of diff's output, "> x" and "< x", as "+ x" and "- x". */
static void shorten(const char *diff, char *text, size_t size) {
    size_t used = 0;
    int lines = 0;
    *text = '\0';
    for (const char *at = diff; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (*at != '<' && *at != '>') continue;
        if (lines++ < SHOWN && used < size)
            used += (size_t)snprintf(
                text + used, size - used, "%s%c %.*s", used ? "\n" : "", *at == '>' ? '+' : '-',
                (int)strcspn(at + 2, "\n") > 100 ? 100 : (int)strcspn(at + 2, "\n"), at + 2);
    }
    if (lines > SHOWN && used < size) snprintf(text + used, size - used, "\n%d more", lines - SHOWN);
}

gs_status lab_find_changes(const lab_grading *g, lab_grade *grade) {
    char given[4200], theirs[4200];
    snprintf(given, sizeof given, "%s/outside.given", g->folder);
    snprintf(theirs, sizeof theirs, "%s/outside.theirs", g->folder);
    GS_TRY(write_outside(g->given, given));
    GS_TRY(write_outside(g->source, theirs));
    char *command[] = {"diff", "-a", given, theirs, NULL};
    lab_job job = {.command = command, .limits = {10, (size_t)1 << 28, 1 << 22}};
    GS_TRY(lab_contain(&job, 1, 1));
    if (job.end == LAB_EXITED && job.code == 1) shorten(job.output, grade->changed, sizeof grade->changed);
    lab_job_free(&job);
    remove(given);
    remove(theirs);
    return GS_OK;
}
