/* CIFAR-10 and CIFAR-100 in their binary version: 32 x 32 images in colour.
 *
 * Format: Krizhevsky, "Learning multiple layers of features from tiny images" (2009), and
 * https://www.cs.toronto.edu/~kriz/cifar.html . A file is a row of records, with nothing before or between them:
 *
 *     CIFAR-10:  label (0-9), 1024 bytes red, 1024 green, 1024 blue                                        3,073 bytes
 *     CIFAR-100: coarse label (0-19), fine label (0-99), 1024 bytes red, 1024 green, 1024 blue             3,074 bytes
 *
 * CIFAR-10 has the files data_batch_1.bin to data_batch_5.bin, and test_batch.bin; CIFAR-100 has train.bin and
 * test.bin, in a folder. The archives as they are published, cifar-10-binary.tar.gz and cifar-100-binary.tar.gz, are
 * to be unpacked. Any number of records will do. The classes' names are in batches.meta.txt, or in
 * fine_label_names.txt and coarse_label_names.txt, if they are there.
 */
#pragma once

#include "data/dataset.h"

/* gs_cifar_is_at (dataset.h): in the folder itself, or in the one that the archive makes in it. gs_cifar_load: also
 * d->kind. GS_E_USAGE: coarse labels of CIFAR-10. GS_E_FORMAT: a file that is not a row of whole records, or a label
 * out of range (the sample is named). */

/* GS_E_FILE: the folder has an archive, which is to be unpacked. GS_E_FORMAT: it has the Python version of such a set,
 * which is not read; the message names the archive that is. */
gs_status gs_cifar_explain(const char *where);
