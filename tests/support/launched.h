/* The processes of `gradsum launch`, seen from outside: a test finds them, kills them, and looks if they live. */
#pragma once

#include <sys/types.h>
#include "tests/support/test.h"

/* The variable's value in the environment of another process; false if it is not there. */
bool gs_test_variable_of(pid_t pid, const char *name, char *value, size_t size);

/* The process that is this rank of the launcher's; 0: there is none. */
pid_t gs_test_rank_of(pid_t launcher, int rank);

/* The letter of its state in /proc, such as S of one that sleeps; 0: there is none. A thread has a number too. */
char gs_test_state_of(pid_t pid);

/* Is there such a process, and is it more than what waits to be reaped? */
bool gs_test_lives(pid_t pid);

/* Has the signal been sent to the process, which has not taken it yet? */
bool gs_test_signal_waits(pid_t pid, int signal);

/* The wait status of this process's child; it is killed, and the test fails, after 300 s. */
int gs_test_launcher_end(pid_t child);

/* A port of this machine at which nobody listens, and which the system gives to nobody that asks for any port. No other
 * call has it, here or in another test program that runs meanwhile. */
int gs_test_free_port(void);

/* The hash of the weights in what `train` printed. */
void gs_test_hash_of(const char *output, char hash[65]);

/* In a script: until somebody listens at port $P, as the first of two launches that meet there. */
#define UNTIL_IT_LISTENS                                                                                     \
    "for i in $(seq 6000); do grep -qi \":$(printf %04X $P) 00000000:0000 0A\" /proc/net/tcp && break; "     \
    "sleep 0.05; done; "
