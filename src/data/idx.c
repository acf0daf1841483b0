#include "data/idx.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* A file that is being read. zlib reads plain files as they are. */
typedef struct reader {
    const char *path;
    gzFile gz;
    uint64_t got, wanted; /* bytes after decompression: so far, and in all as far as known */
} reader;

static gs_status open_file(reader *r) {
    const char *path = r->path;
    struct stat s;
    if (stat(path, &s) != 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode)) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(EISDIR));
    if (!S_ISREG(s.st_mode)) return gs_fail(GS_E_FILE, "cannot read %s: it is not a regular file", path);
    if (s.st_size == 0) return gs_fail(GS_E_FORMAT, "%s is empty: 0 bytes; an IDX file is wanted", path);
    errno = ENOMEM; /* for failures inside of zlib, which do not set it */
    r->gz = gzopen(path, "rbe");
    if (!r->gz) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gzbuffer(r->gz, 128 * 1024);
    return GS_OK;
}

/* zlib's own sentence, without the path that it puts in front. */
static const char *zlib_error(reader *r, int *code) {
    const char *text = gzerror(r->gz, code);
    size_t length = strlen(r->path);
    return strncmp(text, r->path, length) == 0 && strncmp(text + length, ": ", 2) == 0 ? text + length + 2
                                                                                       : text;
}

/* Read up to `bytes` bytes; fewer only at the end of the file. */
static gs_status read_some(reader *r, void *data, size_t bytes, size_t *got) {
    *got = 0;
    while (*got < bytes) {
        size_t rest = bytes - *got;
        unsigned most = rest < 1u << 30 ? (unsigned)rest : 1u << 30;
        int n = gzread(r->gz, (char *)data + *got, most);
        if (n > 0) *got += (size_t)n;
        if (n <= 0 || (unsigned)n < most) break;
    }
    r->got += *got;
    if (*got == bytes) return GS_OK; /* whatever is wrong further on, zlib may have seen it already */
    /* A stream that is cut short ends like a whole one: only gzerror tells them apart. */
    int code;
    const char *text = zlib_error(r, &code);
    if (code == Z_ERRNO) return gs_fail(GS_E_FILE, "cannot read %s: %s", r->path, text);
    if (code != Z_OK)
        return gs_fail(GS_E_FORMAT,
                       "%s: damaged gzip stream: %s after %" PRIu64 " bytes, %" PRIu64 " are wanted", r->path,
                       text, r->got, r->wanted);
    return GS_OK;
}

static gs_status read_all(reader *r, void *data, size_t bytes, const char *what) {
    size_t got;
    r->wanted += bytes;
    GS_TRY(read_some(r, data, bytes, &got));
    if (got < bytes)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes, %" PRIu64 " are wanted (%s)",
                       r->path, r->got, r->wanted, what);
    return GS_OK;
}

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static gs_status read_idx(reader *r, int sizes, gs_idx *out) {
    unsigned char header[4 + 4 * GS_IDX_MAX_SIZES] = {0}, *at = header + 4;
    size_t header_bytes = 4 + 4 * (size_t)sizes;
    GS_TRY(read_all(r, header, header_bytes, "the header alone"));

    uint32_t magic = big_endian(header), wanted = 0x800 | (uint32_t)sizes;
    if (magic != wanted)
        return gs_fail(GS_E_FORMAT, "%s: the magic number is 0x%08x, 0x%08x is wanted (%s)", r->path, magic,
                       wanted, sizes == 3 ? "images" : "labels");

    uint64_t bytes = 1;
    char text[64] = ""; /* "60000 x 28 x 28", for messages */
    bool empty = false, absurd = false;
    for (int i = 0; i < sizes; i++, at += 4) {
        uint32_t size = big_endian(at);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " x " : "", size);
        empty = empty || size == 0;
        if (!absurd) bytes *= size; /* both below 2^32: no overflow */
        absurd = absurd || bytes > INT32_MAX;
        out->size[i] = (int)size;
    }
    if (empty) return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; none may be 0", r->path, text);
    if (absurd)
        return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; at most %d bytes are wanted", r->path, text,
                       INT32_MAX);

    out->data = malloc(bytes);
    if (!out->data) return gs_fail(GS_E_MEMORY, "%s: no memory for %s bytes", r->path, text);
    GS_TRY(read_all(r, out->data, bytes, text));

    /* Asking for one byte more also makes zlib check the sum at the end of a gzip stream. */
    size_t more;
    GS_TRY(read_some(r, header, 1, &more));
    if (more > 0)
        return gs_fail(GS_E_FORMAT, "%s has more bytes than the %" PRIu64 " that its header says (%s)",
                       r->path, r->wanted, text);
    return GS_OK;
}

gs_status gs_idx_load(const char *path, int sizes, gs_idx *out) {
    if (sizes < 1 || sizes > GS_IDX_MAX_SIZES) gs_bug("gs_idx_load: %d sizes", sizes);
    reader r = {.path = path};
    *out = (gs_idx){0};
    GS_TRY(open_file(&r));
    gs_status st = read_idx(&r, sizes, out);
    gzclose_r(r.gz);
    if (st != GS_OK) {
        free(out->data);
        *out = (gs_idx){0};
    }
    return st;
}
