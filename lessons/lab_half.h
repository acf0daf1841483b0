/* Checks of a scheme of sums, or of one half of it: what the other half would do is done by collectives of the
 * transport, so that a mistake in one half costs the points of that half alone.
 *
 * First small arrays in which rank r has 2^r, so that a wrong sum says whose gradients are in it; then the project's
 * own tests of schemes (tests/support/scheme_checks.h), with rounds, messages and bytes.
 */
#pragma once

#include "lab.h"
#include "sync/scheme.h"

typedef enum lab_half_kind {
    LAB_FIRST, /* before: each rank has its gradient; after: each rank's own part is the sum over all ranks */
    LAB_SECOND, /* before: that; after: everything is the sum, on all ranks */
    LAB_WHOLE   /* both */
} lab_half_kind;

typedef struct lab_half {
    lab_half_kind kind;
    bool powers_of_two; /* only such numbers of ranks */
    gs_status (*run)(gs_sync *, float *data, size_t count);
    /* The part that a rank has whole between the halves; of LAB_WHOLE it is not asked. */
    gs_chunk (*owns)(int ranks, int rank, size_t count);
    /* What `run` must count. */
    gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *);
} lab_half;

/* 2 to 8 ranks. GS_OK, or the smallest case that is wrong. Once at a time in a process. */
gs_status lab_check_half(const lab_half *);

/* `cost` is that of `wanted`, for 2 to 9 ranks and small arrays, each rank. */
gs_status lab_check_cost(gs_sync_cost (*cost)(int ranks, int rank, const gs_sync_array *),
                         const gs_sync_scheme *wanted);

/* `time` is that of `wanted`. */
gs_status lab_check_time(double (*time)(int ranks, double bytes, const gs_sync_model *),
                         const gs_sync_scheme *wanted);
