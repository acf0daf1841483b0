#include "io/unzip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "io/file.h"

/* Not zlib's gzread: it takes whatever lies behind a stream for nothing, and does not say that it did. */
struct gs_unzip {
    const char *path;
    FILE *file;
    uint64_t size;        /* bytes of the file */
    uint64_t got, wanted; /* bytes that came out of it so far, and in all as far as known; 0: any number */
    bool zipped;
    bool between; /* zipped: a stream has ended, and another may begin */
    z_stream z;
    unsigned char in[1 << 16];
};

static gs_status refill(gs_unzip *u) {
    errno = 0;
    u->z.next_in = u->in;
    u->z.avail_in = (unsigned)fread(u->in, 1, sizeof u->in, u->file);
    if (ferror(u->file)) return gs_fail(GS_E_FILE, "cannot read %s: %s", u->path, strerror(errno));
    return GS_OK;
}

static gs_status damaged(const gs_unzip *u, const char *what) {
    if (u->wanted == 0)
        return gs_fail(GS_E_FORMAT, "%s: damaged gzip stream: %s after %" PRIu64 " bytes", u->path, what,
                       u->got);
    return gs_fail(GS_E_FORMAT, "%s: damaged gzip stream: %s after %" PRIu64 " bytes; wanted %" PRIu64 "",
                   u->path, what, u->got, u->wanted);
}

/* Behind a stream: another one, or zeros up to the end. *more: another one. */
static gs_status next_stream(gs_unzip *u, bool *more) {
    bool zeros = false;
    *more = false;
    for (;;) {
        if (u->z.avail_in == 0) GS_TRY(refill(u));
        if (u->z.avail_in == 0) return GS_OK;
        if (*u->z.next_in != 0) break;
        zeros = true;
        u->z.next_in++;
        u->z.avail_in--;
    }
    if (zeros || *u->z.next_in != 0x1f)
        return gs_fail(GS_E_FORMAT,
                       "%s has other bytes after the end of its gzip stream, from byte %" PRIu64 "", u->path,
                       (uint64_t)ftello(u->file) - u->z.avail_in);
    *more = true;
    u->between = false;
    return inflateReset(&u->z) == Z_OK ? GS_OK : damaged(u, "zlib cannot restart");
}

static gs_status inflate_some(gs_unzip *u, unsigned char *data, size_t bytes, size_t *got) {
    while (*got < bytes) {
        bool more = true;
        if (u->between) GS_TRY(next_stream(u, &more));
        if (!more) return GS_OK;
        if (u->z.avail_in == 0) GS_TRY(refill(u));
        if (u->z.avail_in == 0) return damaged(u, "unexpected end of file");
        size_t rest = bytes - *got;
        unsigned room = rest < 1u << 30 ? (unsigned)rest : 1u << 30;
        u->z.next_out = data + *got;
        u->z.avail_out = room;
        int code = inflate(&u->z, Z_NO_FLUSH);
        *got += room - u->z.avail_out;
        u->got += room - u->z.avail_out;
        if (code == Z_MEM_ERROR) return gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", u->path);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return damaged(u, u->z.msg ? u->z.msg : "it needs a dictionary");
        u->between = code == Z_STREAM_END;
    }
    return GS_OK;
}

/* Fewer than `bytes` only at the end of the file. */
static gs_status read_some(gs_unzip *u, void *data, size_t bytes, size_t *got) {
    *got = 0;
    if (u->zipped) return inflate_some(u, data, bytes, got);
    errno = 0;
    *got = fread(data, 1, bytes, u->file);
    u->got += *got;
    return ferror(u->file) ? gs_fail(GS_E_FILE, "cannot read %s: %s", u->path, strerror(errno)) : GS_OK;
}

gs_status gs_unzip_read(gs_unzip *u, void *data, size_t bytes, const char *what) {
    size_t got;
    u->wanted += bytes;
    GS_TRY(read_some(u, data, bytes, &got));
    if (got == bytes) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes; wanted %" PRIu64 " (%s)", u->path,
                   u->got, u->wanted, what);
}

/* A byte holds four repetitions at most, of 258 bytes each: one bit for the length, one for the distance. */
gs_status gs_unzip_check_room(const gs_unzip *u, uint64_t bytes, const char *what) {
    uint64_t most = u->zipped ? 1032 * u->size : u->size;
    if (bytes <= most) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s is truncated: it has %s%" PRIu64 " bytes; wanted %" PRIu64 " (%s)",
                   u->path, u->zipped ? "at most " : "", most, u->wanted + bytes, what);
}

/* Room for `bytes` more after the `used` ones, and for one more: it shows whether the file goes on, and becomes the
 * 0. */
static gs_status grow(const gs_unzip *u, char **text, size_t used, size_t bytes) {
    char *larger = realloc(*text, used + bytes + 1);
    if (!larger) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", u->path, used + bytes);
    *text = larger;
    return GS_OK;
}

static gs_status too_large(const gs_unzip *u, size_t most) {
    return gs_fail(GS_E_FILE, "%s has more than %zu bytes%s, the most that can be read", u->path, most,
                   u->zipped ? " when unzipped" : "");
}

static gs_status read_rest(gs_unzip *u, size_t most, char **text, size_t *bytes) {
    enum { FIRST = 1 << 16 };
    if (!u->zipped && u->size > most) return too_large(u, most);
    size_t room = u->zipped ? FIRST : (size_t)u->size, got = room + 1;
    while (got == room + 1) { /* all of the room, and the byte behind it */
        if (*text) *bytes += got;
        if (*text) room = *bytes + FIRST;
        if (*bytes > most) return too_large(u, most);
        if (room > most - *bytes) room = most - *bytes;
        GS_TRY(grow(u, text, *bytes, room));
        GS_TRY(read_some(u, *text + *bytes, room + 1, &got));
    }
    *bytes += got;
    (*text)[*bytes] = '\0';
    return GS_OK;
}

gs_status gs_unzip_rest(gs_unzip *u, size_t most, char **text, size_t *bytes) {
    *text = NULL;
    *bytes = 0;
    u->wanted = 0;
    const gs_status status = read_rest(u, most, text, bytes);
    if (status == GS_OK) return GS_OK;
    free(*text);
    *text = NULL;
    return status;
}

gs_status gs_unzip_has_more(gs_unzip *u, bool *more) {
    unsigned char byte;
    size_t got;
    GS_TRY(read_some(u, &byte, 1, &got));
    *more = got > 0;
    return GS_OK;
}

gs_status gs_unzip_open(const char *path, gs_unzip **out) {
    *out = NULL;
    gs_unzip *u = calloc(1, sizeof *u);
    if (!u) return gs_fail(GS_E_MEMORY, "%s: no memory to read it", path);
    u->path = path;
    gs_status status = gs_file_open_stream(path, &u->file, &u->size);
    unsigned char head[2];
    if (status == GS_OK && u->size == 0) status = gs_fail(GS_E_FORMAT, "%s is empty: 0 bytes", path);
    if (status == GS_OK) {
        u->zipped = fread(head, 1, 2, u->file) == 2 && head[0] == 0x1f && head[1] == 0x8b;
        rewind(u->file);
    }
    if (status == GS_OK && u->zipped &&
        inflateInit2(&u->z, 15 + 16) != Z_OK) { /* 16: gzip's header, not zlib's */
        u->zipped = false;
        status = gs_fail(GS_E_MEMORY, "%s: no memory to unzip it", path);
    }
    if (status == GS_OK)
        *out = u;
    else
        gs_unzip_close(u);
    return status;
}

void gs_unzip_close(gs_unzip *u) {
    if (!u) return;
    if (u->zipped) inflateEnd(&u->z);
    if (u->file) fclose(u->file);
    free(u);
}
