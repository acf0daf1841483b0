#include "io/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *gs_mapped_folder(const char *folder) {
    if (folder) return folder;
    const char *set = getenv("TMPDIR");
    return set && *set ? set : "/var/tmp"; /* not /tmp, which is often in memory */
}

bool gs_mapped_is_memory(const char *folder) {
    enum { TMPFS = 0x01021994 };
    struct statfs at;
    return statfs(gs_mapped_folder(folder), &at) == 0 && at.f_type == TMPFS;
}

static int open_unlinked(const char *folder) {
    char name[4096];
    if (snprintf(name, sizeof name, "%s/gradsum-XXXXXX", folder) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fd;
}

gs_status gs_mapped_create(const char *folder, size_t bytes, void **out) {
    const size_t whole = bytes ? bytes : 1;
    *out = NULL;
    folder = gs_mapped_folder(folder);
    const int fd = open_unlinked(folder);
    if (fd < 0)
        return gs_fail(GS_E_FILE,
                       "--offload: cannot make a file in %s: %s; --offload-dir takes another folder", folder,
                       strerror(errno));
    int error;
    do error = posix_fallocate(fd, 0, (off_t)whole);
    while (error == EINTR);
    void *memory = error ? MAP_FAILED : mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int map_error = errno;
    close(fd);
    if (error)
        return gs_fail(GS_E_FILE,
                       "--offload: no room for %.1f MB in %s: %s; --offload-dir takes another folder",
                       (double)whole / 1e6, folder, strerror(error));
    if (memory == MAP_FAILED)
        return gs_fail(GS_E_MEMORY, "--offload: cannot map a file of %.1f MB in %s: %s", (double)whole / 1e6,
                       folder, strerror(map_error));
    *out = memory;
    return GS_OK;
}

void gs_mapped_free(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes ? bytes : 1);
}
