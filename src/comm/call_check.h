/* Did a collective give the right result? Every buffer is filled by a rule that gives element i of rank r. So the right
 * value of any place follows from the rule alone, without moving anything; for reductions it is computed in wide
 * arithmetic, from the last rank to the first. The values are chosen so that no order of summation rounds, and so that
 * sums of integers overflow. Every result is compared to the bit.
 */
#pragma once

#include "comm/comm.h"

/* Fill this rank's buffers (gs_call_bytes_of): with the elements that it contributes, and, where it is to receive
 * something else, with bytes that are never right. */
void gs_call_fill(const gs_call *, int rank, int size, void *in, void *out);

/* After the call. GS_E_FORMAT: "all_reduce of 7 f32 (sum): rank 1 has 3 in element 5 of 7, wanted 4". An element that
 * the call must leave alone but has changed is reported in the same way. */
gs_status gs_call_verify(const gs_call *, int rank, int size, const void *in, const void *out);
