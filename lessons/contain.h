/* Running a command that nobody can trust to end: in a process group of its own, with limits, its output caught. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"
#include "verdict.h"

typedef enum lab_end {
    LAB_EXITED,       /* on its own: `code` is its exit status */
    LAB_SIGNAL,       /* by signal `code` */
    LAB_TOO_LONG,     /* it was killed: time, */
    LAB_TOO_LARGE,    /* memory, */
    LAB_TOO_TALKATIVE /* output */
} lab_end;

enum { LAB_BY_THE_CLOCK = 10 };

typedef struct lab_limits {
    /* Of CPU time, all its processes together; of an uninterrupted sleep of all of them, too; and LAB_BY_THE_CLOCK
     * times as much by the clock, because others may need the machine. */
    double seconds;
    /* Bytes that all its processes may have in memory (they may reserve more: AddressSanitizer reserves terabytes). */
    size_t memory;
    size_t output; /* bytes that it may print */
} lab_limits;

typedef struct lab_job {
    char *const *command;     /* [0] is the program, found as a shell would */
    char *const *environment; /* "NAME=value" beside those there are; NULL ends them */
    lab_limits limits;
    bool judged; /* it sends a verdict */

    /* what became of it: */
    lab_end end;
    int code;
    bool slept;     /* LAB_TOO_LONG: it was not computing, but waiting for something */
    double seconds; /* by the clock */
    char *
        output; /* standard output and error; the last part of it where there is much; free with lab_job_free */
    bool has_verdict;
    lab_verdict verdict;
} lab_job;

/* Run all of them, `at_once` at a time, in the order of the list. When a command has ended, all that it has started
 * ends too. GS_E_MEMORY: a process cannot be started. Once it returns no process is left, even after a failure. */
gs_status lab_contain(lab_job *jobs, int count, int at_once);

void lab_job_free(lab_job *);

/* How long a command has been at it: CPU time, asleep until now without a break, by the clock. */
typedef struct lab_time {
    double cpu, asleep, clock;
} lab_time;

/* Is that too long? A loop is known by the CPU time that it takes, a wait by taking none although it could have some.
 * Who waits for a processor does neither. */
bool lab_is_too_long(const lab_limits *, const lab_time *);
