/* How a checker reports its result to the grader: one message over a private socket.
 *
 * The checker runs no student's code (remote/remote.h), and no hand-in can reach this socket. The environment names the
 * socket; the grader sends a random word over it, and every verdict must start with that word.
 */
#pragma once

#define LAB_VERDICT_FD "GRADSUM_LAB_FD"

enum { LAB_WORD = 32, LAB_MESSAGE = 1024, LAB_HINT = 400 };

typedef struct lab_verdict {
    char word[LAB_WORD];
    int passed;                /* the check returned GS_OK */
    int leaks;                 /* LeakSanitizer found unreachable memory */
    int ended;                 /* a hand-in process ended or was stopped before the check was done: */
    int starts;                /* not 0: this many processes were started, and each ended before its main */
    int signal, code;          /* the signal that ended it (0: none), and its exit status */
    char blank[48];            /* the task of the blank that was reached, or "" */
    char message[LAB_MESSAGE]; /* the check's message, or why the hand-in was stopped */
    char called[200];          /* the arguments of the call that did not return, or "" */
    char hint[LAB_HINT];       /* the check's own hint, which replaces its task's, or "" */
    double measured;           /* what a right answer needed (lab_measure); unit "": not measured */
    char unit[32];
} lab_verdict;
