#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "core/nettle.h"

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

/* ---- gzip ---- */

/* Not zlib's gzread: it takes whatever lies behind a stream for nothing, and does not say that it did. */
typedef struct unzipping {
    const char *name;
    z_stream z; /* next_in: the rest of the file */
    FILE *text; /* in memory */
    size_t most, bytes;
} unzipping;

static gs_status damaged(const unzipping *u, const char *what) {
    return gs_fail(GS_E_FORMAT, "%s: damaged gzip stream: %s after %zu bytes", u->name, what, u->bytes);
}

static gs_status no_memory(const unzipping *u) {
    return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it, after %zu bytes", u->name, u->bytes);
}

/* Behind a stream: another one, or zeros up to the end. *more: another one. */
static gs_status next_stream(unzipping *u, size_t file_bytes, bool *more) {
    bool zeros = false;
    for (; u->z.avail_in > 0 && *u->z.next_in == 0; u->z.next_in++, u->z.avail_in--) zeros = true;
    *more = u->z.avail_in > 0;
    if (!*more) return GS_OK;
    if (zeros || *u->z.next_in != 0x1f)
        return gs_fail(GS_E_FORMAT, "%s has other bytes after the end of its gzip stream, from byte %zu",
                       u->name, file_bytes - u->z.avail_in);
    return inflateReset(&u->z) == Z_OK ? GS_OK : damaged(u, "zlib cannot restart");
}

static gs_status inflate_all(unzipping *u, size_t file_bytes) {
    Bytef block[1 << 16] = {0};
    for (bool more = true; more;) {
        u->z.next_out = block;
        u->z.avail_out = sizeof block;
        const int code = inflate(&u->z, Z_NO_FLUSH);
        const size_t some = sizeof block - u->z.avail_out;
        u->bytes += some;
        if (u->bytes > u->most)
            return gs_fail(GS_E_FORMAT, "%s has more than %zu bytes when unzipped, the most that can be read",
                           u->name, u->most);
        if (code == Z_MEM_ERROR || fwrite(block, 1, some, u->text) < some) return no_memory(u);
        if (code == Z_BUF_ERROR) return damaged(u, "unexpected end of file");
        if (code != Z_OK && code != Z_STREAM_END)
            return damaged(u, u->z.msg ? u->z.msg : "it needs a dictionary");
        if (code == Z_STREAM_END) GS_TRY(next_stream(u, file_bytes, &more));
    }
    return GS_OK;
}

gs_status gs_unzip(const char *name, const void *data, size_t bytes, size_t most, char **text,
                   size_t *unzipped) {
    unzipping u = {.name = name,
                   .z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes}, /* it is only read */
                   .most = most};
    *text = NULL;
    if (bytes > UINT_MAX)
        return gs_fail(GS_E_FILE, "%s has %zu bytes; at most %u can be unzipped", name, bytes, UINT_MAX);
    if (inflateInit2(&u.z, 15 + 16) != Z_OK) return no_memory(&u); /* 16: gzip's header, not zlib's */
    u.text = open_memstream(text, unzipped);
    gs_status status = u.text ? inflate_all(&u, bytes) : no_memory(&u);
    inflateEnd(&u.z);
    if (u.text && fclose(u.text) != 0 && status == GS_OK) status = no_memory(&u);
    if (status == GS_OK) return GS_OK;
    free(*text);
    *text = NULL;
    return status;
}

gs_status gs_file_unzip_head(const char *path, void *head, size_t most, size_t *bytes) {
    int fd;
    uint64_t size;
    GS_TRY(gs_file_open(path, &fd, &size));
    gzFile f = gzdopen(fd, "rb");
    if (!f) {
        close(fd);
        return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", path);
    }
    const int got = gzread(f, head, (unsigned)most);
    gzclose(f);
    *bytes = got < 0 ? 0 : (size_t)got; /* damaged: gs_file_unzip says how */
    return GS_OK;
}

gs_status gs_file_unzip(const char *path, size_t most, char **text, size_t *bytes) {
    FILE *f;
    uint64_t size;
    unsigned char head[2] = {0};
    GS_TRY(gs_file_open_stream(path, &f, &size));
    const bool zipped = fread(head, 1, 2, f) == 2 && head[0] == 0x1f && head[1] == 0x8b;
    fclose(f);
    GS_TRY(gs_file_read(path, zipped ? UINT_MAX : most, text, bytes));
    if (!zipped) return GS_OK;
    char *file = *text;
    const gs_status status = gs_unzip(path, file, *bytes, most, text, bytes);
    free(file);
    return status;
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
