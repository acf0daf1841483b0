/* A call of an operation of comm.h as data, which can be described in a message, compared between ranks, stored in a
 * table, and run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/api.h"

typedef enum gs_type { GS_F32, GS_F64, GS_I32, GS_I64, GS_U8, GS_TYPES } gs_type;

/* How a reduction combines two values:
 *
 *     GS_SUM            a + b; integers wrap around (modulo 2^32, 2^64, 2^8)
 *     GS_MIN, GS_MAX    NaN if a or b is NaN, so that no rank's NaN is lost; for -0 and +0, either of them
 */
typedef enum gs_reduction { GS_SUM, GS_MIN, GS_MAX, GS_REDUCTIONS } gs_reduction;

GS_API size_t gs_type_size(gs_type); /* in bytes */

/* to[i] = a[i] combined with b[i] for all i < count. `to` may be a or b. */
typedef void (*gs_combine)(void *to, const void *a, const void *b, size_t count);
GS_API gs_combine gs_combine_of(gs_type, gs_reduction);

typedef enum gs_operation {
    GS_SEND,
    GS_RECV,
    GS_BROADCAST,
    GS_ALL_REDUCE,
    GS_REDUCE,
    GS_ALL_GATHER,
    GS_GATHER,
    GS_SCATTER,
    GS_REDUCE_SCATTER,
    GS_ALL_TO_ALL,
    GS_BARRIER,
    GS_OPERATIONS
} gs_operation;

/* Members that do not apply to an operation are 0. */
typedef struct gs_call {
    gs_operation operation;
    size_t count; /* as in comm.h: the total for reduce_scatter, per rank for all_to_all */
    gs_type type;
    gs_reduction reduction;
    int root; /* send and recv: the other rank */
} gs_call;

GS_API const char *gs_operation_name(gs_operation); /* "all_reduce" */
bool gs_operation_has_root(gs_operation);
bool gs_operation_is_in_place(gs_operation); /* broadcast, reduce and all_reduce use only `out` */

/* A call as text: "all_reduce of 5 f32"; full: "reduce of 5 f32 (sum) to rank 0"; a message: "send of 20 bytes to rank
 * 1". It is stored in one of two thread-local buffers, which are used alternately. */
GS_API const char *gs_call_text(const gs_call *, bool full);

/* A call packed into a nonzero word, to show other ranks. Counts are limited to 2^42 - 1; roots are cut to 12 bits. */
uint64_t gs_call_pack(const gs_call *);

/* False if the word is 0 or not a valid call. The word must be checked, because another process may have written it. */
bool gs_call_unpack(uint64_t word, gs_call *);

/* End the program with a message that names both calls, unless they are equal: every rank must make the same call in a
 * collective. noun: what messages call a rank. */
void gs_call_compare(const gs_call *mine, const gs_call *other, const char *noun, int rank, int other_rank);

/* The bytes that rank `rank` of `size` contributes (in) and receives (out). broadcast, all_reduce and reduce work in
 * place: their bytes count as `out`. In gather only the root receives; in scatter only the root contributes. */
typedef struct gs_call_bytes {
    size_t in, out;
} gs_call_bytes;
GS_API gs_call_bytes gs_call_bytes_of(const gs_call *, int rank, int size);
