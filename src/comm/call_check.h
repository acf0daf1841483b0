/* Checks of a collective's result. Every buffer is filled by one rule, which gives element i of rank r, so the right
 * result follows from the rule alone. The expected value of a reduction is computed in 64-bit integers, from the last
 * rank to the first. Sums in f32 and f64 are exact in any order; sums of integers overflow. Results are compared bit by
 * bit. */
#pragma once

#include "comm/comm.h"

/* Fill this rank's buffers (gs_call_bytes_of). Buffers that it contributes get the rule's elements; buffers that only
 * receive get bytes that differ from the right result. */
void gs_call_fill(const gs_call *, int rank, int size, void *in, void *out);

/* Check the buffers after the call, including the elements that it must not change. GS_E_FORMAT: "all_reduce of 7 f32
 * (sum): rank 1 has 3 in element 5 of 7, wanted 4". */
gs_status gs_call_verify(const gs_call *, int rank, int size, const void *in, const void *out);
