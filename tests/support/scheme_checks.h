/* Checks that every scheme must pass, and that each rank calls. The tests of the library's schemes use them, and so do
 * the labs that grade a student's scheme. They do not use cmocka, because labs are built without it. */
#pragma once

#include "comm/comm.h"
#include "sync/sync.h"

/* Return a failure unless `condition`. */
#define RANK_CHECK(condition, ...)                                                                           \
    do {                                                                                                     \
        if (!(condition)) return gs_fail(GS_E_USAGE, __VA_ARGS__);                                           \
    } while (0)

enum { GS_CHECK_MOST = 70001 /* floats in the largest sum: create s for this many */ };

/* Sums arrays of 0 to GS_CHECK_MOST floats: each rank receives the sum with the same bits as rank 0, and nothing is
 * written past the end. `last`: NULL, or space for the sums of the largest array. */
gs_status gs_check_scheme_sums(gs_sync *s, float *last);

/* Sums arrays of 0 to 1003 floats: the counts match the scheme's formula and what an observer sees. */
gs_status gs_check_scheme_counts(gs_sync *s);
