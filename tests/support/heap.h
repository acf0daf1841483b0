/* What is on the heap of this program. The allocating functions of the C library are replaced by ones that count: the
 * library's own figures (mallinfo2) count as used what a thread keeps for its next calls, and that depends on all that
 * ran before.
 */
#pragma once

#include <features.h> /* __GLIBC__ */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GS_TEST_HEAP                                                                                         \
    1 /* else the functions are not there: a sanitizer, or another C library, brings its own malloc */

/* Bytes that have been given and not taken back, by all threads. */
size_t gs_test_heap(void);

/* The most that it has been since the last call, without the copies of messages that threads keep (comm/create.h). */
size_t gs_test_heap_most(void);

/* While `counting`, each call that allocates is counted. */
typedef struct gs_test_allocations {
    atomic_bool counting;
    atomic_int count;
    _Atomic(void *) first_caller;
    atomic_size_t first_bytes;
} gs_test_allocations;
extern gs_test_allocations gs_test_allocated;
#endif
