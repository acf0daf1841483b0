/* Faults made on purpose, for tests only: what a run does when a rank is killed, hangs, is slow or is cut off, at a
 * place that is the same in each run. Not for training: whoever sets the variable loses the run.
 *
 *     GRADSUM_FAULT="kill:rank=1,operation=57"
 *     GRADSUM_FAULT="delay:rank=0,operation=3,seconds=0.5;drop:rank=2,operation=40"
 *     GRADSUM_FAULT="kill:rank=2,operation=60,generation=2"
 *
 *     kill      SIGKILL to the rank's process
 *     usage     the process ends as after wrong usage, with exit status 2
 *     stop      SIGSTOP to it
 *     delay     the rank sleeps so many seconds before the operation
 *     drop      from this operation on nothing that the rank sends arrives, as if its line out were cut
 *
 * Operations are counted from 1 on each rank, as they go to the transport: messages sent or received, and collectives.
 * Those before and after training count too. With --link and GRADSUM_CHECK there are more of them: a note goes ahead of
 * each message, and of each collective. If drop is among the faults, all ranks make collectives of messages
 * (collectives.c), so that there are some to lose.
 *
 * Operation 0 is before the processes of a training meet; `rank` is the number of the process then. It takes kill,
 * usage, stop and delay.
 *
 * In a launch with --elastic a fault strikes in the first generation, unless `generation` names another, or all of them
 * ("generation=all"): ranks and operations are those of that generation. A launch with --restarts has one generation in
 * each attempt.
 *
 * Each fault says on standard error that it has struck, and at the end each that has not says so, with the number of
 * operations that its rank made:
 *
 *     gradsum: GRADSUM_FAULT: rank 1: kill at operation 57, all_reduce of 5000 f32
 *     gradsum: GRADSUM_FAULT: rank 1 made 40 operations: no kill at operation 57
 *
 * All operations of a rank pass inject.c, which is around the transport and below everything else. Without the variable
 * it is not there. */
#pragma once

#include <stdint.h>
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
    int generation;     /* of an elastic launch, from 1; 0: each */
    double seconds;     /* of a delay: above 0, 1000 at most */
} gs_fault;

enum { GS_FAULTS = 16 /* at most */ };

typedef struct gs_faults {
    int count;
    gs_fault fault[GS_FAULTS];
} gs_faults;

/* Prints "gradsum: " and such a sentence on standard error. The program has another, which wraps it on a terminal. */
extern void (*gs_faults_tell)(const char *sentence);

/* GS_E_USAGE: the message names what is wrong with the value of GRADSUM_FAULT. */
gs_status gs_faults_read(const char *text, gs_faults *);

/* This process, number `rank` of them, is about to meet the others: its faults of operation 0 strike. A value that
 * makes no sense does nothing here: all say so once they have met. */
void gs_inject_before_rendezvous(int rank);

/* Put each of the comms, which are the workers of this process, behind the faults of GRADSUM_FAULT; without it they
 * stay as they are. GS_E_USAGE: the value makes no sense, or names a rank that the first generation has not. On failure
 * the comms are still to be freed by the caller. */
gs_status gs_comm_inject_if_wanted(int count, gs_comm **comms);
