/* A cache entry: the input as it is, or after a first line that matches it. */
#include <stdlib.h>
#include <string.h>
#include "io/cache.c"
#include "fuzz.h"

FUZZ(in) {
    static char file[1 << 16];
    const char name[] = "entry";
    uint8_t how = fuzz_byte(in);
    const void *data = in->data;
    size_t size = in->size;
    if (how & 1 && size < sizeof file - HEADER) {
        int length = write_header(file, name, data, size);
        memcpy(file + length, data, size);
        size += (size_t)length;
        data = file;
        if (how & 2 && size > 0) file[(size_t)how * 7 % size] ^= (char)(how & 0x7c); /* damage one byte */
    }
    setenv("GRADSUM_CACHE", fuzz_folder(name, 0, data, size), 1);
    void *got;
    size_t bytes;
    const bool found = gs_cache_read(name, &got, &bytes);
    if ((how & 3) == 1 && data == file && (!found || bytes != in->size || memcmp(got, in->data, bytes) != 0))
        fuzz_wrong("an entry differs from what was written");
    if (found && ((char *)got)[bytes] != '\0') fuzz_wrong("no 0 after the entry");
    free(got);
}
