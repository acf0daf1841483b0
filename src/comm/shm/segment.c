/* See shm.h. A memfd (Linux 3.17) is a file that only its descriptors keep alive; another process reaches it
 * as /proc/PID/fd/N. So nothing can be left behind, as a name in /dev/shm can.
 */
#include "comm/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static gs_status map(gs_segment *s, int file) {
    void *base = mmap(NULL, GS_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED) {
        gs_status status = gs_fail(GS_E_MEMORY, "cannot map %zu GiB of addresses for shared memory: %s",
                                   GS_SEGMENT_BYTES >> 30, strerror(errno));
        close(file);
        return status;
    }
    *s = (gs_segment){base, file};
    return GS_OK;
}

gs_status gs_segment_create(gs_segment *s) {
    int file = memfd_create("gradsum", MFD_CLOEXEC);
    if (file < 0) return gs_fail(GS_E_MEMORY, "cannot make shared memory: %s", strerror(errno));
    if (ftruncate(file, (off_t)GS_SEGMENT_BYTES) == 0) return map(s, file);
    gs_status status = gs_fail(GS_E_MEMORY, "cannot make shared memory: %s", strerror(errno));
    close(file);
    return status;
}

gs_status gs_segment_open(gs_segment *s, long pid, int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, file);
    int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return gs_fail(GS_E_FILE, "cannot open the shared memory of process %ld: %s", pid, strerror(errno));
    return map(s, own);
}

void gs_segment_close(gs_segment *s) {
    if (!s->base) return;
    munmap(s->base, GS_SEGMENT_BYTES);
    close(s->file);
    *s = (gs_segment){0};
}

gs_status gs_segment_reserve(const gs_segment *s, size_t at, size_t bytes) {
    int failed;
    do failed = fallocate(s->file, 0, (off_t)at, (off_t)bytes);
    while (failed && errno == EINTR);
    if (!failed) return GS_OK;
    return gs_fail(GS_E_MEMORY, "cannot get %zu bytes of shared memory: %s", bytes, strerror(errno));
}

void gs_segment_release(const gs_segment *s, size_t at, size_t bytes) {
    /* Only a request: memory that stays is given back at the end. */
    (void)!fallocate(s->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}
