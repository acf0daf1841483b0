/* Shared by all labs: the list of tasks, blanks, and small helpers for checks.
 *
 *     lab.c       the student's file: blanks to fill, and nothing else
 *     tasks.h     what its functions must do
 *     given.c     if there is one: puts these functions into the running framework (lab_install)
 *     check.c     lab_tasks and their checks
 *     remote.c    how the calls of these functions travel to another process (remote/remote.h)
 *     solution.c  lab.c with the blanks filled (not in the students' copy)
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
    const char *what;   /* one line of at most 60 letters: "all-gather around the ring" */
    int points;
    /* GS_OK: all points. Otherwise it fails with the smallest failing case: shapes, expected, got. Start with the
     * smallest case, so that the first failing one is the smallest. */
    gs_status (*check)(void);
    const char *hint; /* shown when the check fails; says where to look, not the answer */
} lab_task;

/* In check.c; the last one has number NULL. */
extern const lab_task lab_tasks[];

/* In check.c: functions of the library and of given.c that lab.c may call; NULL ends it. The C library's common
 * functions are always allowed (source_check.c). */
extern const char *const lab_may_call[];

/* In given.c: replaces the library's functions by the student's (gs_sync_replace, gs_backend_replace). main() calls it
 * first. A lab that replaces nothing leaves it out. */
void lab_install(void);

/* The content of a blank: fails with "not written yet: task 7.2", or, in a task of several blanks, "task 7.3
 * (ring_cost)". The grader notices it even if the function returns no status or ignores this one: a task whose check
 * reaches a blank gets no points. */
gs_status lab_blank(const char *task);

/* ---- for checks ---- */

/* The seed of this grading: 1 in the handed-out lab; a teacher uses another, so that no student has seen the cases. */
#define LAB_SEED "GRADSUM_LAB_SEED" /* the environment variable */
uint64_t lab_seed(void);

/* Number i of a sequence that depends on the seed: in -1 .. 1, never 0; and an integer in 0 .. below-1. */
float lab_number(unsigned row, size_t i);
size_t lab_pick(unsigned row, size_t i, size_t below);

/* Fail with a message unless `condition`. */
#define LAB_CHECK(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition)) return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                           \
    } while (0)

/* Gives the failure that a check is about to report this hint, instead of the task's, which does not apply. */
void lab_hint(const char *);
const char *lab_hint_of_failure(void); /* the last one, or "" */

#define LAB_CHECK_HINT(condition, hint, ...)                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            lab_hint(hint);                                                                                  \
            return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                                         \
        }                                                                                                    \
    } while (0)

enum { LAB_RANKS = 16 /* at most in one lab_run_ranks */ };

/* Runs `body` as ranks 0 .. ranks-1: threads with a comm each, in checking mode, that wait at most LAB_WAIT seconds for
 * each other. The message comes from the first rank that failed by itself, not because another rank failed: "rank 2:
 * ...". */
enum { LAB_WAIT = 8 };
gs_status lab_run_ranks(int ranks, gs_status (*body)(gs_comm *, void *context), void *context);

/* The same, where the first `works` calls of each rank (collectives, messages) succeed and all later ones fail, as they
 * do when a rank is lost. GS_OK if `body` returns the first of these failures on all ranks; or if a rank makes no
 * further calls, and `body` is correct. */
gs_status lab_run_broken(int ranks, int works, gs_status (*body)(gs_comm *, void *context), void *context);

/* For checks with failing calls: the status that the first failing call returns, or those after it. Then the status of
 * the function that made the calls must be the first failure; `call` says which one, "call number 3 fails". */
gs_status lab_broken(bool first);
gs_status lab_passed_on(gs_status, const char *call);

/* Waits for all ranks of lab_run_ranks. It fails if another rank has failed, whose message is then reported. */
gs_status lab_meet(gs_comm *);

/* Between the weights of two runs of the same model; infinite if one of them is NaN. */
double lab_largest_difference(const gs_result *, const gs_result *);

/* "3 5 -1 0.5": numbers for a message, the first 12 of them. Each thread may use four results at once. */
const char *lab_floats(const float *x, size_t count);

/* True if kernels run in a simulator that is about 100 times slower (Oclgrind): use tiny shapes, one of each kind. */
bool lab_small(void);

/* How often all work-items of a kernel have loaded from memory; a vector load counts once. */
typedef struct lab_loads {
    size_t global, local;
} lab_loads;

/* Calls `run`, which starts `kernel` and waits for it, and counts the loads; only if lab_small() is true. GS_E_USAGE:
 * Oclgrind was not told to count. lab_loads.c */
gs_status lab_count_loads(gs_status (*run)(void *context), void *context, const char *kernel, lab_loads *);
