/* What every lab shares: its list of tasks, blanks, and small helpers for checks.
 *
 *     lab.c       the student's file: blanks to fill, and nothing else
 *     tasks.h     what its functions must do
 *     given.c     if there is one: puts these functions into the running framework (lab_install)
 *     check.c     lab_tasks and their checks
 *     remote.c    how the calls of these functions travel to another process (remote/remote.h)
 *     solution.c  lab.c with the blanks filled (not in the students' copy)
 *
 * A check simply calls what the student wrote. In the checker (checker.c) such a call runs in another process, the
 * hand-in, compiled with AddressSanitizer and UndefinedBehaviorSanitizer; in build/lessons/NN/gradsum, which has the
 * whole command line with the student's functions in it, it runs in the same one.
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
    /* GS_OK: all points. Else it has failed with the smallest failing case: shapes, expected, got. Begin with the
     * smallest case, so that the first one that fails is the smallest. */
    gs_status (*check)(void);
    const char *hint; /* shown when the check fails; it names where to look, not the answer */
} lab_task;

/* check.c; the last has number NULL. */
extern const lab_task lab_tasks[];

/* check.c: what lab.c may call of the library, and of given.c; NULL ends it. The C library's common functions are
 * allowed always (source_check.c). */
extern const char *const lab_may_call[];

/* given.c: puts the student's parts in the place of the library's (gs_sync_replace, gs_backend_replace). Called first
 * in main(). A lab that has nothing to put anywhere leaves it out. */
void lab_install(void);

/* What stands in a blank: fails with "not written yet: task 7.2", or, in a task of several blanks, "task 7.3
 * (ring_cost)". The grader learns of it even where the function returns no status, and whatever becomes of it: a task
 * whose check meets a blank gets no points. */
gs_status lab_blank(const char *task);

/* ---- for checks ---- */

/* The seed of this grading. The handed-out lab has 1; a teacher gives another, so that nobody has seen the cases. */
#define LAB_SEED "GRADSUM_LAB_SEED" /* the environment has it */
uint64_t lab_seed(void);

/* Number i of a row of numbers that the seed decides: in -1 .. 1, never 0; and a whole one, in 0 .. below-1. */
float lab_number(unsigned row, size_t i);
size_t lab_pick(unsigned row, size_t i, size_t below);

/* Fail with a message unless `condition`. */
#define LAB_CHECK(condition, ...)                                                                            \
    do {                                                                                                     \
        if (!(condition)) return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                           \
    } while (0)

/* The failure that a check is about to tell of has this hint, and not its task's, which is about something else. */
void lab_hint(const char *);
const char *lab_hint_of_failure(void); /* the last one, or "" */

#define LAB_CHECK_HINT(condition, hint, ...)                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            lab_hint(hint);                                                                                  \
            return gs_fail(GS_E_SHAPE, __VA_ARGS__);                                                         \
        }                                                                                                    \
    } while (0)

enum { LAB_RANKS = 16 /* most in one lab_run_ranks */ };

/* Run `body` as ranks 0 .. ranks-1: threads with a comm each, in the checking mode, that wait LAB_WAIT seconds for each
 * other at most. The first rank that failed on its own, and not because another one did, gives the message: "rank 2:
 * ...". */
enum { LAB_WAIT = 8 };
gs_status lab_run_ranks(int ranks, gs_status (*body)(gs_comm *, void *context), void *context);

/* The same, where the first `works` calls of each rank succeed (a collective, a message) and all later ones fail, as
 * they do when a rank is lost. GS_OK if `body` passes the first of these failures on, in all ranks; or if a rank makes
 * no more calls than those that succeed, and `body` is right. */
gs_status lab_run_broken(int ranks, int works, gs_status (*body)(gs_comm *, void *context), void *context);

/* For checks in which other calls fail. What they return: the first that fails, and those after it. And then, of the
 * function that made them: its status must be the failure of the first; `call` says which, "call number 3 fails". */
gs_status lab_broken(bool first);
gs_status lab_passed_on(gs_status, const char *call);

/* Wait for all ranks of lab_run_ranks. When it fails another rank has failed, and that one's message is told. */
gs_status lab_meet(gs_comm *);

/* Between the weights of two runs of the same model; infinite where one of them is NaN. */
double lab_largest_difference(const gs_result *, const gs_result *);

/* "3 5 -1 0.5": numbers for a message, the first 12 of them. Four results may be in use at once, by thread. */
const char *lab_floats(const float *x, size_t count);

/* True where a kernel runs in a simulator that is about 100 times slower (Oclgrind): tiny shapes, one of each kind. */
bool lab_small(void);

/* How often all work-items of a kernel have loaded something from memory; a vector that is loaded at once counts
 * once. */
typedef struct lab_loads {
    size_t global, local;
} lab_loads;

/* Run `run`, which starts `kernel` and waits for it, and count the loads; where lab_small() is true, and nowhere else.
 * GS_E_USAGE: Oclgrind was not told to count. lab_loads.c */
gs_status lab_count_loads(gs_status (*run)(void *context), void *context, const char *kernel, lab_loads *);
