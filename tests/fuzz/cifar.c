/* CIFAR's records in folders and in tar archives, whose headers get a right checksum where the input says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuzz.h"
#include "data/cifar.h"

enum { BLOCK = 512, ROOM = 1 << 16 };

static const char *const names[] = {"train.bin",        "test.bin",         "data_batch_1.bin",
                                    "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                    "data_batch_5.bin", "test_batch.bin"};

/* An entry: a name, a kind and a size that the input chooses, a right sum, and the bytes; then the input may change
 * what it likes. */
static size_t add_entry(fuzz_input *in, unsigned char *to, size_t room) {
    const uint8_t how = fuzz_byte(in), half = fuzz_byte(in);
    size_t bytes = (size_t)(half % 8) * (how & 16 ? 3074 : 3073) + half / 128,
           whole = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (room < BLOCK + whole) return 0;
    memset(to, 0, BLOCK + whole);
    snprintf((char *)to, 100, "x/%s", names[how % 8]);
    snprintf((char *)to + 124, 12, "%011o", (unsigned)bytes);
    to[156] = how & 64 ? (uint8_t)how : '0';
    if (how & 8) to[124 + half % 12] = fuzz_byte(in);
    memset(to + 148, ' ', 8);
    unsigned sum = how & 32 ? 1 : 0;
    for (int i = 0; i < BLOCK; i++) sum += to[i];
    snprintf((char *)to + 148, 8, "%06o", sum);
    if (bytes > 0) to[BLOCK + (size_t)fuzz_byte(in) % bytes] = fuzz_byte(in);
    if (bytes > 0) to[BLOCK] = fuzz_byte(in) % 21;
    return BLOCK + whole;
}

FUZZ(in) {
    static unsigned char tar[ROOM];
    const uint8_t how = fuzz_byte(in);
    gs_labels labels = how & 1 ? GS_LABELS_COARSE : GS_LABELS_FINE;
    gs_split split = how & 2 ? GS_TEST : GS_TRAIN;
    char path[4096];
    gs_dataset d = {0};
    size_t size = 0;
    if (how & 4) { /* a folder, with one file that is the input itself */
        snprintf(path, sizeof path, "%s",
                 fuzz_folder(names[how & 2 ? 1 : 0], how & 2 ? 1 : 0, in->data, in->size));
    } else {
        for (int i = 0; i < 6 && in->size > 0; i++) size += add_entry(in, tar + size, ROOM - size);
        if (!(how & 8) && size + 2 * BLOCK <= ROOM) {
            memset(tar + size, 0, 2 * BLOCK);
            size += 2 * BLOCK;
        }
        const char *plain = fuzz_file(how & 16 ? in->data : tar, how & 16 ? in->size : size);
        snprintf(path, sizeof path, "%s.tar", plain);
        unlink(path);
        if (link(plain, path) != 0) fuzz_wrong("no link to the file");
    }
    if (gs_cifar_load(path, split, labels, &d) == GS_OK) {
        if (d.count < 1 || d.classes < 1 || d.classes > 100)
            fuzz_wrong("%zu samples, %d classes", d.count, d.classes);
        unsigned sum = 0;
        for (size_t i = 0; i < d.count * 3072; i++) sum += d.images[i];
        for (size_t i = 0; i < d.count; i++) sum += d.labels[i];
        if (sum > 255 * d.count * 3073) fuzz_wrong("no sum of bytes");
    }
    free(d.images);
    free(d.labels);
}
