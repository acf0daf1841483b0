/* IDX files, as MNIST has them, made by hand: 3 images of 2 x 2 and their labels. */
#pragma once

#include "tests/test.h"

#define TRAIN_IMAGES "train-images-idx3-ubyte"
#define TRAIN_LABELS "train-labels-idx1-ubyte"

extern const unsigned char images3[28], labels3[11]; /* whole files */

/* A new folder with both. */
const char *good_folder(void);

/* A gzip file of these bytes; returns its size. */
size_t write_gzip(const char *folder, const char *name, const void *bytes, size_t count);
