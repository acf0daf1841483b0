/* Images and labels saved by NumPy (io/npy.h), for sets made by a few lines of Python:
 *
 *     numpy.save("mine/train-images.npy", x)      uint8 or float32; (n,h,w), (n,c,h,w) or (n,features)
 *     numpy.save("mine/train-labels.npy", y)      whole numbers from 0 to 255; (n)
 *
 * test-images.npy and test-labels.npy are saved the same way. --data takes such a folder; eval and predict need only
 * the test set.
 *
 * Bytes are scaled like those of other images (core/scaling.h). float32 values are not scaled. */
#pragma once

#include "data/dataset.h"

/* True if `file` is one of the files read from `folder`. */
bool gs_npy_reads(const char *folder, const char *file);

/* gs_npy_set_load (dataset.h): GS_E_FORMAT as in gs_npy_load; other types or shapes; different numbers of labels and
 * images; a label outside 0 to 255, or a float that is not finite (the message names the sample). */
