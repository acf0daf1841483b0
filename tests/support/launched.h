/* The processes of `gradsum launch`, seen from outside: a test finds and kills them, and checks whether they live. */
#pragma once

#include <sys/types.h>
#include "tests/support/test.h"

/* Reads a variable in another process's environment; false if it is not set there. */
bool gs_test_variable_of(pid_t pid, const char *name, char *value, size_t size);

/* The launcher's process for this rank; 0 if there is none. */
pid_t gs_test_rank_of(pid_t launcher, int rank);

/* The letter of the state in /proc of a process (or thread), such as S for sleeping; 0 if there is no such process. */
char gs_test_state_of(pid_t pid);

/* Whether this process exists and is not a zombie. */
bool gs_test_lives(pid_t pid);

/* Whether the signal is pending: sent to the process but not yet delivered. */
bool gs_test_signal_waits(pid_t pid, int signal);

/* Waits for a child of this process; returns its wait status. After 300 s the child is killed and the test fails. */
int gs_test_launcher_end(pid_t child);

/* A port of this machine on which nobody listens and that the system does not assign when asked for any. No other call
 * returns it, here or in another test program that runs meanwhile. */
int gs_test_free_port(void);

/* Finds the hash of the weights in the output of `train`. */
void gs_test_hash_of(const char *output, char hash[65]);

/* For scripts: waits until a process, such as the first of two launches that meet there, listens on port $P. */
#define UNTIL_IT_LISTENS                                                                                     \
    "for i in $(seq 6000); do grep -qi \":$(printf %04X $P) 00000000:0000 0A\" /proc/net/tcp && break; "     \
    "sleep 0.05; done; "
