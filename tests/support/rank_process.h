/* Ranks that are processes: this program, started again. Each comes to the rendezvous in the folder, is connected, says
 * how it went, and ends.
 */
#pragma once

#include <sys/types.h>
#include "tests/support/test.h"

typedef struct gs_test_rank {
    pid_t pid;
    char log[400];
} gs_test_rank;

/* A folder to meet in. */
void gs_test_new_folder(char folder[400]);

gs_test_rank gs_test_start_rank(int rank, int size, const char *folder, double timeout);

/* It kills itself with this signal as soon as it is connected, before Gloo begins. For 3 ranks or more. */
gs_test_rank gs_test_start_ill_rank(int rank, int size, const char *folder, double timeout, int signal);

/* Until the rank has come to the folder, with a file that only its user reads: the secret is in it. */
void gs_test_await_rank(const char *folder, int rank);

/* Its wait status; it is killed, and the test fails, if it has not ended after 300 s. */
int gs_test_rank_end(const gs_test_rank *);

/* After its end: what it has printed. */
const char *gs_test_rank_said(const gs_test_rank *);

/* After its end: what it has printed contains `part`. */
void gs_test_rank_says(const gs_test_rank *, const char *part);
