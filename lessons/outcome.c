/* Turns the outcome of a task's process into points and a sentence. */
#include "grader.h"

#include <ctype.h>
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

/* The first errors of the kernel compiler (cl/build.c prints them), one per line. */
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

/* ---- hints: the task's own hint says how to solve the task, which does not help after a crash ---- */

/* True if the number `name`, "nan" or "inf", is a word of `text`. Also matches "-nan", "(inf" and "nan,". */
static bool has_number(const char *text, const char *name) {
    for (const char *at = text; (at = strcasestr(at, name)); at++) {
        const bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[strlen(name)])) return true;
    }
    return false;
}

/* Suggests the command that shows a student more. If the code ran in the sandbox, there is no such program. */
static void hint_to_run(const lab_grading *g, const lab_task *task, lab_outcome *o, const char *before,
                        const char *after) {
    if (!g->sandbox)
        snprintf(o->hint, sizeof o->hint, "%s%s/gradsum grade-task %s%s", before, g->folder, task->number,
                 after);
}

/* A hint for a failed check, chosen by its result. The expected value is never NaN, but may be infinite. */
static const char *hint_for(const lab_task *task, const lab_verdict *v) {
    const char *got = strstr(v->message, "got ");
    if (has_number(v->message, "nan"))
        return "nan (not a number) is what 0/0 gives, and inf - inf, and all that is computed from a nan: is "
               "a "
               "divisor 0 in this case, or has a nan come in? No comparison with nan is true.";
    if (got && has_number(got, "inf"))
        return "inf (infinite) is what a number divided by 0 gives, or one that is too large for its type: "
               "is a "
               "divisor 0 in this case?";
    if (strstr(v->message, ": recv of ") && strstr(v->message, "no answer within"))
        return "who sends this message, and in which round? Write down for each rank what it sends and "
               "receives, in "
               "order: a message that nobody sends never comes.";
    if (*v->hint) return v->hint;
    return task->hint ? task->hint : "";
}

/* ---- how a process ended ---- */

/* Describes how the hand-in, or the checker, ended before the check was done. */
static void tell_the_end(const lab_job *job, const char *file, lab_outcome *o) {
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

/* None of a student's code runs before main, so such a crash is not the student's mistake. */
static void not_started(const lab_verdict *v, lab_outcome *o) {
    char how[60];
    if (v->signal > 0 && sigabbrev_np(v->signal))
        snprintf(how, sizeof how, "by SIG%s", sigabbrev_np(v->signal));
    else
        snprintf(how, sizeof how, "with exit status %d", v->code);
    snprintf(o->note, sizeof o->note,
             "not graded: this machine could not start the program; each of %d starts ended before main, the "
             "last %s. That is no fault of the hand-in",
             v->starts, how);
    snprintf(o->hint, sizeof o->hint,
             "a sanitizer may not find its addresses free: `sysctl vm.mmap_rnd_bits=28`, or another machine; "
             "then grade again.");
}

static void without_verdict(const lab_grading *g, const lab_task *task, const lab_job *job, const char *file,
                            lab_outcome *o) {
    if (job->has_verdict && job->verdict.starts > 0) {
        not_started(&job->verdict, o);
        return;
    }
    tell_the_end(job, file, o);
    const size_t used = strlen(o->note);
    if (job->has_verdict && *job->verdict.called)
        snprintf(o->note + used, sizeof o->note - used, "; it was called with %s", job->verdict.called);
    if (strncmp(o->note, "it exited", 9) == 0)
        snprintf(o->hint, sizeof o->hint, "leave your function with return: the check goes on after it.");
    else
        hint_to_run(g, task, o, "`",
                    "` shows the whole report; in gdb (`gdb --args` before it) `bt` shows the calls.");
}

static void too_long(const lab_grading *g, const lab_task *task, const lab_job *job, lab_outcome *o) {
    const double seconds = job->limits.seconds;
    if (g->kernels)
        snprintf(o->note, sizeof o->note,
                 "did not end within %g s: an endless loop, or a wait for work-items that never come to the "
                 "barrier",
                 seconds);
    else if (job->slept)
        snprintf(o->note, sizeof o->note,
                 "did not end: it slept for %g s, and waits for a message that nobody sends, or for a clock",
                 seconds);
    else if (job->seconds > LAB_BY_THE_CLOCK * seconds)
        snprintf(o->note, sizeof o->note,
                 "did not end within %g s by the clock: an endless loop, or a wait that never ends",
                 LAB_BY_THE_CLOCK * seconds);
    else
        snprintf(o->note, sizeof o->note, "did not end within %g s: an endless loop", seconds);
    hint_to_run(g, task, o, "`gdb --args ",
                "`, then `run`, Ctrl-C and `thread apply all bt` show where it is.");
}

void lab_judge(const lab_grading *g, const lab_task *task, const lab_job *job, const char *file,
               lab_outcome *o) {
    const lab_verdict *v = &job->verdict;
    *o = (lab_outcome){0};
    if (job->has_verdict && *v->blank) {
        snprintf(o->note, sizeof o->note, "not written yet: task %s", v->blank);
    } else if (job->end == LAB_TOO_LONG) {
        too_long(g, task, job, o);
    } else if (job->end == LAB_TOO_LARGE) {
        snprintf(o->note, sizeof o->note, "needed more than %zu MB of memory", job->limits.memory >> 20);
    } else if (job->end == LAB_TOO_TALKATIVE) {
        snprintf(o->note, sizeof o->note, "printed more than %zu KB: a loop that prints?",
                 job->limits.output >> 10);
    } else if (!job->has_verdict || v->ended) {
        without_verdict(g, task, job, file, o);
    } else if (!v->passed) {
        if (compiler_errors(job->output, o->note, sizeof o->note)) return;
        snprintf(o->note, sizeof o->note, "%s", *v->message ? v->message : "the check failed");
        snprintf(o->hint, sizeof o->hint, "%s", hint_for(task, v));
    } else if (v->leaks && lab_leak_report(job->output, file, o->note, sizeof o->note)) {
        /* the result is right, but memory was leaked */
    } else {
        o->points = task->points;
        o->measured = v->measured;
        memcpy(o->unit, v->unit, sizeof o->unit);
    }
}
