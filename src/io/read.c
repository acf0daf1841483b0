#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opening a FIFO waits for its other end, and reading a terminal for a line: so nothing waits here, and what the
 * file is comes before its first byte. */
gs_status gs_file_open(const char *path, int *fd, uint64_t *size) {
    struct stat s;
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool opened = *fd >= 0, known = opened && fstat(*fd, &s) == 0;
    if (known && S_ISREG(s.st_mode)) {
        *size = (uint64_t)s.st_size;
        return GS_OK; /* O_NONBLOCK means nothing for a regular file */
    }
    int error = known ? (S_ISDIR(s.st_mode) ? EISDIR : EINVAL) : errno;
    if (opened) close(*fd);
    *fd = -1;
    bool other = error == EINVAL || error == ENXIO; /* ENXIO: a socket, or a device that is not there */
    gs_status status =
        gs_fail(GS_E_FILE, "cannot read %s: %s", path, other ? "it is not a regular file" : strerror(error));
    errno = error;
    return status;
}

gs_status gs_file_open_stream(const char *path, FILE **file, uint64_t *size) {
    int fd;
    *file = NULL;
    GS_TRY(gs_file_open(path, &fd, size));
    *file = fdopen(fd, "rb");
    if (*file) return GS_OK;
    close(fd);
    return gs_fail(GS_E_MEMORY, "cannot read %s: %s", path, strerror(ENOMEM));
}

gs_status gs_file_read(const char *path, uint64_t most, char **text, size_t *bytes) {
    FILE *f;
    uint64_t size;
    *text = NULL;
    *bytes = 0;
    GS_TRY(gs_file_open_stream(path, &f, &size));
    gs_status status = GS_OK;
    char *all = NULL;
    if (size > most)
        status = gs_fail(GS_E_FILE, "%s has %llu bytes; at most %llu can be read", path,
                         (unsigned long long)size, (unsigned long long)most);
    else if (!(all = malloc((size_t)size + 1)))
        status = gs_fail(GS_E_MEMORY, "no memory for the %llu bytes of %s", (unsigned long long)size, path);
    else {
        errno = 0;
        *bytes = fread(all, 1, (size_t)size, f);
        if (ferror(f)) status = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    }
    fclose(f);
    if (status != GS_OK) {
        free(all);
        return status;
    }
    all[*bytes] = '\0';
    *text = all;
    return GS_OK;
}
