#include "cl/sealed.h"

#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

static gs_status unpack(const gs_cl_sealed *s, char *text) {
    enum { GZIP = 16 };
    z_stream z = {.next_in = s->data,
                  .avail_in = (uInt)s->bytes,
                  .next_out = (Bytef *)text,
                  .avail_out = (uInt)s->size};
    int result = inflateInit2(&z, GZIP + MAX_WBITS);
    if (result == Z_OK) {
        result = inflate(&z, Z_FINISH);
        inflateEnd(&z);
    }
    if (result == Z_STREAM_END && z.total_out == s->size) return GS_OK;
    return gs_fail(GS_E_FORMAT, "the sealed kernels in %s: %lu bytes, wanted %zu (zlib says %d)", s->file,
                   z.total_out, s->size, result);
}

gs_status gs_cl_sealed_text(const char *file, char **text, size_t *size) {
    *text = NULL;
    const gs_cl_sealed *s = gs_cl_sealed_files;
    while (s->file && strcmp(s->file, file) != 0) s++;
    if (!s->file) return GS_OK;
    *size = s->size;
    *text = calloc(1, s->size + 1);
    if (!*text) return gs_fail(GS_E_MEMORY, "no memory for the kernels in %s", file);
    gs_status status = unpack(s, *text);
    if (status == GS_OK) return GS_OK;
    free(*text);
    *text = NULL;
    return status;
}
