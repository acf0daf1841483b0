#include "io/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* Not zlib's gzread: it takes whatever lies behind a stream for nothing, and does not say that it did. */
typedef struct unzipping {
    const char *name;
    z_stream z; /* next_in: the rest of the file */
    size_t most, room, bytes;
    char *text;
} unzipping;

static gs_status damaged(const unzipping *u, const char *what) {
    return gs_fail(GS_E_FORMAT, "%s: damaged gzip stream: %s after %zu bytes", u->name, what, u->bytes);
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

/* More room, and one byte behind it for the 0. */
static gs_status grow(unzipping *u) {
    if (u->bytes > u->most)
        return gs_fail(GS_E_FORMAT, "%s has more than %zu bytes when unzipped, the most that can be read",
                       u->name, u->most);
    u->room = u->room ? 2 * u->room : 1 << 16;
    if (u->room > u->most) u->room = u->most + 1; /* the byte too many tells that there are more */
    char *larger = realloc(u->text, u->room + 1);
    if (!larger) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", u->name, u->room);
    u->text = larger;
    return GS_OK;
}

static gs_status inflate_all(unzipping *u, size_t file_bytes) {
    for (bool more = true; more;) {
        if (u->bytes == u->room) GS_TRY(grow(u));
        const size_t some = u->room - u->bytes < UINT_MAX ? u->room - u->bytes : UINT_MAX;
        u->z.next_out = (Bytef *)u->text + u->bytes;
        u->z.avail_out = (uInt)some;
        const int code = inflate(&u->z, Z_NO_FLUSH);
        u->bytes += some - u->z.avail_out;
        if (code == Z_MEM_ERROR) return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", u->name);
        if (code == Z_BUF_ERROR) return damaged(u, "unexpected end of file");
        if (code != Z_OK && code != Z_STREAM_END)
            return damaged(u, u->z.msg ? u->z.msg : "it needs a dictionary");
        if (code == Z_STREAM_END) GS_TRY(next_stream(u, file_bytes, &more));
    }
    return u->bytes > u->most ? grow(u) : GS_OK;
}

gs_status gs_unzip(const char *name, const void *data, size_t bytes, size_t most, char **text,
                   size_t *unzipped) {
    unzipping u = {.name = name,
                   .z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes}, /* it is only read */
                   .most = most};
    *text = NULL;
    if (bytes > UINT_MAX)
        return gs_fail(GS_E_FILE, "%s has %zu bytes; at most %u can be unzipped", name, bytes, UINT_MAX);
    if (inflateInit2(&u.z, 15 + 16) != Z_OK) /* 16: gzip's header, not zlib's */
        return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", name);
    const gs_status status = inflate_all(&u, bytes);
    inflateEnd(&u.z);
    if (status != GS_OK) {
        free(u.text);
        return status;
    }
    char *fitted = realloc(u.text, u.bytes + 1);
    if (fitted) u.text = fitted;
    u.text[u.bytes] = '\0';
    *text = u.text;
    *unzipped = u.bytes;
    return GS_OK;
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
