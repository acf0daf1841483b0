/* Shared by all labs: the list of tasks, blanks, and small helpers for checks.
 *
 *     lab.c       the student's file: blanks to fill, and nothing else
 *     tasks.h     what its functions must do
 *     given.c     optional: installs these functions in the running framework (lab_install)
 *     check.c     lab_tasks and their checks
 *     remote.c    how calls of these functions travel to another process (remote/remote.h)
 *     solution.c  lab.c with the blanks filled in (not in the students' copy)
 *
 * A check simply calls the student's functions. In the checker (checker.c) such a call runs in another process, the
 * hand-in, compiled with AddressSanitizer and UndefinedBehaviorSanitizer. In build/lessons/NN/gradsum, the whole
 * command line with the student's functions, it runs in the same process.
 */
#pragma once

#include <stdio.h>
#include "core/philox.h"
#include "layer/make.h"
#include "train/strategy.h"

typedef struct lab_task {
    const char *number; /* "7.2" */
    const char *what;   /* one line of at most 60 characters: "all-gather around the ring" */
    int points;
    /* Returns GS_OK for all points. Otherwise fails with the smallest failing case: shapes, expected, got. Check the
     * smallest case first, so that the first failing case is the smallest. */
    gs_status (*check)(void);
    const char *hint; /* shown when the check fails; says where to look, not the answer */
} lab_task;

/* Defined in check.c; ends with an entry whose number is NULL. */
extern const lab_task lab_tasks[];

/* Defined in check.c: library functions, and functions of given.c, that lab.c may call; ends with NULL. Common
 * functions of the C library are always allowed (source_check.c). */
extern const char *const lab_may_call[];

/* Defined in given.c: replaces the library's functions with the student's (gs_sync_replace, gs_backend_replace). main()
 * calls it first. A lab that replaces nothing omits it. */
void lab_install(void);

/* Marks a blank: fails with "not written yet: task 7.2", or, in a task with several blanks, "task 7.3 (ring_cost)". The
 * grader notices the call even if the function returns no status or ignores this one: a task whose check reaches a
 * blank scores no points. */
gs_status lab_blank(const char *task);

/* ---- for checks ---- */

/* The seed of this grading: 1 in the handed-out lab; a teacher uses another, so that no student has seen the cases. */
#define LAB_SEED "GRADSUM_LAB_SEED" /* the environment variable */
uint64_t lab_seed(void);

/* Number i of a sequence that depends on the seed: a float in -1 .. 1, never 0; or an integer in 0 .. below-1. */
float lab_number(unsigned row, size_t i);
size_t lab_pick(unsigned row, size_t i, size_t below);

/* Fail with a message unless `condition`. */
#define LAB_CHECK(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition)) return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                           \
    } while (0)

/* Use this hint, instead of the task's, for the failure that a check is about to report. */
void lab_hint(const char *);
const char *lab_hint_of_failure(void); /* the last hint, or "" */

/* Adds to what this task's answer needed in all of its cases, for the board (grade/board.c): less is better. Only for
 * an amount in which right answers may differ. Any thread may call it. */
void lab_measure(const char *unit, size_t amount);
size_t lab_measured(const char **unit); /* the sum; unit "": nothing was measured */

#define LAB_CHECK_HINT(condition, hint, ...)                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            lab_hint(hint);                                                                                  \
            return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                                         \
        }                                                                                                    \
    } while (0)

enum { LAB_RANKS = 16 /* maximum number of ranks in one lab_run_ranks */ };

/* Runs `body` as ranks 0 .. ranks-1: threads with one comm each, in checking mode, that wait at most LAB_WAIT seconds
 * for each other. The error message is that of the first rank that failed by itself, not because of another rank: "rank
 * 2: ...". */
enum { LAB_WAIT = 8 };
gs_status lab_run_ranks(int ranks, gs_status (*body)(gs_comm *, void *context), void *context);

/* Like lab_run_ranks, except that the first `works` calls of each rank (collectives, messages) succeed and all later
 * ones fail, as they do when a rank is lost. GS_OK if on every rank `body` either returns the first of these failures
 * or finishes correctly because it made no further call. */
gs_status lab_run_broken(int ranks, int works, gs_status (*body)(gs_comm *, void *context), void *context);

/* For checks with failing calls: sets the status returned by the first failing call, or by the later ones. The function
 * that made the calls must then return the first failure's status; `call` names that call, "call number 3 fails". */
gs_status lab_broken(bool first);
gs_status lab_passed_on(gs_status, const char *call);

/* Like lab_run_ranks, with comms that count. lab_calls_of returns what this rank has called since it last asked. */
typedef struct lab_calls {
    size_t calls, bytes; /* collectives and sent messages, and the bytes of their arrays */
    double ring;         /* bytes sent, if each collective uses the algorithm that sends least */
} lab_calls;
gs_status lab_run_counted(int ranks, gs_status (*body)(gs_comm *, void *context), void *context);
lab_calls lab_calls_of(const gs_comm *);

/* Waits for all ranks of lab_run_ranks. Fails if another rank has failed, whose message lab_run_ranks then reports. */
gs_status lab_meet(gs_comm *);

/* The largest difference between the weights of two runs of the same model; infinite if any weight is NaN. */
double lab_largest_difference(const gs_result *, const gs_result *);

/* A short training run: one thread for each worker, and a timeout of LAB_WAIT. */
gs_settings lab_short_run(const char *model, const char *devices, int batch, int steps);

/* Trains with `a` and with `b`: the largest difference between their weights, and the buckets of b (may be NULL). */
gs_status lab_train_both(const gs_settings *a, const gs_settings *b, double *difference, int *buckets);

/* Appends to a text in an array of `size` bytes, as far as it fits. */
__attribute__((format(printf, 3, 4))) void lab_append(char *text, size_t size, const char *format, ...);

/* Trains with the student's operators, then with the library's, and fails if any weight differs by more than `near`.
 * The library's operators stay installed. */
gs_status lab_compare_training(const gs_settings *, double near);

/* Numbers for a message, at most the first 12: "3 5 -1 0.5". Each thread can use four results at the same time. */
const char *lab_floats(const float *x, size_t count);

/* True if kernels run in a simulator that is about 100 times slower (Oclgrind): use tiny shapes, one of each kind. */
bool lab_small(void);

/* The number of loads from memory by all work-items of a kernel; a vector load counts once. */
typedef struct lab_loads {
    size_t global, local;
} lab_loads;

/* Calls `run`, which starts `kernel` and waits for it, and counts the loads. Call it only if lab_small() is true.
 * GS_E_USAGE: Oclgrind was not told to count. Defined in lab_loads.c. */
gs_status lab_count_loads(gs_status (*run)(void *context), void *context, const char *kernel, lab_loads *);
