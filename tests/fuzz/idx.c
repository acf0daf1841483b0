/* IDX files of images and labels, plain and gzipped. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "fuzz.h"
#include "data/idx.h"

/* Makes the rest of the input a gzip stream, with up to 3 bytes removed from or added to its end. */
static size_t gzip(fuzz_input *in, uint8_t how, unsigned char *to, size_t room) {
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)in->data,
                  .avail_in = (unsigned)in->size,
                  .next_out = to,
                  .avail_out = (unsigned)room};
    if (deflateInit2(&z, how & 4 ? 1 : 0, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        fuzz_wrong("zlib does not start");
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) fuzz_wrong("zlib has not ended");
    size_t size = z.total_out;
    deflateEnd(&z);
    if (how & 8) return size - (size_t)(how >> 4) % 4;
    for (int i = 0; i < (how >> 4) % 4; i++) to[size++] = how;
    return size;
}

FUZZ(in) {
    static unsigned char zipped[1 << 16];
    uint8_t how = fuzz_byte(in);
    const void *data = in->data;
    size_t size = in->size;
    if (how & 2 && size < sizeof zipped / 2) {
        size = gzip(in, how, zipped, sizeof zipped);
        data = zipped;
    }
    gs_idx idx;
    if (gs_idx_load(fuzz_file(data, size), how & 1 ? 3 : 1, &idx) != GS_OK) return;
    size_t bytes = (size_t)idx.size[0] * (how & 1 ? (size_t)idx.size[1] * (size_t)idx.size[2] : 1);
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += idx.data[i];
    if (sum > 255 * bytes) fuzz_wrong("no sum of bytes");
    free(idx.data);
}
