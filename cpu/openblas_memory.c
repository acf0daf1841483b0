/* The address space that OpenBLAS needs. OpenBLAS maps a buffer for each thread that computes concurrently with others,
 * on first use, and keeps it. If mmap fails (ulimit -v, ulimit -d), it retries forever. So opening a device either
 * makes OpenBLAS map the buffers of all its threads at once, before anything else takes the space, or fails. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Not in cblas.h, but in every threaded OpenBLAS so far. They take a buffer and give it back; pages that are never
 * touched cost nothing. */
extern void *blas_memory_alloc(int) __attribute__((weak));
extern void blas_memory_free(void *) __attribute__((weak));
extern volatile int blas_server_avail __attribute__((weak));

enum {
    BUFFER =
        128 << 20, /* bytes, as seen with strace in version 0.3.21 (x86-64, arm64; 32 << 22 in the source) */
    SPARE = 16 << 20, /* bytes: other threads map memory too, between our check and OpenBLAS's mmap */
    MOST = 64,        /* buffers. OpenBLAS allows about twice as many, and warns beyond that */
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int threads_in_use; /* by all open devices */
static int mapped;         /* buffers */

static bool is_limited(int resource, struct rlimit *limit) {
    return getrlimit(resource, limit) == 0 && limit->rlim_cur != RLIM_INFINITY;
}

/* Threads that OpenBLAS started when it was loaded may wait for a buffer forever, and the process would wait for them
 * when it exits. With blas_server_avail = 0 it does not; we never use these threads (cpu/pool.h). */
static void leave_threads(void) {
    if (&blas_server_avail) blas_server_avail = 0;
}

static gs_status no_room(int threads) {
    struct rlimit limit;
    char why[100] = "the system grants no more (vm.overcommit_memory)";
    const char *shell = is_limited(RLIMIT_AS, &limit) ? "-v" : is_limited(RLIMIT_DATA, &limit) ? "-d" : NULL;
    if (shell)
        snprintf(why, sizeof why, "the limit for this process is %llu MiB (ulimit %s)",
                 (unsigned long long)limit.rlim_cur >> 20, shell);
    return gs_fail(
        GS_E_MEMORY,
        "cpu: OpenBLAS needs %d MiB of address space for each of %d thread%s, and %d MiB more must be "
        "free: %s",
        BUFFER >> 20, threads, threads == 1 ? "" : "s", SPARE >> 20, why);
}

static bool has_room(void) {
    void *look = mmap(NULL, BUFFER + SPARE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (look == MAP_FAILED) return false;
    munmap(look, BUFFER + SPARE);
    return true;
}

/* Take as many buffers at once as there will be threads: OpenBLAS hands out a free buffer before it maps another. */
static gs_status map_buffers(int threads) {
    void *buffer[MOST];
    int wanted = threads < MOST ? threads : MOST, taken = 0;
    gs_status status = GS_OK;
    while (taken < wanted && status == GS_OK) {
        if (has_room())
            buffer[taken++] = blas_memory_alloc ? blas_memory_alloc(0) : NULL;
        else
            status = no_room(threads);
    }
    if (status != GS_OK) leave_threads();
    for (int i = 0; i < taken; i++)
        if (buffer[i]) blas_memory_free(buffer[i]);
    if (taken > mapped) mapped = status == GS_OK ? threads : taken; /* even beyond MOST */
    return status;
}

gs_status gs_cpu_take_openblas_memory(int threads) {
    pthread_mutex_lock(&one_at_a_time);
    gs_status status = GS_OK;
    if (threads_in_use + threads > mapped) status = map_buffers(threads_in_use + threads);
    if (status == GS_OK) threads_in_use += threads;
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

void gs_cpu_give_openblas_memory(int threads) {
    pthread_mutex_lock(&one_at_a_time);
    threads_in_use -= threads;
    pthread_mutex_unlock(&one_at_a_time);
}
