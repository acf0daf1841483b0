/* Samples that are not in memory, but are read when they are wanted: a set has a source instead of an array of images.
 * Such a set has one label for each sample.
 */
#pragma once

#include "data/augment.h"
#include "data/dataset.h"

/* Samples order[0..n-1]; order NULL: first .. first + n - 1. */
typedef struct gs_sample_request {
    const uint32_t *order;
    size_t first, n;
    /* What becomes of the pictures, drawn from (seed, epoch, sample); NULL: nothing. */
    const gs_augment *augment;
    uint64_t seed, epoch;
} gs_sample_request;

typedef struct gs_source gs_source;
struct gs_source {
    /* Their bytes into `inputs`, their labels into `targets`; either may be NULL. Any number of threads may call it. */
    gs_status (*read)(gs_source *, const gs_dataset *, const gs_sample_request *, unsigned char *inputs,
                      int32_t *targets);
    void (*free)(gs_source *);
    const char *(*name)(const gs_source *, size_t sample); /* of its file, within */
    const char *folder;                                    /* train, val or test */
    const struct gs_folder_list *list;                     /* of an image folder (folder_list.h) */
    gs_scaling scaling;                                    /* of a training set: gs_dataset_scaling */
    uint32_t checksum;                                     /* of what must be the same on all ranks */
    /* Count flags: samples that could not be read, and whose place others took; or NULL. */
    unsigned char *is_broken;
};

static inline size_t gs_sample_request_at(const gs_sample_request *w, size_t i) {
    return w->order ? w->order[i] : w->first + i;
}

/* The scaling of so many pixels in each channel, from the sums of their bytes and of the squares: whole numbers, so
 * that the order of the sums does not matter. */
gs_scaling gs_scaling_of_sums(int channels, double pixels, const uint64_t *sum, const uint64_t *squares);
