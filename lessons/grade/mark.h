/* A mark: one student's result for one lab. It is the object printed by the lab's grader (lessons/report.c), with the
 * student added:
 *
 *     {"student": "alice", "lab": "07", "title": "all-reduce", "points": 3, "of": 10, "problem": "", "messages": "",
 *      "changed": "", "remark": "",
 *      "tasks": [{"task": "7.1", "what": "reduce-scatter", "points": 3, "of": 3, "note": ""}, ...]}
 *
 * "problem" says why nothing could be graded, or is ""; "changed" lists lines outside the blanks that differ from the
 * handed-out file; "run", which may be missing, says that a recorded run is another one (exact_run.h). All text is
 * UTF-8 without control characters except newlines and tabs: names, notes and messages come from students, and may
 * contain anything.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stddef.h>

double gs_mark_number(const cJSON *, const char *name);    /* 0: there is none */
const char *gs_mark_text(const cJSON *, const char *name); /* "": there is none */

/* Cleans all text in the mark as described above. */
void gs_mark_clean(cJSON *mark);

/* Each in one line, cut to fit: "7.1=3 7.2=0", and "7.2: did not end within 10 s; ..." or the problem and the
 * compiler's messages, then the changes and the run. */
void gs_mark_points(const cJSON *, char *text, size_t size);
void gs_mark_note(const cJSON *, char *text, size_t size);

/* The sum of "points" or "of" over all marks of an array. */
double gs_marks_sum(const cJSON *marks, const char *name);
