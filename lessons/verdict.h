/* How a task's process tells the grader what its check found: one message over a socket of their own.
 *
 * Standard output and standard error are the student's, who may print what he likes. The socket's number is in the
 * environment; the grader has put a random word into it, and a verdict must begin with that word. That keeps
 * accidents and printed points out. It is not a prison: what runs inside a process can do all that the process can.
 */
#pragma once

#define LAB_VERDICT_FD "GRADSUM_LAB_FD"

enum { LAB_WORD = 32, LAB_MESSAGE = 1024 };

typedef struct lab_verdict {
    char word[LAB_WORD];
    int passed;                /* the check returned GS_OK */
    int leaks;                 /* LeakSanitizer has found memory that nothing points to */
    char blank[16];            /* the task of a blank that was met, or "" */
    char message[LAB_MESSAGE]; /* of the check */
} lab_verdict;
