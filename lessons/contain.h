/* Runs a command that may never end by itself: in a separate process group, with limits, and with its output caught. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "verdict.h"

typedef enum lab_end {
    LAB_EXITED,       /* by itself: `code` is its exit status */
    LAB_SIGNAL,       /* by signal `code` */
    LAB_TOO_LONG,     /* it was killed for its time, */
    LAB_TOO_LARGE,    /* its memory, */
    LAB_TOO_TALKATIVE /* or its output */
} lab_end;

enum { LAB_BY_THE_CLOCK = 10 };

typedef struct lab_limits {
    /* The CPU time of all its processes together; also the longest time that all of them may sleep. The limit of the
     * elapsed time is LAB_BY_THE_CLOCK times as much, because others may use the machine. */
    double seconds;
    /* Bytes that all its processes may have in memory (they may reserve more: AddressSanitizer reserves terabytes). */
    size_t memory;
    size_t output; /* bytes that it may print */
} lab_limits;

typedef struct lab_job {
    char *const *command;     /* [0] is the program, found as a shell finds it */
    char *const *environment; /* "NAME=value", added to the environment; NULL ends them */
    lab_limits limits;
    bool judged; /* it sends a verdict */

    /* how it ended: */
    lab_end end;
    int code;
    bool slept;     /* LAB_TOO_LONG: it was waiting, not computing */
    double seconds; /* elapsed time */
    char *output;   /* standard output and error, the last part if there is much; free with lab_job_free */
    bool has_verdict;
    lab_verdict verdict;
} lab_job;

/* Runs all of them, `at_once` at a time, in list order. When a command ends, all processes that it has started are
 * ended too. GS_E_MEMORY: a process cannot be started. After it returns no process is left, even if it failed. */
gs_status lab_contain(lab_job *jobs, int count, int at_once);

void lab_job_free(lab_job *);

/* The times of a command: CPU time, the uninterrupted sleep until now, elapsed time. */
typedef struct lab_time {
    double cpu, asleep, clock;
} lab_time;

/* Whether that is too long. A loop shows by its CPU time, a wait by using none although it could. A process that waits
 * for a processor does neither. */
bool lab_is_too_long(const lab_limits *, const lab_time *);
