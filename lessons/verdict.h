/* How a checker reports its result to the grader: one message over a private socket.
 *
 * The checker runs no student's code (remote/remote.h), and no hand-in can reach this socket. The environment names it;
 * the grader has sent a random word over it, and every verdict starts with that word.
 */
#pragma once

#define LAB_VERDICT_FD "GRADSUM_LAB_FD"

enum { LAB_WORD = 32, LAB_MESSAGE = 1024, LAB_HINT = 400 };

typedef struct lab_verdict {
    char word[LAB_WORD];
    int passed;                /* the check returned GS_OK */
    int leaks;                 /* LeakSanitizer has found unreachable memory */
    int ended;                 /* a hand-in's process ended or was stopped before the check was done: */
    int starts;                /* not 0: this many processes were started, and each ended before its main */
    int signal, code;          /* by this signal (0: none), with this exit status */
    char blank[48];            /* the task of a blank that was reached, or "" */
    char message[LAB_MESSAGE]; /* of the check; or why the hand-in was stopped */
    char called[200];          /* the numbers in the call that did not return, or "" */
    char hint[LAB_HINT];       /* of the check, instead of its task's; or "" */
} lab_verdict;
