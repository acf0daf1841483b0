#include "tests/support/heap.h"

#ifdef GS_TEST_HEAP
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "comm/create.h"

gs_test_allocations gs_test_allocated;
static atomic_size_t in_use, most;

size_t gs_test_heap(void) {
    return atomic_load(&in_use);
}

size_t gs_test_heap_most(void) {
    return atomic_exchange(&most, 0);
}

static void count_one(size_t bytes, void *caller) {
    gs_test_allocations *a = &gs_test_allocated;
    if (!atomic_load(&a->counting)) return;
    if (atomic_fetch_add(&a->count, 1) > 0) return;
    atomic_store(&a->first_caller, caller);
    atomic_store(&a->first_bytes, bytes);
}

/* malloc_usable_size(NULL) is 0. */
static void *given(void *memory) {
    const size_t bytes = malloc_usable_size(memory),
                 all = bytes + atomic_fetch_add_explicit(&in_use, bytes, memory_order_relaxed),
                 copies = gs_threads_copied(), now = all > copies ? all - copies : 0;
    size_t before = atomic_load_explicit(&most, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) continue;
    return memory;
}

static void take_back(void *memory) {
    atomic_fetch_sub_explicit(&in_use, malloc_usable_size(memory), memory_order_relaxed);
}

/* Libraries must call these functions too. */
#pragma GCC visibility push(default)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t bytes) {
    count_one(bytes, __builtin_return_address(0));
    return given(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes) {
    count_one(count * bytes, __builtin_return_address(0));
    return given(__libc_calloc(count, bytes));
}

void *realloc(void *memory, size_t bytes) {
    count_one(bytes, __builtin_return_address(0));
    const size_t before = malloc_usable_size(memory);
    void *moved = __libc_realloc(memory, bytes);
    if (!moved && bytes > 0) return NULL; /* `memory` is unchanged */
    atomic_fetch_sub_explicit(&in_use, before, memory_order_relaxed);
    return given(moved);
}

void *memalign(size_t alignment, size_t bytes) {
    count_one(bytes, __builtin_return_address(0));
    return given(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count_one(bytes, __builtin_return_address(0));
    return given(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    count_one(bytes, __builtin_return_address(0));
    void *memory = given(__libc_memalign(alignment, bytes));
    if (memory) *out = memory;
    return memory ? 0 : ENOMEM;
}

void free(void *memory) {
    take_back(memory);
    __libc_free(memory);
}
#endif
