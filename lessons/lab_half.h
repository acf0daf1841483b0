/* Checks of a summing scheme, or of one half of it: the transport's collectives replace the other half, so that a
 * mistake in one half costs only that half's points.
 *
 * The first checks use small arrays in which rank r holds 2^r, so that a wrong sum shows whose gradients it contains.
 * Then the project's tests of schemes (tests/support/scheme_checks.h) also check rounds, messages and bytes.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

typedef enum lab_half_kind {
    LAB_FIRST,  /* before: each rank holds its gradient; after: each rank's part is the sum over all ranks */
    LAB_SECOND, /* before: the result of the first half; after: all ranks hold the whole sum */
    LAB_WHOLE   /* both */
} lab_half_kind;

typedef struct lab_half {
    lab_half_kind kind;
    bool powers_of_two; /* works only if the number of ranks is a power of two */
    gs_status (*run)(gs_sync *, float *data, size_t count);
    /* The part that a rank holds completely between the halves; unused by LAB_WHOLE. */
    gs_chunk (*owns)(int ranks, int rank, size_t count);
    /* The cost that `run` must count. */
    gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *);
} lab_half;

/* Checks 2 to 8 ranks; fails with the smallest failing case. A process may run only one such check at a time. */
gs_status lab_check_half(const lab_half *);

/* Defines the check `name` of a lab_half. */
#define LAB_CHECK_HALF(name, ...)                                                                            \
    static gs_status name(void) {                                                                            \
        return lab_check_half(&(const lab_half){__VA_ARGS__});                                               \
    }                                                                                                        \
    _Static_assert(LAB_WHOLE > 0, "so that a semicolon follows")

/* Checks that `cost` equals the cost of `wanted`, on each rank, for 2 to 9 ranks and small arrays. */
gs_status lab_check_cost(gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *),
                         const gs_sync_scheme *wanted);

/* Checks that `time` equals the time of `wanted`. */
gs_status lab_check_time(double (*time)(int ranks, double bytes, const gs_sync_model *),
                         const gs_sync_scheme *wanted);
