/* An image folder as a set: only the names of the files are in memory. A picture is decoded when it is
 * wanted (io/picture.h), by the thread that wants it or by those of --loaders, and becomes (3, size, size): its middle,
 * or with --augment resized_crop a part of it (view.h).
 *
 * Mean and deviation of the channels, which a run needs before its first step, are those of GS_FOLDER_DRAWN pictures:
 * the first of the order of epoch 0 with seed 0 (order.h). So a million files take no longer than a thousand.
 *
 * A file that cannot be decoded ends the run, by its name and number. With skip_broken the next file of the list that
 * can be decoded takes its place, with its own label. Which file that is depends on the files alone.
 */
#pragma once

#include "data/augment.h"

enum {
    GS_FOLDER_SIZE = 224,    /* if none is chosen, */
    GS_FOLDER_MOST = 4096,   /* and at most */
    GS_FOLDER_DRAWN = 1000,  /* pictures for mean and deviation */
    GS_FOLDER_FILE = 1 << 28 /* bytes of a file, at most */
};

/* ---- its files ----
 *
 * A folder is laid out as ImageNet is: a folder for each class, in train and in val.
 *
 *     DIR/train/CLASS/NAME.jpg      .jpg, .jpeg, .jfif or .png, in capitals too; other files are left alone, and so
 *     DIR/val/CLASS/NAME.png        are names that begin with a dot. Where there is no val, test is taken
 *
 * Classes are numbered by their names in train, sorted by bytes, and the files of a class are sorted alike. So labels
 * and samples are the same on every machine. Only names are kept, some 40 bytes a file.
 */
typedef struct gs_folder_file {
    size_t name; /* where its path within the split begins in `names`: "CLASS/NAME.jpg" */
    int32_t label;
} gs_folder_file;

typedef struct gs_folder_list {
    char folder[4096]; /* "DIR/train" */
    size_t count;
    gs_folder_file *files;
    char *names;
    gs_class_names classes; /* those of train */
    char left_out[200];     /* pictures that gradsum cannot read: "3 .webp, 1 .gif" */
    char absent[200]; /* classes of train that have no pictures here: "bee", "bee and 2 other classes" */
} gs_folder_list;

/* Is `where` a folder with a folder `train` or `val`? */
bool gs_folder_is_at(const char *where);

/* What to say of a folder that is none of the sets that gradsum reads, if it has pictures: that they lie one folder too
 * high or too low. GS_E_FILE: said; GS_OK: it has no pictures, or it cannot be read. */
gs_status gs_folder_explain(const char *where);

/* GS_E_FILE: there is no such folder, or one cannot be read. GS_E_FORMAT: no classes; a class without pictures in
 * train; a class in val that train does not have; the message names it. GS_E_MEMORY. */
gs_status gs_folder_list_read(const char *where, gs_split, gs_folder_list *);
void gs_folder_list_free(gs_folder_list *);

static inline const char *gs_folder_name(const gs_folder_list *l, size_t i) {
    return l->names + l->files[i].name;
}

/* ---- its samples ---- */

/* Samples order[0..n-1]; order NULL: first .. first + n - 1. */
typedef struct gs_sample_request {
    const uint32_t *order;
    size_t first, n;
    /* What becomes of the pictures, drawn from (seed, epoch, sample); NULL: nothing. */
    const gs_augment *augment;
    uint64_t seed, epoch;
} gs_sample_request;

static inline size_t gs_sample_request_at(const gs_sample_request *w, size_t i) {
    return w->order ? w->order[i] : w->first + i;
}

/* What a set has in place of an array of images. It has one label for each sample. */
typedef struct gs_folder_set {
    gs_folder_list list;
    const char *split;        /* train, val or test */
    gs_scaling scaling;       /* of a training set: gs_dataset_scaling */
    uint32_t checksum;        /* of what must be the same on all ranks */
    unsigned char *is_broken; /* with skip_broken: flags of samples whose place others took; else NULL */
    int size;
    struct gs_folder_threads *threads;
    /* With --cache: decoded pictures of so many bytes, each kept when it has been read for the first time; which ones
     * there are. */
    unsigned char *kept, *state;
    size_t kept_bytes;
} gs_folder_set;

/* Load one split. GS_E_USAGE: an option out of its range. Otherwise as gs_folder_list_read; and in a training set, a
 * broken file may be found already here. */
gs_status gs_folder_set_load(const char *where, gs_split, const gs_folder_options *, gs_dataset *d);
void gs_folder_set_free(gs_folder_set *); /* NULL is allowed */

/* Their bytes into `inputs`, their labels into `targets`; either may be NULL. Any number of threads may call it. */
gs_status gs_folder_set_read(gs_folder_set *, const gs_dataset *, const gs_sample_request *,
                             unsigned char *inputs, int32_t *targets);

/* Memory for --cache. GS_E_MEMORY: the machine has less to spare; the message says how much is needed. */
gs_status gs_folder_set_keep(gs_folder_set *, size_t count, size_t bytes);

/* The scaling of so many pixels in each channel, from the sums of their bytes and of the squares: whole numbers, so
 * that the order of the sums does not matter. */
gs_scaling gs_scaling_of_sums(int channels, double pixels, const uint64_t *sum, const uint64_t *squares);
