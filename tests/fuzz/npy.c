/* .npy files: as plain arrays, and as images and labels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "data/npy_set.h"
#include "io/npy.h"

/* Makes a header whose text is the rest of the input, with the right length, followed by `data` bytes. */
static size_t with_header(fuzz_input *in, uint8_t how, unsigned char *to, size_t room) {
    const size_t data = how >> 2, version = 1 + (how >> 1 & 1), start = version == 1 ? 10 : 12;
    size_t text = in->size;
    if (start + text + data > room) text = room - start - data;
    memcpy(to, "\x93NUMPY\0\0\0\0\0\0", 12);
    to[6] = (unsigned char)version;
    to[8] = (unsigned char)text;
    to[9] = (unsigned char)(text >> 8);
    fuzz_bytes(in, to + start, text);
    memset(to + start + text, how, data);
    return start + text + data;
}

static void check_array(const char *path) {
    gs_npy a;
    if (gs_npy_load(path, &a) != GS_OK) return;
    size_t count = 1, sum = 0;
    for (int i = 0; i < a.sizes; i++) count *= a.size[i];
    if (count != a.count || count < 1) fuzz_wrong("%zu elements, wanted %zu", a.count, count);
    for (size_t i = 0; i < count * (size_t)a.bytes; i++) sum += ((unsigned char *)a.data)[i];
    if (sum > 255 * count * 8) fuzz_wrong("no sum of bytes");
    free(a.data);
}

FUZZ(in) {
    static unsigned char file[1 << 16];
    gs_dataset d = {0};
    const uint8_t how = fuzz_byte(in);
    const size_t size = how & 1 ? with_header(in, fuzz_byte(in), file, sizeof file) : in->size;
    const char *path = fuzz_file(how & 1 ? file : in->data, size);
    check_array(path);
    const void *data = how & 1 ? file : in->data; /* both as images and as labels: no file is valid as both */
    fuzz_folder("test-labels.npy", 1, data, size);
    if (gs_npy_set_load(fuzz_folder("test-images.npy", 0, data, size), GS_TEST, GS_LABELS_FINE, &d) == GS_OK)
        fuzz_wrong("%zu images that are also labels", d.count);
    free(d.images);
    free(d.inputs);
    free(d.labels);
}
