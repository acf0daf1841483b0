/* Checks that every scheme must pass, called by each rank. The tests of the library's own schemes use them, and so do
 * labs, which grade a student's scheme. No cmocka here: labs are built without it.
 */
#pragma once

#include "comm/comm.h"
#include "sync/sync.h"

/* Return a failure unless `condition`. */
#define RANK_CHECK(condition, ...)                                                                           \
    do {                                                                                                     \
        if (!(condition)) return gs_fail(GS_E_USAGE, __VA_ARGS__);                                           \
    } while (0)

enum { GS_CHECK_MOST = 70001 /* floats in the largest sum: s must be made for that many */ };

/* Arrays of 0 to GS_CHECK_MOST floats: each rank gets the sum, the same bits as rank 0, and nothing is written behind
 * the end. `last`: NULL, or room for the sums of the largest. */
gs_status gs_check_scheme_sums(gs_sync *s, float *last);

/* Arrays of 0 to 1003 floats: what a sum counts is what the scheme's formula says, and an observer sees as much. */
gs_status gs_check_scheme_counts(gs_sync *s);
