/* Runs a command that may never end by itself: in its own process group, with limits, and with its output captured. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "verdict.h"

typedef enum lab_end {
    LAB_EXITED,       /* it ended by itself; `code` is its exit status */
    LAB_SIGNAL,       /* it was ended by signal `code` */
    LAB_TOO_LONG,     /* it was killed because of its time, */
    LAB_TOO_LARGE,    /* its memory, */
    LAB_TOO_TALKATIVE /* or its output */
} lab_end;

enum { LAB_BY_THE_CLOCK = 10 };

typedef struct lab_limits {
    /* CPU time of all the command's processes together; also the longest time that all of them may sleep. The limit on
     * elapsed time is LAB_BY_THE_CLOCK times as long, because others may be using the machine. */
    double seconds;
    /* Bytes that all its processes may occupy in memory. They may reserve more: AddressSanitizer reserves terabytes. */
    size_t memory;
    size_t output; /* bytes that it may print */
} lab_limits;

typedef struct lab_job {
    char *const *command;     /* [0] is the program; it is searched for in PATH, as by a shell */
    char *const *environment; /* "NAME=value", added to the environment; ends with NULL */
    lab_limits limits;
    bool judged; /* it sends a verdict */

    /* how it ended: */
    lab_end end;
    int code;
    bool slept;     /* for LAB_TOO_LONG: it was waiting, not computing */
    double seconds; /* elapsed time */
    char *output;   /* standard output and error, or the last part if they are long; free with lab_job_free */
    bool has_verdict;
    lab_verdict verdict;
} lab_job;

/* Runs all jobs in list order, `at_once` at a time. When a command ends, all processes that it started are ended, too.
 * GS_E_MEMORY: a process cannot be started. When it returns, even after a failure, no process is left. */
gs_status lab_contain(lab_job *jobs, int count, int at_once);

void lab_job_free(lab_job *);

/* A command's times: its CPU time, how long it has been asleep without interruption, and the elapsed time. */
typedef struct lab_time {
    double cpu, asleep, clock;
} lab_time;

/* True if a command has run too long. A loop is recognised by its CPU time, a wait by using no CPU time although it
 * could. A process that is waiting for a processor shows neither. */
bool lab_is_too_long(const lab_limits *, const lab_time *);
