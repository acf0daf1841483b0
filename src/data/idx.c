#include "data/idx.h"

#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/file.h"

static uint32_t big_endian(const unsigned char *b) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

enum { TEXT = 64 };

/* Read the sizes; *count: the number of bytes in the array. text: "60000 x 28 x 28", for messages. */
static gs_status read_sizes(const char *path, const unsigned char *header, int sizes, gs_idx *out,
                            size_t *count, char text[TEXT]) {
    const uint32_t magic = big_endian(header), wanted = 0x800 | (uint32_t)sizes;
    if (magic != wanted)
        return gs_fail(GS_E_FORMAT, "%s: the magic number is 0x%08x; wanted 0x%08x (%s)", path, magic, wanted,
                       sizes == 3 ? "images" : "labels");
    bool empty = false, absurd = false;
    *count = 1;
    for (int i = 0; i < sizes; i++) {
        uint32_t size = big_endian(header + 4 + 4 * i);
        gs_append(text, TEXT, "%s%u", i ? " x " : "", size);
        empty = empty || size == 0;
        if (!absurd) *count *= size; /* cannot overflow: both are below 2^32 */
        absurd = absurd || *count > INT32_MAX;
        out->size[i] = (int)size;
    }
    if (empty) return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; none may be 0", path, text);
    if (absurd)
        return gs_fail(GS_E_FORMAT, "%s: the sizes are %s; at most %d bytes are allowed", path, text,
                       INT32_MAX);
    return GS_OK;
}

/* Read the header first, then unzip at most one byte more than it announces. */
static gs_status read_idx(const char *path, int sizes, gs_idx *out) {
    const size_t header = 4 + 4 * (size_t)sizes;
    unsigned char head[4 + 4 * GS_IDX_MAX_SIZES];
    char text[TEXT] = "", *file;
    size_t bytes, count = 0;
    GS_TRY(gs_file_unzip_head(path, head, header, &bytes));
    if (bytes == header) GS_TRY(read_sizes(path, head, sizes, out, &count, text));
    const size_t most = count ? header + count + 1 : INT32_MAX; /* unzipping then reports a bad header */
    const gs_status status = gs_file_unzip(path, most, &file, &bytes);
    if (status != GS_OK) return count ? gs_context(status, "its header states %s", text) : status;
    out->data = (unsigned char *)file;
    if (bytes < header + count) /* also if the header is truncated: count is then 0 */
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %zu bytes; wanted %zu (%s)", path, bytes,
                       header + count, count ? text : "the header alone");
    if (bytes > header + count)
        return gs_fail(GS_E_FORMAT, "%s has more than the %zu bytes that its header states (%s)", path,
                       header + count, text);
    memmove(file, file + header, count);
    return GS_OK;
}

gs_status gs_idx_load(const char *path, int sizes, gs_idx *out) {
    if (sizes < 1 || sizes > GS_IDX_MAX_SIZES) gs_bug("gs_idx_load: %d sizes", sizes);
    *out = (gs_idx){0};
    const gs_status status =
        gs_foreign_explain(read_idx(path, sizes, out), path, "an IDX file, gzipped or not");
    if (status == GS_OK) return GS_OK;
    free(out->data);
    *out = (gs_idx){0};
    return status;
}
