/* CIFAR-10 and CIFAR-100 in their binary versions: colour images of 32 x 32.
 *
 * Format: Krizhevsky, "Learning multiple layers of features from tiny images" (2009), and
 * https://www.cs.toronto.edu/~kriz/cifar.html . A file is a sequence of records without header or separators:
 *
 *     CIFAR-10:  label (0-9), 1024 bytes red, 1024 green, 1024 blue                                        3,073 bytes
 *     CIFAR-100: coarse label (0-19), fine label (0-99), 1024 bytes red, 1024 green, 1024 blue             3,074 bytes
 *
 * CIFAR-10 has the files data_batch_1.bin to data_batch_5.bin and test_batch.bin; CIFAR-100 has train.bin and test.bin.
 * The published archives, cifar-10-binary.tar.gz and cifar-100-binary.tar.gz, must be unpacked first. A file may hold
 * any number of records. batches.meta.txt, or fine_label_names.txt and coarse_label_names.txt, may name the classes. */
#pragma once

#include "data/dataset.h"

/* gs_cifar_is_at (dataset.h): looks in the folder itself, and in the folder that the archive unpacks to. gs_cifar_load
 * also sets d->kind. GS_E_USAGE: coarse labels of CIFAR-10. GS_E_FORMAT: a file that is not a sequence of whole
 * records, or a label out of range (the message names the sample). */

/* Explain a folder without the binary files. GS_E_FILE: it holds an archive, which must be unpacked. GS_E_FORMAT: it
 * holds the Python version, which cannot be read; the message names the right archive. */
gs_status gs_cifar_explain(const char *where);
