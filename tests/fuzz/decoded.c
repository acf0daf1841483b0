/* A file of --cache: three pictures of four bytes. */
#include <string.h>
#include <zlib.h>
#include "fuzz.h"
#include "data/decoded.h"

enum { COUNT = 3, BYTES = 4, HEADER = 128, RECORD = 5 + BYTES };

FUZZ(in) {
    unsigned char file[HEADER + COUNT * RECORD], to[BYTES];
    const uint8_t how = fuzz_byte(in);
    size_t size = in->size;
    const void *data = in->data;
    if (how & 1) { /* a right header, and records of which some have a right sum */
        memset(file, '\n', HEADER);
        memcpy(file, "gradsum-pictures 1 key 3 4", 26);
        fuzz_bytes(in, file + HEADER, COUNT * RECORD);
        for (int i = 0; i < COUNT; i++) {
            unsigned char *record = file + HEADER + i * RECORD;
            const unsigned long sum = crc32_z(0, record + 5, BYTES);
            for (int k = 0; how >> (i + 1) & 1 && k < 4; k++) record[1 + k] = (unsigned char)(sum >> 8 * k);
        }
        data = file;
        size = sizeof file - (how >> 7);
    }
    gs_decoded *d;
    if (gs_decoded_open(fuzz_file(data, size), "key", COUNT, BYTES, &d) != GS_OK) fuzz_wrong("no memory");
    if (!d) return;
    if (size != sizeof file) fuzz_wrong("%zu bytes were taken for three pictures", size);
    for (size_t i = 0; i < COUNT; i++) {
        const gs_decoded_state state = gs_decoded_get(d, i, to);
        if (state == GS_DECODED_HERE && how & 1 && memcmp(to, file + HEADER + i * RECORD + 5, BYTES) != 0)
            fuzz_wrong("other bytes of picture %zu", i);
    }
    gs_decoded_free(d);
}
