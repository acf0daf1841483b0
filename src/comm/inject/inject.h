/* Injected faults, for tests only: a rank is killed, hangs, is slow or is cut off, at the same operation in each run.
 *
 *     GRADSUM_FAULT="delay:rank=0,operation=3,seconds=0.5;kill:rank=2,operation=60,generation=2"
 *
 *     kill      SIGKILL to the rank's process
 *     usage     the process ends with exit status 2, as after wrong usage
 *     stop      SIGSTOP to the rank's process
 *     delay     the rank sleeps for `seconds` before the operation
 *     drop      from this operation on, nothing that the rank sends arrives, as if its outgoing line were cut
 *
 * Each rank counts its operations from 1, as they reach the transport: messages sent or received, and collectives,
 * including those before and after training. --link adds an operation before each message (a note), and GRADSUM_CHECK
 * one before each collective. If any fault is a drop, all ranks make collectives of messages (collectives.c).
 *
 * Operation 0 is the time before the processes of a training run meet; `rank` is then the number of the process. kill,
 * usage, stop and delay may strike there.
 *
 * `generation` is the generation of a launch with --elastic in which the fault strikes: 1 by default, or "all" for
 * every generation. Ranks and operations are counted in that generation. With --restarts the fault strikes in each
 * attempt.
 *
 * A fault that strikes says so on standard error; for one that does not strike, the run reports at its end how many
 * operations its rank made. inject.c wraps the transport, below all other wrappers; without the variable it is
 * absent. */
#pragma once

#include "comm/comm.h"

typedef enum gs_fault_kind {
    GS_FAULT_KILL,
    GS_FAULT_USAGE,
    GS_FAULT_STOP,
    GS_FAULT_DELAY,
    GS_FAULT_DROP,
    GS_FAULT_KINDS
} gs_fault_kind;

typedef struct gs_fault {
    gs_fault_kind kind;
    int rank;
    uint64_t operation; /* from 1; 0: before the processes meet */
    int generation;     /* of an elastic launch, from 1; 0: every generation */
    double seconds;     /* of a delay: above 0, at most 1000 */
} gs_fault;

enum { GS_FAULTS = 16 /* at most */ };

typedef struct gs_faults {
    int count;
    gs_fault fault[GS_FAULTS];
} gs_faults;

/* Prints "gradsum: " and the sentence on standard error. The program replaces it with a function that wraps lines. */
extern void (*gs_faults_tell)(const char *sentence);

/* GS_E_USAGE: the value of GRADSUM_FAULT is invalid; the message names the fault. */
gs_status gs_faults_read(const char *text, gs_faults *);

/* Called when process `rank` is about to meet the others: its faults of operation 0 strike. An invalid value has no
 * effect yet; all processes report it once they have met. */
void gs_inject_before_rendezvous(int rank);

/* Wrap the comms of this process's workers in the faults of GRADSUM_FAULT, if it is set. GS_E_USAGE: the value is
 * invalid, or names a rank that the first generation does not have. After a failure the caller still frees the
 * comms. */
gs_status gs_comm_inject_if_wanted(int count, gs_comm **comms);
