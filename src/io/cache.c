#include "io/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include "io/file.h"

bool gs_cache_path(const char *name, char *path, size_t size) {
    const char *own = getenv("GRADSUM_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[PATH_MAX];
    int length = -1;
    if (own && *own) {
        if (strcmp(own, "off") == 0) return false;
        length = snprintf(folder, sizeof folder, "%s", own);
    } else if (xdg && *xdg == '/') { /* the XDG standard says to ignore a relative path */
        length = snprintf(folder, sizeof folder, "%s/gradsum", xdg);
    } else if (home && *home) {
        length = snprintf(folder, sizeof folder, "%s/.cache/gradsum", home);
    }
    if (length <= 0 || length >= (int)sizeof folder || !gs_file_make_folders(folder)) return false;
    return snprintf(path, size, "%s/%s", folder, name) < (int)size;
}

/* ---- entries ---- */

enum { HEADER = 400 }; /* maximum bytes of the first line */

static int write_header(char *header, const char *name, const void *data, size_t bytes) {
    char digest[65];
    gs_sha256(data, bytes, digest);
    return snprintf(header, HEADER, "gradsum-cache 1 %s %zu %s\n", name, bytes, digest);
}

bool gs_cache_read(const char *name, void **data, size_t *bytes) {
    char path[PATH_MAX], header[HEADER], *all;
    size_t size;
    *data = NULL;
    *bytes = 0;
    if (!gs_cache_path(name, path, sizeof path) || gs_file_read(path, SIZE_MAX - 1, &all, &size) != GS_OK)
        return false;
    /* The other lines determine the first one, so it is compared instead of parsed. */
    const char *end = memchr(all, '\n', size);
    size_t first = end ? (size_t)(end - all) + 1 : 0;
    if (first == 0 || write_header(header, name, all + first, size - first) != (int)first ||
        memcmp(header, all, first) != 0) {
        free(all);
        return false;
    }
    *bytes = size - first;
    memmove(all, all + first, *bytes + 1);
    *data = all;
    return true;
}

bool gs_cache_write(const char *name, const void *data, size_t bytes) {
    char path[PATH_MAX], header[HEADER];
    gs_file_writer w;
    if (!gs_cache_path(name, path, sizeof path)) return false;
    int length = write_header(header, name, data, bytes);
    if (length >= HEADER || gs_file_writer_open(path, &w) != GS_OK) return false;
    fwrite(header, 1, (size_t)length, w.file);
    fwrite(data, 1, bytes, w.file);
    return gs_file_writer_commit(&w) == GS_OK;
}

/* ---- the lock ---- */

int gs_cache_lock(void) {
    enum { TRIES = 6000 }; /* of 10 ms each */
    char path[PATH_MAX];
    if (!gs_cache_path("lock", path, sizeof path)) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    for (int i = 0; fd >= 0 && i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (fd >= 0) close(fd);
    return -1;
}

void gs_cache_unlock(int lock) {
    if (lock >= 0) close(lock);
}
