/* How a checker tells the grader what its check found: one message over a socket of their own.
 *
 * The checker runs nothing that a student wrote (remote/remote.h), and no hand-in has this socket. Its number is in the
 * environment; the grader has put a random word into it, and a verdict begins with that word.
 */
#pragma once

#define LAB_VERDICT_FD "GRADSUM_LAB_FD"

enum { LAB_WORD = 32, LAB_MESSAGE = 1024, LAB_HINT = 400 };

typedef struct lab_verdict {
    char word[LAB_WORD];
    int passed;                /* the check returned GS_OK */
    int leaks;                 /* LeakSanitizer has found memory that nothing points to */
    int ended;                 /* a hand-in's process ended, or broke off, before the check had finished: */
    int starts;                /* not 0: so many processes were started, and each ended before its main */
    int signal, code;          /* by this signal (0: none), with this exit status */
    char blank[48];            /* the task of a blank that was met, or "" */
    char message[LAB_MESSAGE]; /* of the check; or why the hand-in was broken off */
    char called[200];          /* with what numbers the call that did not return was made, or "" */
    char hint[LAB_HINT];       /* of the check, in place of its task's; or "" */
} lab_verdict;
