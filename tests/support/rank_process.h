/* Ranks that are processes: this program, started again. Each one comes to the rendezvous in the folder, connects,
 * reports the outcome, and ends.
 */
#pragma once

#include <sys/types.h>
#include "tests/support/test.h"

typedef struct gs_test_rank {
    pid_t pid;
    char log[400];
} gs_test_rank;

/* A folder for the rendezvous. */
void gs_test_new_folder(char folder[400]);

gs_test_rank gs_test_start_rank(int rank, int size, const char *folder, double timeout);

/* It kills itself with this signal as soon as it is connected, before Gloo starts. Needs at least 3 ranks. */
gs_test_rank gs_test_start_ill_rank(int rank, int size, const char *folder, double timeout, int signal);

/* Waits until the rank has come to the folder. Its file there holds the secret, so only its user may read it. */
void gs_test_await_rank(const char *folder, int rank);

/* Its wait status. After 300 s it is killed and the test fails. */
int gs_test_rank_end(const gs_test_rank *);

/* After its end: its output. */
const char *gs_test_rank_said(const gs_test_rank *);

/* After its end: its output contains `part`. */
void gs_test_rank_says(const gs_test_rank *, const char *part);
