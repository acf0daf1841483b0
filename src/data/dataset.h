/* Images with labels, kept as bytes: the MNIST family's IDX files, gzipped or not.
 *
 * Format: IDX, as LeCun, Cortes, Burges, "The MNIST database of handwritten digits", define it
 * (http://yann.lecun.com/exdb/mnist/): big-endian int32 magic (0x803 images, 0x801 labels), the sizes, bytes.
 * A folder holds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,
 * t10k-labels-idx1-ubyte, each with or without ".gz".
 */
#ifndef GS_DATA_DATASET_H
#define GS_DATA_DATASET_H

#include "layer/layer.h"

typedef enum gs_split { GS_TRAIN, GS_TEST } gs_split;

typedef struct gs_dataset {
    char name[256]; /* "fashion-mnist (train)" */
    size_t count;
    gs_shape shape;        /* (1, 28, 28) */
    int classes;           /* largest label + 1 */
    unsigned char *images; /* count x shape bytes */
    unsigned char *labels; /* count */
} gs_dataset;

/* Load one split. `where`: "fashion-mnist" (the full set of Debian's dataset-fashion-mnist; GS_E_FILE with
 * the package's name if it is not installed), "fashion-mnist-small" (the subset that comes with gradsum:
 * 6,000 + 1,000), or a folder. GS_E_FILE: cannot be read. GS_E_FORMAT: the message names the file, what was
 * found and what was wanted (truncated, empty, wrong magic, counts that differ, sizes of 0 or absurd, a
 * damaged gzip stream, trailing bytes). */
gs_status gs_dataset_load(const char *where, gs_split split, gs_dataset **out);
void gs_dataset_free(gs_dataset *);

/* GS_E_FORMAT naming the first sample whose label is not below `classes`, else GS_OK. */
gs_status gs_dataset_check_labels(const gs_dataset *, int classes);

/* Mean and standard deviation of all pixels, as x = byte / 255 (std 1 if all are equal): with them the inputs
 * have mean 0 and variance 1, which training with one learning rate for all layers wants (LeCun et al.,
 * "Efficient BackProp", 1998, section 4.3). */
gs_scaling gs_dataset_scaling(const gs_dataset *);

/* Copy samples order[0..n-1] (order NULL: samples first..first+n-1) into `images` and, as int32, `labels`
 * (either may be NULL). Bytes become numbers later, on the device (gs_scaling). */
void gs_dataset_gather(const gs_dataset *, const uint32_t *order, size_t first, size_t n,
                       unsigned char *images, int32_t *labels);

#endif
