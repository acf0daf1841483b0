/* Ranks that are processes: this program, started again. Each one joins the rendezvous in the folder, connects, reports
 * the outcome, and ends. */
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

/* Starts a rank that sends itself this signal once it is connected, before Gloo starts. Needs at least 3 ranks. */
gs_test_rank gs_test_start_ill_rank(int rank, int size, const char *folder, double timeout, int signal);

/* Waits until the rank has joined. Its file in the folder holds the secret, so only its user may read it. */
void gs_test_await_rank(const char *folder, int rank);

/* Waits for the rank; returns its wait status. After 300 s it is killed and the test fails. */
int gs_test_rank_end(const gs_test_rank *);

/* The output of a rank that has ended. */
const char *gs_test_rank_said(const gs_test_rank *);

/* Checks that the output of a rank that has ended contains `part`. */
void gs_test_rank_says(const gs_test_rank *, const char *part);
