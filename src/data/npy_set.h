/* Images and labels as NumPy saves them (io/npy.h), for sets that a few lines of Python have made:
 *
 *     numpy.save("mine/train-images.npy", x)      uint8 or float32; (n,h,w), (n,c,h,w) or (n,features)
 *     numpy.save("mine/train-labels.npy", y)      whole numbers from 0 to 255; (n)
 *
 * and test-images.npy, test-labels.npy. --data takes such a folder; a test set alone will do for eval and predict.
 *
 * Bytes are scaled as those of other images are (core/scaling.h). float32 numbers are taken as they are.
 */
#pragma once

#include "data/dataset.h"

/* Is `file` one of those that are read there? */
bool gs_npy_reads(const char *folder, const char *file);

/* gs_npy_set_load (dataset.h): GS_E_FORMAT as gs_npy_load; elements or sizes other than those above; another number of
 * labels than of images; a label outside of 0 to 255, or a float that is not finite (the sample is named). */
