/* What is on this program's heap. Counting functions replace the C library's allocating functions, because its
 * statistics (mallinfo2) also count memory that a thread caches for later calls, which depends on everything that ran
 * before. */
#pragma once

#include <features.h> /* __GLIBC__ */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GS_TEST_HEAP 1 /* undefined where a sanitizer or another C library provides its own malloc */

/* Bytes allocated and not yet freed, by all threads. */
size_t gs_test_heap(void);

/* The peak since the last call, without the message copies that threads keep (comm/create.h). */
size_t gs_test_heap_most(void);

/* While `counting`, each allocating call is counted. */
typedef struct gs_test_allocations {
    atomic_bool counting;
    atomic_int count;
    _Atomic(void *) first_caller;
    atomic_size_t first_bytes;
} gs_test_allocations;
extern gs_test_allocations gs_test_allocated;
#endif
