#include "tests/support/tiny_set.h"
#include "tests/support/files.h"

enum { SIDE = 4, CLASSES = 4 };

/* In class k, row k is bright; noise is added. */
static int pixel(int i, int at) {
    return (at / SIDE == i % CLASSES ? 150 : 0) + (i * 31 + at * 17) % 97;
}

static int label(int i) {
    return i % CLASSES;
}

const char *gs_test_tiny_data(void) {
    static char folder[400];
    snprintf(folder, sizeof folder, "%s", gs_test_folder());
    write_idx(folder, "train", GS_TINY_TRAIN, SIDE, pixel, label);
    write_idx(folder, "t10k", GS_TINY_TEST, SIDE, pixel, label);
    return folder;
}
