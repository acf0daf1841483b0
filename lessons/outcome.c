/* From what a task's process did to points and a sentence. */
#include "grader.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The line that gs_bug() printed, or NULL. */
static const char *bug_in(const char *output, int *length) {
    const char *at = strstr(output, "gradsum: bug: ");
    if (!at) return NULL;
    at += strlen("gradsum: bug: ");
    *length = (int)strcspn(at, "\n");
    return at;
}

/* What the kernels' compiler has complained of (cl/build.c prints it), a line each, the first ones. */
static bool compiler_errors(const char *output, char *text, size_t size) {
    enum { SHOWN = 5 };
    static const char says[] = "the OpenCL compiler says:\n";
    const char *at = strstr(output, says);
    if (!at) return false;
    size_t used = (size_t)snprintf(text, size, "it does not compile:");
    int found = 0;
    for (at += strlen(says); *at; at += strcspn(at, "\n"), at += *at == '\n') {
        int length = (int)strcspn(at, "\n");
        const char *error = strstr(at, "error: ");
        if (error && error < at + length && found++ < SHOWN && used < size)
            used += (size_t)snprintf(text + used, size - used, "\n%.*s", length, at);
    }
    if (found > SHOWN && used < size) snprintf(text + used, size - used, "\n%d more", found - SHOWN);
    return found > 0;
}

/* The hand-in has ended before its check was through, or the checker has. */
static void without_verdict(const lab_job *job, const char *file, lab_outcome *o) {
    int length;
    const char *bug = bug_in(job->output, &length);
    bool ended = job->has_verdict && job->verdict.ended;
    int signal = ended ? job->verdict.signal : job->end == LAB_SIGNAL ? job->code : 0;
    if (lab_sanitizer_report(job->output, file, o->note, sizeof o->note)) return;
    if (bug)
        snprintf(o->note, sizeof o->note, "the library was called in a way that it does not allow: %.*s",
                 length, bug);
    else if (signal > 0 && sigabbrev_np(signal))
        snprintf(o->note, sizeof o->note, "it crashed: SIG%s (%s)", sigabbrev_np(signal), strsignal(signal));
    else
        snprintf(o->note, sizeof o->note, "it exited with status %d before its check had finished",
                 ended ? job->verdict.code : job->code);
}

void lab_judge(const lab_grading *g, const lab_task *task, const lab_job *job, const char *file,
               lab_outcome *o) {
    const lab_verdict *v = &job->verdict;
    *o = (lab_outcome){0};
    if (job->has_verdict && *v->blank) {
        snprintf(o->note, sizeof o->note, "not written yet: task %s", v->blank);
    } else if (job->end == LAB_TOO_LONG) {
        o->hint = true;
        snprintf(o->note, sizeof o->note, "did not end within %g s: an endless loop, or a wait for %s",
                 g->seconds,
                 g->kernels ? "work-items that never come to the barrier" : "a message that nobody sends");
    } else if (job->end == LAB_TOO_LARGE) {
        snprintf(o->note, sizeof o->note, "needed more than %zu MB of memory", job->limits.memory >> 20);
    } else if (job->end == LAB_TOO_TALKATIVE) {
        snprintf(o->note, sizeof o->note, "printed more than %zu KB: a loop that prints?",
                 job->limits.output >> 10);
    } else if (!job->has_verdict || v->ended) {
        o->hint = true;
        without_verdict(job, file, o);
    } else if (!v->passed) {
        o->hint = !compiler_errors(job->output, o->note, sizeof o->note);
        if (o->hint) snprintf(o->note, sizeof o->note, "%s", *v->message ? v->message : "the check failed");
    } else if (v->leaks && lab_leak_report(job->output, file, o->note, sizeof o->note)) {
        /* the result is right, but the memory is gone */
    } else {
        o->points = task->points;
    }
}
