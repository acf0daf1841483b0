/* --augment crop:4,flip,cutout:8 changes the training pictures at random. Changes are drawn again in each epoch, and
 * applied in this order:
 *
 *     resized_crop   image folders only: take a part of random size and shape instead of the middle (view.h)
 *     crop:P     pad with P zeros on each side, and cut out a window of the picture's size at one of (2P + 1)^2
 *                offsets (He et al., "Deep residual learning for image recognition", 2016, section 4.2)
 *     flip       mirror half of the pictures left to right
 *     cutout:S   zero a square of S x S around a random pixel, clipped at the edges (DeVries, Taylor, "Improved
 *                regularization of convolutional neural networks with cutout", 2017)
 *
 * A zero is the byte 0 (black), before scaling.
 *
 * A sample's changes depend on the seed, the epoch and the sample's index in the set, so they are the same for any
 * number of workers. Whether a sample is flipped does not depend on the other changes. */
#pragma once

#include "data/dataset.h"

/* If all are zero, nothing is changed. */
typedef struct gs_augment {
    int crop; /* P */
    bool flip;
    int cutout; /* S */
    bool resized_crop;
} gs_augment;

enum { GS_AUGMENT_MOST = 9999 /* P and S */, GS_AUGMENT_TEXT = 64 /* bytes for any gs_augment as text */ };

static inline bool gs_augment_is_on(const gs_augment *a) {
    return a->crop || a->flip || a->cutout || a->resized_crop;
}

/* Parse "none", or "resized_crop,crop:4,flip,cutout:8" in any order, each at most once. False: any other text. */
bool gs_augment_read(const char *text, gs_augment *);

/* Write a gs_augment as such text. Returns `text`. */
const char *gs_augment_text(const gs_augment *, char *text, size_t size);

/* GS_E_USAGE: samples are not images; P or S >= height or width; resized_crop without an image folder. */
gs_status gs_augment_check(const gs_augment *, const gs_dataset *);

/* out = sample `sample` with this epoch's changes; it has gs_dataset_input_bytes bytes. */
void gs_augment_sample(const gs_augment *, const gs_dataset *, uint64_t seed, uint64_t epoch, size_t sample,
                       void *out);

/* The same for the sample at `from`, whose elements have `each` bytes each. */
void gs_augment_picture(const gs_augment *, gs_shape, size_t each, uint64_t seed, uint64_t epoch,
                        size_t sample, const void *from, void *out);

/* Like gs_dataset_gather, with changed inputs unless the gs_augment is NULL, and shifted windows (text_set.h). */
gs_status gs_augment_gather(const gs_augment *, const gs_dataset *, uint64_t seed, uint64_t epoch,
                            const uint32_t *order, size_t n, void *inputs, void *targets);
