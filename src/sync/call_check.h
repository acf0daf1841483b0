/* Is what a collective gave right? Every buffer is filled by a rule that gives element i of rank r, so what
 * must come out at any place can be computed from the rule alone, without moving anything: for reductions in
 * wide arithmetic, from the last rank to the first. The values are such that no order of summation rounds, and
 * that sums and products of integers overflow, so every result is compared to the bit.
 */
#ifndef GS_SYNC_CALL_CHECK_H
#define GS_SYNC_CALL_CHECK_H

#include "sync/call.h"

/* Fill this rank's buffers (gs_call_bytes_of): the elements that it brings, and where it gets something else
 * bytes that are never right. */
void gs_call_fill(const gs_call *, int rank, int size, void *in, void *out);

/* After the call. GS_E_FORMAT: "all_reduce of 7 f32 (sum): rank 1 has 3 in element 5 of 7, wanted 4", also
 * where an element that the call must leave alone was changed. */
gs_status gs_call_verify(const gs_call *, int rank, int size, const void *in, const void *out);

#endif
