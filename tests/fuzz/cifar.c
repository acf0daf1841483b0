/* CIFAR records: a folder with one file, which is the input. */
#include <stdio.h>
#include <stdlib.h>
#include "fuzz.h"
#include "data/cifar.h"

FUZZ(in) {
    const uint8_t how = fuzz_byte(in);
    gs_labels labels = how & 1 ? GS_LABELS_COARSE : GS_LABELS_FINE;
    gs_split split = how & 2 ? GS_TEST : GS_TRAIN;
    const char *path = fuzz_folder(how & 2 ? "test.bin" : "train.bin", how & 2 ? 1 : 0, in->data, in->size);
    gs_dataset d = {0};
    if (gs_cifar_load(path, split, labels, &d) == GS_OK) {
        if (d.count < 1 || d.classes < 1 || d.classes > 100)
            fuzz_wrong("%zu samples, %d classes", d.count, d.classes);
        unsigned sum = 0;
        for (size_t i = 0; i < d.count * 3072; i++) sum += d.images[i];
        for (size_t i = 0; i < d.count; i++) sum += d.labels[i];
        if (sum > 255 * d.count * 3073) fuzz_wrong("the bytes add up to more than 255 each");
    }
    free(d.images);
    free(d.labels);
}
