#include "data/idx.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/unzip.h"

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static gs_status read_idx(gs_unzip *file, const char *path, int sizes, gs_idx *out) {
    unsigned char header[4 + 4 * GS_IDX_MAX_SIZES] = {0}, *at = header + 4;
    size_t header_bytes = 4 + 4 * (size_t)sizes;
    GS_TRY(gs_unzip_read(file, header, header_bytes, "the header alone"));

    uint32_t magic = big_endian(header), wanted = 0x800 | (uint32_t)sizes;
    if (magic != wanted)
        return gs_fail(GS_E_FORMAT, "%s: the magic number is 0x%08x; wanted 0x%08x (%s)", path, magic, wanted,
                       sizes == 3 ? "images" : "labels");

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
    if (empty) return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; none may be 0", path, text);
    if (absurd)
        return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; at most %d bytes are allowed", path, text,
                       INT32_MAX);

    /* Memory is asked for only where the file can fill it. */
    GS_TRY(gs_unzip_check_room(file, bytes, text));
    out->data = malloc(bytes);
    if (!out->data) return gs_fail(GS_E_MEMORY, "%s: no memory for %s bytes", path, text);
    GS_TRY(gs_unzip_read(file, out->data, bytes, text));

    /* Asking for one byte more also checks the sum at the end of a gzip stream, and what lies behind it. */
    bool more;
    GS_TRY(gs_unzip_has_more(file, &more));
    if (more)
        return gs_fail(GS_E_FORMAT, "%s has more than the %" PRIu64 " bytes that its header states (%s)",
                       path, header_bytes + bytes, text);
    return GS_OK;
}

gs_status gs_idx_load(const char *path, int sizes, gs_idx *out) {
    if (sizes < 1 || sizes > GS_IDX_MAX_SIZES) gs_bug("gs_idx_load: %d sizes", sizes);
    gs_unzip *file;
    *out = (gs_idx){0};
    GS_TRY(gs_unzip_open(path, &file));
    gs_status st = gs_foreign_explain(read_idx(file, path, sizes, out), path, "an IDX file, gzipped or not");
    gs_unzip_close(file);
    if (st != GS_OK) {
        free(out->data);
        *out = (gs_idx){0};
    }
    return st;
}
