#include "tests/tiny_set.h"

enum { SIDE = 4, CLASSES = 4 };

static void write_split(const char *folder, const char *name, int count) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const unsigned char head[] = {0, 0, 8, 3, 0, 0, 0, (unsigned char)count, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
    fwrite(head, 1, sizeof head, f);
    for (int i = 0; i < count; i++) /* class k: row k is bright; and some noise */
        for (int p = 0; p < SIDE * SIDE; p++)
            fputc((p / SIDE == i % CLASSES ? 150 : 0) + (i * 31 + p * 17) % 97, f);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    const unsigned char label_head[] = {0, 0, 8, 1, 0, 0, 0, (unsigned char)count};
    fwrite(label_head, 1, sizeof label_head, f);
    for (int i = 0; i < count; i++) fputc(i % CLASSES, f);
    fclose(f);
}

const char *gs_test_tiny_data(void) {
    static char folder[400];
    snprintf(folder, sizeof folder, "%s", gs_test_folder());
    write_split(folder, "train", GS_TINY_TRAIN);
    write_split(folder, "t10k", GS_TINY_TEST);
    return folder;
}
