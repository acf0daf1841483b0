/* Tables of numbers as text, in a single file and in a folder. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "fuzz.h"
#include "data/dataset.h"

FUZZ(in) {
    gs_dataset d = {0};
    const uint8_t how = fuzz_byte(in);
    const bool one_file = how & 1;
    const gs_split split = one_file && how & 2 ? GS_TRAIN : GS_TEST;
    const char *folder = fuzz_folder(one_file ? "one.csv" : "test.csv", one_file, in->data, in->size);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", folder, one_file ? "/one.csv" : "");
    if (gs_csv_set_load(path, split, GS_LABELS_FINE, &d) == GS_OK) {
        const size_t each = gs_shape_size(d.shape);
        if (d.count < 1 || each < 1 || !d.inputs || !d.labels == !d.targets) fuzz_wrong("half a set");
        for (size_t i = 0; i < d.count * each; i++)
            if (!isfinite(d.inputs[i])) fuzz_wrong("number %zu is %g", i, (double)d.inputs[i]);
        for (size_t i = 0; d.labels && i < d.count; i++)
            if (d.labels[i] >= d.classes) fuzz_wrong("label %d of %d classes", d.labels[i], d.classes);
    }
    free(d.inputs);
    free(d.targets);
    free(d.labels);
}
