/* JPEG and PNG. The first byte selects whether the input is used unchanged, or as chunks of a PNG whose lengths and
 * checksums are correct, because libpng would reject all others. */
#include <string.h>
#include <zlib.h>
#include "fuzz.h"
#include "data/view.h"
#include "io/picture.h"

enum { ROOM = 1 << 16, SIZE = 8, MOST_PIXELS = 1 << 20 /* larger pictures take too long */ };

static void put32(unsigned char *to, size_t x) {
    for (int k = 0; k < 4; k++) to[k] = (unsigned char)(x >> (24 - 8 * k));
}

/* Makes a PNG from chunks in the input, each a length in one byte, a chunk type, and the bytes. */
static size_t make_png(fuzz_input *in, unsigned char *to) {
    static const char kinds[][5] = {"IHDR", "PLTE", "IDAT", "IEND", "tRNS", "gAMA", "iCCP", "zTXt"};
    memcpy(to, "\x89PNG\r\n\x1a\n", 8);
    size_t size = 8;
    while (in->size > 0 && size + 300 < ROOM) {
        const size_t kind = fuzz_byte(in) % 8, bytes = kind == 0 ? 13 : fuzz_byte(in);
        put32(to + size, bytes);
        memcpy(to + size + 4, kinds[kind], 4);
        fuzz_bytes(in, to + size + 8, bytes);
        if (kind == 0)
            memset(to + size + 8, 0, 2), memset(to + size + 12, 0, 2); /* at most 65,535 pixels per side */
        put32(to + size + 8 + bytes, crc32_z(0, to + size + 4, bytes + 4));
        size += bytes + 12;
    }
    return size;
}

FUZZ(in) {
    static unsigned char png[ROOM], out[3 * SIZE * SIZE];
    static gs_picture_reader *reader;
    static gs_resizer resizer;
    const unsigned char *rgb;
    int w, h;
    const uint8_t how = fuzz_byte(in);
    if (!reader && gs_picture_reader_create(&reader) != GS_OK) fuzz_wrong("no reader");
    const size_t size = how & 1 ? make_png(in, png) : in->size;
    if (gs_picture_begin(reader, how & 1 ? png : in->data, size, &w, &h) != GS_OK) return;
    if (w < 1 || h < 1 || w > GS_PICTURE_SIDE || h > GS_PICTURE_SIDE) fuzz_wrong("%d x %d", w, h);
    if ((size_t)w * (size_t)h > MOST_PIXELS) return;
    const gs_view whole = how & 2 ? gs_view_centre(w, h, SIZE) : gs_view_resized(w, h, SIZE, how, 1, 2);
    int small_w, small_h;
    if (gs_picture_decode(reader, 1 << (how >> 2 & 3), &rgb, &small_w, &small_h) != GS_OK) return;
    const gs_view v = gs_view_of_small(&whole, w, h, small_w, small_h);
    if (!gs_resize(&resizer, rgb, small_w, v.across, v.down, SIZE, out)) fuzz_wrong("no memory to resize");
}
