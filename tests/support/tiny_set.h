/* A data set so small and easy that every run ends in a moment. */
#pragma once

#include "tests/support/test.h"

enum { GS_TINY_TRAIN = 240, GS_TINY_TEST = 40 };

/* A new folder with such a set, in IDX files: images of 4 x 4 in 4 classes; in class k, row k is bright. */
const char *gs_test_tiny_data(void);
