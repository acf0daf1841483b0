#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "core/nettle.h"
#include "core/shard.h"

/* Opening a FIFO blocks until its other end is opened, and reading a terminal blocks until a line is typed. O_NONBLOCK
 * prevents both until the kind of the file is known. */
gs_status gs_file_open(const char *path, int *fd, uint64_t *size) {
    struct stat s;
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool opened = *fd >= 0, known = opened && fstat(*fd, &s) == 0;
    if (known && S_ISREG(s.st_mode)) {
        *size = (uint64_t)s.st_size;
        return GS_OK; /* O_NONBLOCK has no effect on a regular file */
    }
    int error = known ? (S_ISDIR(s.st_mode) ? EISDIR : EINVAL) : errno;
    if (opened) close(*fd);
    *fd = -1;
    bool other = error == EINVAL || error == ENXIO; /* ENXIO: a socket, or a device that does not exist */
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

static gs_status too_large(const char *path, uint64_t size, uint64_t most) {
    return gs_fail(GS_E_FILE, "%s has %llu bytes; at most %llu can be read", path, (unsigned long long)size,
                   (unsigned long long)most);
}

/* Terminate a text with a 0, or after a failure free the part that was read. */
static gs_status ended(gs_status status, char **text, size_t bytes) {
    if (status == GS_OK)
        (*text)[bytes] = '\0';
    else {
        free(*text);
        *text = NULL;
    }
    return status;
}

gs_status gs_file_read(const char *path, uint64_t most, char **text, size_t *bytes) {
    FILE *f;
    uint64_t size;
    *text = NULL;
    *bytes = 0;
    GS_TRY(gs_file_open_stream(path, &f, &size));
    gs_status status = GS_OK;
    if (size > most)
        status = too_large(path, size, most);
    else if (!(*text = malloc((size_t)size + 1)))
        status = gs_fail(GS_E_MEMORY, "no memory for the %llu bytes of %s", (unsigned long long)size, path);
    else {
        errno = 0;
        *bytes = fread(*text, 1, (size_t)size, f);
        if (ferror(f)) status = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    }
    fclose(f);
    return ended(status, text, *bytes);
}

/* ---- gzip ---- */

gs_status gs_unzip(const char *name, const void *data, size_t bytes, size_t size, char **text) {
    if (bytes > UINT_MAX || size > UINT_MAX) gs_bug("gs_unzip: %zu bytes, unzipped %zu", bytes, size);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .avail_out = (uInt)size};
    GS_TRY(GS_NEW(*text, size, "%zu bytes of %s", size, name));
    z.next_out = (Bytef *)*text;
    const int begun = inflateInit2(&z, 15 + 16), all = inflate(&z, Z_FINISH); /* 16: with gzip's header */
    inflateEnd(&z);
    const bool good = begun == Z_OK && all == Z_STREAM_END && z.total_out == size;
    return ended(good ? GS_OK : gs_fail(GS_E_FORMAT, "%s: damaged gzip stream", name), text, size);
}

/* Open a stream that unzips. Files without gzip's magic bytes are read unchanged. */
static gs_status open_zipped(const char *path, gzFile *f, int *fd, uint64_t *size) {
    GS_TRY(gs_file_open(path, fd, size));
    *f = gzdopen(*fd, "rb");
    if (*f) return GS_OK;
    close(*fd);
    return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", path);
}

gs_status gs_file_unzip_head(const char *path, void *head, size_t most, size_t *bytes) {
    gzFile f;
    int fd;
    uint64_t size;
    GS_TRY(open_zipped(path, &f, &fd, &size));
    *bytes = gzfread(head, 1, most, f); /* damage is left to gs_file_unzip to report */
    gzclose(f);
    return GS_OK;
}

/* True if the file ends with a stream's CRC and length, or with zeros. zlib ignores all that follows a stream. */
static bool is_end(int fd, uint64_t size, const char *text, size_t bytes) {
    uint32_t end[2] = {0}; /* little-endian, like this machine */
    if (pread(fd, end, sizeof end, (off_t)(size - sizeof end)) < (ssize_t)sizeof end) return false;
    return end[1] <= bytes && crc32_z(0, (const Bytef *)text + bytes - end[1], end[1]) == end[0];
}

/* Read to the end, but at most one byte more than `most`. The first allocation suffices if the file is not gzipped. */
static gs_status read_zipped(gzFile f, int fd, const char *path, uint64_t size, size_t most, char **text,
                             size_t *bytes) {
    const bool plain = gzdirect(f);
    int error;
    if (plain && size > most) return too_large(path, size, most);
    for (size_t room = 0, got = 1; got > 0;) {
        if (*bytes == room) {
            room = gs_smaller(room ? 2 * room : (size_t)size + 1, most + 1);
            char *larger = realloc(*text, room + 1);
            if (!larger) return gs_fail(GS_E_MEMORY, "no memory for %zu bytes of %s", room, path);
            *text = larger;
        }
        got = gzfread(*text + *bytes, 1, room - *bytes, f);
        *bytes += got;
        if (*bytes > most)
            return gs_fail(GS_E_FORMAT, "%s has more than %zu bytes when unzipped, the most that can be read",
                           path, most);
    }
    const char *why = gzerror(f, &error), *colon = strstr(why, ": "); /* "PATH: unexpected end of file" */
    if (colon) why = colon + 2;
    if (error == Z_MEM_ERROR) return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", path);
    if (error == Z_ERRNO) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, why);
    if (plain && *bytes < size) return gs_fail(GS_E_FILE, "cannot read %s: it has become shorter", path);
    const bool more = error >= 0 && !plain && !is_end(fd, size, *text, *bytes);
    if (more) why = "other bytes follow";
    if (error < 0 || more)
        return gs_fail(GS_E_FORMAT, "%s: damaged gzip stream: %s after %zu bytes", path, why, *bytes);
    return GS_OK;
}

gs_status gs_file_unzip(const char *path, size_t most, char **text, size_t *bytes) {
    gzFile f;
    int fd;
    uint64_t size;
    *text = NULL;
    *bytes = 0;
    GS_TRY(open_zipped(path, &f, &fd, &size));
    const gs_status status = read_zipped(f, fd, path, size, most, text, bytes);
    gzclose(f);
    return ended(status, text, *bytes);
}

/* ---- SHA-256 ---- */

void gs_sha256_end(struct sha256_ctx *context, char hex[65]) {
    uint8_t digest[SHA256_DIGEST_SIZE];
    GS_DIGEST(sha256_digest, context, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void gs_sha256(const void *data, size_t bytes, char hex[65]) {
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, bytes, data);
    gs_sha256_end(&context, hex);
}

gs_status gs_sha256_file(const char *path, char hex[65], uint64_t *bytes) {
    enum { BLOCK = 1 << 20 };
    struct sha256_ctx context;
    uint64_t size;
    FILE *f;
    GS_TRY(gs_file_open_stream(path, &f, &size));
    uint8_t *block = malloc(BLOCK);
    gs_status status = block ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to read %s", path);
    sha256_init(&context);
    *bytes = 0;
    errno = 0;
    for (size_t n; block && (n = fread(block, 1, BLOCK, f)) > 0; *bytes += n)
        sha256_update(&context, n, block);
    if (ferror(f)) status = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_sha256_end(&context, hex);
    free(block);
    fclose(f);
    return status;
}
