/* --augment crop:4,flip,cutout:8: a network sees each picture of the training set a little different in each epoch.
 *
 *     resized_crop   of a picture in a folder: a part of random size and shape, instead of its middle (view.h)
 *     crop:P     around the picture lie P zeros on each side; of that, a window of the picture's size, at one of
 *                (2P + 1)^2 places (He et al., "Deep residual learning for image recognition", 2016, section 4.2)
 *     flip       left and right change places, in half of the pictures
 *     cutout:S   zeros in a square of S x S around one of the pixels, as far as it lies inside (DeVries, Taylor,
 *                "Improved regularization of convolutional neural networks with cutout", 2017)
 *
 * They come in this order. A zero is the byte 0, which is black, before bytes are scaled to numbers.
 *
 * What happens to a sample is drawn from the seed, the epoch and the sample's number in the set. So it is the same
 * whatever the number of workers, and whoever has it; and that a sample is flipped does not depend on what else is
 * asked for.
 */
#pragma once

#include <stdbool.h>
#include "data/dataset.h"

/* All zero: nothing is changed. */
typedef struct gs_augment {
    int crop; /* P */
    bool flip;
    int cutout; /* S */
    bool resized_crop;
} gs_augment;

enum { GS_AUGMENT_MOST = 9999 /* P and S */, GS_AUGMENT_TEXT = 64 /* bytes of any as text */ };

static inline bool gs_augment_is_on(const gs_augment *a) {
    return a->crop || a->flip || a->cutout || a->resized_crop;
}

/* "resized_crop,crop:4,flip,cutout:8", in any order and each once at most; or "none". False: it is not. */
bool gs_augment_read(const char *text, gs_augment *);

/* The same as text. Returns `text`. */
const char *gs_augment_text(const gs_augment *, char *text, size_t size);

/* GS_E_USAGE: the samples are no images, or these are too small: P and S must be less than height and width, so that
 * something is left of each; or resized_crop where the set is no image folder. */
gs_status gs_augment_check(const gs_augment *, const gs_dataset *);

/* out = what becomes of sample `sample` in this epoch; as many bytes as gs_dataset_input_bytes says. */
void gs_augment_sample(const gs_augment *, const gs_dataset *, uint64_t seed, uint64_t epoch, size_t sample,
                       void *out);

/* The same for a sample that lies at `from`, with `each` bytes a number. */
void gs_augment_picture(const gs_augment *, gs_shape, size_t each, uint64_t seed, uint64_t epoch,
                        size_t sample, const void *from, void *out);

/* As gs_dataset_gather, with what becomes of the samples as inputs; NULL: they stay as they are. The windows of a text
 * are those of the epoch (text_set.h). */
gs_status gs_augment_gather(const gs_augment *, const gs_dataset *, uint64_t seed, uint64_t epoch,
                            const uint32_t *order, size_t n, void *inputs, void *targets);
