/* Checks of a collective's result. A rule gives element i of rank r, and fills every buffer. Therefore the right result
 * follows from the rule alone; a reduction is computed in wide arithmetic, from the last rank to the first. The values
 * are such that no order of summation rounds, and that sums of integers overflow. Results are compared bit by bit.
 */
#pragma once

#include "comm/comm.h"

/* Fill this rank's buffers (gs_call_bytes_of): with the elements that it contributes, and where it receives, with bytes
 * that are never right. */
void gs_call_fill(const gs_call *, int rank, int size, void *in, void *out);

/* After the call. GS_E_FORMAT: "all_reduce of 7 f32 (sum): rank 1 has 3 in element 5 of 7, wanted 4"; also for elements
 * that the call must not change. */
gs_status gs_call_verify(const gs_call *, int rank, int size, const void *in, const void *out);
