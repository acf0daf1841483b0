#include "data/tar.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { BLOCK = 512, NAME_AT = 0, SIZE_AT = 124, SUM_AT = 148, KIND_AT = 156, NAME = 100, SUM = 8 };

static const uint64_t most_in_all = (uint64_t)4
                                    << 30; /* a small archive of zeros would keep us busy for hours */

struct gs_tar {
    const char *path;
    gs_unzip *file;
    uint64_t total; /* bytes of all entries so far */
    uint64_t rest;  /* bytes up to the next header */
    size_t bytes;   /* of the file that was found */
    bool whole;     /* nothing of it was read */
    char name[NAME + 1];
};

gs_status gs_tar_open(const char *path, gs_tar **out) {
    *out = NULL;
    gs_tar *t = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "%s: no memory to read it", path);
    t->path = path;
    gs_status status = gs_unzip_open(path, &t->file);
    if (status == GS_OK)
        *out = t;
    else
        gs_tar_close(t);
    return status;
}

void gs_tar_close(gs_tar *t) {
    if (!t) return;
    gs_unzip_close(t->file);
    free(t);
}

static gs_status pass_over(gs_tar *t) {
    char bytes[16 * BLOCK];
    while (t->rest > 0) {
        size_t now = t->rest < sizeof bytes ? (size_t)t->rest : sizeof bytes;
        GS_TRY(gs_unzip_read(t->file, bytes, now, "an entry"));
        t->rest -= now;
    }
    return GS_OK;
}

/* Up to the end, so that the gzip stream's checksum is known to be right. */
static gs_status read_end(gs_tar *t) {
    enum { FILL = 1 << 20 }; /* bytes of zeros that may fill up the last record */
    bool more = true;
    for (int i = 0; more && i <= FILL; i++) GS_TRY(gs_unzip_has_more(t->file, &more));
    return more ? gs_fail(GS_E_FORMAT, "%s has more than %d bytes behind the end of its archive", t->path,
                          FILL)
                : GS_OK;
}

/* An octal number, as long as spaces or zeros do not end it. */
static bool octal(const unsigned char *field, size_t length, uint64_t *out) {
    size_t i = 0;
    *out = 0;
    while (i < length && field[i] == ' ') i++;
    const size_t first = i;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        *out = *out * 8 + (uint64_t)(field[i] - '0');
    return i > first && (i == length || field[i] == ' ' || field[i] == '\0');
}

static bool sum_is_right(const unsigned char header[BLOCK]) {
    uint64_t stated, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= SUM_AT && i < SUM_AT + SUM ? ' ' : header[i];
    return octal(header + SUM_AT, SUM, &stated) && stated == sum;
}

static bool is_zero(const unsigned char header[BLOCK]) {
    for (int i = 0; i < BLOCK; i++)
        if (header[i]) return false;
    return true;
}

static gs_status read_header(gs_tar *t, const unsigned char header[BLOCK], bool *is_file) {
    uint64_t bytes;
    if (!sum_is_right(header))
        return gs_fail(GS_E_FORMAT, "%s: a block is no header of a tar archive: its checksum is wrong",
                       t->path);
    memcpy(t->name, header + NAME_AT, NAME);
    if (!octal(header + SIZE_AT, 12, &bytes))
        return gs_fail(GS_E_FORMAT, "%s: %s has no size that can be read", t->path, gs_printable(t->name));
    if (bytes > INT32_MAX)
        return gs_fail(GS_E_FORMAT, "%s: %s has %" PRIu64 " bytes; at most %d are allowed", t->path,
                       gs_printable(t->name), bytes, INT32_MAX);
    t->total += bytes;
    if (t->total > most_in_all)
        return gs_fail(GS_E_FORMAT, "%s: its files have more than %" PRIu64 " bytes together", t->path,
                       most_in_all);
    t->bytes = (size_t)bytes;
    t->rest = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    t->whole = true;
    *is_file = header[KIND_AT] == '0' || header[KIND_AT] == '\0';
    return GS_OK;
}

gs_status gs_tar_next(gs_tar *t, const char **name, size_t *bytes) {
    unsigned char header[BLOCK];
    bool is_file = false;
    *name = NULL;
    *bytes = 0;
    while (!is_file) {
        GS_TRY(pass_over(t));
        t->total += BLOCK; /* entries without bytes are no way around the limit either */
        GS_TRY(gs_unzip_read(t->file, header, BLOCK, "a header, or the end of the archive"));
        if (is_zero(header)) return read_end(t);
        GS_TRY(read_header(t, header, &is_file));
    }
    const char *slash = strrchr(t->name, '/');
    *name = slash ? slash + 1 : t->name;
    *bytes = t->bytes;
    return GS_OK;
}

gs_status gs_tar_read(gs_tar *t, unsigned char **data) {
    *data = NULL;
    if (!t->whole) gs_bug("gs_tar_read: %s was read already", t->name);
    GS_TRY(gs_unzip_check_room(t->file, t->bytes, gs_printable(t->name)));
    *data = malloc(t->bytes + 1);
    if (!*data) return gs_fail(GS_E_MEMORY, "%s: no memory for %s", t->path, gs_printable(t->name));
    gs_status status = gs_unzip_read(t->file, *data, t->bytes, gs_printable(t->name));
    t->whole = false;
    t->rest -= t->bytes;
    if (status == GS_OK) return GS_OK;
    free(*data);
    *data = NULL;
    return status;
}
