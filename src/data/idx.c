#include "data/idx.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "io/file.h"

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Of a file with `bytes` bytes, which become those of the array. */
static gs_status read_idx(const char *path, unsigned char *file, size_t bytes, int sizes, gs_idx *out) {
    const size_t header = 4 + 4 * (size_t)sizes;
    if (bytes < header)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %zu bytes; wanted %zu (the header alone)", path,
                       bytes, header);
    uint32_t magic = big_endian(file), wanted = 0x800 | (uint32_t)sizes;
    if (magic != wanted)
        return gs_fail(GS_E_FORMAT, "%s: the magic number is 0x%08x; wanted 0x%08x (%s)", path, magic, wanted,
                       sizes == 3 ? "images" : "labels");

    size_t count = 1;
    char text[64] = ""; /* "60000 x 28 x 28", for messages */
    bool empty = false, absurd = false;
    for (int i = 0; i < sizes; i++) {
        uint32_t size = big_endian(file + 4 + 4 * i);
        gs_append(text, sizeof text, "%s%u", i ? " x " : "", size);
        empty = empty || size == 0;
        if (!absurd) count *= size; /* both below 2^32: no overflow */
        absurd = absurd || count > INT32_MAX;
        out->size[i] = (int)size;
    }
    if (empty) return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; none may be 0", path, text);
    if (absurd)
        return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; at most %d bytes are allowed", path, text,
                       INT32_MAX);
    if (bytes < header + count)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %zu bytes; wanted %zu (%s)", path, bytes,
                       header + count, text);
    if (bytes > header + count)
        return gs_fail(GS_E_FORMAT, "%s has more than the %zu bytes that its header states (%s)", path,
                       header + count, text);
    memmove(file, file + header, count);
    return GS_OK;
}

gs_status gs_idx_load(const char *path, int sizes, gs_idx *out) {
    enum { HEADER_MOST = 4 + 4 * GS_IDX_MAX_SIZES };
    char *file = NULL;
    size_t bytes;
    if (sizes < 1 || sizes > GS_IDX_MAX_SIZES) gs_bug("gs_idx_load: %d sizes", sizes);
    *out = (gs_idx){0};
    gs_status status = gs_file_unzip(path, (size_t)INT32_MAX + HEADER_MOST, &file, &bytes);
    if (status == GS_OK) status = read_idx(path, (unsigned char *)file, bytes, sizes, out);
    status = gs_foreign_explain(status, path, "an IDX file, gzipped or not");
    out->data = (unsigned char *)file;
    if (status == GS_OK) return GS_OK;
    free(file);
    *out = (gs_idx){0};
    return status;
}
